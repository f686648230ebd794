#pragma once

#include <cmath>

#include "core/random.hpp"
#include "core/time.hpp"

namespace railyard::serving {

/// Time in units of 2^-16 ps.
/// WHY: iterations cost fractions of a picosecond per token of KV cache. A replica's clock keeps them, so that a run of n
/// iterations is an arithmetic series of integers: its sum has the same bits as n additions, and no rounding adds up.
using Fine = i128;
inline constexpr int kFineBits = 16;

constexpr Fine fine(Ps time) { return static_cast<Fine>(time) << kFineBits; }
/// The picosecond in which it lies. PRE: not negative.
constexpr Ps whole(Fine time) { return static_cast<Ps>(time >> kFineBits); }

/// Nearest. PRE: finite, below 2^62 units (19 hours).
inline std::int64_t fine_of_seconds(double seconds) { return std::llround(std::ldexp(seconds * kPsPerSecond, kFineBits)); }

}  // namespace railyard::serving
