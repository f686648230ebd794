#pragma once

#include <cstdint>

#include "core/time.hpp"

namespace railyard::packet {

/// Time on the wire of so many bytes, rounded up to integer picoseconds.
constexpr Ps wire_time(std::uint32_t bytes, std::uint64_t rate_bps) {
  return static_cast<Ps>((std::uint64_t{bytes} * 8'000'000'000'000u + rate_bps - 1) / rate_bps);
}

}  // namespace railyard::packet
