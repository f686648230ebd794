#pragma once

#include <cstdint>

#include "packet/options.hpp"

namespace railyard::packet {

/// Constants of a scheduled fabric. The makers publish few of them; docs/explanation/packet-scheduled.md says where each
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

}  // namespace railyard::packet
