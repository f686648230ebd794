#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "packet/control/rate_controls.hpp"
#include "packet/telemetry.hpp"

namespace railyard::packet {

/// Congestion control by functions that a user compiled: their addresses; 0: none (see `user_control.hpp`).
struct UserControlOptions {
  static constexpr std::size_t kSlots = 24;
  std::uintptr_t on_open = 0, on_ack = 0, on_cnp = 0, on_nack = 0, on_timeout = 0, on_sent = 0, on_timer = 0;
  std::array<std::uint64_t, kSlots> slots{};  ///< What a flow's own fields begin with, as bits.
};

// The records that a user's compiled functions see. Only 64-bit fields (and a Hop), in this order: the Python side builds
// the same layout (`railyard.engine.packet.user_records`), and a test compares the two.

/// A flow under a user's control; the first three fields are what the transport obeys.
struct UserFlow {
  double rate_bps = 0;             ///< Packets leave no faster.
  std::int64_t window_bytes = 0;   ///< No more than that in flight; 0: as much as the rate gives.
  std::int64_t timer_ps = 0;       ///< When `on_timer` is called; 0: never.
  std::array<std::uint64_t, UserControlOptions::kSlots> slots{};  ///< The user's own, float64 or int64.
};

struct UserAck {
  std::int64_t now_ps, rtt_ps, marked, fresh_bytes, in_flight_bytes, sequence, next_sequence, hops, host_delay_ps;
};

struct UserNetwork {
  double rate_bps;  ///< Of a host's link.
  std::int64_t base_rtt_ps, mtu_bytes, header_bytes, window_bytes, queue_bytes, ecn_low_bytes, ecn_high_bytes, hops;
};

static_assert(std::is_standard_layout_v<UserFlow> && sizeof(UserFlow) == 8 * (3 + UserControlOptions::kSlots));
static_assert(sizeof(UserAck) == 8 * 9 && sizeof(UserNetwork) == 8 * 9 && sizeof(Hop) == 24);

/// Congestion control in functions that a user compiled (Python through Numba, or anything with C linkage). They return 1,
/// or something else where they failed; a missing one does nothing. What they leave in `rate_bps`, `window_bytes` and
/// `timer_ps` is checked after every call, so that a mistake ends the run with its name and not with nonsense.
class UserControl {
 public:
  using State = UserFlow;
  using OnAck = std::int64_t (*)(UserFlow*, const UserAck*, const Hop*, const UserNetwork*);
  using OnTime = std::int64_t (*)(UserFlow*, std::int64_t now_ps, const UserNetwork*);
  using OnSent = std::int64_t (*)(UserFlow*, std::int64_t bytes, std::int64_t now_ps, const UserNetwork*);

  UserControl(const Options& options, const Derived& derived)
      : options_(options.of<UserControlOptions>()),
        network_{static_cast<double>(derived.rate_bps), derived.base_rtt_ps, options.mtu_bytes, options.header_bytes,
                 derived.window_bytes,                  derived.queue_bytes, derived.ecn_low_bytes,
                 derived.ecn_high_bytes,                derived.diameter} {}

  void open(State& flow, Ps now) const {
    flow.rate_bps = network_.rate_bps;
    flow.slots = options_.slots;
    timed(options_.on_open, "on_open", flow, now);
  }

  void on_ack(State& flow, const Acknowledged& ack) const {
    if (options_.on_ack == 0) return;
    const UserAck told{ack.now,       ack.rtt,      ack.marked ? 1 : 0, ack.fresh_bytes, ack.in_flight,
                       ack.sequence, ack.next_sequence, ack.hop_count,  ack.host_delay};
    check(reinterpret_cast<OnAck>(options_.on_ack)(&flow, &told, ack.hops, &network_), "on_ack", flow, ack.now);
  }

  void on_cnp(State& flow, Ps now) const { timed(options_.on_cnp, "on_cnp", flow, now); }
  void on_nack(State& flow, Ps now) const { timed(options_.on_nack, "on_nack", flow, now); }
  void on_timeout(State& flow, Ps now) const { timed(options_.on_timeout, "on_timeout", flow, now); }

  void on_sent(State& flow, std::int64_t bytes, Ps now) const {
    if (options_.on_sent == 0) return;
    check(reinterpret_cast<OnSent>(options_.on_sent)(&flow, bytes, now, &network_), "on_sent", flow, now);
  }

  bool sees_acks() const { return options_.on_ack != 0; }
  bool sees_departures() const { return options_.on_sent != 0; }
  Ps next_timer(const State& flow) const { return flow.timer_ps; }

  void on_timer(State& flow, Ps now) const {
    if (options_.on_timer == 0) {
      flow.timer_ps = 0;
      return;
    }
    timed(options_.on_timer, "on_timer", flow, now);
    if (flow.timer_ps != 0 && flow.timer_ps <= now) refuse("on_timer", "left timer_ps where it was: set a later time, or 0");
  }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "user",
            .summary = "Functions that a user compiled."};
  }

 private:
  void timed(std::uintptr_t function, const char* name, State& flow, Ps now) const {
    if (function == 0) return;
    check(reinterpret_cast<OnTime>(function)(&flow, now, &network_), name, flow, now);
  }

  static void check(std::int64_t fine, const char* name, const State& flow, Ps) {
    const bool sound = fine == 1 && flow.rate_bps > 0 && flow.rate_bps < 1e18 && flow.window_bytes >= 0 && flow.timer_ps >= 0;
    if (!sound) [[unlikely]] explain(fine, name, flow);
  }

  [[noreturn, gnu::cold]] static void explain(std::int64_t fine, const char* name, const State& flow) {
    if (fine != 1) refuse(name, "raised an error (printed above)");
    if (flow.window_bytes < 0) refuse(name, "set window_bytes to " + std::to_string(flow.window_bytes));
    if (flow.timer_ps < 0) refuse(name, "set timer_ps to " + std::to_string(flow.timer_ps));
    refuse(name, "set rate_bps to " + std::to_string(flow.rate_bps) + ": a rate is more than 0 and finite");
  }

  [[noreturn, gnu::cold]] static void refuse(const char* name, const std::string& what) {
    throw std::invalid_argument(std::string("the user's ") + name + " " + what);
  }

  UserControlOptions options_;
  UserNetwork network_;
};

inline const RateControl<UserControl> kUserControl;

}  // namespace railyard::packet
