#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace railyard::packet {

/// Independent streams of random numbers of one seed; each is drawn from by its owner (flow, port, host) alone, so that
/// another flow or port more shifts nobody else's numbers.
enum class Stream : std::uint64_t { entropy = 101, port = 102, salt = 103, key = 104, pacer = 105, adaptive = 106, errors = 107, spray = 112 };

constexpr std::uint64_t stream_key(std::uint64_t seed, Stream stream, std::uint64_t owner) {
  return mix(mix(mix(seed) ^ static_cast<std::uint64_t>(stream)) ^ owner);
}

/// The `index`-th 64 random bits of a stream.
constexpr std::uint64_t draw(std::uint64_t key, std::uint64_t index) { return mix(key + index); }

/// A number in [0, limit) from 64 random bits; limit < 2^32. The bias is below limit / 2^32.
constexpr std::uint32_t below(std::uint64_t bits, std::uint32_t limit) {
  return static_cast<std::uint32_t>(((bits >> 32) * limit) >> 32);
}

}  // namespace railyard::packet
