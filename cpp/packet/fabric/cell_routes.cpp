#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "packet/draws.hpp"
#include "packet/fabric/cell_routes.hpp"

namespace railyard::packet {

namespace {

constexpr double kUnknown = -1, kEndless = std::numeric_limits<double>::infinity();
constexpr int kMostTiers = 16;

/// Switches that a host's link touches.
std::vector<bool> with_hosts(const NetworkColumns& network) {
  std::vector<bool> leaf(network.nodes, false);
  for (std::size_t link = 0; link < network.link_source.size(); ++link) {
    const auto source = static_cast<std::uint32_t>(network.link_source[link]);
    const auto target = static_cast<std::uint32_t>(network.link_target[link]);
    if (source < network.hosts && target < network.hosts)
      throw std::invalid_argument("a scheduled fabric has no links from host to host");
    if (source < network.hosts) leaf[target] = true;
    if (target < network.hosts) leaf[source] = true;
  }
  return leaf;
}

}  // namespace

CellTopology::CellTopology(const NetworkColumns& network) : switch_of(network.nodes, kNoSwitch) {
  const std::vector<bool> leaf = with_hosts(network);
  for (const bool wanted : {true, false}) {
    for (std::uint32_t at = network.hosts; at < network.nodes; ++at) {
      if (leaf[at] != wanted) continue;
      switch_of[at] = static_cast<std::uint32_t>(node.size());
      node.push_back(at);
    }
    if (wanted) leafs = static_cast<std::uint32_t>(node.size());
  }
  if (leafs >= (1u << 16)) throw std::invalid_argument("a scheduled fabric of more than 65,535 leafs");
  a_host.assign(leafs, 0);
  link_of.assign(network.link_source.size(), kNoSwitch);
  for (std::size_t link = 0; link < network.link_source.size(); ++link) {
    const auto source = static_cast<std::uint32_t>(network.link_source[link]);
    const auto target = static_cast<std::uint32_t>(network.link_target[link]);
    if (source < network.hosts) continue;
    if (target < network.hosts) a_host[switch_of[source]] = target;
    else links.push_back({static_cast<std::uint32_t>(link), switch_of[source], switch_of[target]});
  }
  std::stable_sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.target < b.target; });
  first_in.assign(node.size() + 1, 0);
  for (std::size_t at = 0; at < links.size(); ++at) {
    ++first_in[links[at].target + 1];
    link_of[links[at].network] = static_cast<std::uint32_t>(at);
  }
  for (std::size_t at = 0; at < node.size(); ++at) first_in[at + 1] += first_in[at];
}

CellRoutes::CellRoutes(const CellTopology& topology, const NetworkColumns& network, std::uint64_t seed)
    : topology_(topology), network_(network), seed_(seed), leafs_(topology.leafs),
      ways_(topology.node.size() * topology.leafs) {}

void CellRoutes::update(std::span<const double> rate_bps) {
  rate_bps_.assign(rate_bps.begin(), rate_bps.end());
  choices_.clear();
  known_.clear();
  std::vector<double> known(topology_.node.size());
  for (std::uint32_t leaf = 0; leaf < leafs_; ++leaf) {
    std::fill(known.begin(), known.end(), kUnknown);
    for (std::uint32_t at = 0; at < topology_.node.size(); ++at) {
      if (at == leaf) continue;
      lay_out(at, leaf, outgoing(at, leaf, known, 0));
    }
  }
}

/// Bandwidth from an element towards a leaf; cells never go through another leaf.
double CellRoutes::capacity(std::uint32_t at, std::uint32_t leaf, std::vector<double>& known, int depth) {
  if (at == leaf) return kEndless;
  if (topology_.is_leaf(at)) return 0;
  if (known[at] != kUnknown) return known[at];
  if (depth > kMostTiers) throw std::invalid_argument("routing loop in a scheduled fabric");
  double sum = 0;
  for (const Weighted& link : outgoing(at, leaf, known, depth + 1)) sum += link.bps;
  return known[at] = sum;
}

std::vector<CellRoutes::Weighted> CellRoutes::outgoing(std::uint32_t at, std::uint32_t leaf, std::vector<double>& known,
                                                       int depth) {
  std::vector<Weighted> links;
  for (const std::int32_t choice : links_to_host(at, topology_.a_host[leaf])) {
    const std::uint32_t link = topology_.link_of[static_cast<std::size_t>(choice)];
    if (link == CellTopology::kNoSwitch) continue;
    const double bps = std::min(rate_bps_[link], capacity(topology_.links[link].target, leaf, known, depth));
    if (bps > 0) links.push_back({link, bps});
  }
  return links;
}

std::span<const std::int32_t> CellRoutes::links_to_host(std::uint32_t at, std::uint32_t host) const {
  const std::uint32_t node = topology_.node[at];
  const auto end = static_cast<std::size_t>(network_.record_ptr[node + 1]);
  for (auto record = static_cast<std::size_t>(network_.record_ptr[node]); record < end; ++record) {
    const std::int64_t offset = std::int64_t{host} - network_.lo[record];
    if (offset < 0 || static_cast<std::int64_t>(host) >= network_.hi[record]) continue;
    const std::int64_t first = network_.first[record] + offset / network_.stride[record] * network_.width[record];
    return network_.choices.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(network_.width[record]));
  }
  return {};
}

/// Links in the order of a round: each as often as its share asks for and as evenly spread as can be.
std::vector<std::uint32_t> CellRoutes::round(const std::vector<Weighted>& links) {
  double most = 0;
  bool alike = true;
  for (const Weighted& link : links) {
    alike = alike && link.bps == links.front().bps;
    most = std::max(most, link.bps);
  }
  std::vector<std::uint32_t> order;
  if (alike) {
    for (const Weighted& link : links) order.push_back(link.link);
    return order;
  }
  std::vector<double> wanted(links.size()), due(links.size(), 0);
  double total = 0;
  for (std::size_t at = 0; at < links.size(); ++at)
    total += wanted[at] = std::max(1.0, std::round(kParts * links[at].bps / most));
  for (auto left = static_cast<std::size_t>(total); left != 0; --left) {
    for (std::size_t at = 0; at < links.size(); ++at) due[at] += wanted[at];
    const auto best = static_cast<std::size_t>(std::max_element(due.begin(), due.end()) - due.begin());
    due[best] -= total;
    order.push_back(links[best].link);
  }
  return order;
}

void CellRoutes::lay_out(std::uint32_t at, std::uint32_t leaf, const std::vector<Weighted>& links) {
  Way& way = ways_[std::size_t{at} * leafs_ + leaf];
  way = {};
  if (links.empty()) return;
  const std::vector<std::uint32_t> order = round(links);
  if (order.size() >= (1u << 16)) throw std::invalid_argument("too many links between two switches");
  const auto [entry, fresh] = known_.try_emplace(order, static_cast<std::uint32_t>(choices_.size()));
  if (fresh) choices_.insert(choices_.end(), order.begin(), order.end());
  way.first = entry->second;
  way.width = static_cast<std::uint16_t>(order.size());
  // WHY a place of its own for every pair: else all would begin at the first link and go round together.
  const std::uint64_t owner = std::uint64_t{at} * leafs_ + leaf;
  way.turn = static_cast<std::uint16_t>(below(draw(stream_key(seed_, Stream::spray, owner), 0), way.width));
}

}  // namespace railyard::packet
