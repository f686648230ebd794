// Computations whose speed changes while they run, and the communications beside them that change it.
//
// A collective's kernels hold compute units and memory bandwidth of every rank that takes part. The graph says what share
// of its speed each computation loses to each kind of communication; shares of several that run at once add up.
#include <algorithm>
#include <stdexcept>

#include "flow/run.hpp"

namespace railyard {

namespace {

/// What is left of a computation's speed however many communications run beside it: a kernel is never starved, because
/// blocks of all streams are handed out in turn.
constexpr double kLeast = 0.1;
/// What floating point may add to an integer number of picoseconds.
constexpr double kRoundingPs = 1e-3;

Ps whole(double ps) {
  const Ps below = static_cast<Ps>(ps);
  return below + (ps - static_cast<double>(below) > kRoundingPs ? 1 : 0);
}

}  // namespace

void Run::watch_contention() {
  const GraphColumns& graph = schedule_.graph();
  contending_ = !graph.loss_index.empty();
  if (!contending_) return;
  rank_state_.resize(static_cast<std::size_t>(graph.ranks));
  contender_count_.assign(static_cast<std::size_t>(graph.ranks) * graph.contenders, 0);
  result_.contention_ps.assign(schedule_.size(), 0);
}

bool Run::varies(TaskId id, std::int32_t rank) const {
  return rank_state_[static_cast<std::size_t>(rank)].watched || (contending_ && schedule_.graph().loss_index[id] >= 0);
}

void Run::start_slowed(TaskId id, Ps duration, std::int32_t rank) {
  RankState& state = rank_state_[static_cast<std::size_t>(rank)];
  if (free_slowed_.empty()) {
    free_slowed_.push_back(static_cast<std::uint32_t>(slowed_.size()));
    slowed_.emplace_back();
  }
  const std::uint32_t slot = free_slowed_.back();
  free_slowed_.pop_back();
  slowed_[slot] = {.work_ps = static_cast<double>(duration) + static_cast<double>(state.late) * state.speed,
                   .updated = now(), .task = id, .stamp = slowed_[slot].stamp, .rank = rank,
                   .row = contending_ ? schedule_.graph().loss_index[id] : -1};
  state.late = 0;
  std::uint32_t* place = &state.first;
  while (*place != kNoSlot && *place < slot) place = &slowed_[*place].next;
  slowed_[slot].next = *place;
  *place = slot;
  reschedule(slot);
}

void Run::unlink(std::uint32_t slot) {
  std::uint32_t* place = &rank_state_[static_cast<std::size_t>(slowed_[slot].rank)].first;
  while (*place != slot) place = &slowed_[*place].next;
  *place = slowed_[slot].next;
}

void Run::slowed_event(std::uint32_t slot, std::uint32_t stamp) {
  Slowed& slowed = slowed_[slot];
  if (slowed.task == kNoTask || (slowed.stamp & kStampMask) != stamp) return;
  const TaskId task = slowed.task;
  if (slowed.row >= 0) {
    slowed.lost_ps += static_cast<double>(now() - slowed.updated) * slowed.lost;
    result_.contention_ps[task] = static_cast<Ps>(slowed.lost_ps + 0.5);
  }
  unlink(slot);
  slowed.task = kNoTask;
  free_slowed_.push_back(slot);
  complete(task);
}

/// Brings a computation's progress up to now, at the speed that it had since `updated`.
void Run::advance(Slowed& slowed) {
  const double done = static_cast<double>(now() - slowed.updated) * slowed.speed;
  slowed.lost_ps += static_cast<double>(now() - slowed.updated) * slowed.lost;
  slowed.work_ps = slowed.work_ps > done ? slowed.work_ps - done : 0.0;
  slowed.updated = now();
}

/// The speed from now on, and the end that it brings.
void Run::reschedule(std::uint32_t slot) {
  Slowed& slowed = slowed_[slot];
  slowed.lost = lost_share(slowed);
  slowed.speed = rank_state_[static_cast<std::size_t>(slowed.rank)].speed * (1.0 - slowed.lost);
  // Work at full speed is its own duration: a division and a multiplication could add a picosecond to a long one.
  const bool plain = slowed.row >= 0 && slowed.speed == 1.0;
  const Ps left = plain ? whole(slowed.work_ps) : time_for(slowed.work_ps, slowed.speed * kPsPerSecond);
  if (left == kNever) throw std::invalid_argument("a computation on a slow rank would take more than 40 days");
  push(now() + left, Topic::slowly_computed, slot, ++slowed.stamp);
}

double Run::lost_share(const Slowed& slowed) const {
  if (slowed.row < 0) return 0;
  const GraphColumns& graph = schedule_.graph();
  const double* loss = graph.loss.data() + static_cast<std::size_t>(slowed.row) * graph.contenders;
  const std::int32_t* count = contender_count_.data() + static_cast<std::size_t>(slowed.rank) * graph.contenders;
  double lost = 0;
  for (std::size_t column = 0; column < graph.contenders; ++column) lost += count[column] * loss[column];
  return std::min(lost, 1.0 - kLeast);
}

/// A communication starts or ends: on every rank that its kernels run on, computations run at another speed.
void Run::come_or_go(TaskId id, int change) {
  const GraphColumns& graph = schedule_.graph();
  if (graph.loss_index[id] < 0) return;
  const auto column = static_cast<std::size_t>(graph.loss_index[id]);
  if (static_cast<Kind>(graph.kind[id]) != Kind::collective) return count_contention(graph.rank[id], column, change);
  const auto communicator = static_cast<std::size_t>(graph.rank[id]);
  for (auto k = graph.comm_ptr[communicator]; k < graph.comm_ptr[communicator + 1]; ++k) {
    count_contention(graph.comm_ranks[static_cast<std::size_t>(k)], column, change);
  }
}

void Run::count_contention(std::int32_t rank, std::size_t column, int change) {
  const auto index = static_cast<std::size_t>(rank);
  contender_count_[index * schedule_.graph().contenders + column] += change;
  RankState& state = rank_state_[index];
  if (state.first == kNoSlot || state.changed) return;
  state.changed = true;
  changed_ranks_.push_back(rank);
}

/// Once for all that happened at this picosecond: one communication behind another leaves the speed as it was.
void Run::apply_contention() {
  for (const std::int32_t rank : changed_ranks_) {
    RankState& state = rank_state_[static_cast<std::size_t>(rank)];
    state.changed = false;
    for (std::uint32_t slot = state.first; slot != kNoSlot; slot = slowed_[slot].next) {
      if (lost_share(slowed_[slot]) == slowed_[slot].lost) continue;
      advance(slowed_[slot]);
      reschedule(slot);
    }
  }
  changed_ranks_.clear();
}

}  // namespace railyard
