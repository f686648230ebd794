#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/big_vector.hpp"
#include "flow/columns.hpp"

namespace railyard {

using TaskId = std::uint32_t;
inline constexpr TaskId kNoTask = UINT32_MAX;

/// What the engine touches of a task at run time, packed so that a task is half a cache line.
struct Task {
  static constexpr std::uint32_t kComputation = UINT32_MAX;

  Ps start = 0;  ///< Until it starts: the nominal duration of a computation.
  Ps end = -1;
  std::uint32_t waits = 0;       ///< Ends it still waits for; from its start on: the task that released it.
  std::uint32_t successors = 0;  ///< First of its successors; the next task's is the end.
  std::uint32_t entity = kComputation;
  std::int32_t rank = 0;  ///< Of a computation.

  bool is_computation() const { return entity == kComputation; }
};
static_assert(sizeof(Task) == 32);

/// The tasks and who waits for whom.
///
/// Order within the streams becomes edges like explicit dependencies: a task has one edge from its forerunner in each
/// (rank, stream) that it occupies, so a collective has as many as members. Being first everywhere and having all
/// dependencies done is then one counter reaching zero, and the end of a task reads one stretch of memory.
class Schedule {
 public:
  /// Throws std::invalid_argument when an index is out of range or a column has the wrong length.
  Schedule(const GraphColumns& graph, std::size_t entities);

  std::size_t size() const { return tasks_.size() - 1; }
  Task& operator[](TaskId id) { return tasks_[id]; }
  const Task& operator[](TaskId id) const { return tasks_[id]; }

  std::span<const TaskId> successors(TaskId id) const {
    return {successors_.data() + tasks_[id].successors, successors_.data() + tasks_[id + 1].successors};
  }
  const GraphColumns& graph() const { return graph_; }

 private:
  void check() const;
  void check_members() const;
  void check_contention() const;
  void check_starts() const;
  void check_keys() const;
  void check_task(std::size_t i, std::size_t entities) const;
  void fill_tasks(std::size_t entities);
  void fill_successors();
  template <class F>
  void for_each_edge(F&& f) const;
  std::span<const std::int32_t> members(std::int32_t communicator) const;

  GraphColumns graph_;
  BigVector<Task> tasks_;  ///< n+1: the last is a sentinel for `successors`.
  BigVector<TaskId> successors_;
};

/// Tasks of a cycle of waits, in order, each waiting for the next; empty when the unfinished tasks hold none.
/// PRE: every task that has started has ended.
std::vector<TaskId> find_cycle(const Schedule& schedule);

}  // namespace railyard
