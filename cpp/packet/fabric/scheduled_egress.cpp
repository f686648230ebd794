#include "packet/fabric/scheduled.hpp"

#include <algorithm>

namespace railyard::packet {

void ScheduledFabric::on_request(std::uint32_t number, std::uint32_t credits) {
  Claim& claim = claims_[number];
  const bool fresh = claim.wanted == 0;
  claim.wanted += credits;
  if (!fresh) return;
  const std::uint32_t at = voqs_[number].port;
  EgressPort& port = ports_[at];
  port.join(claims_, number, voqs_[number].klass);
  if (!port.ticking) tick(at);
}

void ScheduledFabric::tick_at(EgressPort& port, Ps time) {
  port.ticking = true;
  context_.wheel.push(time, event(Event::port, task(Task::tick, static_cast<std::uint32_t>(&port - ports_.data()))));
}

/// The scheduler of a port grants one credit, if it is time.
void ScheduledFabric::tick(std::uint32_t at) {
  EgressPort& port = ports_[at];
  if (port.classes == 0 || !port.live) return;
  const Ps now = context_.now;
  const Ps free = std::max(port.next_grant, port.busy_until - port.most_waiting);
  if (free > now) {
    tick_at(port, free);
    return;
  }
  std::uint8_t klass = 0;
  const std::uint32_t number = port.turn(claims_, klass);
  const bool local = voqs_[number].ingress == port.leaf;
  Leaf& leaf = leafs_[port.leaf];
  if (!local && !port.reserved && leaf.granted_until > now) {
    // WHY reserved: the ports of a leaf that the fabric cannot serve all at once come one after the other.
    port.reserved = true;
    tick_at(port, leaf.granted_until);
    leaf.granted_until += leaf.credit_time;
    return;
  }
  if (!local && !port.reserved) leaf.granted_until = std::max(leaf.granted_until, now - 2 * leaf.credit_time) + leaf.credit_time;
  port.reserved = false;
  port.granted(claims_, number, klass);
  port.next_grant = now + port.credit_time;
  grant(number, local);
  if (port.classes != 0) tick_at(port, port.next_grant);
}

void ScheduledFabric::grant(std::uint32_t number, bool local) {
  ++context_.outcome.scheduled.grants;
  const std::uint32_t message = kGrant | 1u << kVoqBits | number;
  if (local) {
    context_.wheel.push(context_.now + options_.grant_ps, event(Event::extra, message));
    return;
  }
  fabric_.send_control(voqs_[number].egress, voqs_[number].ingress, message, context_.now);
  sweep_later();
}

void ScheduledFabric::control_cell(const Cell& cell) {
  const Ps delay = (cell.what & kGrant) != 0 ? options_.grant_ps : options_.request_ps;
  context_.wheel.push(cell.time + delay, event(Event::extra, cell.what));
}

void ScheduledFabric::data_cell(const Cell& cell) {
  Burst& burst = bursts_[cell.burst()];
  burst.latest = std::max(burst.latest, cell.time);
  if (burst.sample != kNone && cell.number() < kSampleCells) samples_[burst.sample].arrival[cell.number()] = cell.time;
  if (--burst.left == 0) complete(burst.voq);
}

/// Control messages that a dead link swallows are sent again once routes keep off it: the sender sees to that.
void ScheduledFabric::lost(const Cell& cell) {
  if (cell.control()) {
    context_.wheel.push(cell.time + options_.reachability_ps, event(Event::extra, cell.what));
    return;
  }
  Burst& burst = bursts_[cell.burst()];
  burst.lost = true;
  burst.latest = std::max(burst.latest, cell.time);
  if (--burst.left == 0) complete(burst.voq);
}

/// Of a queue's bursts those leave that are whole and before which all are.
void ScheduledFabric::complete(std::uint32_t number) {
  Claim& claim = claims_[number];
  std::uint32_t depth = 0;
  while (claim.first != kNone && bursts_[claim.first].left == 0) {
    const std::uint32_t index = claim.first;
    Burst& burst = bursts_[index];
    // A picosecond apart, so that they leave in this order.
    claim.delivered = std::max({claim.delivered + 1, burst.latest, context_.now});
    if (burst.sample != kNone) measure(burst);
    claim.first = burst.next;
    ++depth;
    context_.wheel.push(claim.delivered, event(Event::port, task(Task::burst, index)));
  }
  if (claim.first == kNone) --leafs_[voqs_[number].egress].contexts;
  if (depth > 1)
    context_.outcome.scheduled.bursts_held = std::max<std::int64_t>(context_.outcome.scheduled.bursts_held, depth - 1);
}

/// Reorder depth: how many cells sent later have come before one, the most of a burst.
void ScheduledFabric::measure(Burst& burst) {
  const Sample& sample = samples_[burst.sample];
  std::uint32_t most = 0;
  for (std::uint32_t at = 0; at < sample.cells && !burst.lost; ++at) {
    std::uint32_t before = 0;
    for (std::uint32_t later = at + 1; later < sample.cells; ++later)
      before += sample.arrival[later] < sample.arrival[at] ? 1 : 0;
    most = std::max(most, before);
  }
  if (!burst.lost) ++context_.outcome.scheduled.reorder[most];
  free_samples_.push_back(burst.sample);
  burst.sample = kNone;
}

/// A burst's packets go out by the egress port, one after the other.
void ScheduledFabric::leave(std::uint32_t index) {
  const Burst burst = bursts_[index];
  free_bursts_.push_back(index);
  EgressPort& port = ports_[voqs_[burst.voq].port];
  if (burst.lost || !port.live) {
    drop(burst.first);
    return;
  }
  port.busy_until = std::max(port.busy_until, context_.now);
  for (std::uint32_t at = burst.first; at != kNone;) {
    Packet& packet = context_.slab[at];
    port.busy_until += wire_time(packet.size, static_cast<std::uint64_t>(port.rate_bps));
    carried_[port.link] += packet.size;
    packet.link = port.link;
    if (context_.options.telemetry && packet.kind == Kind::data)
      context_.telemetry[at].add({.tx_bytes = static_cast<std::uint64_t>(carried_[port.link]),
                                  .time = port.busy_until,
                                  .queue_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(depth(port.link) - packet.size, 0)),
                                  .rate_mbps = static_cast<std::uint32_t>(port.rate_bps / 1e6)});
    const std::uint32_t next = packet.next;
    context_.depart(port.link, at, port.busy_until + port.latency);
    at = next;
  }
  port.longest_queue = std::max(port.longest_queue, port.busy_until - context_.now);
}

void ScheduledFabric::drop(std::uint32_t first) {
  while (first != kNone) {
    const std::uint32_t next = context_.slab[first].next;
    ++context_.outcome.counters.lost;
    context_.slab.release(first);
    first = next;
  }
}

}  // namespace railyard::packet
