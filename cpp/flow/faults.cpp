// Faults in a run: ranks that are slow or late, links that lose capacity.
#include <cmath>
#include <stdexcept>
#include <string>

#include "flow/run.hpp"

namespace railyard {

void check_faults(const FaultColumns& faults, std::size_t links, std::size_t ranks, std::size_t entities) {
  using Fault = FaultColumns::Kind;
  if (faults.kind.size() != faults.size() || faults.target.size() != faults.size() ||
      faults.value.size() != faults.size()) {
    throw std::invalid_argument("fault columns differ in length");
  }
  for (std::size_t row = 0; row < faults.size(); ++row) {
    const auto kind = static_cast<Fault>(faults.kind[row]);
    const double value = faults.value[row];
    const std::size_t targets = kind == Fault::link_factor ? links : kind == Fault::rerouted ? entities : ranks;
    if (faults.at_ps[row] < 0 || faults.target[row] < 0 || static_cast<std::size_t>(faults.target[row]) >= targets ||
        kind > Fault::rerouted || !std::isfinite(value) || value < 0 || value > 4e18 ||
        (kind == Fault::rank_speed && value <= 0) ||
        (kind == Fault::rerouted && value >= static_cast<double>(entities))) {
      throw std::invalid_argument("fault out of range (row " + std::to_string(row) + ")");
    }
  }
}

void Run::watch_faults() {
  std::vector<std::uint32_t> links;
  for (std::uint32_t row = 0; row < faults_.size(); ++row) {
    push(faults_.at_ps[row], Topic::fault, row);
    const auto target = static_cast<std::size_t>(faults_.target[row]);
    switch (static_cast<FaultColumns::Kind>(faults_.kind[row])) {
      case FaultColumns::Kind::link_factor: links.push_back(static_cast<std::uint32_t>(target)); break;
      case FaultColumns::Kind::rerouted: moved_bits_.resize(entities_.size()); break;
      case FaultColumns::Kind::rank_speed:
      case FaultColumns::Kind::rank_late:
        rank_state_.resize(static_cast<std::size_t>(schedule_.graph().ranks));
        rank_state_[target].watched = true;
        break;
    }
  }
  if (!links.empty()) sharing_.watch(links);
  for (std::uint32_t e = 0; e < moved_bits_.size(); ++e) row_of_.push_back(e);
}

void Run::fault_event(std::uint32_t row) {
  const std::int32_t target = faults_.target[row];
  switch (static_cast<FaultColumns::Kind>(faults_.kind[row])) {
    case FaultColumns::Kind::link_factor:
      changed_links_.push_back(static_cast<std::uint32_t>(target));
      changed_capacity_.push_back(capacity_bps_[static_cast<std::size_t>(target)] * faults_.value[row]);
      break;
    case FaultColumns::Kind::rerouted:
      row_of_[static_cast<std::size_t>(target)] = static_cast<std::uint32_t>(faults_.value[row]);
      rerouted_ = true;
      break;
    case FaultColumns::Kind::rank_speed: set_speed(target, faults_.value[row]); break;
    case FaultColumns::Kind::rank_late: delay(target, static_cast<Ps>(faults_.value[row])); break;
  }
}

void Run::set_speed(std::int32_t rank, double speed) {
  RankState& state = rank_state_[static_cast<std::size_t>(rank)];
  state.speed = speed;
  for (std::uint32_t slot = state.first; slot != kNoSlot; slot = slowed_[slot].next) {
    advance(slowed_[slot]);
    reschedule(slot);
  }
}

void Run::delay(std::int32_t rank, Ps by) {
  RankState& state = rank_state_[static_cast<std::size_t>(rank)];
  if (state.first == kNoSlot) {
    state.late += by;
    return;
  }
  Slowed& slowed = slowed_[state.first];
  slowed.work_ps += static_cast<double>(by) * slowed.speed - static_cast<double>(now() - slowed.updated) * slowed.speed;
  slowed.lost_ps += static_cast<double>(now() - slowed.updated) * slowed.lost;
  slowed.updated = now();
  reschedule(state.first);
}

void Run::apply_link_faults() {
  for (const std::uint32_t entity : sharing_.set_capacities(changed_links_, changed_capacity_)) find_alone_time(entity);
  changed_links_.clear();
  changed_capacity_.clear();
}

/// What flows by a row that is its entity's no more goes on by the new one, with what is left of it.
void Run::reroute() {
  rerouted_ = false;
  for (FlowId id = 0, count = static_cast<FlowId>(motions_.size()); id < count; ++id) {
    Motion& motion = motions_[id];
    if (motion.task == kNoTask) continue;
    const TaskId task = motion.task;
    const std::uint32_t before = sharing_.flow(id).entity, after = row_of_[schedule_[task].entity];
    if (before == after) continue;
    move(motion, id, sharing_.flow(id).rate);
    const double left = services_[before].bits > 0 ? motion.bits / services_[before].bits : 0;
    moved_bits_[before] -= motion.bits;
    moved_bits_[after] += left * services_[after].bits;
    motion.task = kNoTask;
    ++motion.stamp;
    note_load(id, -sharing_.flow(id).rate);
    sharing_.remove(id);
    launch(task, after, left * services_[after].bits);
  }
}

/// A rank that was to be late but computed nothing any more was not: the caller should know.
void Run::note_idle_faults() {
  for (std::uint32_t row = 0; row < faults_.size(); ++row) {
    if (static_cast<FaultColumns::Kind>(faults_.kind[row]) != FaultColumns::Kind::rank_late) continue;
    const bool waits = rank_state_[static_cast<std::size_t>(faults_.target[row])].late > 0;
    if (waits || faults_.at_ps[row] > now()) result_.idle_faults.push_back(static_cast<std::int32_t>(row));
  }
}

}  // namespace railyard
