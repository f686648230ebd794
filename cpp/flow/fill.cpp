// The part of Sharing that finds rates: groups of flows, filled progressively.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/invariant.hpp"
#include "flow/sharing.hpp"

namespace railyard {

namespace {

/// Levels closer than this are the same: far above rounding, far below anything that a time could show.
constexpr double kSame = 1e-10;
/// Quanta from which a link is full; what is missing is far above rounding, too.
constexpr double kAlmostFull = static_cast<double>(kFull) * (1 - 1e-10);
/// A link with this much more room than is wanted stops nobody; well apart from kAlmostFull.
constexpr double kRoomy = 1 - 1e-6;
/// A rate this close to the old one is the old one: otherwise rounding would reschedule what has not changed.
constexpr double kUnchanged = 1e-13;
/// After so many rounds without an end the whole neighbourhood joins, so that the number of rounds stays small.
constexpr int kPatience = 4;

bool above(double a, double b) { return a > b * (1 + kSame); }

}  // namespace

void Sharing::balance(FlowId seed) {
  ++epoch_;
  ++effort_.groups;
  members_.clear();
  edges_.clear();
  locals_.clear();
  join(seed);
  join_the_obvious();
  for (int round = 1;; ++round) {
    ++effort_.rounds;
    effort_.pairs += edges_.size();
    fill();
    if (!expand(round % kPatience == 0)) break;
  }
  commit();
}

/// Spares rounds: who is dirty must join anyway, and whoever is held back by a full link of a dirty flow nearly always.
void Sharing::join_the_obvious() {
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    const Link& link = links_[locals_[i].link];
    if (link.count == locals_[i].members) continue;
    for (const auto& [id, share] : links_.flows(link)) {
      if (flows_[id].dirty) join(id);
    }
  }
  for (std::size_t i = 0, known = locals_.size(); i < known; ++i) {
    const Link& link = links_[locals_[i].link];
    if (link.count == locals_[i].members || load(link) < kAlmostFull) continue;
    for (const auto& [id, share] : links_.flows(link)) {
      if (flows_[id].epoch != epoch_ && flows_[id].bottleneck == locals_[i].link) join(id);
    }
  }
}

void Sharing::join(FlowId id) {
  Flow& flow = flows_[id];
  flow.epoch = epoch_;
  flow.member = static_cast<std::uint32_t>(members_.size());
  flow.dirty = false;
  const auto begin = static_cast<std::uint32_t>(edges_.size());
  bool fills = false;
  if (flow.wide) {
    for (const Pair& pair : binding_[flow.wide - 1]) fills |= join_link(id, pair);
  } else {
    prefetch(pairs(flow.entity));
    for (const Pair& pair : pairs(flow.entity)) {
      if (links_[pair.link].may_bind()) fills |= join_link(id, pair);
    }
  }
  members_.push_back({.flow = id, .edges_begin = begin, .edges_end = static_cast<std::uint32_t>(edges_.size()),
                      .bottleneck = kUnbound, .rate = 0, .level = 0, .frozen = false, .fills_a_link = fills});
}

/// Puts a member on a link of the group; true when it could fill that link alone.
bool Sharing::join_link(FlowId id, const Pair& pair) {
  Link& link = links_[pair.link];
  const std::uint32_t number = local_of(link, pair.link);
  const double coefficient = shares_[pair.share] * link.scale;
  LocalLink& local = locals_[number];
  local.outside -= coefficient * flows_[id].rate;
  local.full_weight += coefficient * flows_[id].weight;
  local.wanted += coefficient * flows_[id].max_rate;
  ++local.members;
  edges_.push_back({number, coefficient});
  return coefficient * flows_[id].max_rate >= kAlmostFull;
}

std::uint32_t Sharing::local_of(Link& link, std::uint32_t index) {
  if (link.mark != epoch_) {
    link.mark = epoch_;
    link.local = static_cast<std::uint32_t>(locals_.size());
    locals_.push_back({.link = index, .members = 0, .unfrozen = 0, .outside = load(link), .wanted = 0,
                       .full_weight = 0, .room = 0, .weight = 0, .level = -1, .top = -1});
  }
  return link.local;
}

/// Quanta that the flows on a link take now.
double Sharing::load(const Link& link) const {
  double sum = 0;
  for (const auto& [id, share] : links_.flows(link)) sum += shares_[share] * link.scale * flows_[id].rate;
  return sum;
}

void Sharing::start_round() {
  heap_.clear();
  for (std::uint32_t i = 0; i < locals_.size(); ++i) {
    LocalLink& local = locals_[i];
    local.room = static_cast<double>(kFull) - local.outside;
    local.weight = local.full_weight;
    local.unfrozen = local.members;
    local.level = local.top = -1;
    if (local.wanted > local.room * kRoomy) heap_.push_back({std::max(local.room, 0.0) / local.weight, i});
  }
  for (std::uint32_t i = 0; i < members_.size(); ++i) {
    members_[i].frozen = false;
    const Flow& flow = flows_[members_[i].flow];
    if (!members_[i].fills_a_link) heap_.push_back({flow.max_rate / flow.weight, kMemberBit | i});
  }
  std::make_heap(heap_.begin(), heap_.end());
}

/// Progressive filling. Links with room for all that the group's flows on them could ever take are left out, and so are
/// the own maxima of flows that could fill a link of the group alone: that link stops them no later.
/// The level at which a link would be full only rises while others freeze, so a stale entry of the heap is a lower bound:
/// it is looked at again when it comes up, and put back when something else comes first.
void Sharing::fill() {
  start_round();
  std::size_t left = members_.size();
  while (left > 0) {
    if (heap_.empty()) throw std::logic_error("a flow without a bound");  // every member has one: its own, or a link
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate next = heap_.back();
    heap_.pop_back();
    if (next.what & kMemberBit) {
      Member& member = members_[next.what & ~kMemberBit];
      if (member.frozen) continue;
      freeze(member, flows_[member.flow].max_rate, next.level, kUnbound);
      --left;
      continue;
    }
    LocalLink& local = locals_[next.what];
    if (local.unfrozen == 0) continue;
    const double level = exact_level(local);
    if (!heap_.empty() && level > heap_.front().level) {
      heap_.push_back({level, next.what});
      std::push_heap(heap_.begin(), heap_.end());
      continue;
    }
    left -= local.unfrozen;
    freeze_link(local, level);
  }
}

double Sharing::exact_level(LocalLink& local) const {
  if (local.weight < 1e-6 * local.full_weight) {  // cancelled away: add up what is left instead
    local.weight = 0;
    const Link& link = links_[local.link];
    for (const auto& [id, share] : links_.flows(link)) {
      const Flow& flow = flows_[id];
      if (flow.epoch != epoch_ || members_[flow.member].frozen) continue;
      local.weight += shares_[share] * link.scale * flow.weight;
    }
  }
  return std::max(local.room, 0.0) / local.weight;
}

void Sharing::freeze_link(LocalLink& local, double level) {
  local.level = level;
  for (const auto& [id, share] : links_.flows(links_[local.link])) {
    const Flow& flow = flows_[id];
    if (flow.epoch != epoch_ || members_[flow.member].frozen) continue;
    freeze(members_[flow.member], std::min(level * flow.weight, flow.max_rate), level, local.link);
    if (local.unfrozen == 0) break;
  }
}

void Sharing::freeze(Member& member, double rate, double level, std::uint32_t bottleneck) {
  const double weight = flows_[member.flow].weight;
  member.frozen = true;
  member.rate = rate;
  member.level = level;
  member.bottleneck = bottleneck;
  for (std::uint32_t e = member.edges_begin; e < member.edges_end; ++e) {
    LocalLink& local = locals_[edges_[e].local];
    local.room -= edges_[e].coefficient * rate;
    local.weight -= edges_[e].coefficient * weight;
    --local.unfrozen;
    local.top = level;  // levels come in rising order
  }
}

/// Whether a flow outside the group would have to change its rate, given what the group now takes on a link.
bool Sharing::breaks_condition(const Flow& flow, const LocalLink& local, bool full) const {
  if (flow.dirty) return true;
  if (!full) return flow.bottleneck == local.link;                      // it may have more
  if (local.level >= 0 && above(flow.level, local.level)) return true;  // it has more than those whom the link holds back
  return flow.bottleneck == local.link && above(local.top, flow.level);
}

/// Takes in everybody on the group's links who breaks a condition (or simply everybody); false when there is none.
bool Sharing::expand(bool all_neighbours) {
  const std::size_t before = members_.size();
  const std::size_t known = locals_.size();
  for (std::size_t i = 0; i < known; ++i) {
    const Link& link = links_[locals_[i].link];
    if (link.count == locals_[i].members) continue;
    const bool full = locals_[i].room < static_cast<double>(kFull) - kAlmostFull;
    for (const auto& [id, share] : links_.flows(link)) {
      if (flows_[id].epoch != epoch_ && breaks_condition(flows_[id], locals_[i], full)) join(id);
    }
  }
  if (members_.size() == before || !all_neighbours) return members_.size() != before;
  for (std::size_t i = 0; i < known; ++i) {
    const Link& link = links_[locals_[i].link];
    for (const auto& [id, share] : links_.flows(link)) {
      if (flows_[id].epoch != epoch_) join(id);
    }
  }
  return true;
}

void Sharing::commit() {
  // No link carries more than it can, up to rounding.
  for (const LocalLink& local : locals_) {
    RAILYARD_INVARIANT(local.room >= -1e-6 * static_cast<double>(kFull));
    static_cast<void>(local);
  }
  for (const Member& member : members_) {
    RAILYARD_INVARIANT(member.rate >= 0 && member.rate <= flows_[member.flow].max_rate);
    Flow& flow = flows_[member.flow];
    flow.bottleneck = member.bottleneck;
    if (std::abs(member.rate - flow.rate) <= kUnchanged * flow.rate) continue;
    note_change(member.flow);
    flow.rate = member.rate;
    flow.level = member.level;
  }
}

}  // namespace railyard
