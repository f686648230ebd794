#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/time.hpp"

namespace railyard::packet {

/// Constants of the network-signalled congestion control of Ultra Ethernet, as uet-htsim 40ccb05 sets them.
struct NsccConstants {
  std::int64_t mtu = 0;
  double rate_bps = 0;
  Ps network_rtt = 0;
  Ps target = 0;             ///< Queueing delay aimed at: 0.75 of the RTT with trimming, else 1.
  double alpha = 0;          ///< Proportional increase: window^2 per byte and ps below target.
  double fair = 0;           ///< Fair increase: window^2 per byte.
  double fast = 0;           ///< Fast increase: bytes per byte.
  double eta = 0;            ///< Bytes added each adjustment.
  std::int64_t adjust_bytes = 0;
  unsigned gate = 3;

  static NsccConstants make(std::int64_t mtu, std::int64_t mss, double rate_bps, Ps rtt, Ps target, unsigned gate) {
    constexpr double kReferenceBytes = 12e-6 * 100e9 / 8;  // 100 Gbit/s over 12 us
    constexpr double kReferenceRtt = 12e6;
    const auto bdp = static_cast<std::int64_t>(static_cast<double>(rtt) * 1e-12 * rate_bps / 8);
    const double a = static_cast<double>(bdp) / kReferenceBytes;
    const double b = static_cast<double>(target) / kReferenceRtt;
    const auto payload = static_cast<double>(mss);
    return {.mtu = mtu,
            .rate_bps = rate_bps,
            .network_rtt = rtt,
            .target = target,
            .alpha = 4.0 * payload * a * b / static_cast<double>(target),
            .fair = 5.0 * payload * a,
            .fast = 0.25 * a,
            .eta = 0.15 * payload * a,
            .adjust_bytes = 8 * mtu,
            .gate = gate};
  }
};

/// A flow's window under network-signalled congestion control.
///
/// Each acknowledgement falls into one of four quadrants by (marked?, delay against target): unmarked and below: increase
/// in proportion to the distance from the target, fast when the delay has been under 1 us for a whole window; unmarked and
/// above: fair increase; marked and above: multiplicative decrease, once a round trip; marked and below: nothing, the path
/// is to blame and the load balancer acts. Increases add up and are applied every 8 packets or round trip.
struct Nscc {
  static constexpr double kGain = 0.0125;  ///< Of the mean delay.
  static constexpr double kDecrease = 0.8;
  static constexpr Ps kFastBelow = 1'000'000;

  std::int64_t window = 0, most = 0;
  Ps base_rtt = 0, mean_delay = 0;
  std::int64_t achieved = 0, received = 0;
  // WHY 32 bits: so the original has them; at 800 Gbit/s and above `increase` wraps there, and so it does here.
  std::uint32_t increase = 0, ignored = 0, to_ignore = 0, fast_bytes = 0;
  Ps adapt_at = 0, last_adjust = 0, last_decrease = 0;
  bool adapt_asked = false, fast = false;

  void open(const NsccConstants& c, std::int64_t first_window) {
    base_rtt = c.network_rtt;
    most = static_cast<std::int64_t>(1.5 * static_cast<double>(bdp(c)));
    window = first_window > 0 ? first_window : most;
  }

  /// Appends all that the future depends on while there is nothing to send: what `resume` clears is not in it, ages beyond a
  /// round trip are alike, and so are sums that are cleared before they are read. The mean delay is not in it: where
  /// nothing is marked or lost nobody asks for it, and it follows from the delays (`mean_after`).
  void rest(const NsccConstants& c, Ps now, std::vector<std::int64_t>& words) const {
    const auto age = [&](Ps at) { return std::min(now - at, c.network_rtt + 1); };
    words.insert(words.end(), {window, most, base_rtt, received, increase, to_ignore, to_ignore == 0 ? 0 : ignored,
                               fast ? 1 : 0, fast ? 0 : fast_bytes, age(last_adjust), age(last_decrease)});
  }

  /// As `rest` had it. Returns what follows its words.
  const std::int64_t* put(Ps now, const std::int64_t* words) {
    *this = {.window = words[0], .most = words[1], .base_rtt = words[2], .mean_delay = mean_delay, .received = words[3],
             .increase = static_cast<std::uint32_t>(words[4]), .ignored = static_cast<std::uint32_t>(words[6]),
             .to_ignore = static_cast<std::uint32_t>(words[5]), .fast_bytes = static_cast<std::uint32_t>(words[8]),
             .last_adjust = now - words[9], .last_decrease = now - words[10], .fast = words[7] != 0};
    return words + 11;
  }

  /// There was nothing to send: that little was achieved in this round trip says nothing of the network.
  void resume() {
    achieved = 0;
    adapt_at = 0;
    adapt_asked = false;
  }

  std::int64_t bdp(const NsccConstants& c) const {
    return static_cast<std::int64_t>(static_cast<double>(base_rtt) * 1e-12 * c.rate_bps / 8);
  }

  /// A round trip was seen: the shortest is the base.
  void see_rtt(const NsccConstants& c, Ps rtt) {
    if (base_rtt <= rtt) return;
    base_rtt = rtt;
    most = static_cast<std::int64_t>(1.5 * static_cast<double>(bdp(c)));
  }

  /// What a delay counts as in the mean. Above the target and yet unmarked: it does not come from this network's queues;
  /// the mean drifts down.
  double sample(const NsccConstants& c, Ps delay, bool marked) const {
    return !marked && delay > c.target ? static_cast<double>(base_rtt) * 0.25 : static_cast<double>(delay);
  }

  /// The mean delay after one more sample; it never falls as the mean before rises.
  static Ps mean_after(Ps mean, double sample) {
    return static_cast<Ps>(kGain * sample + (1 - kGain) * static_cast<double>(mean));
  }

  void see_delay(const NsccConstants& c, Ps delay, bool marked) { mean_delay = mean_after(mean_delay, sample(c, delay, marked)); }

  void on_received(std::int64_t bytes) {
    achieved += bytes;
    received += bytes;
    ignored += static_cast<std::uint32_t>(bytes);
  }

  void on_ack(const NsccConstants& c, bool marked, Ps delay, std::int64_t bytes, std::int64_t in_flight, Ps now) {
    if (quick_adapt(c, false, marked, delay, in_flight, now)) return;
    if (!marked && delay >= c.target) {
      fair_increase(c, bytes);
    } else if (!marked) {
      proportional_increase(c, bytes, delay);
    } else if (delay >= c.target) {
      multiplicative_decrease(c, now);
    }
    bound(c);
    if (received > c.adjust_bytes || now - last_adjust > c.network_rtt) adjust(c, now);
    bound(c);
  }

  /// A packet was trimmed. `spare`: the window stays, since a receiver's credit acts on trims at the last hop.
  void on_nack(const NsccConstants& c, std::int64_t bytes, bool spare, std::int64_t in_flight, Ps now) {
    ignored += static_cast<std::uint32_t>(bytes);
    see_delay(c, c.network_rtt, true);
    adapt_asked = true;
    if (quick_adapt(c, true, true, 0, in_flight, now) || spare) return;
    window -= bytes;
    bound(c);
  }

  void on_timeout(const NsccConstants& c, std::int64_t bytes) { window = std::max(window - bytes, c.mtu); }

  /// After a round trip with losses or much delay in which less than most >> gate was achieved: the window is what was
  /// achieved, and what was then in flight is ignored. True where the acknowledgement is used up by that.
  bool quick_adapt(const NsccConstants& c, bool loss, bool marked, Ps delay, std::int64_t in_flight, Ps now) {
    bool used = false;
    if (ignored < to_ignore && marked) {
      used = true;
    } else if (now > adapt_at) {
      if (adapt_at != 0 && (adapt_asked || loss || delay > 4 * c.target) && achieved < (most >> c.gate)) {
        window = std::max(achieved, c.mtu);
        to_ignore = static_cast<std::uint32_t>(in_flight);
        ignored = 0;
        adapt_asked = false;
        used = true;
      }
      achieved = 0;
      adapt_at = now + base_rtt + c.target;
    }
    if (used) {
      increase = 0;
      received = 0;
    }
    return used;
  }

 private:
  static std::uint32_t wrapped(double value) { return static_cast<std::uint32_t>(static_cast<std::int64_t>(value)); }

  /// WHY at least a packet, even where the shortest round trip, seen by small packets, is shorter than one takes to send: a
  /// window below it would never open again.
  void bound(const NsccConstants& c) { window = std::max(std::min(window, most), c.mtu); }

  void fair_increase(const NsccConstants& c, std::int64_t bytes) {
    increase = wrapped(increase + c.fair * static_cast<double>(bytes));
  }

  void proportional_increase(const NsccConstants& c, std::int64_t bytes, Ps delay) {
    fast_increase(c, bytes, delay);
    if (fast) return;
    increase = wrapped(increase + c.alpha * static_cast<double>(bytes) * static_cast<double>(c.target - delay));
  }

  void fast_increase(const NsccConstants& c, std::int64_t bytes, Ps delay) {
    if (delay < kFastBelow) {
      fast_bytes += static_cast<std::uint32_t>(bytes);
      if (fast_bytes > window || fast) {
        window = static_cast<std::int64_t>(static_cast<double>(window) + static_cast<double>(bytes) * c.fast);
        fast = true;
        return;
      }
    } else {
      fast_bytes = 0;
    }
    fast = false;
  }

  void multiplicative_decrease(const NsccConstants& c, Ps now) {
    fast = false;
    fast_bytes = 0;
    if (mean_delay <= c.target || now - last_decrease <= base_rtt) return;
    const auto mean = static_cast<double>(mean_delay);
    const double factor = std::max(1 - kDecrease * static_cast<double>(mean_delay - c.target) / mean, 0.5);
    window = std::max(static_cast<std::int64_t>(static_cast<double>(window) * factor), c.mtu);
    last_decrease = now;
  }

  void adjust(const NsccConstants& c, Ps now) {
    window += increase / window;
    if (now - last_adjust >= c.network_rtt) {
      window = static_cast<std::int64_t>(static_cast<double>(window) + c.eta);
      last_adjust = now;
    }
    increase = 0;
    received = 0;
  }
};

}  // namespace railyard::packet
