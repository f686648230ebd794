#pragma once

#include <cstdint>
#include <limits>

namespace railyard {

/// A point or span of simulated time in integer picoseconds: int64 holds +/- 106 days.
using Ps = std::int64_t;
inline constexpr Ps kNever = std::numeric_limits<Ps>::max();
inline constexpr double kPsPerSecond = 1e12;

}  // namespace railyard
