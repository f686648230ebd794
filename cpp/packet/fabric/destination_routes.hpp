#pragma once

#include <cstdint>
#include <vector>

#include "packet/options.hpp"
#include "packet/routing.hpp"

namespace railyard::packet {

/// Deterministic routing by destination, as a subnet manager fills its tables: all packets to a host take the same of the
/// equal-cost links of a node, (host / d) modulo their number, where d is the product of the numbers of upward links in
/// the tiers below (d-mod-k, Zahavi 2010). In a full fat tree each host then has a way down of its own.
class DestinationRoutes {
 public:
  explicit DestinationRoutes(const NetworkColumns& network);

  std::uint32_t pick(std::uint32_t node, std::uint32_t host, std::uint32_t width) const {
    return host / divisor_[node] % width;
  }

 private:
  std::vector<std::uint32_t> divisor_;
};

}  // namespace railyard::packet
