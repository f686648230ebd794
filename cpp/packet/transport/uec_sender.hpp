#pragma once

#include "packet/transport/uec.hpp"

namespace railyard::packet {

/// Room for a window, or for the whole message where that is less; it grows where gaps or more messages need more.
template <class Control, class Fabric>
unsigned Uec<Control, Fabric>::log2_span(std::uint32_t flow) const {
  const std::int64_t packets = (context_.traffic.size_bytes[flow] + mss_ - 1) / mss_;
  const auto span = static_cast<std::uint64_t>(std::min(packets, derived_.window_bytes / options_.mtu_bytes + 1));
  return std::max<unsigned>(static_cast<unsigned>(std::bit_width(span)), SendWindow::kLeastLog);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::start(std::uint32_t flow) {
  Sender& sender = sender_of(flow);
  const std::int64_t size = context_.traffic.size_bytes[flow];
  messages_[flow].backlog = (size + mss_ - 1) / mss_ * options_.header_bytes + size;
  if (sender.state.window == 0) sender.state.open(constants_, options_.window_packets * options_.mtu_bytes);
  else if (!sender.wants_to_send()) sender.state.resume();
  if (sender.idle()) {
    sender.oldest = flow;
    sender.account.open(derived_.window_bytes);
    if (!sender.opened) sender.window.open(sent_, log2_span(flow));
    sender.opened = true;
  } else {
    messages_[sender.newest].following = flow;
  }
  sender.newest = flow;
  if (sender.current == kNone) sender.current = flow;
  sender.backlog += messages_[flow].backlog;
  this->send_while_permitted(connection_of(flow));
}

/// The message that a sequence number belongs to. PRE: the connection is not idle.
template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::message_of(const Sender& sender, std::uint32_t sequence) const {
  std::uint32_t flow = sender.oldest;
  while (messages_[flow].last < sequence && messages_[flow].following != kNone) flow = messages_[flow].following;
  return flow;
}

template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::size_of(const Sender& sender, std::uint32_t sequence) const {
  // Requests take a sequence number and are headers; they exist only after timeouts.
  const Message& message = messages_[message_of(sender, sequence)];
  if (sequence == message.last) return message.last_size;
  return sender.window.is_request(sent_, sequence) ? options_.header_bytes : options_.mtu_bytes;
}

template <class Control, class Fabric>
std::int64_t Uec<Control, Fabric>::next_size(const Sender& sender) const {
  if (sender.window.waiting_count() == 0)
    return std::min<std::int64_t>(messages_[sender.current].backlog, options_.mtu_bytes);
  return size_of(sender, sender.window.lowest_waiting(sent_));
}

template <class Control, class Fabric>
bool Uec<Control, Fabric>::may_send(std::uint32_t connection) const {
  const Sender& sender = senders_[connection];
  if (sender.idle() || !sender.wants_to_send()) return false;
  if constexpr (Control::kCredit)
    if (!sender.account.may_spend()) return false;
  if constexpr (Control::kWindow) return sender.state.window >= sender.in_flight + next_size(sender);
  return true;
}

/// A new packet of the current message, so many bytes long: its number.
template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::emit_new(Sender& sender, std::int64_t size) {
  const std::uint32_t sequence = sender.window.next();
  Message& message = messages_[sender.current];
  if (message.first == kNone) message.first = sequence;
  message.backlog -= size;
  sender.backlog -= size;
  if (message.backlog == 0) {
    message.last = sequence;
    message.last_size = static_cast<std::uint16_t>(size);
    sender.current = message.following;
  }
  sender.window.send_new(sent_, context_.now);
  ++context_.outcome.counters.sent;
  return sequence;
}

/// The connection's next packet: one that must go again before a new one. PRE: may_send.
template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::emit(std::uint32_t connection) {
  Sender& sender = senders_[connection];
  const std::int64_t size = next_size(sender);
  std::uint16_t flags = 0;
  const bool fresh = sender.window.waiting_count() == 0;
  const std::uint32_t sequence = fresh ? sender.window.next() : sender.window.lowest_waiting(sent_);
  const std::uint32_t flow = fresh ? sender.current : message_of(sender, sequence);
  if constexpr (Control::kCredit) sender.account.spend(size);
  if (fresh) {
    emit_new(sender, size);
  } else {
    sender.again -= size;
    sender.window.send_again(sent_, sequence, context_.now);
    flags = kRetransmission | kAckRequested;
    ++context_.outcome.counters.retransmitted;
  }
  sender.in_flight += size;
  bool last = sender.backlog == 0 || messages_[flow].last == sequence;
  if constexpr (Control::kCredit) last = last || sender.account.spent();
  if constexpr (Control::kWindow) last = last || sender.in_flight + size >= sender.state.window;
  if (last) flags |= kAckRequested;
  if constexpr (Control::kCredit)
    if (fresh || Control::Account::kAsksAgain) sender.account.target = pull_target(sender);
  arm_timer(connection, context_.now);
  return data_packet(flow, sequence, size, flags);
}

template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::data_packet(std::uint32_t flow, std::uint32_t sequence, std::int64_t size,
                                                     std::uint16_t flags) {
  const Sender& sender = sender_of(flow);
  const std::uint16_t entropy = balancer_.next(flow, context_.now);
  const std::uint32_t index = this->new_packet(Kind::data, flow, sender.target, entropy);
  Packet& packet = context_.slab[index];
  packet.size = static_cast<std::uint16_t>(size);
  packet.flags = flags;
  packet.sequence = sequence;
  packet.amount = sender.account.target;
  return index;
}

/// Asks the receiver for an answer; it takes a sequence number. WHY not many without a word of it: those are sent again
/// too, and where nothing arrives each would bring more of them.
template <class Control, class Fabric>
void Uec<Control, Fabric>::request(std::uint32_t connection) {
  Sender& sender = senders_[connection];
  const Ps gap = Control::request_gap(derived_);
  if (sender.unheard >= kMostRequests ||
      (sender.last_request > 0 && context_.now - sender.last_request < gap)) {
    arm_timer(connection, context_.now);
    return;
  }
  const std::uint32_t sequence = sender.window.next();
  const std::uint32_t flow = message_of(sender, sequence);
  sender.window.send_new(sent_, context_.now);
  sender.window.mark_request(sent_, sequence);
  const std::uint32_t index = this->new_packet(Kind::request, flow, sender.target, balancer_.next(flow, context_.now));
  Packet& packet = context_.slab[index];
  packet.flags = kAckRequested;
  packet.sequence = sequence;
  packet.amount = sender.account.target;
  if (messages_[flow].first != kNone) ++messages_[flow].requests;
  ++sender.unheard;
  ++context_.outcome.counters.requests;
  sender.last_request = context_.now;
  arm_timer(connection, context_.now);
  this->send_control(sender.source, index);
}

template <class Control, class Fabric>
std::int64_t Uec<Control, Fabric>::pull_target(const Sender& sender) const {
  std::int64_t most = derived_.window_bytes;
  if constexpr (Control::kWindow) most = std::min(most, sender.state.window + options_.mtu_bytes);
  return sender.account.ask({.fresh = sender.backlog,
                             .again = sender.again,
                             .most = most,
                             .mtu = options_.mtu_bytes,
                             .active = context_.nics[sender.source].active});
}

/// After a word from the receiver.
template <class Control, class Fabric>
void Uec<Control, Fabric>::try_to_send(std::uint32_t connection) {
  if constexpr (Control::kCredit) {
    Sender& sender = senders_[connection];
    sender.silence = 0;
    if (sender.wants_to_send() && !sender.place.taken) sender.account.forgo(next_size(sender));
  }
  this->send_while_permitted(connection);
}

/// WHY one event a connection: the deadline only ever moves later, as packets are acknowledged, so the event waits for
/// what was the oldest packet and then for the oldest that is left.
template <class Control, class Fabric>
void Uec<Control, Fabric>::arm_timer(std::uint32_t connection, Ps sent) {
  if (senders_[connection].timer) return;
  senders_[connection].timer = true;
  context_.wheel.push(std::max(sent + derived_.min_rto_ps, context_.now), event(Event::timer, connection));
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_timer(std::uint32_t connection) {
  Sender& sender = senders_[connection];
  sender.timer = false;
  std::uint32_t sequence = 0;
  Ps sent = 0;
  if (sender.idle()) return;
  if (!sender.window.oldest(sent_, sequence, sent)) {
    if (!sender.place.taken && sender.wants_to_send()) wait_on(connection);
    return;
  }
  if (sent + derived_.min_rto_ps > context_.now) arm_timer(connection, sent);
  else expire(connection, sequence);
}

/// Nothing is out, and what is left has no credit, or no window after timeouts. WHY: htsim leaves it at that, and where the receiver believes that
/// it has granted enough the connection never ends.
template <class Control, class Fabric>
void Uec<Control, Fabric>::wait_on(std::uint32_t connection) {
  Sender& sender = senders_[connection];
  if (++sender.silence >= Control::Account::kPatience) {
    sender.silence = 0;
    request(connection);
  }
  arm_timer(connection, context_.now);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::expire(std::uint32_t connection, std::uint32_t sequence) {
  Sender& sender = senders_[connection];
  ++context_.outcome.counters.timeouts;
  balancer_.feedback(message_of(sender, sequence), 0, Feedback::timeout, context_.now);
  const std::uint32_t size = size_of(sender, sequence);
  sender.window.forget(sent_, sequence);
  std::uint32_t other = 0;
  Ps sent = 0;
  if (sender.window.oldest(sent_, other, sent)) arm_timer(connection, sent);
  if constexpr (Control::kWindow) {
    sender.in_flight -= size;
    sender.state.on_timeout(constants_, size);
  }
  if (sender.window.waiting_count() != 0) {
    sender.account.stop_speculating();
    queue_again(connection, sequence);
    if constexpr (Control::kCredit) request(connection);
    return;
  }
  queue_again(connection, sequence);
  bool blocked = false;
  if constexpr (Control::kWindow) blocked = sender.state.window < sender.in_flight + size;
  if constexpr (Control::kCredit) blocked = blocked || !sender.account.may_spend();
  if (blocked) request(connection);
  else this->send_while_permitted(connection);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::queue_again(std::uint32_t connection, std::uint32_t sequence) {
  Sender& sender = senders_[connection];
  sender.again += size_of(sender, sequence);
  sender.window.wait(sent_, sequence);
  if (!sender.account.waits_for_answer()) this->send_while_permitted(connection);
}

/// The queueing delay that an acknowledgement tells of. A time is valid when the packet was sent once, or when what was
/// received was sent again and it was sent again once.
template <class Control, class Fabric>
Ps Uec<Control, Fabric>::delay_of(Sender& sender, const Packet& ack) {
  auto& state = sender.state;
  if (!sender.window.out(sent_, ack.sequence)) return mean_of(sender, ack.flow);
  const std::uint32_t expected = (ack.flags & kRetransmission) != 0 ? 1 : 0;
  if (sender.window.again(sent_, ack.sequence) != expected) return mean_of(sender, ack.flow);
  const Ps rtt = context_.now - sender.window.sent_at(sent_, ack.sequence);
  if ((ack.flags & kAnswersRequest) == 0) state.see_rtt(constants_, rtt);
  if (rtt < state.base_rtt) return mean_of(sender, ack.flow);
  const Ps delay = rtt - state.base_rtt;
  const bool marked = (ack.flags & kMarked) != 0;
  if (!traces_.empty()) {
    if (Trace& trace = traces_[connection_of(ack.flow)]; trace.on) trace.samples.push_back(state.sample(constants_, delay, marked));
  }
  state.see_delay(constants_, delay, marked);
  return delay;
}

/// The mean of a connection's delays, for somebody who asks.
template <class Control, class Fabric>
Ps Uec<Control, Fabric>::mean_of(const Sender& sender, std::uint32_t flow) {
  if (!traces_.empty()) traces_[connection_of(flow)].asked = true;
  return sender.state.mean_delay;
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_ack(const Packet& ack) {
  Sender& sender = sender_of(ack.flow);
  if (sender.idle()) return;
  sender.unheard = 0;
  ++context_.outcome.counters.acks;
  const bool marked = (ack.flags & kMarked) != 0;
  const std::int64_t fresh = std::max<std::int64_t>(ack.amount - sender.received, 0);
  sender.received += fresh;
  sender.in_flight -= fresh;
  Ps delay = 0;
  if constexpr (Control::kWindow) {
    sender.state.on_received(fresh);
    delay = delay_of(sender, ack);
  }
  const auto unqueue = [&](std::uint32_t sequence) {
    const std::uint32_t size = size_of(sender, sequence);
    sender.again -= size;
    sender.in_flight += size;  // it was taken off when the packet was queued to go again
  };
  sender.window.acknowledge_below(sent_, ack.cumulative, unqueue);
  if (ack.bitmap != 0) sender.window.acknowledge(sent_, ack.reference, ack.bitmap, unqueue);
  balancer_.feedback(ack.flow, ack.entropy, marked ? Feedback::marked : Feedback::good, context_.now);
  if constexpr (Control::kWindow) {
    if (!sender.wants_to_send()) sender.state.resume();
    if (context_.traffic.heeds(ack.flow))
      sender.state.on_ack(constants_, marked, delay, fresh, sender.in_flight, context_.now);
  }
  sender.account.stop_speculating();
  finish_messages(sender);
  if (!sender.idle()) try_to_send(connection_of(ack.flow));
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_nack(const Packet& nack) {
  Sender& sender = sender_of(nack.flow);
  if (sender.idle()) return;
  sender.unheard = 0;
  ++context_.outcome.counters.nacks;
  if (!sender.window.out(sent_, nack.sequence)) return;
  const std::uint32_t size = size_of(sender, nack.sequence);
  const bool last_hop = (nack.flags & kLastHop) != 0;
  if constexpr (Control::kWindow) {
    sender.state.see_rtt(constants_, context_.now - sender.window.sent_at(sent_, nack.sequence));
    if (!sender.wants_to_send()) sender.state.resume();
    if (context_.traffic.heeds(nack.flow))
      sender.state.on_nack(constants_, size, Control::kCredit && last_hop, sender.in_flight, context_.now);
  }
  sender.window.forget(sent_, nack.sequence);
  sender.in_flight -= size;
  sender.account.stop_speculating();
  queue_again(connection_of(nack.flow), nack.sequence);
  const Feedback what = !last_hop ? Feedback::trimmed : (nack.flags & kMarked) != 0 ? Feedback::marked : Feedback::good;
  balancer_.feedback(nack.flow, nack.entropy, what, context_.now);
  try_to_send(connection_of(nack.flow));
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_pull(const Packet& pull) {
  ++context_.outcome.counters.pulls;
  Sender& sender = sender_of(pull.flow);
  if (sender.idle()) return;
  sender.unheard = 0;
  sender.account.stop_speculating();
  if constexpr (Control::kCredit) sender.account.on_pull(pull.amount, derived_.window_bytes);
  try_to_send(connection_of(pull.flow));
}

/// Messages up to which nothing is missing are over; acknowledgements count in order, so that none is over before those
/// that began earlier.
template <class Control, class Fabric>
void Uec<Control, Fabric>::finish_messages(Sender& sender) {
  while (!sender.idle() && messages_[sender.oldest].last < sender.window.first()) {
    context_.flows.sent(sender.oldest, context_.now);
    sender.oldest = messages_[sender.oldest].following;
  }
  if (!sender.idle()) return;
  sender.in_flight = 0;
  // WHY not always: a request that is still out is known by its number.
  if (sender.window.first() != sender.window.next()) return;
  sender.opened = false;
  sender.window.close(sent_);
}

}  // namespace railyard::packet
