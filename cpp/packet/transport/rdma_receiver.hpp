#pragma once

#include "packet/transport/rdma.hpp"

namespace railyard::packet {

template <class Fabric>
void Rdma<Fabric>::on_data(std::uint32_t host, const Packet& packet, std::uint32_t index) {
  ResponderEnd& end = ends_[packet.flow];
  if ((packet.flags & kMarked) != 0) {
    end.marked = true;
    if (rule_.notification == Notification::packet) notify(end, host, packet);
  }
  const auto ahead = static_cast<std::int32_t>(packet.sequence - end.expected);
  if ((packet.flags & kTrimmed) != 0 || (ahead > 0 && !rule_.out_of_order)) {
    report_gap(end, host, packet);
    return;
  }
  const bool fresh = ahead >= 0 && take(end, packet.sequence);
  if (!fresh) ++context_.outcome.counters.duplicates;
  const bool complete = end.expected == pairs_[packet.flow].packets;
  if (fresh && complete) complete_flow(end, packet.flow);
  ++end.unanswered;
  if (!fresh || complete || end.unanswered >= rule_.ack_packets || (packet.flags & kAckRequested) != 0)
    acknowledge(end, host, packet, index);
}

/// True when the receiver did not have it.
template <class Fabric>
bool Rdma<Fabric>::take(ResponderEnd& end, std::uint32_t sequence) {
  if (sequence != end.expected) {
    if (!end.opened) {
      end.got.open(bits_, BitWindow::kLeastLog);
      end.opened = true;
    }
    end.got.advance(bits_, end.expected);
    return end.got.set(bits_, sequence);
  }
  ++end.expected;
  end.nacked = false;
  if (end.got.count() == 0) return true;
  while (end.got.has(bits_, end.expected)) ++end.expected;
  end.got.advance(bits_, end.expected);
  return true;
}

template <class Fabric>
void Rdma<Fabric>::complete_flow(ResponderEnd& end, std::uint32_t flow) {
  if (end.opened) end.got.close(bits_);
  end.opened = false;
  context_.flows.received(flow, context_.now);
}

/// A congestion notification, at most one in `cnp_interval`.
template <class Fabric>
void Rdma<Fabric>::notify(ResponderEnd& end, std::uint32_t host, const Packet& packet) {
  if (end.notified_at >= 0 && context_.now - end.notified_at < rule_.cnp_interval_ps) return;
  end.notified_at = context_.now;
  ++context_.outcome.counters.cnps;
  this->send_control(host, answer(Kind::cnp, packet));
}

template <class Fabric>
void Rdma<Fabric>::acknowledge(ResponderEnd& end, std::uint32_t host, const Packet& packet, std::uint32_t index) {
  const std::uint32_t made = answer(Kind::ack, packet);
  Packet& ack = context_.slab[made];
  ack.flags = end.marked ? kMarked : 0;
  ack.reference = std::max(end.expected, packet.sequence < 63 ? 0 : packet.sequence - 63);
  ack.bitmap = end.got.count() != 0 ? end.got.word(bits_, ack.reference) : 0;
  end.marked = false;
  end.unanswered = 0;
  if (options_.telemetry) {
    Telemetry& told = context_.telemetry[made];  // first: making room for it may move the other
    told = context_.telemetry[index];
  }
  this->send_control(host, made);
}

/// Go back: the first packet beyond a gap reports it. Selective: a trimmed packet reports itself.
template <class Fabric>
void Rdma<Fabric>::report_gap(ResponderEnd& end, std::uint32_t host, const Packet& packet) {
  if (!rule_.out_of_order) {
    if (static_cast<std::int32_t>(packet.sequence - end.expected) < 0) return;
    if (end.nacked && context_.now - end.nacked_at < rule_.nack_interval_ps) return;
    end.nacked = true;
    end.nacked_at = context_.now;
  }
  const std::uint32_t made = answer(Kind::nack, packet);
  Packet& nack = context_.slab[made];
  nack.reference = end.expected;
  nack.bitmap = 0;
  this->send_control(host, made);
}

/// A packet back to the sender of one that has come.
template <class Fabric>
std::uint32_t Rdma<Fabric>::answer(Kind kind, const Packet& packet) {
  const std::uint32_t made = this->new_packet(kind, packet.flow, pairs_[packet.flow].source, packet.entropy, packet.key);
  Packet& made_packet = context_.slab[made];
  made_packet.size = static_cast<std::uint16_t>(rule_.control_bytes);
  if (rule_.control_class >= 0) made_packet.klass = static_cast<std::uint8_t>(rule_.control_class);
  made_packet.sequence = packet.sequence;
  made_packet.cumulative = ends_[packet.flow].expected;
  made_packet.amount = packet.amount;
  return made;
}

}  // namespace railyard::packet
