// Faults in a run: ranks that are slow or late, links that lose capacity.
#include <cmath>
#include <stdexcept>
#include <string>

#include "flow/run.hpp"

namespace railyard {

void check_faults(const FaultColumns& faults, std::size_t links, std::size_t ranks) {
  using Fault = FaultColumns::Kind;
  if (faults.kind.size() != faults.size() || faults.target.size() != faults.size() ||
      faults.value.size() != faults.size()) {
    throw std::invalid_argument("fault columns differ in length");
  }
  for (std::size_t row = 0; row < faults.size(); ++row) {
    const auto kind = static_cast<Fault>(faults.kind[row]);
    const double value = faults.value[row];
    const std::size_t targets = kind == Fault::link_factor ? links : ranks;
    if (faults.at_ps[row] < 0 || faults.target[row] < 0 || static_cast<std::size_t>(faults.target[row]) >= targets ||
        kind > Fault::rank_late || !std::isfinite(value) || value < 0 || value > 4e18 ||
        (kind == Fault::rank_speed && value <= 0)) {
      throw std::invalid_argument("fault out of range (row " + std::to_string(row) + ")");
    }
  }
}

void Run::watch_ranks() {
  for (std::uint32_t row = 0; row < faults_.size(); ++row) {
    push(faults_.at_ps[row], Topic::fault, row);
    if (static_cast<FaultColumns::Kind>(faults_.kind[row]) == FaultColumns::Kind::link_factor) continue;
    rank_state_.resize(static_cast<std::size_t>(schedule_.graph().ranks));
    rank_state_[static_cast<std::size_t>(faults_.target[row])].watched = true;
  }
}

void Run::fault_event(std::uint32_t row) {
  const std::int32_t target = faults_.target[row];
  switch (static_cast<FaultColumns::Kind>(faults_.kind[row])) {
    case FaultColumns::Kind::link_factor:
      changed_links_.push_back(static_cast<std::uint32_t>(target));
      changed_capacity_.push_back(capacity_bps_[static_cast<std::size_t>(target)] * faults_.value[row]);
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
  sharing_.set_capacities(changed_links_, changed_capacity_);
  find_alone_times();
  changed_links_.clear();
  changed_capacity_.clear();
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
