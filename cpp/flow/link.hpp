#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/big_vector.hpp"

namespace railyard {

/// A share of a link's capacity in fixed point. WHY: sums of integers can be undone exactly, so that a link which millions
/// of flows have used is as clean as a new one, and the order in which flows come and go cannot be seen in a result.
using Quanta = std::int64_t;
inline constexpr Quanta kFull = Quanta{1} << 40;
inline constexpr Quanta kDemandSlack = kFull >> 30;  ///< Each flow's demand is rounded by half a quantum.

/// A flow on a link.
struct Passenger {
  std::uint32_t flow;
  std::uint32_t share;  ///< Number of its wire bytes per byte of volume; see Sharing::shares_.
};

/// One direction of capacity: half a cache line, because the links of a flow lie anywhere.
struct Link {
  double scale = 0;             ///< Quanta per bit/s; 0 for a link without any capacity.
  Quanta demand = 0;            ///< Sum over the flows of what each would take with the network to itself.
  std::uint32_t count = 0;      ///< Flows on it ...
  std::uint32_t room : 5 = 0;   ///< ... in a block of 2^room passengers of LinkTable, when it has had any ...
  std::uint32_t block : 27 = 0; ///< ... which starts at 4 * block.
  std::uint32_t mark = 0;       ///< Epoch of the group that last met this link ...
  std::uint32_t local = 0;      ///< ... and the link's number there.

  /// Only such a link can hold anybody back; all others tie no flows together.
  bool may_bind() const { return demand > kFull + kDemandSlack; }
};
static_assert(sizeof(Link) == 32);

/// What a flow would take of a link.
inline Quanta demand_of(double share, double rate, double scale) {
  return static_cast<Quanta>(share * rate * scale + 0.5);
}

/// All links, and the lists of flows of the crowded ones.
class LinkTable {
 public:
  explicit LinkTable(std::span<const double> capacity_bps)
      : links_(capacity_bps.size()), capacity_bps_(capacity_bps.size()) {
    for (std::size_t i = 0; i < capacity_bps.size(); ++i) set_capacity(i, capacity_bps[i]);
  }

  std::size_t size() const { return links_.size(); }
  Link& operator[](std::size_t link) { return links_[link]; }
  const Link& operator[](std::size_t link) const { return links_[link]; }

  std::span<const double> capacities() const { return capacity_bps_; }
  void set_capacity(std::size_t link, double bps) {
    capacity_bps_[link] = bps;
    links_[link].scale = bps > 0 ? static_cast<double>(kFull) / bps : 0.0;
  }

  std::span<const Passenger> flows(const Link& link) const { return {list(link), link.count}; }

  void attach(Link& link, Passenger passenger) {
    if (link.count == std::uint32_t{1} << link.room || link.room == 0) grow(link);
    list(link)[link.count++] = passenger;
  }

  /// PRE: the flow is on the link.
  void detach(Link& link, std::uint32_t flow) {
    Passenger* const of = list(link);
    std::uint32_t place = 0;
    while (of[place].flow != flow) ++place;
    of[place] = of[--link.count];
  }

 private:
  static constexpr std::uint32_t kUnit = 4;  ///< Passengers; blocks start at multiples of it.

  const Passenger* list(const Link& link) const { return passengers_.data() + std::size_t{link.block} * kUnit; }
  Passenger* list(const Link& link) { return passengers_.data() + std::size_t{link.block} * kUnit; }

  /// Moves a link's passengers to a block of twice the size, behind all others. WHY: links that are used one after another
  /// have their passengers one after another, and what is left behind is no more than what is used.
  void grow(Link& link) {
    const std::size_t first = passengers_.size(), old = std::size_t{link.block} * kUnit;
    link.room = (link.room == 0 ? 2u : link.room + 1u) & 31u;
    passengers_.resize(first + (std::size_t{1} << link.room));
    std::copy_n(passengers_.begin() + static_cast<std::ptrdiff_t>(old), link.count,
                passengers_.begin() + static_cast<std::ptrdiff_t>(first));
    if (first / kUnit >= std::size_t{1} << 27) throw std::length_error("more than 2^29 passengers of links");
    link.block = static_cast<std::uint32_t>(first / kUnit) & ((1u << 27) - 1);
  }

  BigVector<Link> links_;
  std::vector<double> capacity_bps_;
  BigVector<Passenger> passengers_;
};

}  // namespace railyard
