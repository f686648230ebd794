#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/time.hpp"

namespace railyard::packet {

/// How HPCC's rules are read: as published, or as csg-htsim computes them (see `hpcc.hpp`).
enum class HpccReading : std::uint8_t { paper, htsim };

/// High-precision congestion control. Li et al., SIGCOMM 2019, section 5.1; where the ns-3 release of its authors
/// (alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc, run.py) has another constant, that.
struct HpccOptions {
  HpccReading reading = HpccReading::paper;
  double eta = 0.95;                     ///< Utilization aimed at.
  std::uint32_t max_stage = 5;           ///< Additive increases in a row; the release: 0.
  Ps rtt_ps = 0;                         ///< The base round trip T of all flows; 0: of a flow's path, where the
                                         ///< transport says it (`window_rtts`), else of the longest path.
  std::int64_t increase_bytes = 0;       ///< Added each round trip; 0: by share.
  double increase_share = 1.0 / 2500;    ///< Of the first window; the release: 10 Mb/s for every 25 Gb/s of line rate.
  double min_rate_bps = 100e6;           ///< The release: 100 Mb/s.
  std::uint32_t hops = 5;                ///< Rows of telemetry used.
};

/// Delay control after Swift. Kumar et al., SIGCOMM 2020, algorithm 1; constants that the paper leaves open as in
/// csg-htsim 841d9e7 (swift.cpp).
struct SwiftOptions {
  double increase = 1;                   ///< Packets added each round trip.
  double decrease = 0.8;                 ///< Share of the excess delay taken off.
  double max_decrease = 0.5;             ///< At most that at once.
  Ps base_target_ps = 20'000'000;
  Ps hop_target_ps = 3'053'435;          ///< Added for every hop: base / 6.55.
  Ps scaling_range_ps = 100'000'000;     ///< Added at most as windows shrink: 5 base targets.
  double scaling_least = 0.1;            ///< Window at which all of it is added, packets.
  double scaling_most = 100;             ///< Window from which nothing is.
  Ps host_target_ps = 20'000'000;        ///< Delay in the receiving host aimed at.
  double first_packets = 0;              ///< First window; 0: one bandwidth-delay product.
  double least_packets = 0.001;
  double most_packets = 1000;
  std::uint32_t timeout_reset = 5;       ///< Timeouts in a row after which the window is the least.
};

/// Congestion control by functions that a user compiled: their addresses; 0: none (see `user_control.hpp`).
struct UserControlOptions {
  static constexpr std::size_t kSlots = 24;
  std::uintptr_t on_open = 0, on_ack = 0, on_cnp = 0, on_nack = 0, on_timeout = 0, on_sent = 0, on_timer = 0;
  std::array<std::uint64_t, kSlots> slots{};  ///< What a flow's own fields begin with, as bits.
};

/// Load balancing by functions that a user compiled (see `balance_user.hpp`).
struct UserBalanceOptions {
  static constexpr std::size_t kSlots = 24;
  std::uintptr_t next = 0, feedback = 0, choose = 0;
  std::array<std::uint64_t, kSlots> slots{};
};

}  // namespace railyard::packet
