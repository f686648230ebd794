#include "packet/partition.hpp"

#include <algorithm>
#include <limits>

namespace railyard::packet {

namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

/// Links between each node and the nearest host.
std::vector<std::uint32_t> heights(const NetworkColumns& network) {
  std::vector<std::uint32_t> height(network.nodes, kFar);
  std::fill_n(height.begin(), network.hosts, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t link = 0; link < network.link_source.size(); ++link) {
      const std::uint32_t below = height[static_cast<std::size_t>(network.link_source[link])];
      std::uint32_t& above = height[static_cast<std::size_t>(network.link_target[link])];
      if (below == kFar || above <= below + 1) continue;
      above = below + 1;
      changed = true;
    }
  }
  return height;
}

}  // namespace

Partition Partition::cut(const NetworkColumns& network, unsigned parts) {
  Partition partition{.parts = parts, .part_of = std::vector<std::uint8_t>(network.nodes, 0), .lookahead = kNever};
  for (std::uint32_t host = 0; host < network.hosts; ++host)
    partition.part_of[host] = static_cast<std::uint8_t>(std::uint64_t{host} * parts / network.hosts);
  const std::vector<std::uint32_t> height = heights(network);
  const std::uint32_t top = *std::max_element(height.begin(), height.end(), [](std::uint32_t a, std::uint32_t b) {
    return (a == kFar ? 0 : a) < (b == kFar ? 0 : b);
  });
  // A switch goes to the part most of its lower neighbours are in; one that has as many in each, in turn.
  for (std::uint32_t level = 1; level <= top; ++level) {
    std::vector<std::uint32_t> votes(std::size_t{network.nodes} * parts, 0);
    for (std::size_t link = 0; link < network.link_source.size(); ++link) {
      const auto below = static_cast<std::size_t>(network.link_source[link]);
      const auto above = static_cast<std::size_t>(network.link_target[link]);
      if (height[above] == level && height[below] == level - 1) ++votes[above * parts + partition.part_of[below]];
    }
    unsigned turn = 0;
    for (std::uint32_t node = network.hosts; node < network.nodes; ++node) {
      if (height[node] != level) continue;
      const auto first = votes.begin() + static_cast<std::ptrdiff_t>(std::size_t{node} * parts);
      const auto most = std::max_element(first, first + parts);
      const bool even = std::count(first, first + parts, *most) > 1;
      partition.part_of[node] = static_cast<std::uint8_t>(even ? turn++ % parts : static_cast<unsigned>(most - first));
    }
  }
  for (std::size_t link = 0; link < network.link_source.size(); ++link)
    if (partition.part_of[static_cast<std::size_t>(network.link_source[link])] !=
        partition.part_of[static_cast<std::size_t>(network.link_target[link])])
      partition.lookahead = std::min(partition.lookahead, network.latency_ps[link]);
  return partition;
}

namespace {

/// Whether `together(host where a dependency ends, host where the flow begins)` is true of all dependencies.
template <class Together>
bool all_dependencies(const TrafficColumns& traffic, Together&& together) {
  for (std::size_t flow = 0; flow < traffic.source.size(); ++flow)
    for (auto at = static_cast<std::size_t>(traffic.dep_ptr[flow]); at < static_cast<std::size_t>(traffic.dep_ptr[flow + 1]);
         ++at) {
      const auto before = static_cast<std::size_t>(traffic.dep_idx[at]);
      if (!together(traffic.dep_at[at] != 0 ? traffic.target[before] : traffic.source[before], traffic.source[flow]))
        return false;
    }
  return true;
}

}  // namespace

bool Partition::separates(const TrafficColumns& traffic) const {
  return all_dependencies(traffic, [this](std::int32_t ends, std::int32_t begins) {
    return part_of[static_cast<std::size_t>(ends)] == part_of[static_cast<std::size_t>(begins)];
  });
}

bool host_by_host(const TrafficColumns& traffic) {
  return all_dependencies(traffic, [](std::int32_t ends, std::int32_t begins) { return ends == begins; });
}

}  // namespace railyard::packet
