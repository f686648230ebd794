#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time.hpp"

namespace railyard {

__extension__ typedef __int128 i128;  // -Wpedantic needs the marker

/// Counter-based random bits: a function of (seed, stream, index), so that adding a task shifts nobody else's numbers.
/// The mixer is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), applied once per key.
constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Independent streams of one seed.
enum class RandomStream : std::uint64_t { task_jitter = 1, rank_jitter = 2 };

/// A normal-like number times 2^17: the sum of twelve 16-bit uniforms (Irwin-Hall), centred; variance 1, range +/- 6.
/// WHY: integers only, so the same bits on every machine, which a logarithm of the C library does not promise.
constexpr std::int64_t irwin_hall(std::uint64_t seed, RandomStream stream, std::uint64_t index) {
  const std::uint64_t key = mix(mix(mix(seed) ^ static_cast<std::uint64_t>(stream)) ^ index);
  std::int64_t sum = 0;
  for (std::uint64_t draw = 0; draw < 3; ++draw) {
    const std::uint64_t bits = mix(key + draw);
    for (int part = 0; part < 64; part += 16) sum += static_cast<std::int64_t>((bits >> part) & 0xffffu);
  }
  return 2 * sum - 12 * 65535;
}

/// A non-negative factor in 32.32 fixed point.
struct Factor {
  static constexpr std::int64_t kOne = std::int64_t{1} << 32;
  std::int64_t q32 = kOne;

  /// 1 + sigma x (a normal-like number), not below 0. PRE: 0 <= sigma <= 1.
  static constexpr Factor spread(double sigma, std::int64_t irwin_hall_q17) {
    const auto sigma_q32 = static_cast<std::int64_t>(sigma * static_cast<double>(kOne));
    const auto extra = static_cast<std::int64_t>((static_cast<i128>(sigma_q32) * irwin_hall_q17) >> 17);
    return {std::max<std::int64_t>(0, kOne + extra)};
  }
  constexpr Ps of(Ps span) const { return static_cast<Ps>((static_cast<i128>(span) * q32) >> 32); }
};

}  // namespace railyard
