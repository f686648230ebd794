#pragma once

#include <cstdint>
#include <vector>

#include "railyard/packet/draws.hpp"
#include "railyard/packet/options.hpp"

namespace railyard::packet {

/// The equal-cost links that lead from a node to a host.
struct Choice {
  const std::uint32_t* links;
  std::uint32_t width;
};

/// Interval routing (railyard.cluster.routing), laid out for one look-up a hop: each node's widest-stepping record, the
/// way "down", is tried first, and whatever lies outside it goes by the others, which in a Clos are one and the same.
class Routes {
 public:
  Routes(const NetworkColumns& network, std::uint64_t seed);

  Choice find(std::uint32_t node, std::uint32_t host) const {
    const Node& at = nodes_[node];
    const std::uint32_t offset = host - at.inner.lo;
    if (offset < at.inner.span) return group(at.inner, offset);
    if (at.uniform) return {choices_.data() + at.outer.first, at.outer.width};
    return search(at, host);
  }

  /// The link that a hash of flow and entropy chooses at a node (equal-cost multipath with a salt of its own per node).
  std::uint32_t hashed(std::uint32_t node, std::uint32_t host, std::uint32_t key) const {
    const Choice choice = find(node, host);
    return choice.width == 1 ? *choice.links : choice.links[pick(node, key, choice.width)];
  }

  std::uint32_t pick(std::uint32_t node, std::uint32_t key, std::uint32_t width) const {
    std::uint32_t bits = (key ^ nodes_[node].salt) * 0x9e3779b1u;
    bits = (bits ^ (bits >> 15)) * 0x85ebca77u;
    bits ^= bits >> 13;
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits * 0xc2b2ae3du) * width) >> 32);
  }

  void prefetch(std::uint32_t node) const { __builtin_prefetch(nodes_.data() + node); }

 private:
  struct Record {
    std::uint32_t lo, span, first, stride, magic, width;
  };
  struct Node {
    Record inner, outer;
    std::uint32_t salt;
    std::uint32_t begin, end;  ///< All its records in records_, for nodes that are not `uniform`.
    bool uniform;
  };

  Choice group(const Record& record, std::uint32_t offset) const {
    // WHY: a multiplication in place of a division; exact while span x stride < 2^32, else magic is 0.
    const std::uint32_t step =
        record.magic != 0 ? static_cast<std::uint32_t>((std::uint64_t{offset} * record.magic) >> 32)
        : record.stride == 1 ? offset : offset / record.stride;
    return {choices_.data() + record.first + std::size_t{step} * record.width, record.width};
  }

  Choice search(const Node& at, std::uint32_t host) const;
  static Record compact(const NetworkColumns& network, std::size_t record);
  void lay_out(Node& node, std::uint32_t hosts);

  std::vector<Node> nodes_;
  std::vector<Record> records_;
  std::vector<std::uint32_t> choices_;
};

}  // namespace railyard::packet
