#pragma once

#include <cstdint>

#include "railyard/packet/credit.hpp"
#include "railyard/packet/nic.hpp"
#include "railyard/packet/nscc.hpp"
#include "railyard/packet/window.hpp"

namespace railyard::packet {

/// What a sender knows of a flow, whatever its congestion control.
struct Sender {
  std::uint32_t source = 0, target = 0;
  std::int64_t size = 0;          ///< Payload bytes.
  std::int64_t backlog = 0;       ///< Bytes not yet sent once, headers included.
  std::int64_t again = 0;         ///< Bytes that wait to be sent again.
  std::int64_t in_flight = 0;
  std::int64_t received = 0;      ///< As the receiver last reported.
  SendWindow window;
  std::uint32_t last = kNone;     ///< Number of the packet that ends the flow.
  std::uint32_t requests = 0;     ///< Sequence numbers used up by requests.
  Place place;                    ///< In the NIC's round of flows that want to send.
  std::uint16_t last_size = 0;
  bool done = false, timer = false;
  bool speculating = true;        ///< Nothing has come back yet: credit is the sender's own guess.
  Ps last_request = 0;
  std::int64_t credit = 0, pull = kFirstPull, pull_target = kFirstPull;
};

/// A window that does not change: every flow may have so much in flight.
struct FixedWindow {
  std::int64_t window = 0, most = 0;
  Ps base_rtt = 0, mean_delay = 0;

  void open(const NsccConstants& c, std::int64_t first_window) {
    base_rtt = c.network_rtt;
    most = static_cast<std::int64_t>(1.5 * static_cast<double>(base_rtt) * 1e-12 * c.rate_bps / 8);
    window = first_window > 0 ? first_window : most;
  }
  void see_rtt(const NsccConstants&, Ps) {}
  void see_delay(const NsccConstants&, Ps, bool) {}
  void on_received(std::int64_t) {}
  void on_ack(const NsccConstants&, bool, Ps, std::int64_t, std::int64_t, Ps) {}
  void on_nack(const NsccConstants&, std::int64_t, bool, std::int64_t, Ps) {}
  void on_timeout(const NsccConstants&, std::int64_t) {}
};

/// Which halves of congestion control a run has: a window at the sender, credit from the receiver.
template <class WindowType, bool Window, bool Credit>
struct Control {
  using State = WindowType;
  static constexpr bool kWindow = Window;
  static constexpr bool kCredit = Credit;
};

using NsccControl = Control<Nscc, true, false>;
using RcccControl = Control<FixedWindow, false, true>;
using BothControl = Control<Nscc, true, true>;
using ConstantControl = Control<FixedWindow, true, false>;

}  // namespace railyard::packet
