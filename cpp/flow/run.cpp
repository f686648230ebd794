#include "flow/run.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "flow/contended_links.hpp"

namespace railyard {

namespace {

constexpr std::uint64_t kPollEvery = 256;
constexpr std::size_t kStride = 4;
constexpr std::size_t kFew = 4;

std::uint64_t key_of(std::span<const std::int64_t> keys, std::size_t index) {
  return keys.empty() ? index : static_cast<std::uint64_t>(keys[index]);
}

}  // namespace

Run::Run(const GraphColumns& graph, const EntityColumns& entities, std::span<const double> capacity_bps,
         const FaultColumns& faults, const Options& options, const Poll& poll)
    : entities_(entities), capacity_bps_(capacity_bps), faults_(faults), options_(options), poll_(poll),
      schedule_(graph, entities.size()), sharing_(capacity_bps, entities, crowded()),
      probe_(options.probe_links, options.probe_samples, capacity_bps.size()),
      full_links_(options.count_full ? capacity_bps.size() : 0), services_(entities.size()) {
  const JitterSpec& jitter = options.jitter;
  if (jitter.rank_sigma > 0) {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(graph.ranks); ++rank) {
      rank_factor_.push_back(Factor::spread(
          jitter.rank_sigma, irwin_hall(jitter.seed, RandomStream::rank_jitter, key_of(graph.rank_key, rank))));
    }
  }
  if (!graph.need.empty()) released_.resize(schedule_.size());
  for (std::uint32_t e = 0; e < entities_.size(); ++e) find_alone_time(e);
  watch_faults();
  watch_contention();
}

std::vector<std::uint8_t> Run::crowded() const {
  if (!options_.contention) return std::vector<std::uint8_t>(capacity_bps_.size(), 0);
  return crowded_links(schedule_.graph(), entities_, capacity_bps_, faults_);
}

Result Run::finish() {
  start_first();
  loop();
  if (done_ < schedule_.size()) {
    explain_deadlock();
  } else {
    note_idle_faults();
    write_columns();
    write_link_bytes();
  }
  result_.effort = sharing_.effort();
  return std::move(result_);
}

void Run::start_first() {
  for (TaskId id = 0; id < schedule_.size(); ++id) {
    if (schedule_[id].waits > 0 || schedule_[id].end >= 0) continue;
    schedule_[id].waits = kNoTask;
    start_or_hold(id);
  }
}

void Run::loop() {
  do {
    // What settles may be due at once, so the batch is looked at again until nothing is left of it.
    for (std::size_t i = 0; i < events_.batch().size();) {
      for (; i < events_.batch().size(); ++i) {
        look_ahead_in_batch(i);
        process(events_.batch()[i]);
        if (++result_.events % kPollEvery == 0) poll_(done_, now());
      }
      settle();
    }
    settle();
  } while (done_ < schedule_.size() &&
           events_.advance([this](const Event& event, std::size_t n) { look_ahead(event, n); }));
}

/// Asks for memory ahead of time, one step of the chains event -> task -> successors and event -> entity -> links per
/// look, `distance` events before it is needed.
/// WHY: what an event reads lies anywhere in hundreds of megabytes, and each of those reads waits for the last.
void Run::look_ahead(const Event& event, std::size_t distance) const {
  const std::size_t steps_left = (distance + kStride - 1) / kStride;
  const Topic topic = topic_of(event);
  if (topic == Topic::computed) return look_ahead_to_successors(event.target, steps_left);
  if (topic == Topic::flowed) {
    const Flow& flow = sharing_.flow(event.target);
    const Motion& motion = motions_[event.target];
    if (steps_left > 3) {
      __builtin_prefetch(&flow);
      __builtin_prefetch(&motion);
      return;
    }
    look_ahead_to_links(flow.entity, steps_left);
    if (motion.task != kNoTask) look_ahead_to_successors(motion.task, steps_left + 1);
  } else if (topic == Topic::latency_over) {
    if (steps_left > 3) return __builtin_prefetch(&schedule_[event.target]);
    look_ahead_to_links(schedule_[event.target].entity, steps_left);
  }
}

void Run::look_ahead_to_successors(TaskId id, std::size_t steps_left) const {
  if (steps_left > 3) return __builtin_prefetch(&schedule_[id]);
  if (steps_left > 2) return __builtin_prefetch(schedule_.successors(id).data());
  for (const TaskId next : schedule_.successors(id).first(std::min(kFew, schedule_.successors(id).size()))) {
    __builtin_prefetch(&schedule_[next]);
  }
}

void Run::look_ahead_to_links(std::uint32_t entity, std::size_t steps_left) const {
  if (steps_left > 2) {
    __builtin_prefetch(&services_[entity]);
    sharing_.prefetch_row(entity);
  } else if (steps_left > 1) {
    sharing_.prefetch_pairs(entity);
  } else {
    sharing_.prefetch_links(entity);
  }
}

void Run::look_ahead_in_batch(std::size_t index) const {
  const auto& batch = events_.batch();
  for (std::size_t distance = kStride; distance <= 4 * kStride; distance += kStride) {
    if (index + distance < batch.size()) look_ahead(batch[index + distance], distance);
  }
}

void Run::push(Ps time, Topic topic, std::uint32_t target, std::uint32_t stamp) {
  events_.push({time, target, static_cast<std::uint32_t>(topic) << kTopicShift | (stamp & kStampMask)});
}

void Run::process(const Event& event) {
  switch (topic_of(event)) {
    case Topic::computed: complete(event.target); break;
    case Topic::latency_over: begin_flow(event.target); break;
    case Topic::flowed: flow_event(event.target, event.stamp & kStampMask); break;
    case Topic::slowly_computed: slowed_event(event.target, event.stamp & kStampMask); break;
    case Topic::fault: fault_event(event.target); break;
    case Topic::released: start(event.target); break;
  }
}

void Run::release(TaskId id, TaskId by) {
  Task& task = schedule_[id];
  if (!released_.empty() && released_[id]) return;  // more ended than it needs
  if (--task.waits > 0) return;
  if (!released_.empty()) released_[id] = true;
  task.waits = by;
  start_or_hold(id);
}

/// Starts a task that waits for nothing any more, or puts it off until its release, at which nobody's end let it start,
/// and by its delay.
void Run::start_or_hold(TaskId id) {
  const GraphColumns& graph = schedule_.graph();
  Ps at = now();
  if (!graph.release_ps.empty() && graph.release_ps[id] > at) {
    at = graph.release_ps[id];
    schedule_[id].waits = kNoTask;
  }
  if (!graph.delay_ps.empty()) at += graph.delay_ps[id];
  if (at == now()) return start(id);
  push(at, Topic::released, id);
}

void Run::start(TaskId id) {
  Task& task = schedule_[id];
  if (!task.is_computation()) {
    task.start = now();
    if (contending_) come_or_go(id, 1);
    push(now() + services_[row_of(task.entity)].latency, Topic::latency_over, id);
    return;
  }
  const Ps duration = spread(task.start, task.rank, id);
  task.start = now();
  if (!rank_state_.empty() && varies(id, task.rank)) return start_slowed(id, duration, task.rank);
  push(now() + duration, Topic::computed, id);
}

Ps Run::spread(Ps duration, std::int32_t rank, TaskId id) const {
  const JitterSpec& jitter = options_.jitter;
  if (!rank_factor_.empty()) duration = rank_factor_[static_cast<std::size_t>(rank)].of(duration);
  if (jitter.task_sigma <= 0) return duration;
  const std::uint64_t key = key_of(schedule_.graph().task_key, id);
  return Factor::spread(jitter.task_sigma, irwin_hall(jitter.seed, RandomStream::task_jitter, key)).of(duration);
}

void Run::complete(TaskId id) {
  schedule_[id].end = now();
  ++done_;
  if (contending_ && !schedule_[id].is_computation()) come_or_go(id, -1);
  for (const TaskId next : schedule_.successors(id)) release(next, id);
}

void Run::explain_deadlock() {
  for (const Motion& motion : motions_) {
    if (motion.task == kNoTask) continue;
    result_.stuck.push_back(static_cast<std::int32_t>(motion.task));
    result_.stuck_since_ps.push_back(schedule_[motion.task].start);
  }
  result_.outcome = Result::Outcome::stalled;
  if (!result_.stuck.empty()) return;
  result_.outcome = Result::Outcome::cycle;
  for (const TaskId id : find_cycle(schedule_)) result_.stuck.push_back(static_cast<std::int32_t>(id));
}

void Run::write_columns() {
  const std::size_t n = schedule_.size();
  result_.start_ps.reserve(n);
  result_.end_ps.reserve(n);
  result_.blocker.reserve(n);
  for (TaskId id = 0; id < n; ++id) {
    const Task& task = schedule_[id];
    result_.start_ps.push_back(task.start);
    result_.end_ps.push_back(task.end);
    result_.blocker.push_back(static_cast<std::int32_t>(task.waits));  // kNoTask becomes -1
  }
}

void Run::write_link_bytes() {
  result_.link_bytes.assign(capacity_bps_.size(), 0.0);
  for (std::size_t e = 0; e < entities_.size(); ++e) {
    double bytes = entities_.volume_bytes[e] * static_cast<double>(services_[e].runs);
    if (!moved_bits_.empty()) bytes += moved_bits_[e] / 8;
    for (auto k = entities_.link_ptr[e]; k < entities_.link_ptr[e + 1]; ++k) {
      const auto pair = static_cast<std::size_t>(k);
      result_.link_bytes[static_cast<std::size_t>(entities_.link_idx[pair])] += bytes * entities_.link_share[pair];
    }
  }
  result_.probe_interval_ps = probe_.interval();
  if (probe_.active()) result_.probe_bytes = std::move(probe_).take();
  if (full_links_.active()) result_.link_full_ps = std::move(full_links_).take(now());
}

Result simulate(const GraphColumns& graph, const EntityColumns& entities, std::span<const double> capacity_bps,
                const FaultColumns& faults, const Options& options, const Poll& poll) {
  check_entities(entities, capacity_bps);
  if (!entities.alone_bps.empty() && faults.size() > 0) throw std::invalid_argument("faults change the rates alone");
  check_faults(faults, capacity_bps.size(), static_cast<std::size_t>(std::max(graph.ranks, 0)), entities.size());
  return Run(graph, entities, capacity_bps, faults, options, poll).finish();
}

std::vector<double> max_min(const EntityColumns& entities, std::span<const double> capacity_bps) {
  const std::vector<std::uint8_t> everywhere(capacity_bps.size(), 1);
  Sharing sharing(capacity_bps, entities, everywhere);
  for (std::uint32_t e = 0; e < entities.size(); ++e) sharing.add(e);  // flow e is entity e
  sharing.settle();
  std::vector<double> rates;
  for (FlowId id = 0; id < entities.size(); ++id) rates.push_back(sharing.flow(id).rate);
  return rates;
}

}  // namespace railyard
