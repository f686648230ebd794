#pragma once

#include <algorithm>
#include <cstdint>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

/// Rates by queueing delay. Defaults: spectrum-x-network-operator, release RA2.1 (shares of 2^16 and 2^20); what a
/// notification and a gap count for, from the open RTTCC.
struct SpectrumOptions {
  Ps threshold_ps = 15'000'000;         ///< Queueing delay beyond which there is congestion; releases RA1.3 and RA2.2.
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
/// is remembered until then. A returned probe, with the delay of its round trip beyond that of an empty network, the first of
/// these that holds:
///   a gap was reported, delay >= most_delay       rate *= gap_kept
///   a notification came, or delay >= most_delay   rate *= notified_kept
///   delay > threshold                             rate *= max(1 - responsiveness (delay - threshold) / threshold, most_decrease)
///   else  rate *= min(1 + responsiveness (threshold - delay) / threshold, most_increase), and
///         rate += additive, or hyper where nothing was congested for the hyper interval
/// and the first cut since the rate was the line's takes it to first_cut of it. Our reading are: the two proportional lines;
/// that the threshold is of the delay (its name; the counter of a round trip of an empty system; with a responsiveness of
/// 0.1, increases are bounded at 6 %); and that a notification counts as two of the greatest decreases and a gap as five, as
/// RTTCC has it. The empty network's round trip is the least that the flow has seen, at most the longest path's.
class Spectrum {
 public:
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    double line_bps = 0;
    Ps empty_rtt = 0;     ///< Of an empty network.
    Ps judged_at = 0;     ///< When the probe that is out was sent, or may be.
    Ps congested_at = 0;  ///< Congestion of any kind was last seen.
    bool notified = false, gap = false;  ///< Since then.
    bool whole = true;    ///< Nothing has cut the rate since it last was the line's.
  };

  Spectrum(const Options& options, const Derived& derived)
      : rule_(options.of<SpectrumOptions>()), longest_rtt_(derived.base_rtt_ps) {}

  void open(State& state, Ps now) const {
    state.line_bps = state.rate_bps;
    state.empty_rtt = longest_rtt_;
    state.judged_at = state.congested_at = now;
  }

  void on_ack(State& state, const Acknowledged& ack) const {
    state.empty_rtt = std::min(state.empty_rtt, ack.rtt);
    if (ack.now - ack.rtt < state.judged_at) return;  // sent before the last judgement: tells of the rate before it
    const Ps delay = ack.rtt - state.empty_rtt;
    const double kept = kept_after(state, delay);
    state.judged_at = ack.now;
    state.notified = state.gap = false;
    if (kept < 1) cut(state, kept, ack.now);
    else raise(state, delay, ack.now);
  }

  void on_cnp(State& state, Ps) const { state.notified = true; }
  void on_nack(State& state, Ps) const { state.gap = true; }
  void on_timeout(State& state, Ps) const { state.gap = true; }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "spectrum",
            .summary = "Rates by queueing delay and notifications, after what is public of Spectrum-X.",
            .sources = {"NVIDIA network operator, spectrum-x releases RA1.3 to RA2.2: names and defaults of the parameters",
                        "DOCA PCC, sample rtt_template: the open algorithm of zero-touch RoCE (RTTCC), order of events"},
            .fields = {
                field<&SpectrumOptions::threshold_ps>("threshold_ps", "ps", kPositiveTimeRange,
                      "Queueing delay beyond which there is congestion."),
                field<&SpectrumOptions::responsiveness>("responsiveness", "", between(0, 100),
                      "Of the rate, a threshold of excess."),
                field<&SpectrumOptions::most_decrease>("most_decrease", "share", kShareRange,
                      "Kept at least by a judgement, of the rate."),
                field<&SpectrumOptions::most_increase>("most_increase", "", between(1, 100),
                      "The rate grows by this factor at most."),
                field<&SpectrumOptions::additive_share>("additive_share", "share", between(0, 1),
                      "Added by a judgement without congestion, of the line rate."),
                field<&SpectrumOptions::hyper_share>("hyper_share", "share", between(0, 1),
                      "Added instead after a long time without."),
                field<&SpectrumOptions::hyper_interval_ps>("hyper_interval_ps", "ps", kTimeRange, "That time."),
                field<&SpectrumOptions::first_cut>("first_cut", "share", kShareRange, "Kept at the first congestion, of the rate."),
                field<&SpectrumOptions::notified_kept>("notified_kept", "share", kShareRange, "Kept at a notification."),
                field<&SpectrumOptions::gap_kept>("gap_kept", "share", kShareRange,
                      "Kept when a gap was reported or time ran out, and the delay reaches most_delay."),
                field<&SpectrumOptions::most_delay_ps>("most_delay_ps", "ps", kTimeRange,
                      "Queueing delay that counts as a notification."),
                field<&SpectrumOptions::least_share>("least_share", "share", kShareRange, "Least rate, of the line rate.")}};
  }

 private:
  /// What a probe leaves of the rate; 1: it may rise.
  double kept_after(const State& state, Ps delay) const {
    const bool slow = delay >= rule_.most_delay_ps;
    if (state.gap && slow) return rule_.gap_kept;
    if (state.notified || slow) return rule_.notified_kept;
    if (delay <= rule_.threshold_ps) return 1;
    return std::max(1 - rule_.responsiveness * excess(delay), rule_.most_decrease);
  }

  double excess(Ps delay) const {
    return static_cast<double>(delay - rule_.threshold_ps) / static_cast<double>(rule_.threshold_ps);
  }

  void cut(State& state, double kept, Ps now) const {
    state.congested_at = now;
    scale(state, state.whole ? std::min(kept, rule_.first_cut) : kept);
    state.whole = false;
  }

  void raise(State& state, Ps delay, Ps now) const {
    scale(state, std::min(1 - rule_.responsiveness * excess(delay), rule_.most_increase));
    const bool calm = now - state.congested_at >= rule_.hyper_interval_ps;
    state.rate_bps += (calm ? rule_.hyper_share : rule_.additive_share) * state.line_bps;
    if (state.rate_bps < state.line_bps) return;
    state.rate_bps = state.line_bps;
    state.whole = true;
  }

  void scale(State& state, double factor) const {
    state.rate_bps = std::clamp(state.rate_bps * factor, rule_.least_share * state.line_bps, state.line_bps);
  }

  SpectrumOptions rule_;
  Ps longest_rtt_;
};

inline const RateControl<Spectrum> kSpectrum;

}  // namespace railyard::packet
