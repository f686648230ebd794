#pragma once

#include <cstdint>
#include <span>
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

/// One direction of capacity and the flows on it: one cache line.
struct alignas(64) Link {
  static constexpr std::uint32_t kInline = 4;

  double scale = 0;            ///< Quanta per bit/s; 0 for a link without any capacity.
  Quanta demand = 0;           ///< Sum over the flows of what each would take with the network to itself.
  std::uint32_t count = 0;     ///< Flows on it.
  std::uint32_t overflow = 0;  ///< 1 + index into LinkTable::overflow_ once there were more than kInline flows.
  std::uint32_t mark = 0;      ///< Epoch of the group that last met this link ...
  std::uint32_t local = 0;     ///< ... and the link's number there.
  Passenger flows[kInline] = {};

  /// Only such a link can hold anybody back; all others tie no flows together.
  bool may_bind() const { return demand > kFull + kDemandSlack; }
};
static_assert(sizeof(Link) == 64);

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

  std::span<const Passenger> flows(const Link& link) const {
    return {link.overflow ? overflow_[link.overflow - 1].data() : link.flows, link.count};
  }

  void attach(Link& link, Passenger passenger) {
    if (link.overflow == 0 && link.count < Link::kInline) {
      link.flows[link.count++] = passenger;
    } else {
      attach_crowded(link, passenger);
    }
  }

  /// PRE: the flow is on the link.
  void detach(Link& link, std::uint32_t flow) {
    Passenger* list = link.overflow ? overflow_[link.overflow - 1].data() : link.flows;
    std::uint32_t place = 0;
    while (list[place].flow != flow) ++place;
    list[place] = list[--link.count];
  }

 private:
  void attach_crowded(Link& link, Passenger passenger) {
    if (link.overflow == 0) {
      overflow_.emplace_back(link.flows, link.flows + link.count);
      link.overflow = static_cast<std::uint32_t>(overflow_.size());
    }
    auto& list = overflow_[link.overflow - 1];
    if (list.size() <= link.count) list.resize(2 * std::size_t{link.count} + 1);
    list[link.count++] = passenger;
  }

  BigVector<Link> links_;
  std::vector<double> capacity_bps_;
  std::vector<std::vector<Passenger>> overflow_;
};

}  // namespace railyard
