#pragma once

#include <array>
#include <cstdint>

#include "packet/options.hpp"

namespace railyard::packet {

/// When and how probably a queue marks: never up to `low_bytes`, then with a probability that rises to `most` at
/// `high_bytes`, above always (random early detection; low = high: a step). -1: the thresholds derived for the run.
struct MarkingOptions {
  std::int64_t low_bytes = -1;
  std::int64_t high_bytes = -1;
  double most = 1;           ///< Probability just below high_bytes. HPCC's ns-3: 0.2.
  bool at_enqueue = false;   ///< By what a packet finds as it comes, in place of what it leaves behind.
  bool by_rate = false;      ///< Thresholds hold for the hosts' rate; those of other links are scaled by their rate.
};

/// Priority flow control (IEEE 802.1Qbb) over a shared buffer. Sizes in bytes, for every switch, ingress and class alike.
struct PfcOptions {
  std::uint8_t lossless = 0xff;             ///< A bit a class; the others are dropped at the tail.
  std::array<std::uint8_t, 8> weights{};    ///< Of classes served by deficit round robin; 0: strict priority, before those.
  std::int64_t xoff_bytes = 0;              ///< Pause above so much of one ingress and class; 0: the dynamic threshold.
  std::int64_t xon_bytes = 0;               ///< Let go below so much; 0: four fifths of xoff_bytes.
  std::int64_t xoff_packets = 0, xon_packets = 0;  ///< The same in full packets; what is given in bytes goes first.
  std::int64_t buffer_bytes = 0;            ///< Of a switch, all told; 0: by its capacity (see `kBufferPs`).
  double alpha = 1;                         ///< Dynamic threshold, of the free shared buffer. Tomahawk 5 in SONiC: 1 to 2.
  double lossy_alpha = 1;                   ///< The same for the queue of a lossy class.
  std::int64_t resume_bytes = 3556;         ///< Let go so far below the dynamic threshold. Tomahawk 5 in SONiC: 3,556.
  std::int64_t reserve_bytes = 0;           ///< Guaranteed. HPCC's ns-3: 4,096.
  std::int64_t headroom_bytes = 0;          ///< For what comes after the pause was sent; 0: derived (`headroom_of`).
  std::int64_t headroom_most_bytes = 0;     ///< What the buffer leaves an ingress for it; 0: as much as it needs.
  std::int64_t frame_bytes = 64;            ///< A pause frame.
  Ps response_ps = 0;                       ///< From the arrival of a pause to its effect.
  Ps watch_ps = 100'000'000;                ///< How often to look for a deadlock while links are paused.
  Ps stall_ps = 100'000'000'000;            ///< No packet moves for so long while links are paused: the run ends.

  /// Tomahawk 5: 165 MB for 51.2 Tb/s.
  static constexpr double kBufferPs = 165e6 * 8 / 51.2;

  bool fixed() const { return xoff_bytes > 0; }

  /// The same with thresholds in bytes.
  PfcOptions in_bytes(std::int64_t mtu) const {
    PfcOptions made = *this;
    if (made.xoff_bytes == 0) made.xoff_bytes = xoff_packets * mtu;
    if (made.xon_bytes == 0) made.xon_bytes = xon_packets * mtu;
    return made;
  }
};

}  // namespace railyard::packet
