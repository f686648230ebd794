#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/big_vector.hpp"
#include "flow/columns.hpp"
#include "flow/link.hpp"

namespace railyard {

using FlowId = std::uint32_t;
inline constexpr std::uint32_t kUnbound = UINT32_MAX;

/// An entity that is flowing now.
struct alignas(64) Flow {
  double rate = 0;   ///< Bits of volume per second.
  double level = 0;  ///< rate / weight: what is made as equal as the links allow.
  double weight = 1;
  double max_rate = 0;                   ///< With the network to itself.
  std::uint32_t entity = 0;              ///< Row of EntityColumns.
  std::uint32_t bottleneck = kUnbound;   ///< The link that holds it back.
  std::uint32_t epoch = 0;               ///< Group that it last was a member of ...
  std::uint32_t member = 0;              ///< ... and its number there.
  std::uint32_t wide = 0;                ///< 1 + index of its list of binding links, when it has many links.
  bool active = false;
  bool dirty = false;    ///< Its rate is to be found by the next settle().
  bool changed = false;  ///< Listed in changes().
};

/// Throws std::invalid_argument when entities and links do not fit together.
void check_entities(const EntityColumns& entities, std::span<const double> capacity_bps);

/// A flow whose rate a settle() has changed.
struct RateChange {
  FlowId flow;
  double old_rate;
};

/// Weighted max-min fair rates, kept exact while flows come and go, touching only what an event touches.
///
/// A link can hold somebody back only if its flows together could ask for more than its capacity (Link::may_bind); flows
/// meet only on such links. When flows come or go, a *group* of flows is taken out of the allocation and filled again
/// into what the others leave; then the two conditions that define the max-min allocation are checked on the group's
/// links (everybody is at his own maximum, or is on a full link on which nobody has a higher level), whoever breaks them
/// joins the group, and it is filled again. The allocation that satisfies the conditions is unique, so stopping when
/// nobody breaks them is exact.
///
/// A flow over a thousand links (a collective) must not cost a thousand steps whenever one neighbour comes or goes: such
/// a *wide* flow has a list of those of its links that may bind, and no link keeps a sum of rates.
class Sharing {
 public:
  /// Flows meet only on links whose flag in `crowded` is set; on the others each has the network to itself.
  /// Throws std::invalid_argument when the columns do not fit together.
  Sharing(std::span<const double> capacity_bps, const EntityColumns& entities, std::span<const std::uint8_t> crowded);

  /// The rate of an entity with the network to itself, in bits of volume per second.
  double alone_rate(std::uint32_t entity) const { return rows_[entity].alone_rate; }
  /// The rate that one more flow of the entity would have now, if all flows on its links but `except` took no more than
  /// they do: what none of its links takes away. Rates must be settled.
  double free_rate(std::uint32_t entity, FlowId except = kUnbound) const;

  /// Starts a flow: at its own maximum when no link of it may bind, else dirty and without a rate until settle().
  FlowId add(std::uint32_t entity) { return add(entity, rows_[entity].alone_rate); }
  /// A flow that asks for no more than `most`, which is positive.
  FlowId add(std::uint32_t entity, double most);
  void remove(FlowId flow);
  /// Notes which entities use some links, whose capacities may change. Called once, before set_capacities().
  void watch(std::span<const std::uint32_t> links);
  /// New capacities of watched links; the flows on them are dirty afterwards. Returns the entities that use them.
  std::vector<std::uint32_t> set_capacities(std::span<const std::uint32_t> links, std::span<const double> capacity_bps);

  /// Finds the rates of all that additions, removals and new capacities have touched.
  void settle();
  bool unsettled() const { return !dirty_.empty() || !touched_.empty(); }
  /// Who got another rate since the last clear_changes().
  std::span<const RateChange> changes() const { return changes_; }
  void clear_changes();

  const Flow& flow(FlowId id) const { return flows_[id]; }
  const LinkTable& links() const { return links_; }

  /// The three steps of asking for what add() and remove() will read.
  void prefetch_row(std::uint32_t entity) const { __builtin_prefetch(&rows_[entity]); }
  void prefetch_pairs(std::uint32_t entity) const { __builtin_prefetch(pairs_.data() + rows_[entity].begin); }
  void prefetch_links(std::uint32_t entity) const {
    const Row& row = rows_[entity];
    const std::uint32_t end = row.end < row.begin + kPrefetched ? row.end : row.begin + kPrefetched;
    for (std::uint32_t k = row.begin; k < end; ++k) __builtin_prefetch(&links_[pairs_[k].link]);
  }

  /// Work done so far: groups filled, rounds of filling, (flow, link) pairs met in them.
  struct Effort {
    std::uint64_t groups = 0, rounds = 0, pairs = 0;
  };
  const Effort& effort() const { return effort_; }

 private:
  /// What of an entity is read when one of its flows comes or goes.
  struct Row {
    double alone_rate = 0;
    double weight = 1;
    std::uint32_t begin = 0, end = 0;  ///< Of its pairs; empty when flows do not meet.
  };
  /// A link of an entity. WHY a number for its share: millions of pairs have a handful of different shares.
  struct Pair {
    std::uint32_t link;
    std::uint32_t share;  ///< Into shares_.
  };
  struct Member {
    FlowId flow;
    std::uint32_t edges_begin, edges_end;  ///< Into edges_.
    std::uint32_t bottleneck;
    double rate, level;
    bool frozen;
    bool fills_a_link;  ///< Alone, with its own maximum.
  };
  struct Edge {
    std::uint32_t local;
    double coefficient;  ///< Quanta per bit/s.
  };
  struct LocalLink {
    std::uint32_t link;
    std::uint32_t members;  ///< Of the group, on this link.
    std::uint32_t unfrozen;
    double outside;  ///< Quanta that flows outside the group take ...
    double wanted;   ///< ... and that its members would take at their own maxima.
    double full_weight;
    double room, weight;  ///< Quanta left for, and coefficients x weights of, those not yet frozen.
    double level, top;    ///< At which it froze flows (-1: never); highest level of any member on it.
  };
  struct Candidate {
    double level;
    std::uint32_t what;  ///< Local link, or kMemberBit | member for the member's own maximum.
    bool operator<(const Candidate& other) const {  // for a heap with the least level on top
      return level != other.level ? level > other.level : what > other.what;
    }
  };
  static constexpr std::uint32_t kMemberBit = 1u << 31;
  static constexpr std::uint32_t kPrefetched = 16;
  static constexpr std::size_t kWide = 32;  ///< Flows over more links than this keep a list of those that may bind.

  std::span<const Pair> pairs(std::uint32_t entity) const {
    const Row& row = rows_[entity];
    return {pairs_.data() + row.begin, pairs_.data() + row.end};
  }
  /// WHY: the links of a flow lie anywhere; asked for together, they come together.
  void prefetch(std::span<const Pair> of) const {
    for (const Pair& pair : of) __builtin_prefetch(&links_[pair.link]);
  }

  // sharing.cpp: flows come and go
  void pack_rows(std::span<const std::uint8_t> crowded);
  std::uint32_t share_number(double share);
  void find_alone_rates();
  FlowId allocate();
  void attach(FlowId id);
  void detach(FlowId id);
  void may_bind_now(std::uint32_t index);
  void may_bind_no_more(std::uint32_t index);
  void note_change(FlowId id);
  void mark_dirty(FlowId id);

  // fill.cpp: rates are found
  void balance(FlowId seed);
  void join(FlowId id);
  bool join_link(FlowId id, const Pair& pair);
  void join_the_obvious();
  std::uint32_t local_of(Link& link, std::uint32_t index);
  double load(const Link& link) const;
  void fill();
  void start_round();
  void freeze_link(LocalLink& local, double level);
  void freeze(Member& member, double rate, double level, std::uint32_t bottleneck);
  double exact_level(LocalLink& local) const;
  bool expand(bool all_neighbours);
  bool breaks_condition(const Flow& flow, const LocalLink& local, bool full) const;
  void commit();

  EntityColumns entities_;
  LinkTable links_;
  BigVector<Row> rows_;
  BigVector<Pair> pairs_;
  std::vector<double> shares_;
  std::unordered_map<std::uint64_t, std::uint32_t> share_numbers_;  ///< By the bits of a share; looked up, never walked.
  BigVector<Flow> flows_;
  std::vector<FlowId> free_;
  std::vector<std::vector<Pair>> binding_;  ///< Of wide flows: their links that may bind.
  std::vector<std::uint32_t> free_binding_;
  std::vector<FlowId> dirty_;
  std::vector<std::uint32_t> touched_;  ///< Links that lost a flow while they could bind.
  std::vector<RateChange> changes_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> users_;  ///< Of watched links: their entities.
  std::uint32_t epoch_ = 0;
  Effort effort_;

  // The group at work; kept to spare allocations.
  std::vector<Member> members_;
  std::vector<Edge> edges_;
  std::vector<LocalLink> locals_;
  std::vector<Candidate> heap_;
};

}  // namespace railyard
