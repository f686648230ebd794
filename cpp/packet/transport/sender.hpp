#pragma once

#include <cstdint>

#include "packet/control/nscc.hpp"
#include "packet/transport/credit.hpp"
#include "packet/transport/nic.hpp"
#include "packet/transport/window.hpp"

namespace railyard::packet {

/// What a sender knows of a flow, whatever its congestion control.
template <class Account>
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
  std::uint32_t following = kNone;  ///< The connection's next message.
  Place place;                    ///< In the NIC's round of flows that want to send.
  std::uint16_t last_size = 0;
  bool done = false, timer = false;
  std::uint8_t unheard = 0;  ///< Requests since the receiver was heard last.
  std::uint8_t silence = 0;       ///< Timeouts for which it has waited for credit without a word from the receiver.
  Ps last_request = 0;
  Account account;
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
  void resume() {}
  void see_rtt(const NsccConstants&, Ps) {}
  void see_delay(const NsccConstants&, Ps, bool) {}
  void on_received(std::int64_t) {}
  void on_ack(const NsccConstants&, bool, Ps, std::int64_t, std::int64_t, Ps) {}
  void on_nack(const NsccConstants&, std::int64_t, bool, std::int64_t, Ps) {}
  void on_timeout(const NsccConstants&, std::int64_t) {}
};

/// What a run's congestion control consists of: a window at the sender, credit from the receiver, or both.
template <class WindowType, bool Window, class AccountType, class PacerType>
struct Control {
  using State = WindowType;
  using Account = AccountType;
  using Pacer = PacerType;
  static constexpr bool kWindow = Window;
  static constexpr bool kCredit = Account::kCredit;

  /// Time that must pass between two requests of a flow.
  static Ps request_gap(const Derived& derived) { return Account::request_gap(derived, Window); }
};

using NsccControl = Control<Nscc, true, NoAccount, NoPacer>;
using RcccControl = Control<FixedWindow, false, RcccAccount, RcccPacer>;
using BothControl = Control<Nscc, true, RcccAccount, RcccPacer>;
using ConstantControl = Control<FixedWindow, true, NoAccount, NoPacer>;

}  // namespace railyard::packet
