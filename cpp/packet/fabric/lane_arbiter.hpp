#pragma once

#include <bit>
#include <cstdint>

#include "packet/fabric/link_credit_options.hpp"

namespace railyard::packet {

/// Which of the lanes that could send goes next (InfiniBand specification 7.6.9): two tables of lanes with weights; the
/// high-priority one goes first, until it has sent its limit while a lane of the other could have sent. Within a table
/// lanes take turns, each for its weight in blocks of 64 bytes, rounded up to whole packets.
class LaneArbiter {
 public:
  static constexpr unsigned kNoLane = 0xff;

  /// PRE: `could` is the set of lanes that have a packet and credit for it. kNoLane when none of them is in a table.
  unsigned choose(const LinkCreditOptions& options, unsigned could) const {
    const unsigned high = could & members(options.high_weight), low = could & members(options.low_weight);
    if (high != 0 && (low == 0 || high_left_ > 0 || options.high_limit == kNoLimit)) return high_.choose(high);
    return low != 0 ? low_.choose(low) : kNoLane;
  }

  /// A packet of the lane chosen among `could` goes.
  void sent(const LinkCreditOptions& options, unsigned could, unsigned lane, std::int32_t bytes) {
    const unsigned high = could & members(options.high_weight), low = could & members(options.low_weight);
    if (high != 0 && (low == 0 || high_left_ > 0 || options.high_limit == kNoLimit)) {
      high_.sent(options.high_weight, lane, bytes);
      high_left_ -= bytes;
    } else {
      low_.sent(options.low_weight, lane, bytes);
      high_left_ = limit(options);
    }
  }

 private:
  static constexpr std::uint32_t kNoLimit = 255;
  using Weights = std::array<std::uint8_t, LinkCreditOptions::kMostLanes>;

  static unsigned members(const Weights& weights) {
    unsigned set = 0;
    for (unsigned lane = 0; lane < weights.size(); ++lane) set |= (weights[lane] != 0 ? 1u : 0u) << lane;
    return set;
  }
  /// WHY at least one byte: a limit of 0 lets one packet go.
  static std::int32_t limit(const LinkCreditOptions& options) {
    return options.high_limit == 0 ? 1 : static_cast<std::int32_t>(options.high_limit * 4096);
  }

  struct Table {
    std::uint8_t at = 0;      ///< The lane whose turn it is.
    std::int32_t left = 0;    ///< Bytes that it may still send in this turn.

    unsigned choose(unsigned could) const {
      if (left > 0 && (could >> at & 1) != 0) return at;
      const unsigned after = could & ~((2u << at) - 1);
      return static_cast<unsigned>(std::countr_zero(after != 0 ? after : could));
    }
    void sent(const Weights& weights, unsigned lane, std::int32_t bytes) {
      if (lane != at || left <= 0) left = weights[lane] * 64;
      at = static_cast<std::uint8_t>(lane);
      left -= bytes;
    }
  };

  Table high_, low_;
  std::int32_t high_left_ = 1;
};

}  // namespace railyard::packet
