#pragma once

#include <cmath>
#include <cstdint>

#include "core/random.hpp"

/// Numbers by hash: what is a client's is a function of seed, stream, client
/// and counter, and needs no memory.
namespace railyard::rounds {

inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;

/// The finaliser of SplitMix64 by itself; `mix` adds the golden ratio first.
constexpr std::uint64_t finalised(std::uint64_t z) { return mix(z - kGolden); }

/// Strictly between 0 and 1.
inline double uniform(std::uint64_t key, std::int64_t who, std::int64_t counter) {
  const std::uint64_t one = finalised(static_cast<std::uint64_t>(who) * kGolden + key);
  const std::uint64_t bits = finalised(one + static_cast<std::uint64_t>(counter) * kGolden);
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

/// Where the standard normal distribution reaches a probability, to 1.2e-9 of
/// its value: Acklam's rational approximation (P. J. Acklam, 2003).
double inverse_normal(double p);

}  // namespace railyard::rounds
