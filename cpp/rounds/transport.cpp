#include "rounds/transport.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace railyard::rounds {
namespace {

constexpr double kC = 0.4, kBeta = 0.7;                            // RFC 9438
constexpr double kFriendly = 3.0 * (1.0 - kBeta) / (1.0 + kBeta);  // packets a round trip (RFC 9438, section 4.3)
constexpr int kIntervals = 16;                                     // of loss, until a window has forgotten its start
constexpr int kPoints = 9;                                         // of each, at which it is looked at
constexpr double kNoLoss = 1e-12;
constexpr double kProbing = 1.0 - 0.2 / 10.0;  // PROBE_RTT: 200 ms of four packets every 10 s
constexpr double kBbrMostLoss = 0.2;
const double kStartupGain = 2.0 / std::log(2.0);
const double kCubicFactor = std::pow(kC * (3.0 + kBeta) / (4.0 * (1.0 - kBeta)), 0.25);

struct Interval {
  double took_s, window;
};

/// From one loss to the next: the window is looked at in some points, linear
/// between; a rate is a window times `per_rtt`.
Interval interval(double batch, double most, double now, double line, double rtt_s, double per_rtt) {
  const double climb_s = std::cbrt((most - now) / kC), friendly = kFriendly * per_rtt;
  const auto window_at = [&](double at) {
    const double from = at - climb_s, cubic = kC * from * from * from + most;
    return std::max({cubic, now + friendly * at, now});
  };
  if (now * per_rtt >= line) return {batch / line, window_at(batch / line)};  // the window never is what is short
  const double longest = std::max(batch * rtt_s / now, batch / line), step = longest / (kPoints - 1);
  double rate = std::min(window_at(0.0) * per_rtt, line), sent = 0.0;
  for (int point = 1;; ++point) {
    const double next = window_at(step * point), next_rate = std::min(next * per_rtt, line);
    const double more = sent + (rate + next_rate) * (0.5 * step);
    if (more >= batch || point == kPoints - 1) {
      const double part = std::clamp((batch - sent) / std::max(more - sent, 1e-12), 0.0, 1.0);
      return {(point - 1 + part) * step, next};
    }
    rate = next_rate, sent = more;
  }
}

/// Seconds of CUBIC from the loss that ended the doubling on: it starts far
/// above its mean, and forgets that slowly. A packet is lost every 1/p; what is
/// left after some losses goes at the mean.
double forgetting_s(const Protocol& protocol, double packets, double window, double line, double rtt_s, double loss) {
  const double timeout_s = timeout_s_per_packet(protocol.least_timeout_s, rtt_s, loss);
  const double per_rtt = 1.0 / rtt_s, apart = 1.0 / loss;
  double most = std::max(window, 1.0), now = kBeta * most, left = packets, took_s = 0.0;
  for (int number = 0; number < kIntervals && left > 0; ++number) {
    const double batch = std::min(left, apart);
    const Interval one = interval(batch, most, now, line, rtt_s, per_rtt);
    took_s += one.took_s + batch * timeout_s;
    most = one.window < most ? one.window * (1.0 + kBeta) / 2.0 : one.window;
    now = std::max(kBeta * one.window, 1.0);
    left -= batch;
  }
  if (left <= 0) return took_s;
  return took_s + left * std::max(rtt_s / cubic_window(rtt_s, loss) + timeout_s, 1.0 / line);
}

/// Rounds of doubling, and the packets that they carry: up to what the
/// bottleneck holds, or to the first loss.
struct Start {
  double rounds = 0, carried = 0;
};

Start start(const Protocol& protocol, double packets, double product, double loss) {
  double window = std::max(product, protocol.initial_window);
  if (!protocol.bbr && loss > 0) {
    const double before = -std::expm1(packets * std::log1p(-loss)) / loss;
    window = std::min(window, std::max(before / 2.0, protocol.initial_window));
  }
  const double rounds = std::max(std::ceil(std::log2(window / protocol.initial_window)), 0.0);
  return {rounds, protocol.initial_window * (std::exp2(rounds) - 1.0)};
}

/// Of a transfer that ends while its window still opens.
double short_s(const Protocol& protocol, double packets, double packet_s, double rtt_s) {
  const double doublings = std::ceil(std::log2(packets / protocol.initial_window + 1.0));
  const double window = protocol.initial_window * std::exp2(std::max(doublings - 1.0, 0.0));
  const double last = packets - (window - protocol.initial_window);
  double flight_s = last * packet_s;
  if (protocol.bbr) {
    const double slower = doublings > 1.0 ? 4.0 / 1.5 : 1.0;
    flight_s = std::max(flight_s, slower * last / window * rtt_s / kStartupGain);
  }
  return (doublings - 1.0) * rtt_s + flight_s;
}

double cubic_packets_per_s(const Protocol& protocol, double bottleneck, const Path& path, double loss) {
  const double quiet = bottleneck * saw_tooth(path.buffer, bottleneck * path.rtt_s, path.rtt_s);
  if (loss <= 0) return quiet;
  const double timeout_s = timeout_s_per_packet(protocol.least_timeout_s, path.rtt_s, loss);
  return std::min(quiet, 1.0 / (path.rtt_s / cubic_window(path.rtt_s, loss) + timeout_s));
}

}  // namespace

double cubic_window(double rtt_s, double loss) {
  const double root = std::sqrt(rtt_s / loss);
  return std::max(kCubicFactor * root * std::sqrt(root), std::sqrt(1.5 / loss));
}

double timeout_s_per_packet(double least_s, double rtt_s, double loss) {
  if (!std::isfinite(least_s)) return 0.0;
  const double chance = std::min(1.0, 3.0 * std::sqrt(3.0 * loss / 8.0));
  return (least_s + rtt_s) * chance * loss * (1.0 + 32.0 * loss * loss);
}

double saw_tooth(double buffer, double product, double rtt_s) {
  if (kBeta * (1.0 + buffer) >= 1.0) return 1.0;  // the lowest window covers the product
  // The window grows from beta of the most to the most (product + buffer) along
  // a cubic in climb_s; what is below the product leaves the link idle for the
  // rest.
  const double most = product * (1.0 + buffer), climb_s = std::cbrt(most * (1.0 - kBeta) / kC);
  const double full_s = std::clamp(climb_s - std::cbrt(std::max(most - product, 0.0) / kC), 0.0, climb_s);
  // Packets that the window lacks until it covers the product: the integral of
  // product - (C (t - K)^3 + most).
  const double before = full_s - climb_s;
  const double lacking = (product - most) * full_s -
                         kC / 4.0 * (before * before * before * before - climb_s * climb_s * climb_s * climb_s);
  const double out = 1.0 - std::max(lacking, 0.0) / std::max(product * climb_s, 1e-12);
  return climb_s > rtt_s ? out : std::min(out, 1.0);
}

double goodput_bps(const Protocol& protocol, const Path& path) {
  const double loss = path.loss < kNoLoss ? 0.0 : path.loss, bottleneck = path.rate_bps / (8.0 * protocol.packet_bytes);
  double packets = 0.0;
  if (protocol.bbr)
    packets = loss < kBbrMostLoss ? bottleneck * kProbing * (1.0 - loss) : 0.05 * bottleneck;
  else
    packets = cubic_packets_per_s(protocol, bottleneck, path, loss);
  return std::min(packets * 8.0 * protocol.payload_bytes, protocol.receive_bytes * 8.0 / path.rtt_s);
}

Carried carried(const Protocol& protocol, double size_bytes, const Path& path, bool warm) {
  if (size_bytes <= 0) return {};
  const double loss = path.loss < kNoLoss ? 0.0 : path.loss, packets = size_bytes / protocol.payload_bytes;
  const double line = path.rate_bps / (8.0 * protocol.packet_bytes), product = line * path.rtt_s;
  const double open = std::min(product, protocol.receive_bytes / protocol.payload_bytes);
  const double packet_s = 8.0 * protocol.payload_bytes / goodput_bps(protocol, path);
  const Start begun = warm ? Start{} : start(protocol, packets, open, loss);
  double total_s = path.rtt_s / 2.0;
  if (packets <= begun.carried) {
    total_s += short_s(protocol, packets, 1.0 / line, path.rtt_s);
  } else {
    const double left = packets - begun.carried;
    double rest_s = left * packet_s;
    if (!protocol.bbr && !warm && loss > 0) {
      const double window = std::min(begun.carried + protocol.initial_window, product);
      rest_s = std::min(rest_s, forgetting_s(protocol, left, window, line, path.rtt_s, loss));
    }
    total_s += begun.rounds * path.rtt_s + rest_s;
  }
  // Where a transfer ends while its window still opens, its bits pass at the line's rate: all of it is bits then.
  return {total_s, std::min(packets * packet_s, total_s)};
}

}  // namespace railyard::rounds
