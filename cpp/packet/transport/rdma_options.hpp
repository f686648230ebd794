#pragma once

#include <cstdint>
#include <string>

#include "packet/options.hpp"

namespace railyard::packet {

/// How a receiver tells a sender of congestion.
enum class Notification : std::uint8_t {
  none,
  packet,           ///< A notification packet (CNP).
  acknowledgement,  ///< Every marked acknowledgement counts as one.
};

/// Reliable connections. Defaults are what interfaces do; sources in docs/explanation/packet-rdma.md.
struct RdmaOptions {
  std::string control = "line-rate";
  Notification notification = Notification::none;
  std::uint32_t qps = 1;                ///< Queue pairs of a flow; flows come here split, so that it is 1.
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

}  // namespace railyard::packet
