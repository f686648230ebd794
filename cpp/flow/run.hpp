// The state of one run. Private to the core: everybody else calls simulate().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/event_queue.hpp"
#include "core/random.hpp"
#include "flow/full_links.hpp"
#include "flow/probe.hpp"
#include "flow/schedule.hpp"
#include "flow/sharing.hpp"
#include "flow/simulation.hpp"

namespace railyard {

/// Time that `amount` takes at `per_second`, rounded up to a whole picosecond; kNever when it does not move.
Ps time_for(double amount, double per_second);

/// Throws std::invalid_argument when a fault is impossible.
void check_faults(const FaultColumns& faults, std::size_t links, std::size_t ranks, std::size_t entities);

class Run {
 public:
  Run(const GraphColumns& graph, const EntityColumns& entities, std::span<const double> capacity_bps,
      const FaultColumns& faults, const Options& options, const Poll& poll);
  Result finish();

 private:
  /// What an event is about; kept in the upper bits of its stamp.
  enum class Topic : std::uint32_t { computed, latency_over, flowed, slowly_computed, fault, released };
  static constexpr unsigned kTopicShift = 29;
  static constexpr std::uint32_t kStampMask = (1u << kTopicShift) - 1;

  /// Progress of a flow; parallel to the flows of Sharing.
  struct Motion {
    double bits = 0;     ///< Left at `updated`.
    Ps updated = 0;
    Ps due = kNever;       ///< When it will have flowed at its present rate.
    Ps event_at = kNever;  ///< Of its earliest event in the queue, never later than `due`.
    TaskId task = kNoTask;
    std::uint32_t stamp = 0;  ///< Events with another stamp are void.
  };
  /// What of an entity is read when a task starts it.
  struct Service {
    Ps latency = 0;
    Ps alone = 0;  ///< For its volume, with the network to itself.
    double bits = 0;
    std::uint64_t runs = 0;
  };
  static constexpr std::uint32_t kNoSlot = UINT32_MAX;
  /// A computation whose speed may change while it runs: by a fault of its rank, or by communications beside it.
  struct Slowed {
    double work_ps = 0;  ///< Left at `updated`, at nominal speed.
    double speed = 1;    ///< Since `updated`.
    double lost_ps = 0;  ///< So far, to communications beside it.
    double lost = 0;     ///< Share that they take since `updated`.
    Ps updated = 0;
    TaskId task = kNoTask;
    std::uint32_t stamp = 0;
    std::int32_t rank = 0;
    std::int32_t row = -1;         ///< Of the graph's `loss`, -1: nothing beside it slows it.
    std::uint32_t next = kNoSlot;  ///< The next one of its rank, by ascending slot.
  };
  /// What a rank's computations depend on.
  struct RankState {
    double speed = 1;
    Ps late = 0;  ///< Waits for the next computation.
    std::uint32_t first = kNoSlot;  ///< Of the computations in `slowed_`.
    bool watched = false;  ///< Some fault concerns it.
    bool changed = false;  ///< Listed in changed_ranks_.
  };

  // run.cpp: the loop, tasks
  std::vector<std::uint8_t> crowded() const;
  void loop();
  void start_first();
  void process(const Event& event);
  void push(Ps time, Topic topic, std::uint32_t target, std::uint32_t stamp = 0);
  void release(TaskId id, TaskId by);
  void start_or_hold(TaskId id);
  void start(TaskId id);
  Ps spread(Ps duration, std::int32_t rank, TaskId id) const;
  void complete(TaskId id);
  void look_ahead(const Event& event, std::size_t distance) const;
  void look_ahead_in_batch(std::size_t index) const;
  void look_ahead_to_successors(TaskId id, std::size_t steps_left) const;
  void look_ahead_to_links(std::uint32_t entity, std::size_t steps_left) const;
  static Topic topic_of(const Event& event) { return static_cast<Topic>(event.stamp >> kTopicShift); }
  void explain_deadlock();
  void write_columns();
  void write_link_bytes();

  // communication.cpp: communications
  void find_alone_time(std::uint32_t entity);
  void begin_flow(TaskId id);
  void launch(TaskId id, std::uint32_t row, double bits);
  void flow_event(FlowId id, std::uint32_t stamp);
  void settle();
  void find_rates();
  void move(Motion& motion, FlowId id, double rate);
  void note_load(FlowId id, double rate_change);
  void schedule(Motion& motion, FlowId id, double rate);

  // faults.cpp: computations that a fault concerns, and faults themselves
  void watch_faults();
  void fault_event(std::uint32_t row);
  void set_speed(std::int32_t rank, double speed);
  void delay(std::int32_t rank, Ps by);
  void apply_link_faults();
  void reroute();
  /// The row by which an entity flows now.
  std::uint32_t row_of(std::uint32_t entity) const { return row_of_.empty() ? entity : row_of_[entity]; }
  void note_idle_faults();

  // overlap.cpp: computations whose speed changes while they run, and the communications that overlap with them
  void watch_contention();
  bool varies(TaskId id, std::int32_t rank) const;
  void start_slowed(TaskId id, Ps duration, std::int32_t rank);
  void slowed_event(std::uint32_t slot, std::uint32_t stamp);
  void unlink(std::uint32_t slot);
  void advance(Slowed& slowed);
  void reschedule(std::uint32_t slot);
  double lost_share(const Slowed& slowed) const;
  void come_or_go(TaskId id, int change);
  void count_contention(std::int32_t rank, std::size_t column, int change);
  void apply_contention();

  Ps now() const { return events_.now(); }

  const EntityColumns& entities_;
  std::span<const double> capacity_bps_;
  const FaultColumns& faults_;
  const Options& options_;
  const Poll& poll_;

  Schedule schedule_;
  Sharing sharing_;
  EventQueue events_;
  LinkProbe probe_;
  FullLinks full_links_;
  std::vector<Factor> rank_factor_;
  BigVector<Motion> motions_;
  BigVector<Service> services_;      ///< By entity.
  std::vector<RankState> rank_state_;  ///< Empty when every computation runs at one speed.
  std::vector<Slowed> slowed_;
  std::vector<std::uint32_t> free_slowed_;
  bool contending_ = false;  ///< Whether communications slow computations at all.
  std::vector<std::int32_t> contender_count_;  ///< [rank][column of the graph's `loss`]: communications that run.
  std::vector<std::int32_t> changed_ranks_;
  std::vector<std::uint32_t> changed_links_;
  std::vector<double> changed_capacity_;
  std::vector<std::uint32_t> row_of_;  ///< By entity; empty where none is ever rerouted.
  std::vector<double> moved_bits_;     ///< By row: what reroutes took to it or, negative, from it.
  bool rerouted_ = false;              ///< Since the last settle().
  std::vector<bool> released_;  ///< Tasks that wait for nothing any more; empty where every task waits for all.
  std::size_t done_ = 0;
  Result result_;
};

}  // namespace railyard
