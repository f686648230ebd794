#include "flow/contended_links.hpp"

#include <algorithm>

#include "flow/link.hpp"

namespace railyard {

namespace {

/// Who uses an entity: one rank or communicator on some streams, or several.
struct User {
  static constexpr std::uint64_t kNobody = UINT64_MAX, kSeveral = UINT64_MAX - 1;
  std::uint64_t owner = kNobody;
  std::uint32_t streams = 0;  ///< One bit each.
};

std::vector<User> users_of(const GraphColumns& graph, std::size_t entities) {
  std::vector<User> users(entities);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (graph.kind[i] == static_cast<std::uint8_t>(Kind::compute)) continue;
    const bool collective = graph.kind[i] == static_cast<std::uint8_t>(Kind::collective);
    const auto owner = static_cast<std::uint64_t>(graph.rank[i]) * 2 + (collective ? 1 : 0);
    User& user = users[static_cast<std::size_t>(graph.entity[i])];
    user.owner = user.owner == User::kNobody || user.owner == owner ? owner : User::kSeveral;
    // WHY: tasks of the free stream run at the same time, and one entity may then flow several times at once.
    if (graph.stream[i] >= 32 || graph.stream[i] == kFreeStream) user.owner = User::kSeveral;
    user.streams |= 1u << (graph.stream[i] % 32);
  }
  return users;
}

/// What could be on a link at once, as far as it has been added up.
struct Crowd {
  std::uint64_t key = UINT64_MAX;  ///< The (owner, stream) that was added last ...
  Quanta largest = 0;              ///< ... and the largest demand of its entities.
  Quanta sum = 0;
};

class Census {
 public:
  Census(const EntityColumns& entities, std::span<const double> capacity_bps)
      : entities_(entities), capacity_bps_(capacity_bps), crowds_(capacity_bps.size()) {}

  /// PRE: calls with the same key follow one another.
  void add(std::uint32_t entity, std::uint64_t key) {
    const double rate = alone_rate(entities_, entity, capacity_bps_);
    for (auto k = entities_.link_ptr[entity]; k < entities_.link_ptr[entity + 1]; ++k) {
      const auto pair = static_cast<std::size_t>(k);
      const auto link = static_cast<std::size_t>(entities_.link_idx[pair]);
      const double scale = capacity_bps_[link] > 0 ? static_cast<double>(kFull) / capacity_bps_[link] : 0.0;
      const Quanta demand = demand_of(entities_.link_share[pair], rate, scale);
      Crowd& crowd = crowds_[link];
      if (crowd.key != key) crowd = {.key = key, .largest = 0, .sum = crowd.sum};
      if (demand > crowd.largest) {
        crowd.sum += demand - crowd.largest;
        crowd.largest = demand;
      }
    }
  }
  void fill(std::uint32_t entity) {
    for (auto k = entities_.link_ptr[entity]; k < entities_.link_ptr[entity + 1]; ++k) {
      crowds_[static_cast<std::size_t>(entities_.link_idx[static_cast<std::size_t>(k)])].sum = 2 * kFull;
    }
  }
  std::vector<std::uint8_t> crowded() const {
    std::vector<std::uint8_t> flags;
    for (const Crowd& crowd : crowds_) flags.push_back(crowd.sum > kFull + kDemandSlack);
    return flags;
  }

 private:
  const EntityColumns& entities_;
  std::span<const double> capacity_bps_;
  std::vector<Crowd> crowds_;
};

}  // namespace

double alone_rate(const EntityColumns& entities, std::uint32_t entity, std::span<const double> capacity_bps) {
  if (!entities.alone_bps.empty()) return entities.alone_bps[entity];
  double rate = entities.rate_cap_bps[entity];
  for (auto k = entities.link_ptr[entity]; k < entities.link_ptr[entity + 1]; ++k) {
    const auto pair = static_cast<std::size_t>(k);
    rate = std::min(rate, capacity_bps[static_cast<std::size_t>(entities.link_idx[pair])] / entities.link_share[pair]);
  }
  return rate;
}

std::vector<std::uint8_t> crowded_links(const GraphColumns& graph, const EntityColumns& entities,
                                        std::span<const double> capacity_bps, const FaultColumns& faults) {
  const std::vector<User> users = users_of(graph, entities.size());
  std::vector<std::uint32_t> order(entities.size());
  for (std::uint32_t e = 0; e < order.size(); ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return users[a].owner < users[b].owner; });
  Census census(entities, capacity_bps);
  for (std::uint32_t stream = 0; stream < 32; ++stream) {
    for (const std::uint32_t e : order) {
      if (users[e].owner >= User::kSeveral || (users[e].streams >> stream & 1) == 0) continue;
      census.add(e, users[e].owner * 32 + stream);
    }
  }
  for (const std::uint32_t e : order) {
    if (users[e].owner == User::kSeveral) census.fill(e);
  }
  // WHY: no task names the row that an entity takes later, so nothing says with whom that shares its links.
  for (std::size_t row = 0; row < faults.size(); ++row) {
    if (static_cast<FaultColumns::Kind>(faults.kind[row]) == FaultColumns::Kind::rerouted)
      census.fill(static_cast<std::uint32_t>(faults.value[row]));
  }
  std::vector<std::uint8_t> flags = census.crowded();
  // WHY: a link that loses capacity can bind although its crowd fitted before; one that gains lets entities ask for more.
  for (std::size_t row = 0; row < faults.size(); ++row) {
    if (static_cast<FaultColumns::Kind>(faults.kind[row]) != FaultColumns::Kind::link_factor) continue;
    if (faults.value[row] > 1) return std::vector<std::uint8_t>(flags.size(), 1);
    flags[static_cast<std::size_t>(faults.target[row])] = 1;
  }
  return flags;
}

}  // namespace railyard
