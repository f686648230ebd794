#include "flow/stretches.hpp"

#include <algorithm>
#include <bit>
#include <compare>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/random.hpp"
#include "core/time.hpp"

namespace railyard {

namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

/// Numbers things by first appearance; equal things get the same number.
class Numbering {
 public:
  /// The number of a thing with this hash; `same(n)` says whether it equals the thing numbered n.
  template <class Same>
  std::uint32_t find(std::uint64_t hash, const Same& same) {
    std::vector<std::uint32_t>& known = known_[hash];
    for (const std::uint32_t number : known) {
      if (same(number)) return number;
    }
    known.push_back(count_);
    return count_++;
  }
  std::uint32_t count() const { return count_; }

 private:
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> known_;  ///< Looked up, never walked.
  std::uint32_t count_ = 0;
};

/// A run starts or ends.
struct Event {
  Ps at;
  std::uint32_t run;  ///< 2 x the number of the run, + 1 for its end.
  std::uint32_t group;
};

/// The different sequences of runs that entities have, each as sorted events.
class Timelines {
 public:
  Timelines(const UseColumns& uses, const SpanColumns& spans) : spans_(spans), of_(spans.ptr.size() - 1, kNone) {
    Numbering numbering;
    for (const std::int64_t e : uses.entity) {
      const auto entity = static_cast<std::size_t>(e);
      if (of_[entity] != kNone || spans.ptr[entity] == spans.ptr[entity + 1]) continue;
      of_[entity] = numbering.find(hash(entity), [&](std::uint32_t n) { return same(entity, entity_[n]); });
      if (of_[entity] == entity_.size()) add(entity);
    }
  }

  /// kNone for an entity that never runs.
  std::uint32_t of(std::int64_t entity) const { return of_[static_cast<std::size_t>(entity)]; }
  std::span<const Event> events(std::uint32_t timeline) const {
    return {events_.data() + ptr_[timeline], events_.data() + ptr_[timeline + 1]};
  }
  std::size_t runs(std::uint32_t timeline) const { return (ptr_[timeline + 1] - ptr_[timeline]) / 2; }

 private:
  std::span<const std::int64_t> part(std::span<const std::int64_t> column, std::size_t entity) const {
    const auto first = static_cast<std::size_t>(spans_.ptr[entity]);
    return column.subspan(first, static_cast<std::size_t>(spans_.ptr[entity + 1]) - first);
  }
  std::uint64_t hash(std::size_t entity) const {
    std::uint64_t found = 0;
    for (const std::int64_t ps : part(spans_.start_ps, entity)) found = mix(found ^ static_cast<std::uint64_t>(ps));
    for (const std::int64_t ps : part(spans_.end_ps, entity)) found = mix(found ^ static_cast<std::uint64_t>(ps));
    return found;
  }
  bool same(std::size_t a, std::size_t b) const {
    return std::ranges::equal(part(spans_.start_ps, a), part(spans_.start_ps, b)) &&
           std::ranges::equal(part(spans_.end_ps, a), part(spans_.end_ps, b));
  }
  void add(std::size_t entity) {
    entity_.push_back(entity);
    const auto start = part(spans_.start_ps, entity), end = part(spans_.end_ps, entity);
    for (std::uint32_t run = 0; run < start.size(); ++run) {
      events_.push_back({start[run], 2 * run, 0});
      events_.push_back({end[run], 2 * run + 1, 0});
    }
    std::sort(events_.begin() + static_cast<std::ptrdiff_t>(ptr_.back()), events_.end(),
              [](const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.run < b.run; });
    ptr_.push_back(events_.size());
  }

  const SpanColumns& spans_;
  std::vector<std::uint32_t> of_;    ///< By entity.
  std::vector<std::size_t> entity_;  ///< The first entity of each timeline.
  std::vector<std::size_t> ptr_{0};
  std::vector<Event> events_;
};

/// Users of a link that run at the same times and ask for the same.
struct Group {
  std::uint32_t timeline;
  double demand, weight;  ///< Of each user.
  double users = 1;

  auto operator<=>(const Group&) const = default;
  std::uint64_t hash() const {
    return mix(mix(mix(timeline ^ std::bit_cast<std::uint64_t>(users)) ^ std::bit_cast<std::uint64_t>(demand)) ^
               std::bit_cast<std::uint64_t>(weight));
  }
};

/// The different sets of users that links have.
class Patterns {
 public:
  Patterns(const UseColumns& uses, const Timelines& timelines) : group_(uses.size(), kNone) {
    Numbering numbering;
    for (std::size_t begin = 0, end = 0; begin < uses.size(); begin = end) {
      while (end < uses.size() && uses.link[end] == uses.link[begin]) ++end;
      const std::vector<Group> groups = gather(uses, timelines, begin, end);
      std::uint64_t hash = 0;
      for (const Group& group : groups) hash = mix(hash ^ group.hash());
      const std::uint32_t pattern =
          numbering.find(hash, [&](std::uint32_t n) { return std::ranges::equal(groups, this->groups(n)); });
      if (pattern == links_.size()) {
        groups_.insert(groups_.end(), groups.begin(), groups.end());
        ptr_.push_back(groups_.size());
        links_.emplace_back();
      }
      links_[pattern].emplace_back(begin, end);
    }
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(links_.size()); }
  std::span<const Group> groups(std::uint32_t pattern) const {
    return {groups_.data() + ptr_[pattern], groups_.data() + ptr_[pattern + 1]};
  }
  /// Rows of uses of each of its links: from, to.
  const std::vector<std::pair<std::size_t, std::size_t>>& links(std::uint32_t pattern) const { return links_[pattern]; }
  /// The group of a row of uses on its link; kNone for an entity that never runs.
  std::uint32_t group(std::size_t use) const { return group_[use]; }

 private:
  std::vector<Group> gather(const UseColumns& uses, const Timelines& timelines, std::size_t begin, std::size_t end) {
    order_.clear();
    for (std::size_t use = begin; use < end; ++use) {
      const std::uint32_t timeline = timelines.of(uses.entity[use]);
      if (timeline != kNone) order_.push_back({{timeline, uses.demand[use], uses.weight[use]}, use});
    }
    std::sort(order_.begin(), order_.end());
    std::vector<Group> groups;
    for (const auto& [user, use] : order_) {
      if (!groups.empty() && groups.back().timeline == user.timeline && groups.back().demand == user.demand &&
          groups.back().weight == user.weight) {
        groups.back().users += 1;
      } else {
        groups.push_back(user);
      }
      group_[use] = static_cast<std::uint32_t>(groups.size()) - 1;
    }
    return groups;
  }

  std::vector<std::uint32_t> group_;
  std::vector<Group> groups_;
  std::vector<std::size_t> ptr_{0};
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> links_;
  std::vector<std::pair<Group, std::size_t>> order_;  ///< Kept to spare allocations.
};

/// A sum that keeps what rounding would take (Knuth's two-sum).
/// WHY: a run of a microsecond is the difference of two integrals over a minute.
struct Sum {
  double high = 0, low = 0;

  void add(double term) {
    const double sum = high + term, added = sum - high;
    low += (high - (sum - added)) + (term - added);
    high = sum;
  }
  double since(const Sum& before) const { return (high - before.high) + (low - before.low); }
};

/// The runs on one link in the order of time.
class Sweep {
 public:
  Sweep(const Timelines& timelines, bool slowed, const SharingLaw& law)
      : timelines_(timelines), slowed_(slowed), law_(law) {}

  /// Whether anybody is slowed on a link with these users.
  bool run(std::span<const Group> groups) {
    groups_ = groups;
    merge();
    if (!find_satisfied()) return false;
    find_slowdowns();
    return true;
  }
  /// Of each run of a group.
  std::span<const double> slowdowns(std::uint32_t group) const {
    return {slowdown_.data() + first_run_[group], slowdown_.data() + first_run_[group + 1]};
  }

 private:
  /// Merges the groups' events pair by pair.
  void merge() {
    events_.clear();
    first_run_.assign(1, 0);
    std::vector<std::size_t> cuts{0};
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
      const std::size_t first = first_run_.back(), runs = timelines_.runs(groups_[g].timeline);
      if (first + runs > kNone / 2) throw std::invalid_argument("a link has more than 2^31 runs");
      for (const Event& event : timelines_.events(groups_[g].timeline))
        events_.push_back({event.at, event.run + static_cast<std::uint32_t>(2 * first), g});
      first_run_.push_back(first + runs);
      cuts.push_back(events_.size());
    }
    merged_.resize(events_.size());
    while (cuts.size() > 2) {
      std::vector<std::size_t> fewer{0};
      for (std::size_t i = 0; i + 1 < cuts.size(); i += 2) {
        const std::size_t last = std::min(i + 2, cuts.size() - 1);
        merge(cuts[i], cuts[i + 1], cuts[last]);
        fewer.push_back(cuts[last]);
      }
      cuts = std::move(fewer);
      events_.swap(merged_);
    }
  }
  void merge(std::size_t begin, std::size_t middle, std::size_t end) {
    const Event *a = events_.data() + begin, *b = events_.data() + middle;
    const Event *const a_end = b, *const b_end = events_.data() + end;
    Event* out = merged_.data() + begin;
    while (a != a_end && b != b_end) {
      const bool second = b->at < a->at;
      *out++ = *(second ? b : a);
      a += !second;
      b += second;
    }
    std::copy(b, b_end, std::copy(a, a_end, out));
  }

  /// Who asks for no more than its fair share, and whether the link is ever asked for more than it has.
  bool find_satisfied() {
    begun_.resize(first_run_.back());
    satisfied_.resize(first_run_.back());
    double level = 0, demand = 0, most = 0;
    Sum area;
    std::int64_t running = 0;
    Ps now = 0;
    for (const Event& event : events_) {
      const Group& group = groups_[event.group];
      area.add(level * static_cast<double>(event.at - now));
      now = event.at;
      const std::size_t run = event.run / 2;
      const double sign = event.run % 2 == 0 ? group.users : -group.users;
      level += sign * group.weight;
      demand += sign * group.demand;
      running += event.run % 2 == 0 ? 1 : -1;
      if (event.run % 2 == 0) {
        begun_[run] = {area, now};
        most = std::max(most, demand);
      } else {
        const double mean = area.since(begun_[run].area) / static_cast<double>(now - begun_[run].at);
        const double fair = group.weight / std::max(mean, group.weight);
        satisfied_[run] = group.demand <= fair * (1 + law_.rounding);
      }
      if (running == 0) level = demand = 0;  // what rounding has left
    }
    return most > 1;
  }

  void find_slowdowns() {
    slowdown_.resize(first_run_.back());
    double demand = 0, satisfied_demand = 0;
    Sum area;
    std::int64_t running = 0;
    Ps now = 0;
    for (const Event& event : events_) {
      const Group& group = groups_[event.group];
      const std::size_t run = event.run / 2;
      if (event.at != now) area.add(share(demand, satisfied_demand) * static_cast<double>(event.at - now));
      now = event.at;
      double& asked = satisfied_[run] ? satisfied_demand : demand;
      asked = std::max(asked + (event.run % 2 == 0 ? group.users : -group.users) * group.demand, 0.0);
      running += event.run % 2 == 0 ? 1 : -1;
      if (event.run % 2 == 0) {
        begun_[run] = {area, now};
      } else {
        const double mean = area.since(begun_[run].area) / static_cast<double>(now - begun_[run].at);
        slowdown_[run] = satisfied_[run] ? 1.0 : std::max(slowed_ ? 1.0 / mean : mean, 1.0);
      }
      if (running == 0) demand = satisfied_demand = 0;
    }
  }
  /// What is averaged: a slowdown, or the speed that it leaves.
  double share(double demand, double satisfied_demand) const {
    const double needed = demand / std::max(1.0 - satisfied_demand, law_.least);
    const double slowdown = needed > 1.0 + law_.rounding ? needed : 1.0;
    return slowed_ ? 1.0 / slowdown : slowdown;
  }

  struct Begun {
    Sum area;  ///< The integral up to the start of a run ...
    Ps at;     ///< ... and that start.
  };
  const Timelines& timelines_;
  bool slowed_;
  SharingLaw law_;
  std::span<const Group> groups_;
  std::vector<std::size_t> first_run_;  ///< Of each group; all runs are numbered through.
  std::vector<Event> events_, merged_;
  std::vector<Begun> begun_;
  std::vector<std::uint8_t> satisfied_;
  std::vector<double> slowdown_;
};

void check(const UseColumns& uses, const SpanColumns& spans) {
  const std::size_t n = uses.size();
  if (uses.entity.size() != n || uses.demand.size() != n || uses.weight.size() != n)
    throw std::invalid_argument("columns of uses differ in length");
  if (!std::ranges::is_sorted(uses.link)) throw std::invalid_argument("uses are not sorted by link");
  const auto runs = static_cast<std::int64_t>(spans.start_ps.size());
  if (spans.ptr.empty() || spans.ptr.front() != 0 || spans.ptr.back() != runs || !std::ranges::is_sorted(spans.ptr))
    throw std::invalid_argument("the pointer of spans does not fit them");
  if (spans.end_ps.size() != spans.start_ps.size() || runs > kNone / 2)
    throw std::invalid_argument("starts and ends of spans differ in number, or are more than 2^31");
  for (std::size_t run = 0; run < spans.start_ps.size(); ++run) {
    if (spans.end_ps[run] <= spans.start_ps[run]) throw std::invalid_argument("a span ends before it has begun");
  }
  const auto entities = static_cast<std::int64_t>(spans.ptr.size()) - 1;
  for (const std::int64_t entity : uses.entity) {
    if (entity < 0 || entity >= entities) throw std::invalid_argument("a use is of no entity");
  }
}

/// How much the worst link of each run slows it.
std::vector<double> worst_slowdowns(const UseColumns& uses, const SpanColumns& spans, bool slowed,
                                    const SharingLaw& law) {
  const Timelines timelines(uses, spans);
  const Patterns patterns(uses, timelines);
  Sweep sweep(timelines, slowed, law);
  std::vector<double> worst(spans.start_ps.size(), 1.0);
  for (std::uint32_t pattern = 0; pattern < patterns.size(); ++pattern) {
    if (!sweep.run(patterns.groups(pattern))) continue;
    for (const auto& [begin, end] : patterns.links(pattern)) {
      for (std::size_t use = begin; use < end; ++use) {
        if (patterns.group(use) == kNone) continue;
        double* run = worst.data() + spans.ptr[static_cast<std::size_t>(uses.entity[use])];
        for (const double slowdown : sweep.slowdowns(patterns.group(use))) {
          *run = std::max(*run, slowdown);
          ++run;
        }
      }
    }
  }
  return worst;
}

}  // namespace

std::vector<double> stretches(const UseColumns& uses, const SpanColumns& spans, bool slowed, const SharingLaw& law) {
  check(uses, spans);
  const std::vector<double> worst = worst_slowdowns(uses, spans, slowed, law);
  std::vector<double> found(spans.ptr.size() - 1, 1.0);
  for (std::size_t entity = 0; entity < found.size(); ++entity) {
    double time = 0, work = 0;
    for (auto i = static_cast<std::size_t>(spans.ptr[entity]); i < static_cast<std::size_t>(spans.ptr[entity + 1]); ++i) {
      const auto length = static_cast<double>(spans.end_ps[i] - spans.start_ps[i]);
      time += slowed ? length : length * worst[i];
      work += slowed ? length / worst[i] : length;
    }
    if (time > work * (1 + law.rounding)) found[entity] = time / work;
  }
  return found;
}

}  // namespace railyard
