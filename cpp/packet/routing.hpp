#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "packet/draws.hpp"
#include "packet/options.hpp"

namespace railyard::packet {

/// The equal-cost links that lead from a node to a host; none only where links have been withdrawn.
struct Choice {
  const std::uint32_t* links;
  std::uint32_t width;
};

class Detours;

/// Interval routing (railyard.cluster.routing), laid out for one look-up a hop: each node's widest-stepping record, the
/// way "down", is tried first, and whatever lies outside it goes by the others, which in a Clos are one and the same.
class Routes {
 public:
  Routes(const NetworkColumns& network, std::uint64_t seed);
  ~Routes();

  Choice find(std::uint32_t node, std::uint32_t host) const {
    if (detours_ != nullptr) return detour(node, host);
    return designed(node, host);
  }

  /// As the table has it, whatever has been withdrawn.
  Choice designed(std::uint32_t node, std::uint32_t host) const {
    const Node& at = nodes_[node];
    const std::uint32_t offset = host - at.inner.lo;
    if (offset < at.inner.span) return group(at.inner, offset);
    if (at.uniform) return {choices_.data() + at.outer.first, at.outer.width};
    return search(at, host);
  }

  /// The link that a hash of flow and entropy chooses at a node (equal-cost multipath with a salt of its own per node);
  /// kNoLink where none is left.
  std::uint32_t hashed(std::uint32_t node, std::uint32_t host, std::uint32_t key) const {
    const Choice choice = find(node, host);
    if (choice.width == 1) return *choice.links;
    return choice.width == 0 ? kNoLink : choice.links[pick(node, key, choice.width)];
  }

  /// From now on nothing is routed over the link, or to a switch that only it leads on from; or (false) it is again.
  void withdraw(std::uint32_t link, bool withdrawn);

  const std::vector<std::uint32_t>& targets() const { return targets_; }

  static constexpr std::uint32_t kNoLink = 0xffffffffu;

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
  Choice detour(std::uint32_t node, std::uint32_t host) const;
  static Record compact(const NetworkColumns& network, std::size_t record);
  void lay_out(Node& node, std::uint32_t hosts);

  std::vector<Node> nodes_;
  std::vector<Record> records_;
  std::vector<std::uint32_t> choices_;
  std::vector<std::uint32_t> targets_;
  std::uint32_t hosts_;
  std::unique_ptr<Detours> detours_;  ///< Null until a link is withdrawn.
};

/// The routes that are left when links have been withdrawn: a link leads to a host only if from its end a way goes on.
class Detours {
 public:
  Detours(const Routes& routes, const std::vector<std::uint32_t>& targets, std::uint32_t hosts)
      : routes_(routes), targets_(targets), hosts_(hosts), dead_(targets.size(), false) {}

  void withdraw(std::uint32_t link, bool withdrawn) {
    dead_[link] = withdrawn;
    known_.clear();
  }
  Choice find(std::uint32_t node, std::uint32_t host);

 private:
  const Routes& routes_;
  const std::vector<std::uint32_t>& targets_;
  std::uint32_t hosts_;
  std::vector<bool> dead_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> known_;
};

}  // namespace railyard::packet
