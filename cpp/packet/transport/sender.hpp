#pragma once

#include <cstdint>
#include <vector>

#include "packet/control/nscc.hpp"
#include "packet/transport/credit.hpp"
#include "packet/transport/nic.hpp"
#include "packet/transport/window.hpp"

namespace railyard::packet {

/// A message of a connection. Messages go out in the order in which they began, each in packets of its own.
struct Message {
  std::int64_t backlog = 0;          ///< Bytes not yet sent once, headers included.
  std::int64_t received = 0;         ///< Payload that its receiver has.
  std::uint32_t first = kNone;       ///< Number of its first packet.
  std::uint32_t last = kNone;        ///< Number of the packet that ends it.
  std::uint32_t following = kNone;   ///< The connection's next message.
  std::uint16_t last_size = 0;
  std::uint16_t requests = 0;        ///< Sequence numbers among its own that requests have used up.
};

/// The sending end of a connection, whatever its congestion control.
template <class State, class Account>
struct Sender {
  std::uint32_t source = 0, target = 0;
  std::uint32_t oldest = kNone;    ///< The first message that is not done; kNone: the connection is idle.
  std::uint32_t current = kNone;   ///< The message that the next new packet is of.
  std::uint32_t newest = kNone;
  std::int64_t backlog = 0;        ///< Bytes of all messages not yet sent once, headers included.
  std::int64_t again = 0;          ///< Bytes that wait to be sent again.
  std::int64_t in_flight = 0;
  std::int64_t received = 0;       ///< As the receiver last reported.
  State state;                     ///< Of the congestion control.
  SendWindow window;
  Place place;                     ///< In the NIC's round of connections that want to send.
  std::uint8_t klass = 0;
  bool opened = false, timer = false;
  std::uint8_t unheard = 0;  ///< Requests since the receiver was heard last.
  std::uint8_t silence = 0;        ///< Timeouts for which it has waited for credit without a word from the receiver.
  Ps last_request = 0;
  Account account;

  bool idle() const { return oldest == kNone; }
  bool wants_to_send() const { return backlog != 0 || window.waiting_count() != 0; }
};

/// A window that does not change: every connection may have so much in flight.
struct FixedWindow {
  std::int64_t window = 0, most = 0;
  Ps base_rtt = 0, mean_delay = 0;

  void open(const NsccConstants& c, std::int64_t first_window) {
    base_rtt = c.network_rtt;
    most = static_cast<std::int64_t>(1.5 * static_cast<double>(base_rtt) * 1e-12 * c.rate_bps / 8);
    window = first_window > 0 ? first_window : most;
  }
  void resume() {}
  void rest(const NsccConstants&, Ps, std::vector<std::int64_t>& words) const {
    words.insert(words.end(), {window, most, base_rtt});
  }
  const std::int64_t* put(Ps, const std::int64_t* words) {
    *this = {.window = words[0], .most = words[1], .base_rtt = words[2]};
    return words + 3;
  }
  double sample(const NsccConstants&, Ps, bool) const { return 0; }
  static Ps mean_after(Ps mean, double) { return mean; }
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
