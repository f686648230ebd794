#pragma once

#include <cstdint>

#include "core/time.hpp"

namespace railyard::packet {

/// Who decides the rate or window of an RDMA queue pair.
enum class RateControl : std::uint8_t {
  line_rate,  ///< Nobody.
  dcqcn,
  spectrum,   ///< Round-trip times and notifications.
  hpcc,   ///< Telemetry of switches.
  swift,  ///< Delay.
  user,   ///< Functions that a user compiled.
};

/// How a receiver tells a sender of congestion.
enum class Notification : std::uint8_t {
  none,
  packet,           ///< A notification packet (CNP).
  acknowledgement,  ///< Every marked acknowledgement counts as one.
};

enum class DcqcnForm : std::uint8_t {
  paper,     ///< A notification cuts at once.
  periodic,  ///< Clocks look whether one came.
};

/// Reliable connections. Defaults are what interfaces do; sources in docs/concepts/packet-rdma.md.
struct RdmaOptions {
  RateControl control = RateControl::line_rate;
  Notification notification = Notification::none;
  bool out_of_order = false;            ///< Packets are placed in any order, and lost ones sent again alone.
  std::uint32_t ack_packets = 1;        ///< Packets an acknowledgement answers.
  std::uint32_t control_bytes = 64;     ///< Acknowledgement, negative acknowledgement, notification.
  std::int32_t control_class = -1;      ///< Their traffic class; -1: the flow's.
  Ps rto_ps = 4'194'304'000;            ///< 4.096 us x 2^10 (InfiniBand's coding of the local timeout).
  Ps nack_interval_ps = 4'194'304'000;  ///< Before the same gap is reported again; 0: every packet beyond it reports it.
  Ps cnp_interval_ps = 50'000'000;      ///< Least time between two notifications of a flow.
  double window_rtts = 0;               ///< Most payload out, in unloaded round trips of the flow's path; 0: any.
  bool window_scales = false;           ///< By the share of the line rate that the control leaves.
};

/// DCQCN; defaults of the paper for 40 Gb/s.
struct DcqcnOptions {
  DcqcnForm form = DcqcnForm::paper;
  double g = 1.0 / 256;
  Ps alpha_interval_ps = 55'000'000;
  Ps decrease_interval_ps = 0;          ///< Least time between two cuts; of the periodic form the clock's period.
  Ps increase_interval_ps = 55'000'000;
  std::int64_t byte_counter = 10'000'000;  ///< 0: none.
  std::uint32_t fast_recovery = 5;
  double additive_bps = 40e6, hyper_bps = 200e6;
  double min_rate_bps = 10e6;
  double initial_rate = 1;              ///< Of the line rate.
  double first_cnp_rate = 1;            ///< Kept at the first notification, before the cut.
  double least_kept = 0.5;              ///< Of the rate, in one cut.
  bool clamp_target = false;            ///< Every cut of the periodic form lowers the target.
};

/// Rates by round-trip time. Defaults: spectrum-x-network-operator, release RA2.1 (shares of 2^16 and 2^20), and the open
/// RTTCC for what notifications and gaps do.
struct SpectrumOptions {
  Ps threshold_ps = 0;                  ///< Round-trip time beyond which there is congestion; 0: 15 us, or 1.25 base ones.
  double responsiveness = 0.1;
  double most_decrease = 63570.0 / 65536, most_increase = 69468.0 / 65536;
  double additive_share = 96.0 / 1048576, hyper_share = 1700.0 / 1048576;  ///< Of the line rate.
  Ps hyper_interval_ps = 2'000'000'000;
  double first_cut = 0.5;
  double notified_kept = 0.8, gap_kept = 0.5;
  double least_share = 1.0 / 16384;     ///< Of the line rate.
};

}  // namespace railyard::packet
