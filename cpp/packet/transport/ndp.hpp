#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "packet/balance/path_choice.hpp"
#include "packet/balance/spray.hpp"
#include "packet/context.hpp"
#include "packet/transport/interface.hpp"
#include "packet/transport/pull_queue.hpp"
#include "packet/transport/receiver.hpp"
#include "packet/transport/window.hpp"

namespace railyard::packet {

/// NDP (Handley et al., SIGCOMM 2017): a first window at line rate; from then on every packet that reaches the receiver,
/// whole or cut to its header, lets it pull one more. Every packet is acknowledged, or, when cut, refused, and goes again
/// by one of the next pulls. The rules are those of csg-htsim 841d9e7 (ndp.cpp); the program is not.
template <class Fabric>
class Ndp : public Interface<Ndp<Fabric>, Fabric> {
 public:
  static constexpr bool kParts = true;

  Ndp(Context& context, Fabric& fabric)
      : Base(context, fabric), options_(context.options), mss_(options_.mtu_bytes - options_.header_bytes),
        balancer_(context.traffic, options_), answers_(flow_count(context), options_.paths, options_.seed + 1),
        senders_(flow_count(context)), receivers_(flow_count(context)), owed_(flow_count(context)),
        pulls_(context.hosts, PullQueue(pause(options_, context.derived))) {}

  void start(std::uint32_t flow);
  void deliver(std::uint32_t host, const Packet& packet, std::uint32_t);
  void on_timer(std::uint32_t flow);
  void on_pacer(std::uint32_t host);
  /// The host that a timer or pacer event is of.
  std::uint32_t host_of(Event kind, std::uint32_t index) const {
    return kind == Event::timer ? static_cast<std::uint32_t>(context_.traffic.source[index]) : index;
  }

  std::int64_t window(std::uint32_t flow) const {
    const Sender& sender = senders_[flow];
    return std::int64_t{sender.permitted - sender.window.first()} * options_.mtu_bytes;
  }

  double rate(std::uint32_t) const { return 0; }
  /// Of the flow's payload, what the sender knows to have arrived in order.
  std::int64_t acknowledged_bytes(std::uint32_t flow) const {
    return std::min<std::int64_t>(std::int64_t{senders_[flow].window.first()} * mss_, context_.traffic.size_bytes[flow]);
  }

  void look_ahead_sender(std::uint32_t flow) const { fetch(senders_[flow]); }
  void look_ahead_middle(std::uint32_t host, const Packet& packet) const {
    __builtin_prefetch(&context_.nics[host], 1);
    if (packet.kind == Kind::data) fetch(receivers_[packet.flow]);
    else fetch(senders_[packet.flow]);
  }
  void look_ahead_near(std::uint32_t flow) const {
    if (!senders_[flow].done) senders_[flow].window.prefetch(sent_);
  }
  void look_ahead_near(std::uint32_t host, const Packet& packet) const {
    const Nic& nic = context_.nics[host];
    if (nic.link != kNone) fabric_.prefetch(nic.link);
    if (packet.kind != Kind::data) look_ahead_near(packet.flow);
  }

 private:
  using Base = Interface<Ndp<Fabric>, Fabric>;
  friend Base;
  using Base::context_;
  using Base::fabric_;

  /// What a sender knows of a flow. Packets leave in the order in which they were permitted: new ones by their number; of
  /// those that go again each comes after the new ones that had been permitted before it.
  struct Sender {
    std::uint32_t packets = 0;      ///< Of the flow.
    std::uint32_t permitted = 0;    ///< New packets with lower numbers may go.
    std::int64_t pull = kFirstPull, most_pull = kFirstPull;  ///< The last that was used, the highest that has come.
    Line again;                     ///< Numbers that may go again, each with the new number that it comes before.
    SendWindow window;
    Place place;
    bool done = false, timer = false;
  };

  static std::uint32_t flow_count(const Context& context) {
    return static_cast<std::uint32_t>(context.traffic.source.size());
  }
  /// Of two pulls: what the packet that they bring, and the answer to it, take of the line, and 1 % more.
  static Ps pause(const Options& options, const Derived& derived) {
    const double bits = 8.0 * options.mtu_bytes;
    return static_cast<Ps>(bits * 1e12 / static_cast<double>(derived.rate_bps) / options.pull_rate);
  }
  template <class T>
  static void fetch(const T& object) {
    const char* const bytes = reinterpret_cast<const char*>(&object);
    for (std::size_t at = 0; at < sizeof(object); at += 64) __builtin_prefetch(bytes + at, 1);
  }

  // What the interface asks for.
  bool may_send(std::uint32_t flow) const {
    const Sender& sender = senders_[flow];
    return !sender.done && (sender.window.next() < sender.permitted || !sender.again.empty());
  }
  std::uint32_t emit(std::uint32_t flow);
  Place& place(std::uint32_t flow) { return senders_[flow].place; }
  std::uint32_t source(std::uint32_t flow) const { return static_cast<std::uint32_t>(context_.traffic.source[flow]); }

  // The sender.
  static constexpr unsigned kLeastWords = 2;  ///< Of the receiver's ring, as a power of two.

  std::uint32_t size_of(std::uint32_t flow, std::uint32_t sequence) const;
  bool permit(Sender& sender);
  void on_pull(std::uint32_t flow, std::int64_t number);
  void on_ack(const Packet& ack);
  void on_nack(const Packet& nack);
  void arm_timer(std::uint32_t flow, Ps sent);
  void finish(std::uint32_t flow);

  // The receiver.
  void on_data(std::uint32_t host, const Packet& packet);
  void answer(std::uint32_t host, const Packet& packet, Kind kind);

  const Options& options_;
  std::uint32_t mss_;
  Balancer balancer_;
  Spray answers_;
  WordArena sent_, received_, again_;
  BigVector<Sender> senders_;
  BigVector<Receiver> receivers_;
  std::vector<std::uint32_t> owed_;  ///< Pulls by flow.
  std::vector<PullQueue> pulls_;     ///< By host.
};

template <class Fabric>
void Ndp<Fabric>::start(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  const std::int64_t packets = (context_.traffic.size_bytes[flow] + mss_ - 1) / mss_;
  const std::int64_t first = std::min(packets, context_.derived.window_bytes / options_.mtu_bytes);
  sender.packets = static_cast<std::uint32_t>(packets);
  sender.permitted = static_cast<std::uint32_t>(first);
  const auto log = std::max<unsigned>(static_cast<unsigned>(std::bit_width(sender.permitted)), SendWindow::kLeastLog);
  sender.window.open(sent_, log);
  this->send_while_permitted(flow);
}

template <class Fabric>
void Ndp<Fabric>::deliver(std::uint32_t host, const Packet& packet, std::uint32_t) {
  switch (packet.kind) {
    case Kind::data: on_data(host, packet); break;
    case Kind::ack: on_ack(packet); break;
    case Kind::nack: on_nack(packet); break;
    case Kind::pull:
      ++context_.outcome.counters.pulls;
      on_pull(packet.flow, packet.amount);
      break;
    default: break;
  }
}

// ------------------------------------------------------------------------------------------------------------- sender

template <class Fabric>
std::uint32_t Ndp<Fabric>::size_of(std::uint32_t flow, std::uint32_t sequence) const {
  if (sequence + 1 != senders_[flow].packets) return options_.mtu_bytes;
  return static_cast<std::uint32_t>(context_.traffic.size_bytes[flow] - std::int64_t{sequence} * mss_) +
         options_.header_bytes;
}

template <class Fabric>
std::uint32_t Ndp<Fabric>::emit(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  std::uint32_t sequence = sender.window.next();
  std::uint16_t flags = 0;
  if (!sender.again.empty() && sender.again.first().size <= sequence) {
    sequence = sender.again.pop_first(again_).index;
    flags = kRetransmission;
    ++context_.outcome.counters.retransmitted;
  } else {
    sender.window.send_new(sent_, context_.now);
    ++context_.outcome.counters.sent;
  }
  arm_timer(flow, context_.now);
  const auto target = static_cast<std::uint32_t>(context_.traffic.target[flow]);
  const std::uint32_t index =
      this->new_packet(Kind::data, flow, target, balancer_.next(flow, context_.now));
  Packet& packet = context_.slab[index];
  packet.size = static_cast<std::uint16_t>(size_of(flow, sequence));
  packet.flags = flags;
  packet.sequence = sequence;
  return index;
}

/// One packet more may go; one that must go again before a new one. False: there is none.
template <class Fabric>
bool Ndp<Fabric>::permit(Sender& sender) {
  if (sender.window.waiting_count() != 0) {
    const std::uint32_t sequence = sender.window.lowest_waiting(sent_);
    sender.window.send_again(sent_, sequence, context_.now);
    sender.again.push(again_, {sequence, sender.permitted});
    return true;
  }
  if (sender.permitted == sender.packets) return false;
  ++sender.permitted;
  return true;
}

/// WHY a number: pulls that were lost or overtaken are made good by the next.
template <class Fabric>
void Ndp<Fabric>::on_pull(std::uint32_t flow, std::int64_t number) {
  Sender& sender = senders_[flow];
  if (sender.done) return;
  sender.most_pull = std::max(sender.most_pull, number);
  while (sender.pull < sender.most_pull && permit(sender)) ++sender.pull;
  this->send_while_permitted(flow);
}

template <class Fabric>
void Ndp<Fabric>::on_ack(const Packet& ack) {
  Sender& sender = senders_[ack.flow];
  if (sender.done) return;
  ++context_.outcome.counters.acks;
  const auto nothing = [](std::uint32_t) {};
  sender.window.acknowledge_below(sent_, ack.cumulative, nothing);
  sender.window.acknowledge(sent_, ack.sequence, 1, nothing);
  balancer_.feedback(ack.flow, ack.entropy, (ack.flags & kMarked) != 0 ? Feedback::marked : Feedback::good, context_.now);
  if (ack.cumulative >= sender.packets) finish(ack.flow);
  else if ((ack.flags & kGrants) != 0) on_pull(ack.flow, ack.amount);
}

template <class Fabric>
void Ndp<Fabric>::on_nack(const Packet& nack) {
  Sender& sender = senders_[nack.flow];
  if (sender.done) return;
  ++context_.outcome.counters.nacks;
  if (sender.window.out(sent_, nack.sequence)) {
    sender.window.forget(sent_, nack.sequence);
    sender.window.wait(sent_, nack.sequence);
  }
  balancer_.feedback(nack.flow, nack.entropy, Feedback::trimmed, context_.now);
  // A sender that had run out of packets takes the number of a refusal for a pull even where it grants nothing.
  if ((nack.flags & kGrants) != 0 || sender.pull < sender.most_pull)
    on_pull(nack.flow, nack.amount);
}

template <class Fabric>
void Ndp<Fabric>::arm_timer(std::uint32_t flow, Ps sent) {
  if (senders_[flow].timer) return;
  senders_[flow].timer = true;
  context_.wheel.push(std::max(sent + context_.derived.min_rto_ps, context_.now), event(Event::timer, flow));
}

/// The packet that has been out longest goes again without being pulled: nothing may be left that would pull it.
template <class Fabric>
void Ndp<Fabric>::on_timer(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.timer = false;
  std::uint32_t sequence = 0;
  Ps sent = 0;
  if (sender.done || !sender.window.oldest(sent_, sequence, sent)) return;
  if (sent + context_.derived.min_rto_ps <= context_.now) {
    ++context_.outcome.counters.timeouts;
    balancer_.feedback(flow, 0, Feedback::timeout, context_.now);
    sender.window.forget(sent_, sequence);
    sender.window.wait(sent_, sequence);
    permit(sender);
    sender.window.oldest(sent_, sequence, sent);
  }
  arm_timer(flow, sent);
  this->send_while_permitted(flow);
}

template <class Fabric>
void Ndp<Fabric>::finish(std::uint32_t flow) {
  Sender& sender = senders_[flow];
  sender.done = true;
  sender.window.close(sent_);
  context_.flows.sent(flow, context_.now);
}

// ----------------------------------------------------------------------------------------------------------- receiver

template <class Fabric>
void Ndp<Fabric>::on_data(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receivers_[packet.flow];
  if (!receiver.opened) receiver.open(received_, kLeastWords);
  const bool known = receiver.has(received_, packet.sequence);
  if ((packet.flags & kTrimmed) != 0 && !known) {
    answer(host, packet, Kind::nack);
    return;
  }
  if (known) {
    ++context_.outcome.counters.duplicates;
  } else {
    receiver.take(received_, packet.sequence);
    receiver.arrived += packet.size - options_.header_bytes;
  }
  answer(host, packet, Kind::ack);
  if (known || receiver.arrived != context_.traffic.size_bytes[packet.flow]) return;
  pulls_[host].forget(owed_[packet.flow]);
  receiver.close(received_);
  context_.flows.received(packet.flow, context_.now);
}

/// An acknowledgement or a refusal; it carries the pull that it causes if that may go at once.
template <class Fabric>
void Ndp<Fabric>::answer(std::uint32_t host, const Packet& packet, Kind kind) {
  Receiver& receiver = receivers_[packet.flow];
  ++receiver.latest_pull;
  const std::uint32_t index =
      this->new_packet(kind, packet.flow, source(packet.flow), answers_.next(packet.flow));
  Packet& answer = context_.slab[index];
  answer.entropy = packet.entropy;
  answer.sequence = packet.sequence;
  answer.cumulative = receiver.expected;
  answer.amount = receiver.latest_pull;
  answer.flags = static_cast<std::uint16_t>(packet.flags & kMarked);
  PullQueue& pulls = pulls_[host];
  if (pulls.at_once(context_.now)) answer.flags |= kGrants;
  else if (pulls.push(packet.flow, owed_[packet.flow])) context_.wheel.push(pulls.next(), event(Event::pacer, host));
  this->send_control(host, index);
}

template <class Fabric>
void Ndp<Fabric>::on_pacer(std::uint32_t host) {
  std::uint32_t flow = 0;
  PullQueue& pulls = pulls_[host];
  if (!pulls.pop(flow, owed_, context_.now)) return;
  const std::uint32_t index = this->new_packet(Kind::pull, flow, source(flow), kOnePath);
  context_.slab[index].amount = receivers_[flow].latest_pull - owed_[flow];
  this->send_control(host, index);
  context_.wheel.push(pulls.next(), event(Event::pacer, host));
}

}  // namespace railyard::packet
