#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/big_vector.hpp"
#include "core/time.hpp"

namespace railyard::packet {

/// What a switch's egress writes into a data packet that leaves by it.
struct Hop {
  std::uint64_t tx_bytes;     ///< Sent by the egress so far.
  Ps time;                    ///< Of the departure.
  std::uint32_t queue_bytes;  ///< Left behind.
  std::uint32_t rate_mbps;
};

/// Five rows, a three-tier path, lie in two cache lines.
struct alignas(64) Telemetry {
  static constexpr std::size_t kMost = 8;
  std::uint32_t count = 0;
  std::array<Hop, kMost> hops;

  Telemetry() = default;
  Telemetry(const Telemetry& other) { *this = other; }
  Telemetry& operator=(const Telemetry& other) {
    count = other.count;
    std::copy_n(other.hops.begin(), count, hops.begin());
    return *this;
  }

  /// One more egress passed; beyond the last row nothing is written, as in the header of a real packet.
  void add(const Hop& hop) {
    if (count < kMost) hops[count++] = hop;
  }
};

/// Telemetry of packets by their index in the slab; holds nothing until something is written.
class TelemetryTable {
 public:
  Telemetry& operator[](std::uint32_t packet) {
    if (packet >= rows_.size()) rows_.resize(packet + packet / 2 + 1024);
    return rows_[packet];
  }

  void prefetch(std::uint32_t packet) const {
    if (packet >= rows_.size()) return;
    const char* const row = reinterpret_cast<const char*>(rows_.data() + packet);
    __builtin_prefetch(row, 1);
    __builtin_prefetch(row + 64, 1);
  }

 private:
  BigVector<Telemetry> rows_;
};

}  // namespace railyard::packet
