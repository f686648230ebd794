#include "measure/decompose.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "flow/columns.hpp"

namespace railyard::measure {
namespace {

constexpr std::int64_t kNone = -1;
constexpr std::int64_t kStepEnd = -2;  // the barrier between this step and the next, in place of a communication
constexpr std::size_t kPipeline = 1;

std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

/// A wait of a rank that is being followed.
struct Wait {
  std::int64_t rank, low_ps, high_ps;  // from `high_ps` on everything is charged
  std::int64_t task;                   // whose start at `high_ps` is to be explained
  std::int64_t via;                    // the communication that passed the wait on, `kStepEnd` or `kNone`
  bool left = false;                   // whether the chain has left the stage of the rank
};

/// What of a wait is for a member that still computed when it was due.
struct Late {
  std::int64_t task = kNone, via = kNone, owed_ps = 0;
};

void check(const StepColumns& step, const LabelColumns& labels) {
  const std::size_t n = step.kind.size(), ranks = step.stage.size();
  const bool lengths =
      step.place.size() == n && step.rank.size() == n && step.label.size() == n && step.blocker.size() == n &&
      step.start_ps.size() == n && step.end_ps.size() == n && step.duration_ps.size() == n &&
      step.alone_ps.size() == n && step.latency_ps.size() == n &&
      (step.slowed_ps.empty() || step.slowed_ps.size() == n) && (step.timed.empty() || step.timed.size() == n) &&
      !step.comm_ptr.empty() && step.comm_ptr.front() == 0 && at(step.comm_ptr.back()) == step.comm_ranks.size() &&
      std::is_sorted(step.comm_ptr.begin(), step.comm_ptr.end()) && labels.group.size() == labels.phase.size() &&
      labels.data.size() == labels.phase.size() && labels.checkpoint.size() == labels.phase.size();
  if (!lengths) throw std::invalid_argument("columns of a step have different lengths");
  const auto below = [](std::int64_t number, std::size_t end) { return number >= 0 && at(number) < end; };
  bool known = std::all_of(step.comm_ranks.begin(), step.comm_ranks.end(), [&](auto r) { return below(r, ranks); });
  for (std::size_t l = 0; l < labels.phase.size(); ++l)
    known &= below(labels.phase[l], labels.phases) && below(labels.group[l], labels.groups);
  for (std::size_t t = 0; t < n; ++t)
    known &= below(step.rank[t], Kind{step.kind[t]} == Kind::collective ? step.comm_ptr.size() - 1 : ranks) &&
             below(step.label[t], labels.phase.size()) && (step.blocker[t] < 0 || below(step.blocker[t], n));
  if (!known || labels.groups <= kPipeline) throw std::invalid_argument("a step names what is not there");
}

class Decomposer {
 public:
  Decomposer(const StepColumns& step, const LabelColumns& labels)
      : step_(step), labels_(labels), members_(step.comm_ranks.begin(), step.comm_ranks.end()) {
    for (std::size_t c = 0; c + 1 < step.comm_ptr.size(); ++c)
      std::sort(members_.begin() + step.comm_ptr[c], members_.begin() + step.comm_ptr[c + 1]);
    found_.cells_ps.assign(kCauses * labels.groups * labels.phases, 0);
    found_.by_rank_ps.assign(kCauses * step.stage.size(), 0);
    found_.waited_for_ps.assign(step.stage.size(), 0);
    found_.straggled.assign(step.kind.size(), 0);
  }

  Charges run() {
    const bool overlapping = std::find(step_.place.begin(), step_.place.end(),
                                       static_cast<std::uint8_t>(Place::overlapping)) != step_.place.end();
    list();
    const std::vector<std::int64_t> last = last_tasks();
    const auto latest = std::max_element(step_.end_ps.begin(), step_.end_ps.end());
    for (std::size_t rank = 0; rank < step_.stage.size() && !found_.cycle; ++rank) {
      const std::span<std::int32_t> tasks(tasks_.data() + ptr_[rank], tasks_.data() + ptr_[rank + 1]);
      if (overlapping)
        std::stable_sort(tasks.begin(), tasks.end(), [&](auto a, auto b) { return start(a) < start(b); });
      const auto own = static_cast<std::int64_t>(rank);
      std::int64_t free_ps = 0;
      for (const std::int64_t task : tasks) {
        if (!overlapping && start(task) < free_ps) {
          found_.overlap = {own, task, free_ps};
          return std::move(found_);
        }
        ran(own, task, std::max<std::int64_t>(end(task) - std::max(start(task), free_ps), 0));
        if (start(task) > free_ps) before({own, free_ps, start(task), task, is_collective(task) ? task : kNone});
        free_ps = overlapping ? std::max(free_ps, end(task)) : end(task);
      }
      if (latest == step_.end_ps.end()) continue;
      const std::int64_t own_end = last[rank] >= 0 ? end(last[rank]) : 0;
      if (own_end > free_ps) until({own, free_ps, own_end, last[rank], kNone});
      free_ps = std::max(free_ps, own_end);
      if (free_ps < *latest) until({own, free_ps, *latest, latest - step_.end_ps.begin(), kStepEnd});
    }
    return std::move(found_);
  }

 private:
  std::int64_t start(std::int64_t task) const { return step_.start_ps[at(task)]; }
  std::int64_t end(std::int64_t task) const { return step_.end_ps[at(task)]; }
  std::int64_t blocker(std::int64_t task) const { return step_.blocker[at(task)]; }
  std::size_t label(std::int64_t task) const { return at(step_.label[at(task)]); }
  Kind kind(std::int64_t task) const { return Kind{step_.kind[at(task)]}; }
  bool is_collective(std::int64_t task) const { return kind(task) == Kind::collective; }
  std::span<const std::int32_t> members(std::int64_t communicator, std::span<const std::int32_t> ranks) const {
    const std::int64_t first = step_.comm_ptr[at(communicator)];
    return ranks.subspan(at(first), at(step_.comm_ptr[at(communicator) + 1] - first));
  }

  /// Ranks whose streams a task occupies.
  template <class F>
  void for_ranks(std::size_t task, const F& found) const {
    if (Kind{step_.kind[task]} != Kind::collective) return found(at(step_.rank[task]));
    for (const std::int32_t rank : members(step_.rank[task], step_.comm_ranks)) found(at(rank));
  }

  /// The tasks on the compute stream of each rank, ascending.
  void list() {
    ptr_.assign(step_.stage.size() + 2, 0);
    const auto for_all = [&](const auto& found) {
      for (std::size_t t = 0; t < step_.kind.size(); ++t)
        if (Place{step_.place[t]} != Place::elsewhere) for_ranks(t, [&](std::size_t rank) { found(rank, t); });
    };
    for_all([&](std::size_t rank, std::size_t) { ++ptr_[rank + 2]; });
    std::partial_sum(ptr_.begin(), ptr_.end(), ptr_.begin());
    tasks_.resize(ptr_.back());
    for_all([&](std::size_t rank, std::size_t t) { tasks_[ptr_[rank + 1]++] = static_cast<std::int32_t>(t); });
  }

  /// The task of each rank that ends last on any of its streams: of equal ones the last, no collective if there is
  /// another; `kNone` for a rank without tasks.
  std::vector<std::int64_t> last_tasks() const {
    const auto later = [&](std::int64_t task, std::int64_t than) { return than < 0 || end(task) >= end(than); };
    std::vector<std::int64_t> last(step_.stage.size(), kNone), shared = last;
    std::vector<std::int64_t> of_group(step_.comm_ptr.size() - 1, kNone);
    for (std::size_t t = 0; t < step_.kind.size(); ++t) {
      const auto task = static_cast<std::int64_t>(t);
      if (end(task) < 0) continue;
      std::int64_t& known = is_collective(task) ? of_group[at(step_.rank[t])] : last[at(step_.rank[t])];
      if (later(task, known)) known = task;
    }
    for (const std::int64_t task : of_group)
      if (task >= 0)
        for_ranks(at(task), [&](std::size_t rank) {
          if (later(task, shared[rank])) shared[rank] = task;
        });
    for (std::size_t rank = 0; rank < last.size(); ++rank)
      if (shared[rank] >= 0 && (last[rank] < 0 || end(shared[rank]) > end(last[rank]))) last[rank] = shared[rank];
    return last;
  }

  /// Transfers, collectives, loads and stores, except those that feed or save a step: these wait for storage.
  bool communicates(std::int64_t task) const {
    switch (kind(task)) {
      case Kind::transfer:
      case Kind::collective:
      case Kind::load:
      case Kind::store:
        return !labels_.data[label(task)] && !labels_.checkpoint[label(task)];
      default:
        return false;
    }
  }

  /// Data or checkpoint depending on the task, else `otherwise`.
  Cause local_cause(std::int64_t task, Cause otherwise) const {
    const bool saves = labels_.checkpoint[label(task)] != 0;
    if (labels_.data[label(task)] || (kind(task) == Kind::read && !saves)) return Cause::data;
    return saves || kind(task) == Kind::write ? Cause::checkpoint : otherwise;
  }

  std::size_t group_of(std::int64_t via) const { return via >= 0 ? at(labels_.group[label(via)]) : 0; }

  /// Whether a task runs on a rank of another pipeline stage.
  bool elsewhere(std::int64_t task, std::int64_t rank) const {
    return !is_collective(task) && step_.stage[at(step_.rank[at(task)])] != step_.stage[at(rank)];
  }

  void book(std::int64_t rank, Cause cause, std::int64_t task, std::size_t group, std::int64_t amount_ps) {
    const auto number = static_cast<std::size_t>(cause);
    const std::size_t cell = (number * labels_.groups + group) * labels_.phases + at(labels_.phase[label(task)]);
    found_.cells_ps[cell] += amount_ps;
    found_.by_rank_ps[at(rank) * kCauses + number] += amount_ps;
  }

  /// A task on the rank's own compute stream.
  void ran(std::int64_t rank, std::int64_t task, std::int64_t amount_ps) {
    if (communicates(task)) return crossed(rank, task, amount_ps);
    book(rank, local_cause(task, Cause::compute), task, 0, amount_ps);
  }

  /// The exposed part of a communication.
  void crossed(std::int64_t rank, std::int64_t task, std::int64_t amount_ps) {
    const std::int64_t duration = end(task) - start(task);
    const std::int64_t latency = std::min(step_.latency_ps[at(task)], duration);
    const std::int64_t alone = std::min(std::max(step_.alone_ps[at(task)], latency), duration);
    const std::int64_t contention = std::min(amount_ps, duration - alone), rest = amount_ps - contention;
    const double share = alone > 0 ? static_cast<double>(latency) / static_cast<double>(alone) : 1.0;
    const std::int64_t waited = std::min(static_cast<std::int64_t>(static_cast<double>(rest) * share), rest);
    const std::size_t group = group_of(task);
    book(rank, Cause::latency, task, group, waited);
    book(rank, Cause::bandwidth, task, group, rest - waited);
    book(rank, Cause::contention, task, group, contention);
  }

  /// A wait with a known cause; for stragglers, the rank of `task` is the one waited for.
  void late(std::int64_t rank, Cause cause, std::int64_t task, std::int64_t via, std::int64_t amount_ps) {
    cause = local_cause(task, cause);
    book(rank, cause, task, cause == Cause::bubble ? kPipeline : group_of(via), amount_ps);
    if (cause != Cause::straggler || is_collective(task)) return;
    found_.waited_for_ps[at(step_.rank[at(task)])] += amount_ps;
    if (via >= 0) found_.straggled[at(via)] = 1;
  }

  /// Charges a wait that ends with the start of `wait.task`.
  void before(Wait wait) {
    Late found;
    follow(wait, found);
    explain(wait, found);
  }

  /// Charges a wait that ends with the end of `wait.task`.
  void until(Wait wait) {
    Late found;
    step_into(wait, found);
    follow(wait, found);
    explain(wait, found);
  }

  void follow(Wait& wait, Late& found) {
    for (std::size_t steps = 0; wait.high_ps > wait.low_ps; ++steps) {
      if (steps > step_.kind.size()) return void(found_.cycle = true);
      const std::int64_t next = blocker(wait.task);
      const std::int64_t released = next >= 0 ? end(next) : 0;
      delayed(wait, std::min(std::max(released, wait.low_ps), wait.high_ps));
      if (next < 0) return;
      wait.task = next;
      if (wait.high_ps > wait.low_ps) step_into(wait, found);
    }
  }

  /// Charges the time between the end of a blocker and the start that it released, if an engine left any.
  void delayed(Wait& wait, std::int64_t released_ps) {
    if (wait.high_ps <= released_ps) return;
    Cause cause = wait.left ? Cause::bubble : Cause::straggler;
    if (wait.via == kNone) cause = Cause::fault;
    if (!step_.timed.empty() && step_.timed[at(wait.task)]) cause = Cause::release;
    late(wait.rank, cause, wait.task, wait.via, wait.high_ps - released_ps);
    wait.high_ps = released_ps;
  }

  /// Charges `wait.task` from its start, or the start of the wait, to `high_ps`, and moves `high_ps` there.
  void step_into(Wait& wait, Late& found) {
    const std::int64_t task = wait.task, from = std::min(std::max(start(task), wait.low_ps), wait.high_ps);
    const std::int64_t amount = wait.high_ps - from;
    wait.left |= elsewhere(task, wait.rank);
    wait.high_ps = from;
    if (communicates(task)) {
      crossed(wait.rank, task, amount);
      if (wait.via == kNone) wait.via = task;
    } else if (kind(task) == Kind::compute && local_cause(task, Cause::compute) == Cause::compute && !wait.left &&
               wait.via != kNone) {
      if (found.task < 0) found = {task, wait.via, 0};
      found.owed_ps += amount;
    } else {
      const Cause cause = local_cause(task, wait.via == kNone ? Cause::dependency : Cause::bubble);
      book(wait.rank, cause, task, cause == Cause::bubble ? kPipeline : group_of(wait.via), amount);
    }
  }

  /// Finds out why a member was late, and charges all that is owed.
  void explain(const Wait& wait, const Late& found) {
    bool left = false;
    std::int64_t owed = found.owed_ps, task = found.task;
    const auto take = [&](std::int64_t amount_ps, bool network) {
      amount_ps = std::min(std::max<std::int64_t>(amount_ps, 0), owed);
      if (amount_ps == 0) return;
      late(wait.rank, network ? Cause::contention : Cause::straggler, task, network ? task : found.via, amount_ps);
      owed -= amount_ps;
    };
    for (std::size_t steps = 0; owed > 0; ++steps) {
      if (steps > step_.kind.size()) return void(found_.cycle = true);
      if (task < 0 || took_part(task, wait.rank))
        return late(wait.rank, left ? Cause::bubble : Cause::straggler, found.task, found.via, owed);
      left |= elsewhere(task, wait.rank);
      const bool computing = kind(task) == Kind::compute;
      if (computing || end(task) <= wait.low_ps) take(end(task) - start(task) - expected(task), communicates(task));
      const std::int64_t next = blocker(task);
      if (!is_collective(task)) take(start(task) - (next >= 0 ? end(next) : 0), false);
      task = next;
    }
  }

  /// How long a computation takes on a nominal accelerator, a communication with the network to itself.
  std::int64_t expected(std::int64_t task) const {
    if (kind(task) != Kind::compute) return step_.alone_ps[at(task)];
    return step_.duration_ps[at(task)] + (step_.slowed_ps.empty() ? 0 : step_.slowed_ps[at(task)]);
  }

  bool took_part(std::int64_t task, std::int64_t rank) const {
    if (!is_collective(task)) return false;
    const auto ranks = members(step_.rank[at(task)], members_);
    return std::binary_search(ranks.begin(), ranks.end(), static_cast<std::int32_t>(rank));
  }

  const StepColumns& step_;
  const LabelColumns& labels_;
  std::vector<std::int32_t> members_;  // of each communicator, ascending
  std::vector<std::size_t> ptr_;       // tasks of rank r: `tasks_[ptr_[r]..ptr_[r+1]]`
  std::vector<std::int32_t> tasks_;
  Charges found_;
};

}  // namespace

Charges decompose(const StepColumns& step, const LabelColumns& labels) {
  check(step, labels);
  return Decomposer(step, labels).run();
}

}  // namespace railyard::measure
