#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/time.hpp"
#include "packet/control/rate_controls.hpp"
#include "packet/telemetry.hpp"

namespace railyard::packet {

/// How HPCC's rules are read: as published, or as csg-htsim computes them (see `hpcc.hpp`).
enum class HpccReading : std::uint8_t { paper, htsim };

/// High-precision congestion control. Li et al., SIGCOMM 2019, section 5.1; where the ns-3 release of its authors
/// (alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc, run.py) has another constant, that.
struct HpccOptions {
  HpccReading reading = HpccReading::paper;
  double eta = 0.95;                     ///< Utilization aimed at.
  std::uint32_t max_stage = 5;           ///< Additive increases in a row; the release: 0.
  Ps rtt_ps = 0;                         ///< The base round trip T of all flows; 0: of a flow's path, where the
                                         ///< transport says it (`window_rtts`), else of the longest path.
  std::int64_t increase_bytes = 0;       ///< Added each round trip; 0: by share.
  double increase_share = 1.0 / 2500;    ///< Of the first window; the release: 10 Mb/s for every 25 Gb/s of line rate.
  double min_rate_bps = 100e6;           ///< The release: 100 Mb/s.
  std::uint32_t hops = 5;                ///< Rows of telemetry used.
};

/// High-precision congestion control (Li et al., SIGCOMM 2019, algorithm 1; constants of its ns-3 release): every egress
/// writes what it has sent, what waits and when into the packets that leave it. From two of those the sender knows how
/// much of its base round trip each link has in flight; the fullest link rules, and the window is set so that it comes to
/// `eta`. It reacts to every acknowledgement, but always from the reference window of one round trip ago, so that a queue
/// is not answered twice.
///
/// `HpccReading::htsim` is the same as csg-htsim 841d9e7 (hpcc.cpp) computes it, which differs in five points: rates are
/// means since the first acknowledgement, whose telemetry is never replaced; the share of a sample is 0 or 1 (whole base
/// round trips); every acknowledgement moves the reference; nothing bounds the window from above, and a packet goes only
/// if it fits into it whole.
class Hpcc {
 public:
  static constexpr bool kTelemetry = true;
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    double first = 0;                ///< First window, bytes: what the line sends in a base round trip.
    Ps rtt = 0;                      ///< The base round trip T.
    double reference = 0;            ///< Window of one round trip ago, bytes.
    double utilization = 1;          ///< Smoothed in-flight bytes of the fullest link, in bandwidth-delay products.
    std::uint32_t update_after = 0;  ///< An acknowledgement beyond this packet makes the window the reference.
    std::uint32_t stage = 0;         ///< Additive increases in a row.
    std::uint32_t hops = 0;
    std::array<Hop, Telemetry::kMost> last{};
  };

  Hpcc(const Options& options, const Derived& derived)
      : options_(options.of<HpccOptions>()),
        base_rtt_(derived.base_rtt_ps),
        payload_(options.mtu_bytes - options.header_bytes),
        own_(options_.reading == HpccReading::htsim ? options.mtu_bytes : 0),
        line_bps_(static_cast<double>(derived.rate_bps)) {
    options_.hops = std::min<std::uint32_t>(options_.hops, Telemetry::kMost);
  }

  /// `window_bytes` may hold what the flow's own path holds in a round trip; T is then that of the path.
  void open(State& state, Ps) const {
    const double given = 8e12 * static_cast<double>(state.window_bytes) / line_bps_;
    state.rtt = options_.rtt_ps > 0 ? options_.rtt_ps : given > 0 ? static_cast<Ps>(given) : base_rtt_;
    state.first = line_bps_ / 8 * seconds(state.rtt);
    state.reference = state.first;
    state.utilization = options_.reading == HpccReading::htsim ? options_.eta : 1;
    set(state, state.first);
  }

  void on_ack(State& state, const Acknowledged& ack) const {
    const std::uint32_t hops = std::min(ack.hop_count, options_.hops);
    if (hops == 0) return;  // a path without switches
    if (hops != state.hops) return begin(state, ack, hops);
    if (options_.reading == HpccReading::htsim) see_whole(state, ack);
    else see(state, ack);
    const bool full = ack.sequence > state.update_after;
    react(state, full);
    if (full) state.update_after = ack.next_sequence;
  }

  /// A gap was reported. WHY nothing in the paper's reading: telemetry already says what is to be known.
  void on_nack(State& state, Ps) const {
    if (options_.reading == HpccReading::htsim) restart(state);
  }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "hpcc",
            .summary = "Windows by the telemetry that switches write into packets.",
            .sources = {"Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019, section 5.1",
                        "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc, run.py: constants",
                        "Broadcom/csg-htsim, commit 841d9e7, hpcc.cpp: the other reading"},
            .fields = {
                choice<&HpccOptions::reading>("reading", {"paper", "htsim"},
                      "HPCC's rules as published, or as csg-htsim computes them."),
                field<&HpccOptions::eta>("eta", "", between(0.01, 9.99), "Utilization of the fullest link that windows aim at."),
                field<&HpccOptions::max_stage>("max_stage", "", between(0, 1e6),
                      "Additive increases in a row before a relative one; the release of its authors: 0."),
                field<&HpccOptions::rtt_ps>("rtt_ps", "ps", kTimeRange, "Base round trip of all flows.").or_else(std::int64_t{0},
                      "that of the flow's path with rdma_window_rtts=1, else that of the longest path"),
                field<&HpccOptions::increase_bytes>("increase_bytes", "bytes", kBytesRange,
                      "Bytes added each round trip.").or_else(std::int64_t{0}, "by share"),
                field<&HpccOptions::increase_share>("increase_share", "share", between(0, 1),
                      "Bytes added each round trip, of the first window."),
                field<&HpccOptions::min_rate_bps>("min_rate_bps", "bps", between(1, 1e15), "Least rate."),
                field<&HpccOptions::hops>("hops", "", between(1, 8), "Egresses whose telemetry is used.")}};
  }

 private:
  static double seconds(Ps time) { return static_cast<double>(time) * 1e-12; }

  /// The first acknowledgement, or the path has another length: there is nothing to compare with.
  void begin(State& state, const Acknowledged& ack, std::uint32_t hops) const {
    keep(state, ack, hops);
    if (options_.reading == HpccReading::htsim) {
      const bool full = ack.sequence > state.update_after;
      react(state, full);
      if (full) state.update_after = ack.next_sequence;
    } else {
      state.update_after = ack.next_sequence;
    }
  }

  static void keep(State& state, const Acknowledged& ack, std::uint32_t hops) {
    state.hops = hops;
    std::copy_n(ack.hops, hops, state.last.begin());
  }

  struct Fullest {
    double load = 0;
    Ps span = 0;
  };

  /// The link with the most in flight: its queue and what it sent in a base round trip, in bandwidth-delay products.
  Fullest fullest(const State& state, const Acknowledged& ack) const {
    Fullest found;
    for (std::uint32_t at = 0; at < state.hops; ++at) {
      const Hop& now = ack.hops[at];
      const Hop& then = state.last[at];
      const Ps span = now.time - then.time;
      if (span <= 0) continue;  // overtaken on the way
      const double rate_bps = 1e6 * now.rate_mbps;
      const double sent_bps = 8 * static_cast<double>(now.tx_bytes - then.tx_bytes) / seconds(span);
      const double queue = 8 * (std::min(now.queue_bytes, then.queue_bytes) + own_) / (rate_bps * seconds(state.rtt));
      const double load = queue + sent_bps / rate_bps;
      if (load > found.load) found = {load, span};
    }
    return found;
  }

  void see(State& state, const Acknowledged& ack) const {
    const Fullest found = fullest(state, ack);
    if (found.span == 0) return;
    keep(state, ack, state.hops);
    const double share = static_cast<double>(std::min(found.span, state.rtt)) / static_cast<double>(state.rtt);
    state.utilization = (1 - share) * state.utilization + share * found.load;
  }

  void see_whole(State& state, const Acknowledged& ack) const {
    const Fullest found = fullest(state, ack);
    if (found.span >= state.rtt) state.utilization = found.load;
  }

  void react(State& state, bool full) const {
    const bool relative = state.utilization >= options_.eta || state.stage >= options_.max_stage;
    const double scaled = state.reference / (state.utilization / options_.eta);
    const double wanted = (relative && state.utilization > 0 ? scaled : state.reference) + increase(state);
    const double most = options_.reading == HpccReading::htsim ? std::numeric_limits<double>::max() : state.first;
    const double window = std::clamp(wanted, options_.min_rate_bps / 8 * seconds(state.rtt), most);
    if (full) state.stage = relative ? 0 : state.stage + 1;
    if (full || options_.reading == HpccReading::htsim) state.reference = window;
    set(state, window);
  }

  double increase(const State& state) const {
    return options_.increase_bytes > 0 ? static_cast<double>(options_.increase_bytes)
                                       : options_.increase_share * state.first;
  }

  void restart(State& state) const {
    state.reference = increase(state);
    set(state, state.reference);
  }

  void set(State& state, double window) const {
    // The transport sends while less than the window is out; htsim only what fits into it whole.
    const double room = options_.reading == HpccReading::htsim ? window - payload_ + 1 : window;
    state.window_bytes = static_cast<std::int64_t>(std::clamp(room, 1.0, kWindowMost));
    state.rate_bps = 8 * window / seconds(state.rtt);
  }

  static constexpr double kWindowMost = 1e15;

  HpccOptions options_;
  Ps base_rtt_;
  double payload_;
  double own_;  ///< The packet itself: htsim counts it into the queue that it leaves.
  double line_bps_;
};

inline const RateControl<Hpcc> kHpcc;

}  // namespace railyard::packet
