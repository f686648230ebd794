#pragma once

#include <cstdint>
#include <limits>

#include "packet/fabric/pfc_options.hpp"

namespace railyard::packet {

/// What one queue marks by.
struct Marking {
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  double most = 1;

  /// PRE: 0 <= low <= high.
  static Marking make(const MarkingOptions& options, std::int64_t low, std::int64_t high, double scale) {
    const auto scaled = [scale](std::int64_t bytes) { return static_cast<std::int64_t>(static_cast<double>(bytes) * scale); };
    return {scaled(options.low_bytes >= 0 ? options.low_bytes : low),
            scaled(options.high_bytes >= 0 ? options.high_bytes : high), options.most};
  }

  double probability(std::int64_t depth) const {
    if (depth <= low) return 0;
    if (depth > high) return 1;
    return most * static_cast<double>(depth - low) / static_cast<double>(high - low);
  }

  /// Whether so deep a queue marks; `random` is called for 64 bits where chance decides.
  template <class Random>
  bool marks(std::int64_t depth, Random&& random) const {
    if (depth <= low) return false;
    if (depth > high) return true;
    return static_cast<double>(random() >> 11) * 0x1p-53 < probability(depth);
  }
};

}  // namespace railyard::packet
