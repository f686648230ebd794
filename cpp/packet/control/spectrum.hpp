#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/control/acknowledged.hpp"
#include "packet/options.hpp"

namespace railyard::packet {

/// A rate by round-trip times and notifications, after what is public of Spectrum-X's control: the names and defaults of
/// its parameters (NVIDIA's network operator) and the open algorithm that it grew from (zero-touch RoCE's RTTCC, in the
/// tutorials of DOCA). How they are put together here is our reading:
///   once a base round trip, by the newest round-trip time:
///     beyond the threshold  rate *= max(1 - responsiveness (rtt - threshold) / threshold, most_decrease),
///                           and at the first time since the rate was whole, rate *= first_cut;
///     below it              rate *= min(1 + responsiveness (threshold - rtt) / threshold, most_increase) and
///                           rate += additive, or hyper where nothing was congested for the hyper interval;
///   a notification, at most once a base round trip: rate *= notified; a gap that was reported: rate *= gap.
class Spectrum {
 public:
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    double line_bps = 0;
    Ps judged_at = 0;     ///< The last round-trip time that counted.
    Ps notified_at = 0;   ///< The last notification that counted.
    Ps congested_at = 0;  ///< Congestion of any kind was last seen.
    bool whole = true;    ///< Nothing has cut the rate since it last was the line's.
  };

  Spectrum(const Options& options, const Derived& derived)
      : rule_(options.spectrum),
        threshold_(rule_.threshold_ps > 0 ? rule_.threshold_ps
                                          : std::max(kThreshold, derived.base_rtt_ps + derived.base_rtt_ps / 4)),
        base_(std::max<Ps>(derived.base_rtt_ps, 1)) {}

  void open(State& state, Ps now) const {
    state.line_bps = state.rate_bps;
    state.judged_at = state.congested_at = now;
    state.notified_at = now - base_;
  }

  void on_ack(State& state, const Acknowledged& ack) const {
    if (ack.now - state.judged_at < base_) return;
    state.judged_at = ack.now;
    const double excess = static_cast<double>(ack.rtt - threshold_) / static_cast<double>(threshold_);
    if (excess > 0) {
      state.congested_at = ack.now;
      const double kept = std::max(1 - rule_.responsiveness * excess, rule_.most_decrease);
      scale(state, state.whole ? rule_.first_cut * kept : kept);
      state.whole = false;
      return;
    }
    scale(state, std::min(1 - rule_.responsiveness * excess, rule_.most_increase));
    const bool calm = ack.now - state.congested_at >= rule_.hyper_interval_ps;
    state.rate_bps += (calm ? rule_.hyper_share : rule_.additive_share) * state.line_bps;
    if (state.rate_bps < state.line_bps) return;
    state.rate_bps = state.line_bps;
    state.whole = true;
  }

  void on_cnp(State& state, Ps now) const {
    if (now - state.notified_at < base_) return;
    state.notified_at = state.congested_at = now;
    scale(state, rule_.notified_kept);
    state.whole = false;
  }

  void on_nack(State& state, Ps now) const {
    state.congested_at = now;
    scale(state, rule_.gap_kept);
    state.whole = false;
  }
  void on_timeout(State& state, Ps now) const { on_nack(state, now); }
  void on_sent(State&, std::int64_t, Ps) const {}
  Ps next_timer(const State&) const { return 0; }
  void on_timer(State&, Ps) const {}

  Ps threshold() const { return threshold_; }

 private:
  void scale(State& state, double factor) const {
    state.rate_bps = std::clamp(state.rate_bps * factor, rule_.least_share * state.line_bps, state.line_bps);
  }

  static constexpr Ps kThreshold = 15'000'000;  ///< Releases RA1.3 and RA2.2.

  SpectrumOptions rule_;
  Ps threshold_, base_;
};

}  // namespace railyard::packet
