#pragma once

#include "packet/transport/rdma.hpp"

namespace railyard::packet {

template <class Fabric>
void Rdma<Fabric>::start(std::uint32_t flow) {
  QueuePair& pair = pairs_[flow];
  pair.started = true;
  pair.progress = context_.now;
  if (rule_.out_of_order) {
    pair.got.open(bits_, BitWindow::kLeastLog);
    pair.again.open(bits_, BitWindow::kLeastLog);
  }
  pair.base_window = rule_.window_rtts > 0 ? path_window(pair, flow) : 0;
  take_ruling(pair, flow, controls_->open(flow, {line_bps_[pair.source], pair.base_window}, context_.now));
  arm(pair, flow);
  this->send_while_permitted(flow);
}

/// What fits into `window_rtts` unloaded round trips of the flow's own path: both ways' latencies, and its payload once
/// on every link.
template <class Fabric>
std::int64_t Rdma<Fabric>::path_window(const QueuePair& pair, std::uint32_t flow) const {
  const NetworkColumns& network = context_.network;
  double rtt_ps = 0;
  std::uint32_t node = pair.source;
  for (std::uint32_t hops = 0; node != pair.target && hops < context_.network.nodes; ++hops) {
    const std::uint32_t link = context_.routes.hashed(node, pair.target, flow);
    if (link == kNone) break;  // routes know of a cut
    rtt_ps += 2 * static_cast<double>(network.latency_ps[link]) +
              static_cast<double>(mss_) * 8e12 / static_cast<double>(network.rate_bps[link]);
    node = static_cast<std::uint32_t>(network.link_target[link]);
  }
  return static_cast<std::int64_t>(rule_.window_rtts * rtt_ps * 1e-12 * line_bps_[pair.source] / 8);
}

/// Packets sent and not known to have arrived.
template <class Fabric>
std::uint32_t Rdma<Fabric>::out(const QueuePair& pair) const {
  if (!rule_.out_of_order) return pair.next - pair.acked;
  return pair.next - pair.acked - pair.got.count() - pair.again.count();
}

template <class Fabric>
std::int64_t Rdma<Fabric>::in_flight(const QueuePair& pair) const {
  const std::int64_t bytes = std::int64_t{out(pair)} * mss_;
  const bool last = pair.next == pair.packets && bytes > 0;
  return last ? bytes - (std::int64_t{options_.mtu_bytes} - pair.last_size) : bytes;
}

template <class Fabric>
bool Rdma<Fabric>::may_send(std::uint32_t flow) const {
  const QueuePair& pair = pairs_[flow];
  if (pair.pacing || pair.done) return false;
  if (pair.next == pair.packets && (!rule_.out_of_order || pair.again.count() == 0)) return false;
  return pair.window == 0 || in_flight(pair) < pair.window;
}

/// The flow's next packet. PRE: may_send.
template <class Fabric>
std::uint32_t Rdma<Fabric>::emit(std::uint32_t flow) {
  QueuePair& pair = pairs_[flow];
  if (out(pair) == 0) pair.progress = context_.now;
  std::uint32_t sequence = pair.next;
  if (rule_.out_of_order && pair.again.count() != 0) {
    sequence = pair.again.lowest(bits_);
    pair.again.clear(bits_, sequence);
  } else {
    ++pair.next;
  }
  const bool fresh = sequence >= pair.newest;
  if (fresh) pair.newest = sequence + 1;
  ++(fresh ? context_.outcome.counters.sent : context_.outcome.counters.retransmitted);
  const std::uint32_t index = this->new_packet(Kind::data, flow, pair.target, balancer_.next(flow, context_.now));
  Packet& packet = context_.slab[index];
  packet.size = static_cast<std::uint16_t>(size_of(pair, sequence));
  packet.flags = static_cast<std::uint16_t>((sequence + 1 == pair.packets ? kAckRequested : 0) |
                                            (fresh ? 0 : kRetransmission));
  packet.sequence = sequence;
  packet.amount = context_.now;
  if (options_.telemetry) context_.telemetry[index].count = 0;
  pace(pair, flow, index);
  if (pair.timer_at == 0) arm(pair, flow);
  return index;
}

/// When the flow may send again. WHY no event at line rate: it is then its interface that decides.
template <class Fabric>
void Rdma<Fabric>::pace(QueuePair& pair, std::uint32_t flow, std::uint32_t index) {
  const std::uint32_t size = context_.slab[index].size;
  if (controls_->sees_departures()) {
    const auto payload = static_cast<std::int64_t>(size - options_.header_bytes);
    take_ruling(pair, flow, controls_->on_sent(flow, payload, context_.now));
  }
  if (pair.ps_per_byte == 0) return;
  const auto gap = static_cast<Ps>(pair.ps_per_byte * size);
  if (gap <= fabric_.host_time(pair.source, index)) return;
  pair.pacing = true;
  context_.wheel.push(context_.now + gap, event(Event::pacer, flow));
}

template <class Fabric>
void Rdma<Fabric>::on_pacer(std::uint32_t flow) {
  pairs_[flow].pacing = false;
  this->send_while_permitted(flow);
}

template <class Fabric>
void Rdma<Fabric>::take_ruling(QueuePair& pair, std::uint32_t flow, const RateControls::Ruling& ruling) {
  const double line = line_bps_[pair.source];
  const double rate = std::min(ruling.rate_bps, line);
  pair.ps_per_byte = rate < line ? 8e12 / rate : 0;
  pair.window = ruling.window_bytes;
  if (rule_.window_scales && pair.window != 0)
    pair.window = std::max<std::int64_t>(
        static_cast<std::int64_t>(static_cast<double>(pair.window) * (rate / line)), 1);
  if (pair.timer_at != 0) arm(pair, flow);
}

/// Sees to it that a timer event comes no later than the first thing that is due. An event that is overtaken by an earlier
/// one stays in the wheel and does nothing.
template <class Fabric>
void Rdma<Fabric>::arm(QueuePair& pair, std::uint32_t flow) {
  Ps due = controls_->next_timer(flow);
  if (out(pair) != 0) {
    const Ps expiry = pair.progress + rule_.rto_ps;
    due = due == 0 ? expiry : std::min(due, expiry);
  }
  if (due == 0 || (pair.timer_at != 0 && pair.timer_at <= due)) return;
  pair.timer_at = std::max(due, context_.now);
  context_.wheel.push(pair.timer_at, event(Event::timer, flow));
}

template <class Fabric>
void Rdma<Fabric>::on_timer(std::uint32_t flow) {
  QueuePair& pair = pairs_[flow];
  if (pair.done || pair.timer_at != context_.now) return;
  pair.timer_at = 0;
  const Ps due = controls_->next_timer(flow);
  if (due != 0 && due <= context_.now)
    take_ruling(pair, flow, controls_->on_timer(flow, context_.now));
  if (out(pair) != 0 && pair.progress + rule_.rto_ps <= context_.now) expire(pair, flow);
  arm(pair, flow);
  this->send_while_permitted(flow);
}

/// Nothing has moved for a retransmission timeout: everything that is out counts as lost.
template <class Fabric>
void Rdma<Fabric>::expire(QueuePair& pair, std::uint32_t flow) {
  ++context_.outcome.counters.timeouts;
  pair.progress = context_.now;
  if (!rule_.out_of_order) {
    pair.next = pair.acked;
  } else {
    for (std::uint32_t at = pair.acked; at != pair.next; ++at)
      if (!pair.got.has(bits_, at)) pair.again.set(bits_, at);
  }
  balancer_.feedback(flow, 0, Feedback::timeout, context_.now);
  if (context_.traffic.heeds(flow)) take_ruling(pair, flow, controls_->on_timeout(flow, context_.now));
}

template <class Fabric>
void Rdma<Fabric>::on_ack(const Packet& ack, std::uint32_t index) {
  QueuePair& pair = pairs_[ack.flow];
  if (pair.done) return;
  ++context_.outcome.counters.acks;
  const std::int64_t before = in_flight(pair);
  const std::uint32_t acked = pair.acked;
  if (static_cast<std::int32_t>(ack.cumulative - pair.acked) > 0) {
    pair.acked = ack.cumulative;
    // A sender that has gone back may learn that what it was about to repeat has arrived.
    if (static_cast<std::int32_t>(pair.acked - pair.next) > 0) pair.next = pair.acked;
    pair.progress = context_.now;
  }
  if (rule_.out_of_order) acknowledge_beyond(pair, ack);
  const bool marked = (ack.flags & kMarked) != 0;
  balancer_.feedback(ack.flow, ack.entropy, marked ? Feedback::marked : Feedback::good, context_.now);
  if (pair.acked == pair.packets) {
    finish(pair, ack.flow);
    return;
  }
  if (marked && rule_.notification == Notification::acknowledgement) on_cnp(ack.flow);
  if (controls_->sees_acks()) {
    const std::int64_t left = in_flight(pair);
    const std::int64_t fresh = rule_.out_of_order ? before - left : std::int64_t{pair.acked - acked} * mss_;
    const Telemetry* const seen = options_.telemetry ? &context_.telemetry[index] : nullptr;
    const Acknowledged what{context_.now, context_.now - ack.amount, marked,
                            std::max<std::int64_t>(fresh, 0), left, pair.acked, pair.next,
                            seen != nullptr ? seen->hops.data() : nullptr, seen != nullptr ? seen->count : 0};
    if (context_.traffic.heeds(ack.flow)) take_ruling(pair, ack.flow, controls_->on_ack(ack.flow, what));
  }
  this->send_while_permitted(ack.flow);
}

template <class Fabric>
void Rdma<Fabric>::acknowledge_beyond(QueuePair& pair, const Packet& ack) {
  pair.got.advance(bits_, pair.acked);
  pair.again.advance(bits_, pair.acked);
  const auto take = [&](std::uint32_t sequence) {
    if (static_cast<std::int32_t>(sequence - pair.acked) < 0) return;
    if (!pair.got.set(bits_, sequence)) return;
    pair.again.clear(bits_, sequence);
    pair.progress = context_.now;
  };
  if (ack.kind == Kind::ack) take(ack.sequence);  // the others are about a packet that has not come
  for (std::uint64_t found = ack.bitmap; found != 0; found &= found - 1)
    take(ack.reference + static_cast<std::uint32_t>(std::countr_zero(found)));
}

template <class Fabric>
void Rdma<Fabric>::on_nack(const Packet& nack) {
  QueuePair& pair = pairs_[nack.flow];
  if (pair.done) return;
  ++context_.outcome.counters.nacks;
  if (static_cast<std::int32_t>(nack.cumulative - pair.acked) > 0) {
    pair.acked = nack.cumulative;
    pair.next = std::max(pair.next, pair.acked);
    pair.progress = context_.now;
  }
  if (!rule_.out_of_order) {
    if (nack.cumulative == pair.acked) pair.next = pair.acked;
  } else {
    acknowledge_beyond(pair, nack);
    const bool lost = static_cast<std::int32_t>(nack.sequence - pair.acked) >= 0 && nack.sequence < pair.next &&
                      !pair.got.has(bits_, nack.sequence);
    if (lost) pair.again.set(bits_, nack.sequence);
    balancer_.feedback(nack.flow, nack.entropy, Feedback::trimmed, context_.now);
  }
  if (context_.traffic.heeds(nack.flow)) take_ruling(pair, nack.flow, controls_->on_nack(nack.flow, context_.now));
  this->send_while_permitted(nack.flow);
}

template <class Fabric>
void Rdma<Fabric>::on_cnp(std::uint32_t flow) {
  QueuePair& pair = pairs_[flow];
  if (pair.done) return;
  if (context_.traffic.heeds(flow)) take_ruling(pair, flow, controls_->on_cnp(flow, context_.now));
}

template <class Fabric>
void Rdma<Fabric>::finish(QueuePair& pair, std::uint32_t flow) {
  pair.done = true;
  if (rule_.out_of_order) {
    pair.got.close(bits_);
    pair.again.close(bits_);
  }
  context_.flows.sent(flow, context_.now);
}

}  // namespace railyard::packet
