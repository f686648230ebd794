#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

/// Rates by round-trip time. Defaults: spectrum-x-network-operator, release RA2.1 (shares of 2^16 and 2^20); what a
/// notification and a gap count for, from the open RTTCC.
struct SpectrumOptions {
  Ps threshold_ps = 0;                  ///< Round-trip time beyond which there is congestion; 0: 15 us, or 1.25 base ones.
  double responsiveness = 0.1;
  double most_decrease = 63570.0 / 65536, most_increase = 69468.0 / 65536;
  double additive_share = 96.0 / 1048576, hyper_share = 1700.0 / 1048576;  ///< Of the line rate.
  Ps hyper_interval_ps = 2'000'000'000;
  double first_cut = 0.5;
  double notified_kept = 0.94, gap_kept = 0.85;
  Ps most_delay_ps = 250'000'000;
  double least_share = 1.0 / 16384;     ///< Of the line rate.
};

/// A rate by round-trip times and notifications, after what is public of Spectrum-X's control: names and defaults of its
/// parameters (NVIDIA's network operator), and the open algorithm that it grew from (zero-touch RoCE's RTTCC, a sample of
/// DOCA PCC), which gives the order of events. One probe is out at a time: the next leaves when the last has come back, so
/// the rate is judged once a round trip as it is, queues included, and never twice for the same queue. What came meanwhile
/// is remembered until then. A returned probe, the first of these that holds:
///   a gap was reported, rtt >= most_delay       rate *= gap_kept
///   a notification came, or rtt >= most_delay   rate *= notified_kept
///   rtt > threshold                             rate *= max(1 - responsiveness (rtt - threshold) / threshold, most_decrease)
///   else  rate *= min(1 + responsiveness (threshold - rtt) / threshold, most_increase), and
///         rate += additive, or hyper where nothing was congested for the hyper interval
/// and the first cut since the rate was the line's takes it to first_cut of it. The two proportional lines, and what a
/// notification counts for, are our reading: a notification as two of the greatest decreases and a gap as five, as RTTCC has
/// it.
class Spectrum {
 public:
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    double line_bps = 0;
    Ps judged_at = 0;     ///< When the probe that is out was sent, or may be.
    Ps congested_at = 0;  ///< Congestion of any kind was last seen.
    bool notified = false, gap = false;  ///< Since then.
    bool whole = true;    ///< Nothing has cut the rate since it last was the line's.
  };

  Spectrum(const Options& options, const Derived& derived)
      : rule_(options.of<SpectrumOptions>()),
        threshold_(rule_.threshold_ps > 0 ? rule_.threshold_ps
                                          : std::max(kThreshold, derived.base_rtt_ps + derived.base_rtt_ps / 4)) {}

  void open(State& state, Ps now) const {
    state.line_bps = state.rate_bps;
    state.judged_at = state.congested_at = now;
  }

  void on_ack(State& state, const Acknowledged& ack) const {
    if (ack.now - ack.rtt < state.judged_at) return;  // sent before the last judgement: tells of the rate before it
    const double kept = kept_after(state, ack.rtt);
    state.judged_at = ack.now;
    state.notified = state.gap = false;
    if (kept < 1) cut(state, kept, ack.now);
    else raise(state, ack);
  }

  void on_cnp(State& state, Ps) const { state.notified = true; }
  void on_nack(State& state, Ps) const { state.gap = true; }
  void on_timeout(State& state, Ps) const { state.gap = true; }

  Ps threshold() const { return threshold_; }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "spectrum",
            .summary = "Rates by round-trip times and notifications, after what is public of Spectrum-X.",
            .sources = {"NVIDIA network operator, spectrum-x releases RA1.3 to RA2.2: names and defaults of the parameters",
                        "DOCA PCC, sample rtt_template: the open algorithm of zero-touch RoCE (RTTCC), order of events"},
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
                field<&SpectrumOptions::gap_kept>("gap_kept", "share", kShareRange,
                      "Kept when a gap was reported or time ran out, and the round trip is longer than most_delay."),
                field<&SpectrumOptions::most_delay_ps>("most_delay_ps", "ps", kTimeRange,
                      "Round-trip time that counts as a notification."),
                field<&SpectrumOptions::least_share>("least_share", "share", kShareRange, "Least rate, of the line rate.")}};
  }

 private:
  /// What a probe leaves of the rate; 1: it may rise.
  double kept_after(const State& state, Ps rtt) const {
    const bool slow = rtt >= rule_.most_delay_ps;
    if (state.gap && slow) return rule_.gap_kept;
    if (state.notified || slow) return rule_.notified_kept;
    if (rtt <= threshold_) return 1;
    return std::max(1 - rule_.responsiveness * excess(rtt), rule_.most_decrease);
  }

  double excess(Ps rtt) const { return static_cast<double>(rtt - threshold_) / static_cast<double>(threshold_); }

  void cut(State& state, double kept, Ps now) const {
    state.congested_at = now;
    scale(state, state.whole ? std::min(kept, rule_.first_cut) : kept);
    state.whole = false;
  }

  void raise(State& state, const Acknowledged& ack) const {
    scale(state, std::min(1 - rule_.responsiveness * excess(ack.rtt), rule_.most_increase));
    const bool calm = ack.now - state.congested_at >= rule_.hyper_interval_ps;
    state.rate_bps += (calm ? rule_.hyper_share : rule_.additive_share) * state.line_bps;
    if (state.rate_bps < state.line_bps) return;
    state.rate_bps = state.line_bps;
    state.whole = true;
  }

  void scale(State& state, double factor) const {
    state.rate_bps = std::clamp(state.rate_bps * factor, rule_.least_share * state.line_bps, state.line_bps);
  }

  static constexpr Ps kThreshold = 15'000'000;  ///< Releases RA1.3 and RA2.2.

  SpectrumOptions rule_;
  Ps threshold_;
};

inline const RateControl<Spectrum> kSpectrum;

}  // namespace railyard::packet
