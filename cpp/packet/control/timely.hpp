#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

/// Defaults of the paper, for links of 10 Gb/s; where it leaves a constant open, of HPCC's ns-3.
struct TimelyOptions {
  double alpha = 0.875;                ///< Weight of a new difference of round-trip times.
  double beta = 0.8;                   ///< Strength of a decrease.
  double additive_bps = 10e6;          ///< Delta.
  Ps low_ps = 50'000'000;              ///< Below it the rate rises whatever the gradient.
  Ps high_ps = 500'000'000;            ///< Above it the rate falls whatever the gradient.
  Ps base_rtt_ps = 0;                  ///< What gradients are shares of; 0: of the network's longest path.
  std::int64_t segment_bytes = 16'384; ///< Acknowledged between two changes of the rate.
  std::uint32_t hyper_after = 5;       ///< Increases in a row after which steps are `hyper_steps` times as high.
  std::uint32_t hyper_steps = 5;
  double min_rate_bps = 100e6;
};

/// Rates by the gradient of round-trip times (Mittal et al., SIGCOMM 2015, algorithm 1). Once a segment, by its newest
/// round-trip time:
///   difference = (1 - alpha) difference + alpha (rtt - last rtt),   gradient = difference / base rtt
///   rtt < low:        rate += additive
///   rtt > high:       rate *= 1 - beta (1 - high / rtt)
///   gradient <= 0:    rate += additive, five times that from the fifth time in a row on
///   else              rate *= 1 - beta gradient
class Timely {
 public:
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    double line_bps = 0;
    Ps last_rtt = 0;           ///< 0: none yet.
    double difference_ps = 0;  ///< Smoothed.
    std::int64_t acknowledged = 0;
    std::uint32_t increases = 0;  ///< In a row, with a gradient that is not positive.
  };

  Timely(const Options& options, const Derived& derived)
      : rule_(options.of<TimelyOptions>()),
        base_rtt_(static_cast<double>(std::max<Ps>(rule_.base_rtt_ps > 0 ? rule_.base_rtt_ps : derived.base_rtt_ps, 1))) {}

  void open(State& state, Ps) const { state.line_bps = state.rate_bps; }

  void on_ack(State& state, const Acknowledged& ack) const {
    state.acknowledged += ack.fresh_bytes;
    if (state.acknowledged < rule_.segment_bytes) return;
    state.acknowledged = 0;
    const Ps last = state.last_rtt;
    state.last_rtt = ack.rtt;
    if (last == 0) return;
    state.difference_ps = (1 - rule_.alpha) * state.difference_ps + rule_.alpha * static_cast<double>(ack.rtt - last);
    const double wanted = next_rate(state, ack.rtt, state.difference_ps / base_rtt_);
    state.rate_bps = std::clamp(wanted, std::min(rule_.min_rate_bps, state.line_bps), state.line_bps);
  }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "timely",
            .summary = "Rates by the gradient of round-trip times.",
            .sources = {"Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015, algorithm 1: "
                        "delta, beta, thresholds, five increases",
                        "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc: alpha 0.875, least rate of 100 Mb/s",
                        "Zhu et al., ECN or Delay, CoNEXT 2016, table 2: segments of 16 KB"},
            .fields = {
                field<&TimelyOptions::alpha>("alpha", "share", kShareRange, "Weight of a new difference of round-trip times."),
                field<&TimelyOptions::beta>("beta", "share", kShareRange, "Strength of a decrease."),
                field<&TimelyOptions::additive_bps>("additive_bps", "bps", kRateRange, "What an increase adds."),
                field<&TimelyOptions::low_ps>("low_ps", "ps", kTimeRange,
                                              "Round-trip time below which the rate rises whatever the gradient."),
                field<&TimelyOptions::high_ps>("high_ps", "ps", kPositiveTimeRange,
                                               "Round-trip time above which the rate falls whatever the gradient."),
                field<&TimelyOptions::base_rtt_ps>("base_rtt_ps", "ps", kTimeRange,
                                                   "Round-trip time that gradients are shares of.")
                    .or_else(std::int64_t{0}, "that of the network's longest path"),
                field<&TimelyOptions::segment_bytes>("segment_bytes", "bytes", between(1, 1e9),
                                                     "Payload acknowledged between two changes of the rate."),
                field<&TimelyOptions::hyper_after>("hyper_after", "", between(1, 1e6),
                                                   "Increases in a row from which on steps are higher."),
                field<&TimelyOptions::hyper_steps>("hyper_steps", "", between(1, 1e6), "How many times as high."),
                field<&TimelyOptions::min_rate_bps>("min_rate_bps", "bps", between(1, 1e15), "Least rate.")},
            .check = [](const Options& options) {
              const TimelyOptions& rule = options.of<TimelyOptions>();
              if (rule.low_ps > rule.high_ps) throw std::invalid_argument("timely: low_ps lies above high_ps");
            }};
  }

 private:
  double next_rate(State& state, Ps rtt, double gradient) const {
    if (rtt < rule_.low_ps) return state.rate_bps + rule_.additive_bps;
    if (rtt > rule_.high_ps) {
      state.increases = 0;
      return state.rate_bps * (1 - rule_.beta * (1 - static_cast<double>(rule_.high_ps) / static_cast<double>(rtt)));
    }
    if (gradient > 0) {
      state.increases = 0;
      return state.rate_bps * (1 - rule_.beta * gradient);
    }
    const double steps = ++state.increases >= rule_.hyper_after ? rule_.hyper_steps : 1;
    return state.rate_bps + steps * rule_.additive_bps;
  }

  TimelyOptions rule_;
  double base_rtt_;
};

inline const RateControl<Timely> kTimely;

}  // namespace railyard::packet
