#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

enum class DcqcnForm : std::uint8_t {
  paper,     ///< A notification cuts at once.
  periodic,  ///< Clocks look whether one came.
};

/// DCQCN; defaults of the paper for 40 Gb/s.
struct DcqcnOptions {
  DcqcnForm form = DcqcnForm::paper;
  double g = 1.0 / 256;
  Ps alpha_interval_ps = 55'000'000;
  Ps decrease_interval_ps = 0;          ///< Least time between two cuts; of the periodic form the clock's period.
  Ps increase_interval_ps = 55'000'000;
  std::int64_t byte_counter = 10'000'000;  ///< 0: none.
  std::uint32_t fast_recovery = 5;
  double additive_bps = 40e6, hyper_bps = 200e6;
  double min_rate_bps = 10e6;
  double initial_rate = 1;              ///< Of the line rate.
  double first_cnp_rate = 1;            ///< Kept at the first notification, before the cut.
  double least_kept = 0.5;              ///< Of the rate, in one cut.
  bool clamp_target = false;            ///< Every cut of the periodic form lowers the target.
};

/// DCQCN, the rate control of RoCE interfaces (Zhu et al., SIGCOMM 2015), in two forms.
///
/// `paper`: a congestion notification (CNP) cuts the rate at once,
///     target = rate, rate *= 1 - alpha / 2, alpha = (1 - g) alpha + g,
/// and alpha decays by 1 - g after every alpha interval without a CNP.
/// `periodic`, what interfaces in use do (read in the simulator of HPCC, alibaba-edu/High-Precision-Congestion-Control,
/// rdma-hw.cc): from the first CNP on two clocks tick. Each alpha interval alpha becomes (1 - g) alpha + g if a CNP came
/// in it, else (1 - g) alpha; each decrease interval the rate is cut once if a CNP came. The target falls to the old rate
/// only if the rate has risen since the cut before, unless `clamp_target`.
///
/// Both rise when the timer or the byte counter expires: `fast_recovery` times half way to the target; then the target
/// itself rises by `additive_bps`; past that in both counters by `hyper_bps` for every step since. Without a byte counter
/// the timer alone counts and a hyper step adds `hyper_bps` once. A cut begins all of it anew.
///
/// Alpha is advanced only when it is needed: between CNPs it decays as a power, so no event is spent on its ticks.
class Dcqcn {
 public:
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    double target_bps = 0, line_bps = 0;
    double alpha = 1;
    Ps alpha_at = 0;  ///< The last tick of alpha that has been counted.
    Ps began = -1;    ///< The first CNP; -1: none yet.
    Ps cut_at = 0;    ///< When a decrease that waits comes; 0: none does.
    Ps rise_at = 0;   ///< When the timer expires; 0: it does not run.
    std::int64_t counted_bytes = 0;
    std::uint32_t timer_stage = 0, byte_stage = 0;
    bool signalled = false;  ///< A CNP came since the last tick of alpha.
  };

  Dcqcn(const Options& options, const Derived&) : rule_(options.of<DcqcnOptions>()) {}

  void open(State& state, Ps) {
    state.line_bps = state.rate_bps;
    state.rate_bps *= rule_.initial_rate;
    state.target_bps = state.rate_bps;
    state.alpha = 1;
  }

  void on_cnp(State& state, Ps now) {
    if (state.began < 0) begin(state, now);
    else advance_alpha(state, now);
    if (rule_.form == DcqcnForm::periodic) {
      state.signalled = state.began != now;  // the first one sets alpha to 1 itself
      if (state.cut_at == 0) state.cut_at = next_tick(state.began, rule_.decrease_interval_ps, now);
      return;
    }
    if (state.cut_at > now) return;
    state.target_bps = state.rate_bps;
    cut(state, now);
    state.alpha = (1 - rule_.g) * state.alpha + rule_.g;
    state.alpha_at = now;
    state.cut_at = rule_.decrease_interval_ps > 0 ? now + rule_.decrease_interval_ps : 0;
  }

  void on_sent(State& state, std::int64_t bytes, Ps) {
    if (rule_.byte_counter == 0 || state.rise_at == 0) return;
    state.counted_bytes += bytes;
    while (state.counted_bytes >= rule_.byte_counter) {
      state.counted_bytes -= rule_.byte_counter;
      rise(state);
      ++state.byte_stage;
    }
  }

  /// The form and whether bytes are counted stay: flows have state that goes by them.
  void retune(const Options& options) {
    const DcqcnOptions before = rule_;
    rule_ = options.of<DcqcnOptions>();
    rule_.form = before.form;
    if ((before.byte_counter == 0) != (rule_.byte_counter == 0)) rule_.byte_counter = before.byte_counter;
  }

  bool sees_departures() const { return rule_.byte_counter != 0; }

  Ps next_timer(const State& state) const {
    if (rule_.form == DcqcnForm::paper || state.cut_at == 0) return state.rise_at;
    return state.rise_at == 0 ? state.cut_at : std::min(state.cut_at, state.rise_at);
  }

  void on_timer(State& state, Ps now) {
    if (rule_.form == DcqcnForm::periodic && state.cut_at != 0 && state.cut_at <= now) {
      advance_alpha(state, now);
      if (rule_.clamp_target || state.timer_stage + state.byte_stage > 0) state.target_bps = state.rate_bps;
      cut(state, now);
      state.cut_at = 0;
    }
    while (state.rise_at != 0 && state.rise_at <= now) {
      rise(state);
      ++state.timer_stage;
      state.rise_at += rule_.increase_interval_ps;
      // WHY: at line rate nothing can rise; the next cut starts the timer again.
      if (state.rate_bps >= state.line_bps) state.rise_at = 0;
    }
  }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "dcqcn",
            .summary = "Rate control by congestion notifications, as RoCE interfaces do it.",
            .sources = {"Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015: the algorithm, constants for 40 Gb/s",
                        "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc: the periodic form"},
            .fields = {
                choice<&DcqcnOptions::form>("form", {"paper", "periodic"},
                      "`paper` cuts at every notification, `periodic` by clocks that look whether one came."),
                field<&DcqcnOptions::g>("g", "share", kShareRange, "Weight of a new sample in alpha."),
                field<&DcqcnOptions::alpha_interval_ps>("alpha_interval_ps", "ps", kPositiveTimeRange, "Period of alpha."),
                field<&DcqcnOptions::decrease_interval_ps>("decrease_interval_ps", "ps", kTimeRange,
                      "Least time between cuts; the clock of the periodic form."),
                field<&DcqcnOptions::increase_interval_ps>("increase_interval_ps", "ps", kPositiveTimeRange, "Timer of increases."),
                field<&DcqcnOptions::byte_counter>("byte_counter", "bytes", kBytesRange,
                      "Bytes sent after which the rate rises; 0: never by bytes."),
                field<&DcqcnOptions::fast_recovery>("fast_recovery", "", between(0, 1000),
                      "Steps half way back to the target before the target rises."),
                field<&DcqcnOptions::additive_bps>("additive_bps", "bps", kRateRange, "What the target then rises by."),
                field<&DcqcnOptions::hyper_bps>("hyper_bps", "bps", kRateRange, "What it rises by later."),
                field<&DcqcnOptions::min_rate_bps>("min_rate_bps", "bps", between(1, 1e15), "Least rate."),
                field<&DcqcnOptions::initial_rate>("initial_rate", "share", kShareRange, "First rate, of the line rate."),
                field<&DcqcnOptions::first_cnp_rate>("first_cnp_rate", "share", kShareRange,
                      "Kept at the first notification, of the rate, before the cut."),
                field<&DcqcnOptions::least_kept>("least_kept", "share", kShareRange, "Kept by any cut, of the rate."),
                flag<&DcqcnOptions::clamp_target>("clamp_target", "Whether every cut of the periodic form lowers the target.")},
            .check = [](const Options& options) {
              const DcqcnOptions& rule = options.of<DcqcnOptions>();
              if (rule.form == DcqcnForm::periodic && rule.decrease_interval_ps == 0)
                throw std::invalid_argument("dcqcn: the periodic form needs a decrease_interval_ps above 0");
            }};
  }

 private:
  static Ps next_tick(Ps began, Ps interval, Ps now) { return began + ((now - began) / interval + 1) * interval; }

  /// (1 - g)^count by squaring: the same bits on every machine.
  static double power(double base, std::int64_t count) {
    double result = 1;
    for (; count > 0; count >>= 1, base *= base)
      if ((count & 1) != 0) result *= base;
    return result;
  }

  void begin(State& state, Ps now) {
    state.began = state.alpha_at = now;
    state.rate_bps *= rule_.first_cnp_rate;
    state.target_bps = state.rate_bps;
  }

  void advance_alpha(State& state, Ps now) {
    std::int64_t ticks = (now - state.alpha_at) / rule_.alpha_interval_ps;
    if (ticks == 0) return;
    state.alpha_at += ticks * rule_.alpha_interval_ps;
    if (state.signalled) {
      state.alpha = (1 - rule_.g) * state.alpha + rule_.g;
      state.signalled = false;
      --ticks;
    }
    state.alpha *= power(1 - rule_.g, ticks);
  }

  void cut(State& state, Ps now) {
    const double kept = std::max(1 - state.alpha / 2, rule_.least_kept);
    state.rate_bps = std::max(rule_.min_rate_bps, state.rate_bps * kept);
    state.timer_stage = state.byte_stage = 0;
    state.counted_bytes = 0;
    state.rise_at = now + rule_.increase_interval_ps;
  }

  void rise(State& state) {
    const std::uint32_t more = std::max(state.timer_stage, state.byte_stage);
    const std::uint32_t less = rule_.byte_counter == 0 ? more : std::min(state.timer_stage, state.byte_stage);
    if (less > rule_.fast_recovery) {
      const double steps = rule_.byte_counter == 0 ? 1 : less - rule_.fast_recovery;
      state.target_bps += rule_.hyper_bps * steps;
    } else if (more >= rule_.fast_recovery) {
      state.target_bps += rule_.additive_bps;
    }
    state.target_bps = std::min(state.target_bps, state.line_bps);
    state.rate_bps = (state.rate_bps + state.target_bps) / 2;
    if (state.line_bps - state.rate_bps < 1) state.rate_bps = state.line_bps;
  }

  DcqcnOptions rule_;
};

inline const RateControl<Dcqcn> kDcqcn;

}  // namespace railyard::packet
