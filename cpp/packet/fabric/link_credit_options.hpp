#pragma once

#include <array>
#include <cstdint>

#include "packet/options.hpp"

namespace railyard::packet {

/// Credit-based flow control of links (`CreditFabric`): InfiniBand. What is not in the specification and not published for
/// any switch is a parameter; docs/explanation/packet-infiniband.md says where each default comes from.
struct LinkCreditOptions {
  static constexpr std::uint32_t kMostLanes = 8;

  std::int64_t buffer_bytes = 131'072;   ///< Input buffer of a port and lane: the 2,048 blocks that 12-bit counters can tell of.
  Ps reach_ps = 0;                       ///< Boxes for long links: a lane holds what a round trip carries, up to so long a one.
  std::uint32_t lanes = 1;               ///< Virtual lanes; traffic class c travels in lane c modulo this.
  std::int64_t update_bytes = 16'384;    ///< Space set free before a credit packet tells of it.
  Ps update_period_ps = 5'242'880;       ///< Less is told of after so long: 65,536 byte times of a 100 Gb/s lane.
  std::uint32_t packet_bytes = 8;        ///< A credit packet on the wire.
  bool cut_through = true;               ///< A packet goes on when its head is there; else when all of it is.
  std::uint32_t head_bytes = 20;         ///< What must be there: local route header, base transport header.
  bool fifo = false;                     ///< One queue an input and lane, in place of one for each egress.
  std::array<std::uint8_t, kMostLanes> high_weight{};  ///< Of a lane in the high-priority table, blocks of 64 B; 0: not in it.
  std::array<std::uint8_t, kMostLanes> low_weight{64, 64, 64, 64, 64, 64, 64, 64};  ///< The same, low-priority table.
  std::uint32_t high_limit = 0;          ///< Blocks of 4 KiB of high priority before a low one may go: 0: a packet; 255: no limit.
  std::int64_t mark_bytes = 0;           ///< Bytes waiting for an egress that has credit above which packets are marked; 0: never.
  Ps watch_ps = 100'000'000;             ///< How long a lane is without credit before a circle is looked for.
};

}  // namespace railyard::packet
