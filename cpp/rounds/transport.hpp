#pragma once

#include <limits>

/// Goodput and transfer times of TCP and QUIC over a path, in closed form.
/// Formulas and their sources stand in `railyard.cluster.edge.transport`, which is what
/// users see of them.
namespace railyard::rounds {

/// A transport protocol.
struct Protocol {
  bool bbr = false;  ///< Its rate is the bottleneck's; else CUBIC's window.
  double payload_bytes = 1448;
  double packet_bytes = 1500;                                      ///< The same with IP header and all between.
  double initial_window = 10;                                      ///< Packets.
  double least_timeout_s = 0.2;                                    ///< Added to the round trip where a loss ends
                                                                   ///< in a timeout; inf: none does.
  double receive_bytes = std::numeric_limits<double>::infinity();  ///< That a receiver lets be
                                                                   ///< under way.
};

/// A path.
struct Path {
  double rate_bps;  ///< Of the bottleneck, ONE WAY, IP packets.
  double rtt_s;     ///< ROUND TRIP without load.
  double loss;      ///< Share of the packets that is lost at random.
  double buffer;    ///< At the bottleneck, in bandwidth-delay products.
};

/// Mean window in packets under random loss: the larger of CUBIC's and its
/// Reno-friendly one; inf without loss.
double cubic_window(double rtt_s, double loss);

/// Seconds of timeouts a packet, of PFTK; 0 without loss.
double timeout_s_per_packet(double least_s, double rtt_s, double loss);

/// Share of the bottleneck's rate that CUBIC's saw-tooth uses, when only a full
/// buffer loses packets.
double saw_tooth(double buffer, double product, double rtt_s);

/// Bits of payload a second of one connection, once it has started.
double goodput_bps(const Protocol& protocol, const Path& path);

/// A transfer: seconds from the first packet sent to the last one received, and those of them in which its bits pass at
/// the steady goodput; 0 for nothing.
struct Carried {
  double total_s = 0, bits_s = 0;
};

/// `warm`: its window is open.
Carried carried(const Protocol& protocol, double size_bytes, const Path& path, bool warm);

}  // namespace railyard::rounds
