#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/time.hpp"

namespace railyard::serving {

/// A histogram of times whose bins grow with them: 64 bins an octave, so that a quantile is right to 1.1 %.
class Gaps {
 public:
  static constexpr int kBits = 6;
  static constexpr std::size_t kBins = std::size_t{64 - kBits} << kBits;

  Gaps() : count_(kBins) {}
  static std::size_t bin(Ps gap) {
    const auto value = static_cast<std::uint64_t>(gap);
    if (value < (1u << kBits)) return static_cast<std::size_t>(value);
    const int shift = static_cast<int>(std::bit_width(value)) - 1 - kBits;
    return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(value >> shift);
  }
  static Ps lower(std::size_t bin) {
    if (bin < (2u << kBits)) return static_cast<Ps>(bin);
    const int shift = static_cast<int>(bin >> kBits) - 1;
    return static_cast<Ps>(((bin & ((1u << kBits) - 1)) + (1u << kBits))) << shift;
  }
  void add(Ps gap, std::int64_t times) { count_[bin(gap)] += times; }
  const std::vector<std::int64_t>& counts() const { return count_; }

 private:
  std::vector<std::int64_t> count_;
};

}  // namespace railyard::serving
