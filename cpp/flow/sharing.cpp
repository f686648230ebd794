#include "flow/sharing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "flow/contended_links.hpp"

namespace railyard {

namespace {

void require(bool holds, const char* what, std::size_t row) {
  if (!holds) throw std::invalid_argument(std::string(what) + " (entity " + std::to_string(row) + ")");
}

}  // namespace

void check_entities(const EntityColumns& entities, std::span<const double> capacity_bps) {
  const std::size_t m = entities.size(), pairs = entities.link_idx.size();
  for (const double bps : capacity_bps) {
    if (!(std::isfinite(bps) && bps >= 0)) throw std::invalid_argument("capacity of a link is not a finite number");
  }
  if (entities.link_ptr.size() != m + 1 || entities.link_share.size() != pairs || entities.latency_ps.size() != m ||
      entities.rate_cap_bps.size() != m || entities.fair_weight.size() != m ||
      (!entities.alone_bps.empty() && entities.alone_bps.size() != m)) {
    throw std::invalid_argument("entity columns differ in length");
  }
  if (entities.link_ptr.front() != 0 || entities.link_ptr.back() != static_cast<std::int64_t>(pairs) ||
      !std::is_sorted(entities.link_ptr.begin(), entities.link_ptr.end()) || pairs > UINT32_MAX) {
    throw std::invalid_argument("link_ptr does not span link_idx");
  }
  std::vector<std::uint32_t> seen(capacity_bps.size(), UINT32_MAX);
  for (std::uint32_t e = 0; e < m; ++e) {
    require(entities.volume_bytes[e] >= 0 && entities.volume_bytes[e] < 1e18, "volume out of range", e);
    require(entities.latency_ps[e] >= 0, "negative latency", e);
    require(entities.rate_cap_bps[e] > 0, "rate cap not positive", e);
    require(entities.alone_bps.empty() || entities.alone_bps[e] >= 0, "negative rate", e);
    require(entities.fair_weight[e] > 0 && std::isfinite(entities.fair_weight[e]), "weight not positive", e);
    for (auto k = entities.link_ptr[e]; k < entities.link_ptr[e + 1]; ++k) {
      const double share = entities.link_share[static_cast<std::size_t>(k)];
      const auto link = static_cast<std::size_t>(entities.link_idx[static_cast<std::size_t>(k)]);
      require(link < capacity_bps.size(), "link out of range", e);
      require(share > 0 && std::isfinite(share), "share not positive", e);
      require(seen[link] != e, "a link twice in one row", e);
      seen[link] = e;
    }
  }
}

Sharing::Sharing(std::span<const double> capacity_bps, const EntityColumns& entities,
                 std::span<const std::uint8_t> crowded)
    : entities_(entities), links_(capacity_bps), rows_(entities.size()) {
  check_entities(entities, capacity_bps);
  if (crowded.size() != capacity_bps.size()) throw std::invalid_argument("one flag a link");
  pack_rows(crowded);
  find_alone_rates();
}

void Sharing::pack_rows(std::span<const std::uint8_t> crowded) {
  for (std::uint32_t e = 0; e < entities_.size(); ++e) {
    rows_[e].weight = entities_.fair_weight[e];
    rows_[e].begin = static_cast<std::uint32_t>(pairs_.size());
    for (auto k = entities_.link_ptr[e]; k < entities_.link_ptr[e + 1]; ++k) {
      const auto link = static_cast<std::uint32_t>(entities_.link_idx[static_cast<std::size_t>(k)]);
      if (!crowded[link]) continue;
      pairs_.push_back({link, share_number(entities_.link_share[static_cast<std::size_t>(k)])});
    }
    rows_[e].end = static_cast<std::uint32_t>(pairs_.size());
  }
}

std::uint32_t Sharing::share_number(double share) {
  const auto fresh = static_cast<std::uint32_t>(shares_.size());
  const auto [place, inserted] = share_numbers_.try_emplace(std::bit_cast<std::uint64_t>(share), fresh);
  if (inserted) shares_.push_back(share);
  return place->second;
}

void Sharing::find_alone_rates() {
  for (std::uint32_t e = 0; e < entities_.size(); ++e) {
    rows_[e].alone_rate = railyard::alone_rate(entities_, e, links_.capacities());
  }
}

FlowId Sharing::add(std::uint32_t entity, double most) {
  const FlowId id = allocate();
  const Row& row = rows_[entity];
  const double rate = std::min(most, row.alone_rate);
  flows_[id] = {.weight = row.weight, .max_rate = rate, .entity = entity, .active = true};
  attach(id);
  if (flows_[id].dirty) {
    dirty_.push_back(id);
  } else {
    flows_[id].rate = rate;
    flows_[id].level = rate / row.weight;
  }
  return id;
}

double Sharing::free_rate(std::uint32_t entity, FlowId except) const {
  const Row& row = rows_[entity];
  double rate = row.alone_rate;
  std::vector<std::pair<double, double>> others;  // level, quanta per level
  for (const Pair& pair : pairs(entity)) {
    const Link& link = links_[pair.link];
    const double own = shares_[pair.share] * row.weight * link.scale;
    double taken = 0, full = static_cast<double>(kFull);
    others.clear();
    for (const auto& [id, share] : links_.flows(link)) {
      if (id == except) continue;
      others.emplace_back(flows_[id].level, shares_[share] * flows_[id].weight * link.scale);
      taken += others.back().first * others.back().second;
    }
    if (taken + own * rate / row.weight <= full) continue;
    // Those with the highest levels give way to the new one, down to its own level.
    std::sort(others.begin(), others.end());
    double level = (full - taken) / own, width = own;
    while (!others.empty() && level < others.back().first) {
      const auto [top, quanta] = others.back();
      others.pop_back();
      taken -= top * quanta;
      width += quanta;
      level = (full - taken) / width;
    }
    rate = std::min(rate, level * row.weight);
  }
  return rate;
}

FlowId Sharing::allocate() {
  if (free_.empty()) {
    flows_.emplace_back();
    return static_cast<FlowId>(flows_.size() - 1);
  }
  const FlowId id = free_.back();
  free_.pop_back();
  return id;
}

/// Puts a flow on its links; dirty afterwards when one of them may bind.
void Sharing::attach(FlowId id) {
  Flow& flow = flows_[id];
  const std::span<const Pair> of = pairs(flow.entity);
  prefetch(of);
  if (of.size() > kWide) {
    if (free_binding_.empty()) {
      free_binding_.push_back(static_cast<std::uint32_t>(binding_.size()));
      binding_.emplace_back();
    }
    flow.wide = free_binding_.back() + 1;
    free_binding_.pop_back();
  }
  for (const Pair& pair : of) {
    Link& link = links_[pair.link];
    const bool could_bind = link.may_bind();
    link.demand += demand_of(shares_[pair.share], flow.max_rate, link.scale);
    links_.attach(link, {id, pair.share});
    if (!link.may_bind()) continue;
    flow.dirty = true;
    if (!could_bind) {
      may_bind_now(pair.link);
    } else if (flow.wide) {
      binding_[flow.wide - 1].push_back(pair);
    }
  }
}

void Sharing::may_bind_now(std::uint32_t index) {
  for (const auto& [id, share] : links_.flows(links_[index])) {
    if (flows_[id].wide) binding_[flows_[id].wide - 1].push_back({index, share});
  }
}

void Sharing::may_bind_no_more(std::uint32_t index) {
  for (const auto& [id, share] : links_.flows(links_[index])) {
    if (!flows_[id].wide) continue;
    auto& list = binding_[flows_[id].wide - 1];
    const auto place = std::find_if(list.begin(), list.end(), [index](const Pair& pair) { return pair.link == index; });
    *place = list.back();
    list.pop_back();
  }
}

void Sharing::remove(FlowId id) {
  detach(id);
  flows_[id].active = false;
  flows_[id].dirty = false;
  free_.push_back(id);
}

void Sharing::detach(FlowId id) {
  Flow& flow = flows_[id];
  const std::span<const Pair> of = pairs(flow.entity);
  prefetch(of);
  if (flow.wide) {
    binding_[flow.wide - 1].clear();
    free_binding_.push_back(flow.wide - 1);
    flow.wide = 0;
  }
  for (const auto& [index, share] : of) {
    Link& link = links_[index];
    const bool could_bind = link.may_bind();
    link.demand -= demand_of(shares_[share], flow.max_rate, link.scale);
    links_.detach(link, id);
    if (!could_bind || link.count == 0) continue;
    touched_.push_back(index);
    if (!link.may_bind()) may_bind_no_more(index);
  }
}

void Sharing::watch(std::span<const std::uint32_t> watched) {
  for (const std::uint32_t link : watched) users_.try_emplace(link);
  for (std::uint32_t e = 0; e < entities_.size(); ++e) {
    for (auto k = entities_.link_ptr[e]; k < entities_.link_ptr[e + 1]; ++k) {
      const auto link = static_cast<std::uint32_t>(entities_.link_idx[static_cast<std::size_t>(k)]);
      if (const auto found = users_.find(link); found != users_.end()) found->second.push_back(e);
    }
  }
}

std::vector<std::uint32_t> Sharing::set_capacities(std::span<const std::uint32_t> changed,
                                                   std::span<const double> capacity_bps) {
  std::vector<std::uint32_t> entities;
  for (const std::uint32_t index : changed) {
    const std::vector<std::uint32_t>& users = users_.at(index);
    entities.insert(entities.end(), users.begin(), users.end());
  }
  std::sort(entities.begin(), entities.end());
  entities.erase(std::unique(entities.begin(), entities.end()), entities.end());
  std::vector<FlowId> flows;
  for (FlowId id = 0; id < flows_.size(); ++id) {
    if (flows_[id].active && std::binary_search(entities.begin(), entities.end(), flows_[id].entity)) flows.push_back(id);
  }
  for (const FlowId id : flows) detach(id);
  for (std::size_t i = 0; i < changed.size(); ++i) links_.set_capacity(changed[i], capacity_bps[i]);
  for (const std::uint32_t e : entities) rows_[e].alone_rate = railyard::alone_rate(entities_, e, links_.capacities());
  for (const FlowId id : flows) {
    Flow& flow = flows_[id];
    note_change(id);
    flow.rate = flow.level = 0;
    flow.max_rate = rows_[flow.entity].alone_rate;
    attach(id);
    flow.dirty = false;
    mark_dirty(id);
  }
  return entities;
}

void Sharing::note_change(FlowId id) {
  if (flows_[id].changed) return;
  flows_[id].changed = true;
  changes_.push_back({id, flows_[id].rate});
}

void Sharing::mark_dirty(FlowId id) {
  if (flows_[id].dirty) return;
  flows_[id].dirty = true;
  dirty_.push_back(id);
}

void Sharing::settle() {
  for (const std::uint32_t index : touched_) {
    for (const auto& [id, share] : links_.flows(links_[index])) {
      if (flows_[id].bottleneck == index) mark_dirty(id);
    }
  }
  touched_.clear();
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    if (flows_[dirty_[i]].dirty) balance(dirty_[i]);
  }
  dirty_.clear();
}

void Sharing::clear_changes() {
  for (const RateChange& change : changes_) flows_[change.flow].changed = false;
  changes_.clear();
}

}  // namespace railyard
