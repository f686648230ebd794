#pragma once

#include <cstdint>

#include "core/time.hpp"
#include "packet/telemetry.hpp"

namespace railyard::packet {

/// What an acknowledgement tells a rate or window control.
struct Acknowledged {
  Ps now = 0;
  Ps rtt = 0;
  bool marked = false;
  std::int64_t fresh_bytes = 0;        ///< Payload newly acknowledged.
  std::int64_t in_flight = 0;          ///< Bytes still out, after it.
  std::uint32_t sequence = 0;          ///< The first packet not yet received.
  std::uint32_t next_sequence = 0;     ///< The packet that is sent next.
  const Hop* hops = nullptr;           ///< Telemetry of the packet acknowledged.
  std::uint32_t hop_count = 0;
  Ps host_delay = 0;                   ///< Of the round trip, in the receiving host.
};

}  // namespace railyard::packet
