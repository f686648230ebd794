#pragma once

#include "packet/transport/uec.hpp"

namespace railyard::packet {

/// Room for a window, or for the whole flow where that is less; it grows where gaps need more.
template <class Control, class Fabric>
unsigned Uec<Control, Fabric>::log2_span(std::uint32_t flow) const {
  const std::int64_t packets = (senders_[flow].size + mss_ - 1) / mss_;
  const auto span = static_cast<std::uint64_t>(std::min(packets, derived_.window_bytes / options_.mtu_bytes + 1));
  return std::max<unsigned>(static_cast<unsigned>(std::bit_width(span)), SendWindow::kLeastLog);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::start(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  const std::int64_t packets = (sender.size + mss_ - 1) / mss_;
  sender.backlog = packets * options_.header_bytes + sender.size;
  Connection& connection = connection_of(flow);
  if (connection.state.window == 0) connection.state.open(constants_, options_.window_packets * options_.mtu_bytes);
  else if (!wants_to_send(connection)) connection.state.resume();
  sender.following = kNone;
  (connection.first == kNone ? connection.first : senders_[connection.last].following) = flow;
  connection.last = flow;
  sender.account.open(derived_.window_bytes);
  sender.window.open(sent_, log2_span(flow));
  this->send_while_permitted(flow);
}

/// Whether any message of the connection has something left to send.
template <class Control, class Fabric>
bool Uec<Control, Fabric>::wants_to_send(const Connection& connection) const {
  for (std::uint32_t at = connection.first; at != kNone; at = senders_[at].following)
    if (senders_[at].backlog != 0 || senders_[at].window.waiting_count() != 0) return true;
  return false;
}

/// The message is over: what it had out leaves the connection's window to the others.
template <class Control, class Fabric>
void Uec<Control, Fabric>::leave_connection(std::uint32_t flow) {
  Connection& connection = connection_of(flow);
  put_in_flight(flow, -senders_[flow].in_flight);
  std::uint32_t before = kNone;
  for (std::uint32_t at = connection.first; at != flow; at = senders_[at].following) before = at;
  (before == kNone ? connection.first : senders_[before].following) = senders_[flow].following;
  if (connection.last == flow) connection.last = before;
}

/// The window may have room: messages of the connection take it in the order in which they began.
template <class Control, class Fabric>
void Uec<Control, Fabric>::wake_connection(std::uint32_t flow) {
  if constexpr (!Control::kWindow) return;
  for (std::uint32_t at = connection_of(flow).first; at != kNone; at = senders_[at].following)
    this->send_while_permitted(at);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::put_in_flight(std::uint32_t flow, std::int64_t bytes) {
  senders_[flow].in_flight += bytes;
  connection_of(flow).in_flight += bytes;
}

template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::size_of(const Sender& sender, std::uint32_t sequence) const {
  // Requests take a sequence number and are headers; they exist only after timeouts.
  if (sequence == sender.last) return sender.last_size;
  if (sender.requests != 0 && sender.window.is_request(sent_, sequence)) return options_.header_bytes;
  return options_.mtu_bytes;
}

template <class Control, class Fabric>
std::int64_t Uec<Control, Fabric>::next_size(const Sender& sender) const {
  if (sender.window.waiting_count() == 0) return std::min<std::int64_t>(sender.backlog, options_.mtu_bytes);
  return size_of(sender, sender.window.lowest_waiting(sent_));
}

template <class Control, class Fabric>
bool Uec<Control, Fabric>::may_send(std::uint32_t flow) const {
  const Sender& sender = senders_[flow];
  if (sender.done || (sender.backlog == 0 && sender.window.waiting_count() == 0)) return false;
  if constexpr (Control::kCredit)
    if (!sender.account.may_spend()) return false;
  if constexpr (Control::kWindow) {
    const Connection& connection = connection_of(flow);
    return connection.state.window >= connection.in_flight + next_size(sender);
  }
  return true;
}

/// The flow's next packet: one that must go again before a new one. PRE: may_send.
template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::emit(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  const std::int64_t size = next_size(sender);
  std::uint16_t flags = 0;
  std::uint32_t sequence = sender.window.next();
  const bool fresh = sender.window.waiting_count() == 0;
  if constexpr (Control::kCredit) sender.account.spend(size);
  if (fresh) {
    sender.backlog -= size;
    if (sender.backlog == 0) {
      sender.last = sequence;
      sender.last_size = static_cast<std::uint16_t>(size);
    }
    sender.window.send_new(sent_, context_.now);
    ++context_.outcome.counters.sent;
  } else {
    sequence = sender.window.lowest_waiting(sent_);
    sender.again -= size;
    sender.window.send_again(sent_, sequence, context_.now);
    flags = kRetransmission | kAckRequested;
    ++context_.outcome.counters.retransmitted;
  }
  put_in_flight(flow, size);
  bool last = sender.backlog == 0;
  if constexpr (Control::kCredit) last = last || sender.account.spent();
  if constexpr (Control::kWindow) {
    const Connection& connection = connection_of(flow);
    last = last || connection.in_flight + size >= connection.state.window;
  }
  if (last) flags |= kAckRequested;
  if constexpr (Control::kCredit)
    if (fresh || Control::Account::kAsksAgain) sender.account.target = pull_target(sender, flow);
  arm_timer(flow, context_.now);
  return data_packet(flow, sequence, size, flags);
}

template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::data_packet(std::uint32_t flow, std::uint32_t sequence, std::int64_t size,
                                                     std::uint16_t flags) {
  const std::uint16_t entropy = balancer_.next(flow, context_.now);
  const std::uint32_t index = this->new_packet(Kind::data, flow, senders_[flow].target, entropy);
  Packet& packet = context_.slab[index];
  packet.size = static_cast<std::uint16_t>(size);
  packet.flags = flags;
  packet.sequence = sequence;
  packet.amount = senders_[flow].account.target;
  return index;
}

/// Asks the receiver for an answer; it takes a sequence number. WHY not many without a word of it: those are sent again
/// too, and where nothing arrives each would bring more of them.
template <class Control, class Fabric>
void Uec<Control, Fabric>::request(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  const Ps gap = Control::request_gap(derived_);
  if (sender.unheard >= kMostRequests ||
      (sender.last_request > 0 && context_.now - sender.last_request < gap)) {
    arm_timer(flow, context_.now);
    return;
  }
  const std::uint32_t sequence = sender.window.next();
  sender.window.send_new(sent_, context_.now);
  sender.window.mark_request(sent_, sequence);
  const std::uint32_t index = this->new_packet(Kind::request, flow, sender.target, balancer_.next(flow, context_.now));
  Packet& packet = context_.slab[index];
  packet.flags = kAckRequested;
  packet.sequence = sequence;
  packet.amount = sender.account.target;
  ++sender.requests;
  ++sender.unheard;
  ++context_.outcome.counters.requests;
  sender.last_request = context_.now;
  arm_timer(flow, context_.now);
  this->send_control(sender.source, index);
}

template <class Control, class Fabric>
std::int64_t Uec<Control, Fabric>::pull_target(const Sender& sender, std::uint32_t flow) const {
  std::int64_t most = derived_.window_bytes;
  if constexpr (Control::kWindow) most = std::min(most, connection_of(flow).state.window + options_.mtu_bytes);
  return sender.account.ask({.fresh = sender.backlog,
                             .again = sender.again,
                             .most = most,
                             .mtu = options_.mtu_bytes,
                             .active = context_.nics[sender.source].active});
}

/// After a word from the receiver.
template <class Control, class Fabric>
void Uec<Control, Fabric>::try_to_send(std::uint32_t flow) {
  if constexpr (Control::kCredit) {
    Sender& sender = senders_[flow];
    sender.silence = 0;
    const bool something = sender.backlog != 0 || sender.window.waiting_count() != 0;
    if (something && !sender.place.taken) sender.account.forgo(next_size(sender));
  }
  this->send_while_permitted(flow);
}

/// WHY one event a flow: the deadline only ever moves later, as packets are acknowledged, so the event waits for what was
/// the oldest packet and then for the oldest that is left.
template <class Control, class Fabric>
void Uec<Control, Fabric>::arm_timer(std::uint32_t flow, Ps sent) {
  if (senders_[flow].timer) return;
  senders_[flow].timer = true;
  context_.wheel.push(std::max(sent + derived_.min_rto_ps, context_.now), event(Event::timer, flow));
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_timer(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.timer = false;
  std::uint32_t sequence = 0;
  Ps sent = 0;
  if (sender.done) return;
  if (!sender.window.oldest(sent_, sequence, sent)) {
    if (!sender.place.taken && (sender.backlog != 0 || sender.window.waiting_count() != 0)) wait_on(flow);
    return;
  }
  if (sent + derived_.min_rto_ps > context_.now) arm_timer(flow, sent);
  else expire(flow, sequence);
}

/// Nothing is out, and what is left has no credit, or no window after timeouts. WHY: htsim leaves it at that, and where the receiver believes that
/// it has granted enough the flow never ends.
template <class Control, class Fabric>
void Uec<Control, Fabric>::wait_on(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  if (++sender.silence >= Control::Account::kPatience) {
    sender.silence = 0;
    request(flow);
  }
  arm_timer(flow, context_.now);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::expire(std::uint32_t flow, std::uint32_t sequence) {
  Sender& sender = senders_[flow];
  ++context_.outcome.counters.timeouts;
  balancer_.feedback(flow, 0, Feedback::timeout, context_.now);
  const std::uint32_t size = size_of(sender, sequence);
  sender.window.forget(sent_, sequence);
  std::uint32_t other = 0;
  Ps sent = 0;
  if (sender.window.oldest(sent_, other, sent)) arm_timer(flow, sent);
  if constexpr (Control::kWindow) {
    put_in_flight(flow, -std::int64_t{size});
    connection_of(flow).state.on_timeout(constants_, size);
  }
  if (sender.window.waiting_count() != 0) {
    sender.account.stop_speculating();
    queue_again(flow, sequence);
    if constexpr (Control::kCredit) request(flow);
    return;
  }
  queue_again(flow, sequence);
  bool blocked = false;
  if constexpr (Control::kWindow) {
    const Connection& connection = connection_of(flow);
    blocked = connection.state.window < connection.in_flight + size;
  }
  if constexpr (Control::kCredit) blocked = blocked || !sender.account.may_spend();
  if (blocked) request(flow);
  else this->send_while_permitted(flow);
  wake_connection(flow);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::queue_again(std::uint32_t flow, std::uint32_t sequence) {
  Sender& sender = senders_[flow];
  sender.again += size_of(sender, sequence);
  sender.window.wait(sent_, sequence);
  if (!sender.account.waits_for_answer()) this->send_while_permitted(flow);
}

/// The queueing delay that an acknowledgement tells of. A time is valid when the packet was sent once, or when what was
/// received was sent again and it was sent again once.
template <class Control, class Fabric>
Ps Uec<Control, Fabric>::delay_of(Sender& sender, typename Control::State& state, const Packet& ack) {
  if (!sender.window.out(sent_, ack.sequence)) return state.mean_delay;
  const std::uint32_t expected = (ack.flags & kRetransmission) != 0 ? 1 : 0;
  if (sender.window.again(sent_, ack.sequence) != expected) return state.mean_delay;
  const Ps rtt = context_.now - sender.window.sent_at(sent_, ack.sequence);
  if ((ack.flags & kAnswersRequest) == 0) state.see_rtt(constants_, rtt);
  if (rtt < state.base_rtt) return state.mean_delay;
  state.see_delay(constants_, rtt - state.base_rtt, (ack.flags & kMarked) != 0);
  return rtt - state.base_rtt;
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_ack(const Packet& ack) {
  Sender& sender = senders_[ack.flow];
  if (sender.done) return;
  Connection& connection = connection_of(ack.flow);
  sender.unheard = 0;
  ++context_.outcome.counters.acks;
  const bool marked = (ack.flags & kMarked) != 0;
  const std::int64_t fresh = std::max<std::int64_t>(ack.amount - sender.received, 0);
  sender.received += fresh;
  put_in_flight(ack.flow, -fresh);
  Ps delay = 0;
  if constexpr (Control::kWindow) {
    connection.state.on_received(fresh);
    delay = delay_of(sender, connection.state, ack);
  }
  const auto unqueue = [&](std::uint32_t sequence) {
    const std::uint32_t size = size_of(sender, sequence);
    sender.again -= size;
    put_in_flight(ack.flow, size);  // it was taken off when the packet was queued to go again
  };
  sender.window.acknowledge_below(sent_, ack.cumulative, unqueue);
  if (ack.bitmap != 0) sender.window.acknowledge(sent_, ack.reference, ack.bitmap, unqueue);
  balancer_.feedback(ack.flow, ack.entropy, marked ? Feedback::marked : Feedback::good, context_.now);
  if constexpr (Control::kWindow) {
    if (!wants_to_send(connection)) connection.state.resume();
    if (context_.traffic.heeds(ack.flow))
      connection.state.on_ack(constants_, marked, delay, fresh, connection.in_flight, context_.now);
  }
  sender.account.stop_speculating();
  if ((std::int64_t{ack.cumulative} - sender.requests) * mss_ >= sender.size) finish(ack.flow);
  else try_to_send(ack.flow);
  wake_connection(ack.flow);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_nack(const Packet& nack) {
  Sender& sender = senders_[nack.flow];
  if (sender.done) return;
  sender.unheard = 0;
  ++context_.outcome.counters.nacks;
  if (!sender.window.out(sent_, nack.sequence)) return;
  const std::uint32_t size = size_of(sender, nack.sequence);
  const bool last_hop = (nack.flags & kLastHop) != 0;
  if constexpr (Control::kWindow) {
    Connection& connection = connection_of(nack.flow);
    connection.state.see_rtt(constants_, context_.now - sender.window.sent_at(sent_, nack.sequence));
    if (!wants_to_send(connection)) connection.state.resume();
    if (context_.traffic.heeds(nack.flow))
      connection.state.on_nack(constants_, size, Control::kCredit && last_hop, connection.in_flight, context_.now);
  }
  sender.window.forget(sent_, nack.sequence);
  put_in_flight(nack.flow, -std::int64_t{size});
  sender.account.stop_speculating();
  queue_again(nack.flow, nack.sequence);
  const Feedback what = !last_hop ? Feedback::trimmed : (nack.flags & kMarked) != 0 ? Feedback::marked : Feedback::good;
  balancer_.feedback(nack.flow, nack.entropy, what, context_.now);
  try_to_send(nack.flow);
  wake_connection(nack.flow);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_pull(const Packet& pull) {
  ++context_.outcome.counters.pulls;
  Sender& sender = senders_[pull.flow];
  if (sender.done) return;
  sender.unheard = 0;
  sender.account.stop_speculating();
  if constexpr (Control::kCredit) sender.account.on_pull(pull.amount, derived_.window_bytes);
  try_to_send(pull.flow);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::finish(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.done = true;
  sender.window.close(sent_);
  leave_connection(flow);
  context_.flows.sent(flow, context_.now);
}

}  // namespace railyard::packet
