#pragma once

#include <array>
#include <cstdint>

#include "core/time.hpp"

namespace railyard::packet {

/// Constants of a scheduled fabric. The makers publish few of them; docs/concepts/packet-scheduled.md says where each
/// default comes from and how much depends on it.
struct ScheduledOptions {
  std::uint32_t cell_bytes = 256;          ///< Payload of a full cell.
  std::uint32_t cell_header_bytes = 16;
  std::uint32_t control_cell_bytes = 32;   ///< A request or a grant, all told.
  std::uint32_t credit_bytes = 4096;
  double credit_rate = 1.03;               ///< Credit granted, of the egress port's rate.
  double fabric_speedup = 160.0 / 144.0;   ///< Of links between switches over what the network says (Jericho3-AI's lanes).
  Ps request_ps = 100'000;                 ///< From a request's arrival to its place in the scheduler.
  Ps grant_ps = 100'000;                   ///< From a grant's arrival to the packets' departure.
  std::int64_t egress_bytes = 0;           ///< Queue above which a port grants nothing; 0: one credit loop of its rate.
  std::int64_t voq_bytes = 0;              ///< Queue above which hosts are paused; 0: 5 ms of its port's rate.
  std::int64_t memory_bytes = 12'000'000'000;  ///< Of a leaf: above it hosts are paused.
  Ps reachability_ps = 1'000'000;          ///< From a fabric link's failure to cells that keep off it.
};

/// What a run of a scheduled fabric counted; zero for others.
struct ScheduledCounters {
  std::uint64_t cells = 0;        ///< Sent over links between switches, control cells among them.
  std::uint64_t cells_lost = 0;   ///< On links that were down.
  std::uint64_t requests = 0, grants = 0, pauses = 0;
  std::int64_t voq_bytes = 0, memory_bytes = 0, egress_bytes = 0;  ///< Most of a queue, a leaf, a port to a host.
  std::int64_t element_bytes = 0, uplink_bytes = 0;  ///< Most that waited for a link of an element, of a leaf.
  std::int64_t cell_wait_ps = 0;  ///< A cell's mean wait for a link.
  std::int64_t contexts = 0;      ///< Most queues of which a leaf awaited cells at a time.
  std::int64_t bursts_held = 0;   ///< Most whole bursts that waited for an earlier one.
  /// Bursts, one in sixteen, by reorder depth: the most cells that came before one which was sent earlier.
  std::array<std::uint64_t, 64> reorder{};
};

}  // namespace railyard::packet
