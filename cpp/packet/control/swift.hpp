#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

/// Delay control after Swift. Kumar et al., SIGCOMM 2020, algorithm 1; constants that the paper leaves open as in
/// csg-htsim 841d9e7 (swift.cpp).
struct SwiftOptions {
  double increase = 1;                   ///< Packets added each round trip.
  double decrease = 0.8;                 ///< Share of the excess delay taken off.
  double max_decrease = 0.5;             ///< At most that at once.
  Ps base_target_ps = 20'000'000;
  Ps hop_target_ps = 3'053'435;          ///< Added for every hop: base / 6.55.
  Ps scaling_range_ps = 100'000'000;     ///< Added at most as windows shrink: 5 base targets.
  double scaling_least = 0.1;            ///< Window at which all of it is added, packets.
  double scaling_most = 100;             ///< Window from which nothing is.
  Ps host_target_ps = 20'000'000;        ///< Delay in the receiving host aimed at.
  double first_packets = 0;              ///< First window; 0: one bandwidth-delay product.
  double least_packets = 0.001;
  double most_packets = 1000;
  std::uint32_t timeout_reset = 5;       ///< Timeouts in a row after which the window is the least.
};

/// Delay-based control after Swift (Kumar et al., SIGCOMM 2020, algorithm 1). Two windows in packets, one for the fabric's
/// delay and one for the delay in the receiving host; the smaller rules. A window grows by `increase` packets a round
/// trip while its delay is below its target, and shrinks at most once a round trip in proportion to how far the delay is
/// above, never by more than `max_decrease`. The fabric's target grows with the hops of the path and as the window
/// shrinks, so that many flows on a link leave each other room. Below one packet a flow sends its packets further apart
/// than a round trip. Constants that the paper leaves open are those of csg-htsim 841d9e7 (swift.cpp).
class Swift {
 public:
  struct Window {
    double packets = 0;
    Ps last_decrease = 0;
  };
  struct State {
    double rate_bps = 0;
    std::int64_t window_bytes = 0;
    Window fabric, host;
    Ps mean_rtt = 0;
    std::uint32_t timeouts = 0;  ///< In a row.
  };

  Swift(const Options& options, const Derived& derived)
      : options_(options.of<SwiftOptions>()),
        packet_bytes_(options.mtu_bytes),
        payload_bytes_(options.mtu_bytes - options.header_bytes),
        line_bps_(static_cast<double>(derived.rate_bps)),
        base_rtt_(derived.base_rtt_ps),
        hops_(static_cast<std::uint32_t>(derived.diameter)) {
    const double range = static_cast<double>(options_.scaling_range_ps);
    alpha_ = range / (1 / std::sqrt(options_.scaling_least) - 1 / std::sqrt(options_.scaling_most));
    beta_ = -alpha_ / std::sqrt(options_.scaling_most);
    const double bdp = line_bps_ / 8 * static_cast<double>(base_rtt_) * 1e-12 / packet_bytes_;
    first_ = options_.first_packets > 0 ? options_.first_packets : std::max(1.0, bdp);
  }

  void open(State& state, Ps now) const {
    state.mean_rtt = base_rtt_;
    // A decrease is allowed from the first acknowledgement on.
    state.fabric = state.host = {std::clamp(first_, options_.least_packets, options_.most_packets), now - base_rtt_};
    set(state);
  }

  /// The fabric delay that a flow with this window aims at.
  Ps target(double packets, std::uint32_t hops) const {
    const double scaling = std::clamp(alpha_ / std::sqrt(packets) + beta_, 0.0,
                                      static_cast<double>(options_.scaling_range_ps));
    return options_.base_target_ps + static_cast<Ps>(hops) * options_.hop_target_ps + static_cast<Ps>(scaling);
  }

  void on_ack(State& state, const Acknowledged& ack) const {
    state.timeouts = 0;
    const double acked = static_cast<double>(ack.fresh_bytes) / payload_bytes_;
    const std::uint32_t hops = ack.hop_count > 0 ? ack.hop_count : hops_;
    const Ps fabric = ack.rtt - ack.host_delay;
    adjust(state, state.fabric, fabric, target(state.fabric.packets, hops), acked, ack.now);
    adjust(state, state.host, ack.host_delay, options_.host_target_ps, acked, ack.now);
    // WHY last: the round trip that a decrease must be apart from the last one is that of before.
    state.mean_rtt = (7 * state.mean_rtt + ack.rtt) / 8;
    set(state);
  }

  /// A packet was lost: the greatest decrease, at most once a round trip.
  void on_nack(State& state, Ps now) const {
    cut(state, state.fabric, now);
    set(state);
  }

  /// After `timeout_reset` timeouts in a row the window is the smallest.
  void on_timeout(State& state, Ps now) const {
    if (++state.timeouts >= options_.timeout_reset) state.fabric = {options_.least_packets, now};
    else cut(state, state.fabric, now);
    set(state);
  }

  double window_packets(const State& state) const { return std::min(state.fabric.packets, state.host.packets); }

  static Mechanism record() {
    return {.family = Family::congestion_control,
            .name = "swift",
            .summary = "Windows by round-trip times, with a target that grows with hops and as windows shrink.",
            .sources = {"Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020, algorithm 1",
                        "Broadcom/csg-htsim, commit 841d9e7, swift.cpp: constants that the paper leaves open"},
            .fields = {
                field<&SwiftOptions::increase>("increase", "packets", above(0, 1e6), "Packets added each round trip."),
                field<&SwiftOptions::decrease>("decrease", "", above(0, 1e3),
                      "Share of the excess delay that a decrease takes off."),
                field<&SwiftOptions::max_decrease>("max_decrease", "share", between(1e-6, 0.999),
                      "Greatest share of the window that a decrease takes off."),
                field<&SwiftOptions::base_target_ps>("base_target_ps", "ps", kPositiveTimeRange,
                      "Fabric delay aimed at, before scaling."),
                field<&SwiftOptions::hop_target_ps>("hop_target_ps", "ps", kTimeRange, "Added for every hop: base / 6.55."),
                field<&SwiftOptions::scaling_range_ps>("scaling_range_ps", "ps", kTimeRange,
                      "Added at most as windows shrink: 5 base targets."),
                field<&SwiftOptions::scaling_least>("scaling_least", "packets", above(0, 1e6),
                      "Window at which all of it is added."),
                field<&SwiftOptions::scaling_most>("scaling_most", "packets", above(0, 1e6),
                      "Window from which nothing of it is added."),
                field<&SwiftOptions::host_target_ps>("host_target_ps", "ps", kPositiveTimeRange,
                      "Delay in the receiving host aimed at."),
                field<&SwiftOptions::first_packets>("first_packets", "packets", between(1e-6, 1e6),
                      "First window.").named("swift_first_packets").or_else(0.0, "one bandwidth-delay product"),
                field<&SwiftOptions::least_packets>("least_packets", "packets", above(0, 1e6),
                      "Least window; below one, packets are further apart than a round trip.").named("swift_least_packets"),
                field<&SwiftOptions::most_packets>("most_packets", "packets", above(0, 1e9),
                      "Greatest window.").named("swift_most_packets"),
                field<&SwiftOptions::timeout_reset>("timeout_reset", "", between(1, 1e6),
                      "Timeouts in a row after which the window is the least.")},
            .check = [](const Options& options) {
              const SwiftOptions& rule = options.of<SwiftOptions>();
              if (rule.scaling_least >= rule.scaling_most) throw std::invalid_argument("swift: scaling_least must lie below scaling_most");
              if (rule.least_packets > rule.most_packets) throw std::invalid_argument("swift: least_packets lies above most_packets");
            }};
  }

 private:
  bool may_decrease(const State& state, const Window& window, Ps now) const {
    return now - window.last_decrease >= state.mean_rtt;
  }

  void adjust(const State& state, Window& window, Ps delay, Ps target, double acked, Ps now) const {
    if (delay < target) {
      const double each = window.packets >= 1 ? options_.increase / window.packets : options_.increase;
      window.packets = std::min(window.packets + each * acked, options_.most_packets);
    } else if (may_decrease(state, window, now)) {
      const double above = static_cast<double>(delay - target) / static_cast<double>(delay);
      shrink(window, std::max(1 - options_.decrease * above, 1 - options_.max_decrease), now);
    }
  }

  void cut(const State& state, Window& window, Ps now) const {
    if (may_decrease(state, window, now)) shrink(window, 1 - options_.max_decrease, now);
  }

  void shrink(Window& window, double factor, Ps now) const {
    window.packets = std::max(window.packets * factor, options_.least_packets);
    window.last_decrease = now;
  }

  /// Below one packet the rate alone rules: a packet every `mean_rtt / window`.
  void set(State& state) const {
    const double packets = window_packets(state);
    state.window_bytes = static_cast<std::int64_t>(std::max(packets, 1.0) * packet_bytes_);
    state.rate_bps = packets >= 1 ? line_bps_ : 8 * packet_bytes_ * packets / (static_cast<double>(state.mean_rtt) * 1e-12);
  }

  SwiftOptions options_;
  double packet_bytes_, payload_bytes_, line_bps_;
  Ps base_rtt_;
  std::uint32_t hops_;
  double alpha_ = 0, beta_ = 0, first_ = 0;
};

inline const RateControl<Swift> kSwift;

}  // namespace railyard::packet
