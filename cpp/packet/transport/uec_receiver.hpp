#pragma once

#include "packet/transport/uec.hpp"

namespace railyard::packet {

template <class Control, class Fabric>
Receiver& Uec<Control, Fabric>::receiver_of(std::uint32_t flow) {
  Receiver& receiver = receivers_[connection_of(flow)];
  if (!receiver.opened) receiver.open(received_, std::max(log2_span(flow) - 6, 2u));
  receiver.flow = flow;
  return receiver;
}

/// WHY not all of no bytes: a request that is sent again comes as a packet, also when its message is over.
template <class Control, class Fabric>
void Uec<Control, Fabric>::take_payload(std::uint32_t flow, std::int64_t bytes) {
  std::int64_t& received = messages_[flow].received;
  received += bytes;
  if (bytes != 0 && received == context_.traffic.size_bytes[flow]) context_.flows.received(flow, context_.now);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_data(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receiver_of(packet.flow);
  receiver.unacknowledged += packet.size;
  see_pull_target(host, packet.flow, packet.amount);
  const bool marked = (packet.flags & kMarked) != 0;
  if (!congestion_.empty()) {
    congestion_[host].saw_packet();
    if (marked) congestion_[host].saw_mark();
  }
  const auto echo = static_cast<std::uint16_t>(packet.flags & (kMarked | kRetransmission));
  if (receiver.has(received_, packet.sequence)) {
    ++context_.outcome.counters.duplicates;
    receiver.unacknowledged = 0;
    acknowledge(host, packet, marked, echo);
    return;
  }
  bool now = receiver.arrived == 0;
  receiver.arrived += packet.size;
  take_payload(packet.flow, std::int64_t{packet.size} - options_.header_bytes);
  const bool asked = (packet.flags & kAckRequested) != 0;
  if (asked) now = receiver.ack_requested = true;
  const bool in_order = packet.sequence == receiver.expected;
  receiver.take(received_, packet.sequence);
  if (in_order && receiver.out_of_order == 0 && receiver.ack_requested) {
    now = true;
    receiver.ack_requested = false;
  }
  if (marked || now || receiver.unacknowledged >= sack_bytes_) {
    receiver.unacknowledged = 0;
    acknowledge(host, packet, marked || asked, echo);
  }
  const bool whole = messages_[packet.flow].received == context_.traffic.size_bytes[packet.flow];
  if (whole && receiver.out_of_order == 0) receiver.close(received_);
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_trimmed(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receiver_of(packet.flow);
  if (!congestion_.empty()) {
    congestion_[host].saw_packet();
    congestion_[host].saw_trim((packet.flags & kLastHop) != 0);
  }
  if (receiver.has(received_, packet.sequence)) {
    acknowledge(host, packet, false, static_cast<std::uint16_t>(packet.flags & kRetransmission));
    return;
  }
  see_pull_target(host, packet.flow, packet.amount);
  const std::uint32_t index = answer(Kind::nack, packet);
  context_.slab[index].flags = static_cast<std::uint16_t>(packet.flags & (kLastHop | kMarked));
  context_.slab[index].sequence = packet.sequence;
  this->send_control(host, index);
  if constexpr (Control::kCredit) {
    pacers_[host].saw_cut(receiver, connection_of(packet.flow));
    wake_pacer(host);
  }
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_request(std::uint32_t host, const Packet& packet) {
  Receiver& receiver = receiver_of(packet.flow);
  if (!congestion_.empty()) congestion_[host].saw_packet();
  see_pull_target(host, packet.flow, packet.amount);
  if constexpr (Control::kCredit) {
    pacers_[host].saw_request(receiver, connection_of(packet.flow));
    wake_pacer(host);
  }
  if (receiver.has(received_, packet.sequence)) {
    receiver.unacknowledged = 0;
    acknowledge(host, packet, false, kAnswersRequest);
    return;
  }
  const bool in_order = packet.sequence == receiver.expected;
  receiver.take(received_, packet.sequence);
  if (in_order && receiver.out_of_order == 0) receiver.ack_requested = false;
  acknowledge(host, packet, true, kAnswersRequest);
}

/// `from_here`: the bitmap begins with the packet itself, else 63 before it.
template <class Control, class Fabric>
void Uec<Control, Fabric>::acknowledge(std::uint32_t host, const Packet& packet, bool from_here,
                                            std::uint16_t flags) {
  const Receiver& receiver = receivers_[connection_of(packet.flow)];
  const std::uint32_t index = answer(Kind::ack, packet);
  Packet& ack = context_.slab[index];
  ack.flags = flags;
  ack.sequence = packet.sequence;
  ack.cumulative = receiver.expected;
  ack.reference = from_here ? packet.sequence : receiver.bitmap_base(packet.sequence);
  ack.bitmap = receiver.out_of_order == 0 ? 0 : receiver.bitmap(received_, ack.reference);
  ack.amount = receiver.arrived;
  this->send_control(host, index);
}

/// A control packet to the sender of a packet, that tells of the packet's path.
template <class Control, class Fabric>
std::uint32_t Uec<Control, Fabric>::answer(Kind kind, const Packet& packet) {
  const std::uint16_t entropy = Control::Pacer::answer_entropy(packet.entropy);
  const std::uint32_t source = sender_of(packet.flow).source;
  const std::uint32_t index = entropy == packet.entropy
                                  ? this->new_packet(kind, packet.flow, source, entropy, packet.key)
                                  : this->new_packet(kind, packet.flow, source, entropy);
  context_.slab[index].entropy = packet.entropy;
  return index;
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::see_pull_target(std::uint32_t host, std::uint32_t flow, std::int64_t target) {
  if constexpr (Control::kCredit) {
    Receiver& receiver = receivers_[connection_of(flow)];
    if (target <= receiver.pull_target) return;
    receiver.pull_target = target;
    pacers_[host].saw_target(receiver, connection_of(flow));
    wake_pacer(host);
  }
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::wake_pacer(std::uint32_t host) {
  if constexpr (Control::kCredit) {
    if (pacers_[host].active()) return;
    pacers_[host].set_active();
    context_.wheel.push(context_.now, event(Event::pacer, host));
  }
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::on_pacer(std::uint32_t host) {
  if constexpr (Control::kCredit) {
    if constexpr (Control::Pacer::kSlows) {
      if (host >= context_.hosts) {  // the receiver's own congestion control
        slow(host - context_.hosts);
        return;
      }
    }
    const std::optional<Granted> granted = pacers_[host].grant(receivers_);
    if (!granted) return;
    Receiver& receiver = receivers_[granted->flow];
    receiver.entropy = Control::Pacer::pull_entropy(receiver.entropy);
    const std::uint32_t index =
        this->new_packet(Kind::pull, receiver.flow, senders_[granted->flow].source, receiver.entropy);
    context_.slab[index].amount = receiver.latest_pull;
    this->send_control(host, index);
    context_.wheel.push(context_.now + granted->pause, event(Event::pacer, host));
  }
}

template <class Control, class Fabric>
void Uec<Control, Fabric>::slow(std::uint32_t host) {
  pacers_[host].set_rate(congestion_[host].adjust());
  const std::uint64_t bits = draw(stream_key(options_.seed, Stream::pacer, host), ++adjustments_[host]);
  context_.wheel.push(context_.now + Oversubscription::interval(derived_.base_rtt_ps, bits),
                      event(Event::pacer, context_.hosts + host));
}

}  // namespace railyard::packet
