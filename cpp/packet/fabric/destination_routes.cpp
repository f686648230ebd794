#include <algorithm>
#include <cstddef>

#include "packet/fabric/destination_routes.hpp"

namespace railyard::packet {

namespace {

constexpr std::uint32_t kFar = 0xffffffffu;

/// Links to the nearest host, of every node.
std::vector<std::uint32_t> tiers(const NetworkColumns& network) {
  std::vector<std::uint32_t> tier(network.nodes, kFar);
  std::fill_n(tier.begin(), network.hosts, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t link = 0; link < network.link_source.size(); ++link) {
      const std::uint32_t below = tier[static_cast<std::size_t>(network.link_target[link])];
      std::uint32_t& here = tier[static_cast<std::size_t>(network.link_source[link])];
      if (below == kFar || below + 1 >= here) continue;
      here = below + 1;
      changed = true;
    }
  }
  return tier;
}

}  // namespace

DestinationRoutes::DestinationRoutes(const NetworkColumns& network) : divisor_(network.nodes, 1) {
  const std::vector<std::uint32_t> tier = tiers(network);
  std::uint32_t highest = 0;
  for (const std::uint32_t value : tier) highest = std::max(highest, value == kFar ? 0 : value);
  std::vector<std::uint32_t> up(std::size_t{highest} + 1, 1);  // the most upward links of one choice, by tier
  for (std::uint32_t node = 0; node < network.nodes; ++node)
    for (auto record = static_cast<std::size_t>(network.record_ptr[node]);
         record < static_cast<std::size_t>(network.record_ptr[node + 1]); ++record) {
      const auto link = static_cast<std::size_t>(network.choices[static_cast<std::size_t>(network.first[record])]);
      if (tier[node] == kFar || tier[static_cast<std::size_t>(network.link_target[link])] <= tier[node]) continue;
      up[tier[node]] = std::max(up[tier[node]], static_cast<std::uint32_t>(network.width[record]));
    }
  std::vector<std::uint32_t> product(up.size(), 1);
  for (std::size_t at = 1; at < up.size(); ++at) {
    const std::uint64_t wide = std::uint64_t{product[at - 1]} * up[at - 1];
    product[at] = static_cast<std::uint32_t>(std::min<std::uint64_t>(wide, 1u << 31));
  }
  for (std::uint32_t node = 0; node < network.nodes; ++node)
    if (tier[node] != kFar) divisor_[node] = product[tier[node]];
}

}  // namespace railyard::packet
