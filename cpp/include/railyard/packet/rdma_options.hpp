#pragma once

#include <cstdint>

#include "railyard/columns.hpp"

namespace railyard::packet {

/// Who decides the rate or window of an RDMA queue pair.
enum class RateControl : std::uint8_t {
  line_rate,  ///< Nobody.
  dcqcn,
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

}  // namespace railyard::packet
