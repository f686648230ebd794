// Communications in a run: their latency, their volume at changing rates.
#include "flow/run.hpp"

namespace railyard {

namespace {

/// What floating point may add to an integer number of picoseconds; rounding that up would add one for nothing.
constexpr double kRoundingPs = 1e-3;

}  // namespace

Ps time_for(double amount, double per_second) {
  if (amount <= 0) return 0;
  if (per_second <= 0) return kNever;
  const double exact = amount * kPsPerSecond / per_second;
  if (exact >= 4e18) return kNever;
  const Ps whole = static_cast<Ps>(exact);
  return whole + (exact - static_cast<double>(whole) > kRoundingPs ? 1 : 0);
}

void Run::find_alone_time(std::uint32_t entity) {
  Service& service = services_[entity];
  service.latency = entities_.latency_ps[entity];
  service.bits = entities_.volume_bytes[entity] * 8;
  service.alone = time_for(service.bits, sharing_.alone_rate(entity));
}

void Run::begin_flow(TaskId id) {
  const std::uint32_t row = row_of(schedule_[id].entity);
  Service& service = services_[row];
  ++service.runs;
  if (service.bits <= 0) return complete(id);
  launch(id, row, service.bits);
}

/// Sets so many bits of a task flowing by a row.
void Run::launch(TaskId id, std::uint32_t row, double bits) {
  const Service& service = services_[row];
  const FlowId flow = sharing_.add(row);
  if (flow >= motions_.size()) motions_.resize(flow + 1);
  Motion& motion = motions_[flow];
  motion = {.bits = bits, .updated = now(), .task = id, .stamp = motion.stamp + 1};
  if (sharing_.flow(flow).dirty || service.alone == kNever) return;  // settle() will find its rate
  note_load(flow, sharing_.flow(flow).rate);
  const Ps alone = bits == service.bits ? service.alone : time_for(bits, sharing_.alone_rate(row));
  motion.due = motion.event_at = now() + alone;
  push(motion.due, Topic::flowed, flow, motion.stamp);
}

void Run::flow_event(FlowId id, std::uint32_t stamp) {
  Motion& motion = motions_[id];
  if ((motion.stamp & kStampMask) != stamp) return;
  if (motion.due > now()) {  // it was slowed down after this event was made
    motion.event_at = motion.due;
    if (motion.due != kNever) push(motion.due, Topic::flowed, id, motion.stamp);
    return;
  }
  if (probe_.active()) move(motion, id, sharing_.flow(id).rate);
  const TaskId task = motion.task;
  motion.task = kNoTask;
  ++motion.stamp;
  note_load(id, -sharing_.flow(id).rate);
  sharing_.remove(id);
  complete(task);
}

/// Brings a flow's progress up to now, at the rate that it had since `updated`.
void Run::move(Motion& motion, FlowId id, double rate) {
  const double seconds = static_cast<double>(now() - motion.updated) / kPsPerSecond;
  if (probe_.active()) {
    const std::uint32_t entity = sharing_.flow(id).entity;
    for (auto k = entities_.link_ptr[entity]; k < entities_.link_ptr[entity + 1]; ++k) {
      const auto pair = static_cast<std::size_t>(k);
      probe_.record(static_cast<std::size_t>(entities_.link_idx[pair]), entities_.link_share[pair] * rate,
                    motion.updated, now());
    }
  }
  motion.bits = motion.bits > rate * seconds ? motion.bits - rate * seconds : 0.0;
  motion.updated = now();
}

/// A flow takes more or less of its links, or as much of links that can carry more or less now.
void Run::note_load(FlowId id, double rate_change) {
  if (!full_links_.active()) return;
  const std::uint32_t entity = sharing_.flow(id).entity;
  for (auto k = entities_.link_ptr[entity]; k < entities_.link_ptr[entity + 1]; ++k) {
    const auto pair = static_cast<std::size_t>(k);
    const auto link = static_cast<std::size_t>(entities_.link_idx[pair]);
    full_links_.change(link, entities_.link_share[pair] * rate_change, sharing_.links().capacities()[link], now());
  }
}

/// A later end needs no new event: the one in the queue finds out when it comes up.
void Run::schedule(Motion& motion, FlowId id, double rate) {
  const Ps duration = time_for(motion.bits, rate);
  motion.due = duration == kNever ? kNever : now() + duration;
  if (motion.due >= motion.event_at) return;
  motion.event_at = motion.due;
  ++motion.stamp;
  push(motion.due, Topic::flowed, id, motion.stamp);
}

/// One recomputation for all that happened at this picosecond.
void Run::settle() {
  if (!changed_links_.empty()) apply_link_faults();
  if (rerouted_) {
    find_rates();  // WHY: what moves is brought up to now at the rate that it had, which a change of its links hides
    reroute();
  }
  if (!changed_ranks_.empty()) apply_contention();
  find_rates();
}

void Run::find_rates() {
  if (!sharing_.unsettled()) return;
  sharing_.settle();
  for (const RateChange& change : sharing_.changes()) {
    Motion& motion = motions_[change.flow];
    move(motion, change.flow, change.old_rate);
    schedule(motion, change.flow, sharing_.flow(change.flow).rate);
    note_load(change.flow, sharing_.flow(change.flow).rate - change.old_rate);
  }
  sharing_.clear_changes();
}

}  // namespace railyard
