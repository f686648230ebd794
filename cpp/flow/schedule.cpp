#include "flow/schedule.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace railyard {

namespace {

[[noreturn]] void refuse(const std::string& what, std::size_t task) {
  throw std::invalid_argument(what + " (task " + std::to_string(task) + ")");
}

/// Turns counts at [i+1] into CSR pointers; throws when they do not fit into 32 bits.
void accumulate(BigVector<std::uint32_t>& ptr) {
  std::uint64_t sum = 0;
  for (auto& entry : ptr) {
    sum += entry;
    if (sum > UINT32_MAX) throw std::invalid_argument("more than 2^32 waits");
    entry = static_cast<std::uint32_t>(sum);
  }
}

}  // namespace

Schedule::Schedule(const GraphColumns& graph, std::size_t entities) : graph_(graph) {
  check();
  fill_tasks(entities);
  fill_successors();
}

std::span<const std::int32_t> Schedule::members(std::int32_t communicator) const {
  const auto group = static_cast<std::size_t>(communicator);
  const auto begin = static_cast<std::size_t>(graph_.comm_ptr[group]);
  return graph_.comm_ranks.subspan(begin, static_cast<std::size_t>(graph_.comm_ptr[group + 1]) - begin);
}

void Schedule::check() const {
  const std::size_t n = graph_.size();
  if (graph_.rank.size() != n || graph_.duration_ps.size() != n || graph_.stream.size() != n ||
      graph_.entity.size() != n || graph_.dep_ptr.size() != n + 1 || graph_.comm_ptr.empty()) {
    throw std::invalid_argument("graph columns differ in length");
  }
  if (n >= kNoTask / 2) throw std::invalid_argument("more than 2^31 tasks");
  if (graph_.dep_ptr.front() != 0 || graph_.dep_ptr.back() != static_cast<std::int64_t>(graph_.dep_idx.size()) ||
      !std::is_sorted(graph_.dep_ptr.begin(), graph_.dep_ptr.end())) {
    throw std::invalid_argument("dep_ptr does not span dep_idx");
  }
  if (graph_.comm_ptr.front() != 0 || graph_.comm_ptr.back() != static_cast<std::int64_t>(graph_.comm_ranks.size()) ||
      !std::is_sorted(graph_.comm_ptr.begin(), graph_.comm_ptr.end())) {
    throw std::invalid_argument("comm_ptr does not span comm_ranks");
  }
  check_members();
  check_contention();
  check_starts();
  check_keys();
}

void Schedule::check_starts() const {
  for (const auto& column : {graph_.release_ps, graph_.delay_ps}) {
    if (!column.empty() && column.size() != graph_.size()) throw std::invalid_argument("graph columns differ in length");
    for (std::size_t i = 0; i < column.size(); ++i) {
      if (column[i] < 0 || column[i] > kNever / 1024) refuse("release time or delay out of range", i);
    }
  }
  if (!graph_.need.empty() && graph_.need.size() != graph_.size()) {
    throw std::invalid_argument("graph columns differ in length");
  }
  for (std::size_t i = 0; i < graph_.need.size(); ++i) {
    const auto all = graph_.dep_ptr[i + 1] - graph_.dep_ptr[i];
    const bool some = all > 0 && graph_.stream[i] == kFreeStream;
    if (graph_.need[i] < (some ? 1 : all) || graph_.need[i] > all) refuse("need out of range", i);
  }
}

void Schedule::check_keys() const {
  const bool tasks = graph_.task_key.empty() || graph_.task_key.size() == graph_.size();
  const bool ranks = graph_.rank_key.empty() || graph_.rank_key.size() == static_cast<std::size_t>(graph_.ranks);
  if (!tasks || !ranks) throw std::invalid_argument("graph columns differ in length");
}

void Schedule::check_contention() const {
  if (graph_.loss_index.empty()) return;
  if (graph_.loss_index.size() != graph_.size()) throw std::invalid_argument("graph columns differ in length");
  if (graph_.contenders == 0 || graph_.loss.size() % graph_.contenders != 0) {
    throw std::invalid_argument("the table of losses is no table");
  }
  for (const double share : graph_.loss) {
    if (!(share >= 0 && share <= 1)) throw std::invalid_argument("a lost share of speed is from 0 to 1");
  }
  const std::size_t rows = graph_.loss.size() / graph_.contenders;
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    const bool computes = graph_.kind[i] == static_cast<std::uint8_t>(Kind::compute);
    if (graph_.loss_index[i] < -1 || graph_.loss_index[i] >= static_cast<std::int64_t>(computes ? rows : graph_.contenders)) {
      refuse("no such row or column of losses", i);
    }
  }
}

void Schedule::check_members() const {
  std::vector<std::uint32_t> seen(static_cast<std::size_t>(std::max(graph_.ranks, 0)), UINT32_MAX);
  for (std::uint32_t group = 0; group + 1 < graph_.comm_ptr.size(); ++group) {
    for (const std::int32_t rank : members(static_cast<std::int32_t>(group))) {
      if (rank < 0 || rank >= graph_.ranks) throw std::invalid_argument("member of a communicator out of range");
      auto& last = seen[static_cast<std::size_t>(rank)];
      if (last == group) throw std::invalid_argument("a rank twice in one communicator");
      last = group;
    }
  }
}

void Schedule::check_task(std::size_t i, std::size_t entities) const {
  const bool computes = graph_.kind[i] == static_cast<std::uint8_t>(Kind::compute);
  const bool collective = graph_.kind[i] == static_cast<std::uint8_t>(Kind::collective);
  const auto groups = static_cast<std::int32_t>(graph_.comm_ptr.size() - 1);
  if (graph_.kind[i] > static_cast<std::uint8_t>(Kind::store)) refuse("unknown kind", i);
  if (graph_.rank[i] < 0 || graph_.rank[i] >= (collective ? groups : graph_.ranks)) refuse("rank out of range", i);
  if (collective && members(graph_.rank[i]).empty()) refuse("communicator without members", i);
  if (computes && (graph_.duration_ps[i] < 0 || graph_.duration_ps[i] > kNever / 1024)) refuse("duration out of range", i);
  if (!computes && (graph_.entity[i] < 0 || static_cast<std::size_t>(graph_.entity[i]) >= entities)) {
    refuse("communication without an entity", i);
  }
}

void Schedule::fill_tasks(std::size_t entities) {
  const std::size_t n = graph_.size();
  if (entities >= Task::kComputation) throw std::invalid_argument("too many entities");
  tasks_.resize(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    check_task(i, entities);
    Task& task = tasks_[i];
    if (graph_.kind[i] == static_cast<std::uint8_t>(Kind::compute)) {
      task.start = graph_.duration_ps[i];
      task.rank = graph_.rank[i];
    } else {
      task.entity = static_cast<std::uint32_t>(graph_.entity[i]);
    }
  }
}

/// Calls `f(before, after)` for every edge, ordered by `after`. Tasks of the free stream have none from a forerunner.
template <class F>
void Schedule::for_each_edge(F&& f) const {
  const std::size_t streams = 1 + (graph_.stream.empty() ? 0u : *std::max_element(graph_.stream.begin(), graph_.stream.end()));
  std::vector<TaskId> last(static_cast<std::size_t>(graph_.ranks) * streams, kNoTask);
  const auto occupy = [&](std::int32_t rank, std::size_t i) {
    if (graph_.stream[i] == kFreeStream) return;
    TaskId& before = last[static_cast<std::size_t>(rank) * streams + graph_.stream[i]];
    if (before != kNoTask) f(before, static_cast<TaskId>(i));
    before = static_cast<TaskId>(i);
  };
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (graph_.kind[i] == static_cast<std::uint8_t>(Kind::collective)) {
      for (const std::int32_t rank : members(graph_.rank[i])) occupy(rank, i);
    } else {
      occupy(graph_.rank[i], i);
    }
    for (auto d = graph_.dep_ptr[i]; d < graph_.dep_ptr[i + 1]; ++d) {
      f(static_cast<TaskId>(graph_.dep_idx[static_cast<std::size_t>(d)]), static_cast<TaskId>(i));
    }
  }
}

void Schedule::fill_successors() {
  const std::size_t n = size();
  for (const std::int32_t dep : graph_.dep_idx) {
    if (dep < 0 || static_cast<std::size_t>(dep) >= n) throw std::invalid_argument("dependency out of range");
  }
  BigVector<std::uint32_t> next(n + 1, 0);
  for_each_edge([&](TaskId before, TaskId after) {
    ++next[before + 1];
    ++tasks_[after].waits;
  });
  accumulate(next);
  for (std::size_t i = 0; i <= n; ++i) tasks_[i].successors = next[i];
  successors_.resize(next[n]);
  for (std::size_t i = 0; i < graph_.need.size(); ++i) {
    if (graph_.stream[i] == kFreeStream) tasks_[i].waits = static_cast<std::uint32_t>(graph_.need[i]);
  }
  for_each_edge([&](TaskId before, TaskId after) { successors_[next[before]++] = after; });
}

std::vector<TaskId> find_cycle(const Schedule& schedule) {
  // Every unfinished task has an unfinished predecessor: walk backwards until a task comes up again.
  std::vector<TaskId> before(schedule.size(), kNoTask);
  TaskId id = kNoTask;
  for (TaskId i = 0; i < schedule.size(); ++i) {
    if (schedule[i].end >= 0) continue;
    for (const TaskId next : schedule.successors(i)) before[next] = i;
    id = i;
  }
  std::vector<std::uint32_t> place(schedule.size(), UINT32_MAX);
  std::vector<TaskId> walk;
  for (; id != kNoTask; id = before[id]) {
    if (place[id] != UINT32_MAX) {
      walk.erase(walk.begin(), walk.begin() + place[id]);
      return walk;
    }
    place[id] = static_cast<std::uint32_t>(walk.size());
    walk.push_back(id);
  }
  return {};
}

}  // namespace railyard
