#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "packet/routing.hpp"

namespace railyard::packet {

Routes::Record Routes::compact(const NetworkColumns& network, std::size_t record) {
  const auto lo = static_cast<std::uint32_t>(network.lo[record]);
  const auto span = static_cast<std::uint32_t>(network.hi[record]) - lo;
  const auto stride = static_cast<std::uint32_t>(network.stride[record]);
  const bool exact = stride > 1 && std::uint64_t{span} * stride < (std::uint64_t{1} << 32);
  const std::uint64_t magic = exact ? ((std::uint64_t{1} << 32) + stride - 1) / stride : 0;
  return {.lo = lo,
          .span = span,
          .first = static_cast<std::uint32_t>(network.first[record]),
          .stride = stride,
          .magic = static_cast<std::uint32_t>(magic),
          .width = static_cast<std::uint32_t>(network.width[record])};
}

Routes::Routes(const NetworkColumns& network, std::uint64_t seed)
    : nodes_(network.nodes), choices_(network.choices.begin(), network.choices.end()),
      targets_(network.link_target.begin(), network.link_target.end()), hosts_(network.hosts) {
  records_.reserve(network.lo.size());
  for (std::size_t record = 0; record < network.lo.size(); ++record) records_.push_back(compact(network, record));
  for (std::uint32_t node = 0; node < network.nodes; ++node) {
    Node& at = nodes_[node];
    at.begin = static_cast<std::uint32_t>(network.record_ptr[node]);
    at.end = static_cast<std::uint32_t>(network.record_ptr[node + 1]);
    at.salt = network.salt.empty() ? static_cast<std::uint32_t>(stream_key(seed, Stream::salt, node)) : network.salt[node];
    lay_out(at, network.hosts);
  }
}

Routes::~Routes() = default;

void Routes::withdraw(std::uint32_t link, bool withdrawn) {
  if (detours_ == nullptr) detours_ = std::make_unique<Detours>(*this, targets_, hosts_);
  detours_->withdraw(link, withdrawn);
}

Choice Routes::detour(std::uint32_t node, std::uint32_t host) const { return detours_->find(node, host); }

/// Routes lead up and then down, so the search ends.
Choice Detours::find(std::uint32_t node, std::uint32_t host) {
  const std::uint64_t key = std::uint64_t{node} << 32 | host;
  if (const auto known = known_.find(key); known != known_.end())
    return {known->second.data(), static_cast<std::uint32_t>(known->second.size())};
  const Choice designed = routes_.designed(node, host);
  std::vector<std::uint32_t> left;
  for (std::uint32_t at = 0; at < designed.width; ++at) {
    const std::uint32_t link = designed.links[at];
    const std::uint32_t next = targets_[link];
    if (dead_[link]) continue;
    if (next == host || (next >= hosts_ && find(next, host).width != 0)) left.push_back(link);
  }
  const std::vector<std::uint32_t>& kept = known_.emplace(key, std::move(left)).first->second;
  return {kept.data(), static_cast<std::uint32_t>(kept.size())};
}

void Routes::lay_out(Node& node, std::uint32_t hosts) {
  node.inner = node.outer = Record{};
  node.uniform = false;
  if (node.begin == node.end) return;
  std::uint32_t chosen = node.begin;
  std::uint64_t covered = 0;
  for (std::uint32_t record = node.begin; record < node.end; ++record) {
    covered += records_[record].span;
    if (records_[record].stride < records_[chosen].stride) chosen = record;
  }
  node.inner = records_[chosen];
  node.uniform = covered == hosts;
  bool first = true;
  for (std::uint32_t record = node.begin; record < node.end; ++record) {
    if (record == chosen) continue;
    const Record& other = records_[record];
    if (first) node.outer = other;
    first = false;
    const bool same = other.first == node.outer.first && other.width == node.outer.width && other.span <= other.stride;
    node.uniform = node.uniform && same;
  }
}

Choice Routes::search(const Node& at, std::uint32_t host) const {
  for (std::uint32_t record = at.begin; record < at.end; ++record) {
    const std::uint32_t offset = host - records_[record].lo;
    if (offset < records_[record].span) return group(records_[record], offset);
  }
  throw std::invalid_argument("no route to host " + std::to_string(host));
}

}  // namespace railyard::packet
