#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

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
      : rule_(options.of<SpectrumOptions>()),
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

  Ps threshold() const { return threshold_; }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "spectrum",
            .summary = "Rates by round-trip times and notifications, after what is public of Spectrum-X.",
            .sources = {"NVIDIA network operator, spectrum-x releases RA1.3 to RA2.2: names and defaults of the parameters",
                        "DOCA tutorials: the open algorithm of zero-touch RoCE (RTTCC)"},
            .fields = {
                field<&SpectrumOptions::threshold_ps>("threshold_ps", "ps", kTimeRange,
                      "Round-trip time beyond which there is congestion.").or_else(std::int64_t{0},
                      "15 us, or 1.25 base round trips where those are longer"),
                field<&SpectrumOptions::responsiveness>("responsiveness", "", between(0, 100),
                      "Of the rate, a threshold of excess."),
                field<&SpectrumOptions::most_decrease>("most_decrease", "share", kShareRange,
                      "Kept at least by a round-trip time, of the rate."),
                field<&SpectrumOptions::most_increase>("most_increase", "", between(1, 100),
                      "The rate grows by this factor at most."),
                field<&SpectrumOptions::additive_share>("additive_share", "share", between(0, 1),
                      "Added every base round trip without congestion, of the line rate."),
                field<&SpectrumOptions::hyper_share>("hyper_share", "share", between(0, 1),
                      "Added instead after a long time without."),
                field<&SpectrumOptions::hyper_interval_ps>("hyper_interval_ps", "ps", kTimeRange, "That time."),
                field<&SpectrumOptions::first_cut>("first_cut", "share", kShareRange, "Kept at the first congestion, of the rate."),
                field<&SpectrumOptions::notified_kept>("notified_kept", "share", kShareRange, "Kept at a notification."),
                field<&SpectrumOptions::gap_kept>("gap_kept", "share", kShareRange, "Kept when a gap is reported or time runs out."),
                field<&SpectrumOptions::least_share>("least_share", "share", kShareRange, "Least rate, of the line rate.")}};
  }

 private:
  void scale(State& state, double factor) const {
    state.rate_bps = std::clamp(state.rate_bps * factor, rule_.least_share * state.line_bps, state.line_bps);
  }

  static constexpr Ps kThreshold = 15'000'000;  ///< Releases RA1.3 and RA2.2.

  SpectrumOptions rule_;
  Ps threshold_, base_;
};

inline const RateControl<Spectrum> kSpectrum;

}  // namespace railyard::packet
