// Congestion controls alone: what each makes of acknowledgements that are written by hand.
#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "core/harness.hpp"
#include "packet/balance/user.hpp"
#include "packet/control/hpcc.hpp"
#include "packet/control/nscc.hpp"
#include "packet/control/swift.hpp"
#include "packet/control/user_control.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr Ps kMicrosecond = 1'000'000;
constexpr Ps kRtt = 10 * kMicrosecond;
constexpr double kLine = 400e9;
constexpr double kBdp = kLine / 8 * 10e-6;  // 500 kB

Derived derived() {
  Derived made;
  made.base_rtt_ps = kRtt;
  made.rate_bps = static_cast<std::int64_t>(kLine);
  made.diameter = 6;
  return made;
}

bool near(double found, double wanted, double relative = 1e-9) { return std::abs(found - wanted) <= relative * std::abs(wanted); }

/// One link that is always full (or carries `load` of it), with a queue of its own making.
struct Link {
  double load = 1;
  std::uint32_t queue = 0;
  Hop hop(Ps now) const {
    return {static_cast<std::uint64_t>(load * kLine / 8 * static_cast<double>(now) * 1e-12), now, queue, 400'000};
  }
};

Acknowledged ack(Ps now, std::uint32_t sequence, std::uint32_t next, const Hop* hop) {
  Acknowledged made;
  made.now = now;
  made.rtt = kRtt;
  made.sequence = sequence;
  made.next_sequence = next;
  made.hops = hop;
  made.hop_count = 1;
  return made;
}

struct OneLink {
  Options options;
  Hpcc control{options, derived()};
  Hpcc::State flow;

  explicit OneLink(const HpccOptions& rule = {}) {
    options.of<HpccOptions>() = rule;
    control = Hpcc(options, derived());
    control.open(flow, 0);
  }
  void see(const Link& link, Ps now, std::uint32_t sequence, std::uint32_t next) {
    const Hop hop = link.hop(now);
    control.on_ack(flow, ack(now, sequence, next, &hop));
  }
};

}  // namespace

TEST(hpcc_opens_with_one_bandwidth_delay_product_at_line_rate) {
  OneLink one;
  CHECK(near(static_cast<double>(one.flow.window_bytes), kBdp, 1e-5));
  CHECK(near(one.flow.rate_bps, kLine));
}

TEST(hpcc_answers_an_overloaded_link_in_closed_form) {
  // A full link with half a bandwidth-delay product queued has U = 1.5: the window becomes W eta / 1.5 + W_ai at once.
  OneLink one;
  const Link link{1, static_cast<std::uint32_t>(kBdp / 2)};
  one.see(link, 1 * kRtt, 1, 100);
  CHECK(near(static_cast<double>(one.flow.window_bytes), kBdp, 1e-5));  // nothing to compare with yet
  one.see(link, 2 * kRtt, 101, 200);
  CHECK(near(one.flow.utilization, 1.5));
  const double wanted = kBdp * 0.95 / 1.5 + kBdp / 2500;
  CHECK(near(static_cast<double>(one.flow.window_bytes), wanted, 1e-5));
  CHECK(near(one.flow.rate_bps, 8 * wanted / 10e-6, 1e-9));
}

TEST(hpcc_answers_one_queue_once_in_a_round_trip) {
  OneLink one;
  const Link link{1, static_cast<std::uint32_t>(kBdp / 2)};
  one.see(link, 1 * kRtt, 1, 100);
  one.see(link, 2 * kRtt, 101, 200);
  const double reference = one.flow.reference;
  const std::int64_t window = one.flow.window_bytes;
  // Whatever the number of acknowledgements below 200: always the same reference, so the window settles and stays.
  for (std::uint32_t at = 102; at <= 150; ++at) one.see(link, 2 * kRtt + at * 1000, at, 210);
  CHECK(one.flow.reference == reference);
  CHECK(near(static_cast<double>(one.flow.window_bytes), reference * 0.95 / 1.5 + kBdp / 2500, 1e-5));
  CHECK(one.flow.window_bytes < window);
  one.see(link, 3 * kRtt, 201, 300);
  CHECK(near(one.flow.reference, reference * 0.95 / 1.5 + kBdp / 2500, 1e-9));
}

TEST(hpcc_adds_a_few_times_and_then_multiplies) {
  HpccOptions rule;
  rule.max_stage = 3;
  rule.increase_bytes = 1000;
  OneLink one(rule);
  const Link half{0.5, 0};
  one.see(Link{1, static_cast<std::uint32_t>(3 * kBdp)}, kRtt, 1, 2);
  one.see(Link{1, static_cast<std::uint32_t>(3 * kBdp)}, 2 * kRtt, 3, 4);
  double window = kBdp * 0.95 / 4 + 1000;
  CHECK(near(one.flow.reference, window, 1e-9));
  CHECK(one.flow.stage == 0);
  one.flow.last[0] = half.hop(2 * kRtt);
  for (std::uint32_t round = 1; round <= 3; ++round) {
    one.see(half, (2 + round) * kRtt, 3 + 2 * round, 4 + 2 * round);
    window += 1000;
    CHECK(near(one.flow.reference, window, 1e-9));
    CHECK(one.flow.stage == round);
  }
  one.see(half, 6 * kRtt, 20, 21);
  window = window * 0.95 / 0.5 + 1000;
  CHECK(near(one.flow.reference, window, 1e-9));
  CHECK(one.flow.stage == 0);
}

TEST(hpcc_smooths_by_the_share_of_a_round_trip) {
  OneLink one;
  const Link link{1, static_cast<std::uint32_t>(kBdp)};
  one.see(link, kRtt, 1, 100);
  one.see(link, kRtt + kRtt / 4, 2, 100);
  CHECK(near(one.flow.utilization, 0.75 * 1 + 0.25 * 2, 1e-9));
}

TEST(hpcc_follows_the_fullest_link) {
  OneLink one;
  const Link first{0.4, 0}, second{0.9, 0};
  for (Ps now : {kRtt, 2 * kRtt}) {
    const std::array<Hop, 2> hops{first.hop(now), second.hop(now)};
    Acknowledged told = ack(now, 1, 100, hops.data());
    told.hop_count = 2;
    one.control.on_ack(one.flow, told);
  }
  CHECK(near(one.flow.utilization, 0.9, 1e-6));
}

TEST(hpcc_never_sends_faster_than_the_line_nor_stops) {
  HpccOptions rule;
  rule.max_stage = 0;
  OneLink one(rule);
  for (std::uint32_t round = 1; round < 40; ++round) one.see(Link{0.01, 0}, round * kRtt, 2 * round, 2 * round + 1);
  CHECK(near(one.flow.rate_bps, kLine));
  for (std::uint32_t round = 40; round < 90; ++round)
    one.see(Link{1, 2'000'000'000u}, round * kRtt, 2 * round, 2 * round + 1);
  CHECK(one.flow.rate_bps >= 100e6);
}

TEST(hpcc_brings_two_flows_to_equal_shares) {
  // Both fill one link: U is the sum of their windows over the bandwidth-delay product.
  HpccOptions rule;
  rule.max_stage = 0;
  rule.increase_share = 0.01;
  OneLink one(rule), other(rule);
  one.see(Link{1, 0}, kRtt, 1, 2);
  other.see(Link{1, 0}, kRtt, 1, 2);
  other.flow.reference = kBdp / 10;
  double sent = kLine / 8 * 10e-6;
  for (std::uint32_t round = 2; round < 400; ++round) {
    const double both = one.flow.reference + other.flow.reference;
    sent += std::min(both, kBdp);
    const Hop hop{static_cast<std::uint64_t>(sent), round * kRtt,
                  static_cast<std::uint32_t>(std::max(0.0, both - kBdp)), 400'000};
    one.control.on_ack(one.flow, ack(round * kRtt, 2 * round, 2 * round + 1, &hop));
    other.control.on_ack(other.flow, ack(round * kRtt, 2 * round, 2 * round + 1, &hop));
  }
  CHECK(near(one.flow.reference, other.flow.reference, 0.01));
  // The fixed point of W = W eta / U + W_ai for both: U = eta / (1 - W_ai / W), a little above eta.
  CHECK(near(one.flow.reference + other.flow.reference, 0.97 * kBdp, 0.02));
}

TEST(hpcc_as_htsim_reads_it_compounds_and_has_no_bound) {
  HpccOptions rule;
  rule.reading = HpccReading::htsim;
  rule.increase_bytes = 4150;
  OneLink one(rule);
  const Link link{1, 0};
  one.see(link, kRtt, 1, 100);
  CHECK(near(one.flow.reference, kBdp + 4150, 1e-9));  // U begins at eta
  one.see(link, kRtt + kRtt / 2, 2, 100);
  CHECK(near(one.flow.reference, kBdp + 2 * 4150, 1e-9));  // half a round trip says nothing yet
  one.see(link, 2 * kRtt, 3, 100);
  const double factor = 0.95 / (1 + one.options.mtu_bytes / kBdp);  // the packet itself counts as queued
  const double window = (kBdp + 2 * 4150) * factor + 4150;
  CHECK(near(one.flow.reference, window, 1e-6));
  one.see(link, 2 * kRtt + 1000, 4, 100);
  CHECK(near(one.flow.reference, window * factor + 4150, 1e-6));
}

namespace {

struct Delayed {
  Options options;
  Swift control{options, derived()};
  Swift::State flow;

  explicit Delayed(const SwiftOptions& rule = {}) {
    options.of<SwiftOptions>() = rule;
    control = Swift(options, derived());
    control.open(flow, 0);
  }
  void see(Ps now, Ps rtt, std::int64_t packets = 1, Ps host = 0) {
    Acknowledged told;
    told.now = now;
    told.rtt = rtt;
    told.fresh_bytes = packets * (options.mtu_bytes - options.header_bytes);
    told.host_delay = host;
    control.on_ack(flow, told);
  }
};

}  // namespace

namespace {

// 200 Gb/s over 9 us are 225,000 bytes, 1.5 times the reference of 100 Gb/s over 12 us; the target is half of its RTT.
NsccConstants network_signalled() { return NsccConstants::make(4150, 4000, 200e9, 9 * kMicrosecond, 6 * kMicrosecond, 3); }

}  // namespace

TEST(nscc_scales_its_constants_with_the_network) {
  const NsccConstants c = network_signalled();
  CHECK(near(c.alpha, 4.0 * 4000 * 1.5 * 0.5 / 6e6));
  CHECK(near(c.fair, 5.0 * 4000 * 1.5));
  CHECK(near(c.fast, 0.375));
  CHECK(near(c.eta, 900));
  CHECK(c.adjust_bytes == 8 * 4150);
}

TEST(nscc_opens_with_one_and_a_half_bandwidth_delay_products) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 0);
  CHECK(flow.window == 337'500 && flow.most == 337'500);
  flow.open(c, 50'000);
  CHECK(flow.window == 50'000 && flow.most == 337'500);
  flow.see_rtt(c, 8 * kMicrosecond);  // the shortest counts
  flow.see_rtt(c, 9 * kMicrosecond);
  CHECK(flow.base_rtt == 8 * kMicrosecond && flow.most == 300'000);
}

TEST(nscc_averages_delays_of_its_own_network) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 0);
  flow.see_delay(c, 8 * kMicrosecond, true);
  CHECK(flow.mean_delay == 100'000);  // 0.0125 of 8 us
  flow.see_delay(c, 8 * kMicrosecond, false);
  CHECK(flow.mean_delay == 28'125 + 98'750);  // not marked and late: a quarter of the base RTT instead
  flow.see_delay(c, 6 * kMicrosecond, false);
  CHECK(flow.mean_delay == 75'000 + 125'289);  // not above the target
}

TEST(nscc_increases_and_cuts_in_closed_form) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 100'000);
  flow.on_ack(c, false, 7 * kMicrosecond, 4000, 0, kMicrosecond);  // late, not marked: fair
  CHECK(flow.increase == 120'000'000 && flow.window == 100'000);
  flow.on_received(33'201);  // more than 8 packets: what added up is applied
  flow.on_ack(c, false, 6 * kMicrosecond, 4000, 0, 2 * kMicrosecond);
  CHECK(flow.window == 100'000 + 2400 && flow.increase == 0 && flow.received == 0);
  // 3 us below the target: 0.002 x 4,000 x 3e6; a round trip is over, so that it is applied with eta.
  flow.on_ack(c, false, 3 * kMicrosecond, 4000, 0, 10 * kMicrosecond);
  CHECK(flow.window == 102'400 + 234 + 900);
  flow.mean_delay = 8 * kMicrosecond;
  flow.on_ack(c, true, 7 * kMicrosecond, 4000, 0, 15 * kMicrosecond);
  CHECK(flow.window == 82'827);  // 1 - 0.8 x 2 us / 8 us
  flow.on_ack(c, true, 7 * kMicrosecond, 4000, 0, 15 * kMicrosecond + 1);
  CHECK(flow.window == 82'827);  // once a round trip
  flow.mean_delay = 60 * kMicrosecond;
  flow.adapt_at = 40 * kMicrosecond;
  flow.on_ack(c, true, 7 * kMicrosecond, 4000, 0, 25 * kMicrosecond);
  CHECK(flow.window == 41'413 + 900);  // half at most; and a round trip is over again
}

TEST(nscc_falls_to_what_was_achieved) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 0);
  flow.on_ack(c, false, 2 * kMicrosecond, 4000, 0, kMicrosecond);
  CHECK(flow.adapt_at == 16 * kMicrosecond);  // a base RTT and the target later
  flow.on_received(42'186);                   // less than an eighth of 337,500
  flow.on_nack(c, 4000, false, 70'000, 16 * kMicrosecond + 1);
  CHECK(flow.window == 42'186 && flow.to_ignore == 70'000 && flow.ignored == 0);
  CHECK(flow.adapt_at == 31 * kMicrosecond + 1);
  flow.on_nack(c, 4000, false, 70'000, 17 * kMicrosecond);  // of what was in flight: ignored
  CHECK(flow.window == 42'186 && flow.ignored == 4000);
  flow.on_received(66'000);
  CHECK(flow.ignored == 70'000);
  flow.on_nack(c, 4000, false, 70'000, 18 * kMicrosecond);
  CHECK(flow.window == 38'186);
  flow.on_timeout(c, 1000);
  CHECK(flow.window == 37'186);
  flow.on_timeout(c, 40'000);
  CHECK(flow.window == 4150);  // a packet at least
}

TEST(nscc_falls_after_more_than_four_targets_of_delay) {
  const NsccConstants c = network_signalled();
  const Ps late = 16 * kMicrosecond + 1;
  for (const Ps beyond : {0, 1}) {
    Nscc flow;
    flow.open(c, 0);
    flow.on_ack(c, false, 30 * kMicrosecond, 4000, 0, kMicrosecond);  // the first round trip only begins to count
    CHECK(flow.window == 337'500);
    flow.on_ack(c, false, 24 * kMicrosecond + beyond, 4000, 0, late);
    CHECK(flow.window == (beyond ? 4150 : 337'500));
  }
}

TEST(nscc_stays_where_an_eighth_was_achieved) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 0);
  flow.on_ack(c, false, 2 * kMicrosecond, 4000, 0, kMicrosecond);
  flow.on_received(42'187);
  flow.on_nack(c, 4000, false, 70'000, 16 * kMicrosecond + 1);
  CHECK(flow.window == 333'500 && flow.to_ignore == 0);
}

TEST(nscc_remembers_a_loss_until_the_round_trip_is_over) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 0);
  flow.on_ack(c, false, 2 * kMicrosecond, 4000, 0, kMicrosecond);
  flow.on_nack(c, 4000, true, 70'000, 5 * kMicrosecond);  // spared
  CHECK(flow.window == 337'500 && flow.mean_delay == 112'500);  // 0.0125 of a round trip
  flow.on_received(5000);
  flow.on_ack(c, false, 2 * kMicrosecond, 4000, 8000, 16 * kMicrosecond + 1);
  CHECK(flow.window == 5000 && flow.to_ignore == 8000 && !flow.adapt_asked);
  flow.ignored = 7500;  // the rest of what was in flight: this mark counts again
  flow.on_nack(c, 500, false, 70'000, 17 * kMicrosecond);
  CHECK(flow.window == 4500);
}

TEST(nscc_adds_eta_once_a_round_trip) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 100'000);
  flow.last_adjust = 10 * kMicrosecond;
  flow.on_received(33'201);
  flow.on_ack(c, false, 6 * kMicrosecond, 4000, 0, 18 * kMicrosecond);
  CHECK(flow.window == 100'000 + 1200);
  flow.on_received(33'200);
  flow.on_ack(c, false, 6 * kMicrosecond, 4000, 0, 18 * kMicrosecond);
  CHECK(flow.window == 101'200);  // 8 packets, not more
  flow.on_received(1);
  flow.on_ack(c, false, 6 * kMicrosecond, 0, 0, 19 * kMicrosecond);
  CHECK(flow.window == 101'200 + 1185 + 900);  // 30,000 x 4,000 / 101,200, and eta 9 us later
}

TEST(nscc_is_fast_once_a_window_has_met_no_queue) {
  const NsccConstants c = network_signalled();
  Nscc flow;
  flow.open(c, 8000);
  const auto quick = [&](Ps delay) { flow.on_ack(c, false, delay, 4000, 0, 2 * kMicrosecond); };
  quick(0);
  quick(0);
  CHECK(flow.window == 8000 && !flow.fast);
  quick(0);
  CHECK(flow.window == 8000 + 1500 && flow.fast);  // 0.375 of 4,000
  quick(0);
  CHECK(flow.window == 8000 + 3000);
  flow.on_ack(c, true, 6 * kMicrosecond, 4000, 0, 2 * kMicrosecond);  // late and marked: over
  CHECK(!flow.fast && flow.fast_bytes == 0 && flow.window == 11'000);
  flow.fast = true;
  quick(kMicrosecond);  // a queue: all over again
  CHECK(!flow.fast && flow.fast_bytes == 0);
  quick(0);
  CHECK(flow.window == 11'000 && !flow.fast);
}

TEST(swift_adds_one_packet_a_round_trip) {
  SwiftOptions rule;
  rule.first_packets = 50;
  Delayed one(rule);
  for (int at = 0; at < 50; ++at) one.see(kRtt + at, kRtt);
  CHECK(one.flow.fabric.packets > 50.98 && one.flow.fabric.packets < 51);
}

TEST(swift_takes_off_the_excess_but_never_more_than_half_and_once_a_round_trip) {
  SwiftOptions rule;
  rule.first_packets = 200;  // beyond the scaling: the target is base + hops
  Delayed one(rule);
  const Ps target = rule.base_target_ps + 6 * rule.hop_target_ps;
  CHECK(one.control.target(200, 6) == target);
  one.see(kRtt, target + target / 4);  // delay = 1.25 target
  CHECK(near(one.flow.fabric.packets, 200 * (1 - 0.8 * 0.2), 1e-6));
  one.see(kRtt + 1, target + target / 4);
  CHECK(near(one.flow.fabric.packets, 200 * (1 - 0.8 * 0.2), 1e-6));
  for (const Ps delay : {4 * target, 1000 * target}) {
    SwiftOptions fresh = rule;
    Delayed other(fresh);
    other.see(kRtt, delay);
    CHECK(near(other.flow.fabric.packets, 100, 1e-9));
  }
}

TEST(swift_gives_small_windows_more_delay) {
  const SwiftOptions rule;
  Delayed one;
  const Ps base = rule.base_target_ps + 6 * rule.hop_target_ps;
  CHECK(one.control.target(100, 6) == base);
  CHECK(std::abs(one.control.target(0.1, 6) - base - rule.scaling_range_ps) <= 1);
  CHECK(one.control.target(0.01, 6) == one.control.target(0.1, 6));
  CHECK(one.control.target(10, 6) > base && one.control.target(10, 6) < one.control.target(1, 6));
  CHECK(one.control.target(100, 8) == base + 2 * rule.hop_target_ps);
}

TEST(swift_below_one_packet_spaces_packets_beyond_the_round_trip) {
  SwiftOptions rule;
  rule.first_packets = 0.25;
  Delayed one(rule);
  const double gap_ps = 8.0 * one.options.mtu_bytes / one.flow.rate_bps * 1e12;
  CHECK(near(gap_ps, 4.0 * kRtt, 1e-9));
  CHECK(one.flow.window_bytes == one.options.mtu_bytes);
  rule.first_packets = 3;
  CHECK(near(Delayed(rule).flow.rate_bps, kLine));
}

TEST(swift_obeys_the_slower_of_fabric_and_host) {
  SwiftOptions rule;
  rule.first_packets = 200;
  Delayed one(rule);
  one.see(kRtt, kRtt + 40 * kMicrosecond, 1, 40 * kMicrosecond);
  CHECK(one.flow.fabric.packets > 200);
  CHECK(near(one.flow.host.packets, 200 * (1 - 0.8 * 0.5), 1e-6));
  CHECK(near(one.control.window_packets(one.flow), one.flow.host.packets));
}

TEST(swift_loses_at_most_half_at_a_loss_and_all_after_timeouts) {
  SwiftOptions rule;
  rule.first_packets = 64;
  Delayed one(rule);
  one.control.on_nack(one.flow, kRtt);
  one.control.on_nack(one.flow, kRtt + 1);
  CHECK(near(one.flow.fabric.packets, 32));
  for (int at = 0; at < 5; ++at) one.control.on_timeout(one.flow, kRtt + at);
  CHECK(near(one.flow.fabric.packets, rule.least_packets));
}

TEST(swift_brings_two_flows_to_equal_shares) {
  // One queue: its delay is what both windows hold beyond the bandwidth-delay product.
  SwiftOptions rule;
  rule.first_packets = 100;
  Delayed one(rule), other(rule);
  other.flow.fabric.packets = 10;
  const double packet = one.options.mtu_bytes, bdp = kBdp / packet;
  Ps now = kRtt;
  for (int round = 0; round < 4000; ++round) {
    const double both = one.flow.fabric.packets + other.flow.fabric.packets;
    // Delays that hit the target to the picosecond would freeze both: so they swing a little.
    const Ps swing = (round % 5 - 2) * kMicrosecond;
    const Ps rtt = kRtt + std::max<Ps>(0, swing + static_cast<Ps>(std::max(0.0, both - bdp) * packet * 8 / kLine * 1e12));
    now += rtt;
    one.see(now, rtt, static_cast<std::int64_t>(one.flow.fabric.packets));
    other.see(now, rtt, static_cast<std::int64_t>(other.flow.fabric.packets));
  }
  CHECK(near(one.flow.fabric.packets, other.flow.fabric.packets, 0.1));
}

namespace {

template <class Function>
std::uintptr_t address(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function);
}

std::int64_t halve(UserFlow* flow, std::int64_t, const UserNetwork* network) {
  flow->rate_bps = std::max(flow->rate_bps / 2, network->rate_bps / 1000);
  return 1;
}
std::int64_t raise_rate(UserFlow* flow, const UserAck* told, const Hop*, const UserNetwork*) {
  flow->rate_bps += static_cast<double>(told->fresh_bytes) * std::bit_cast<double>(flow->slots[0]);
  ++flow->slots[1];
  return 1;
}
std::int64_t spoil(UserFlow* flow, std::int64_t, const UserNetwork*) {
  flow->rate_bps = std::nan("");
  return 1;
}
std::int64_t fail(UserFlow*, std::int64_t, const UserNetwork*) { return 0; }
std::int64_t later(UserFlow* flow, std::int64_t now, const UserNetwork*) {
  flow->timer_ps = now + 5;
  return 1;
}
std::int64_t stay(UserFlow*, std::int64_t, const UserNetwork*) { return 1; }

UserFlow opened(const UserControl& control) {
  UserFlow flow;
  flow.rate_bps = kLine;
  control.open(flow, 0);
  return flow;
}

}  // namespace

TEST(user_control_calls_what_it_was_given) {
  Options options;
  options.of<UserControlOptions>().on_cnp = address(&halve);
  options.of<UserControlOptions>().on_ack = address(&raise_rate);
  options.of<UserControlOptions>().slots[0] = std::bit_cast<std::uint64_t>(10.0);
  const UserControl control(options, derived());
  UserFlow flow = opened(control);
  control.on_cnp(flow, 1);
  CHECK(near(flow.rate_bps, kLine / 2));
  Acknowledged told;
  told.fresh_bytes = 1000;
  control.on_ack(flow, told);
  CHECK(near(flow.rate_bps, kLine / 2 + 10'000));
  CHECK(flow.slots[1] == 1);
  control.on_nack(flow, 2);
  control.on_sent(flow, 100, 3);
  CHECK(near(flow.rate_bps, kLine / 2 + 10'000));
}

TEST(user_control_refuses_nonsense_by_name) {
  Options options;
  options.of<UserControlOptions>().on_cnp = address(&spoil);
  options.of<UserControlOptions>().on_nack = address(&fail);
  options.of<UserControlOptions>().on_timer = address(&stay);
  const UserControl control(options, derived());
  UserFlow flow = opened(control);
  CHECK_THROWS(std::invalid_argument, "on_cnp set rate_bps to nan", control.on_cnp(flow, 1));
  flow = opened(control);
  CHECK_THROWS(std::invalid_argument, "on_nack raised", control.on_nack(flow, 1));
  flow.timer_ps = 7;
  CHECK_THROWS(std::invalid_argument, "on_timer left timer_ps", control.on_timer(flow, 7));
}

TEST(user_control_keeps_time) {
  Options options;
  options.of<UserControlOptions>().on_open = options.of<UserControlOptions>().on_timer = address(&later);
  const UserControl control(options, derived());
  UserFlow flow = opened(control);
  CHECK(control.next_timer(flow) == 5);
  control.on_timer(flow, 5);
  CHECK(control.next_timer(flow) == 10);
}

namespace {

std::int64_t round_robin(UserPath* path, std::int64_t, std::int64_t, std::int64_t paths) {
  return static_cast<std::int64_t>(path->slots[0]++) % paths + 1;
}
std::int64_t beyond(UserPath*, std::int64_t, std::int64_t, std::int64_t) { return 70'000; }
std::int64_t emptiest(const UserPort* ports, std::int64_t count, std::int64_t, std::int64_t) {
  std::int64_t best = 0;
  for (std::int64_t at = 1; at < count; ++at)
    if (ports[at].queue_bytes < ports[best].queue_bytes) best = at;
  return best + 1;
}

}  // namespace

TEST(user_balance_gives_each_flow_its_own_state) {
  Options options;
  options.paths = 4;
  options.of<UserBalanceOptions>().next = address(&round_robin);
  UserBalance balance(2, options);
  std::vector<int> found;
  for (int at = 0; at < 5; ++at) found.push_back(balance.next(0, at));
  CHECK((found == std::vector<int>{0, 1, 2, 3, 0}));
  CHECK(balance.next(1, 0) == 0);
}

TEST(user_balance_refuses_what_is_no_entropy) {
  Options options;
  options.of<UserBalanceOptions>().next = address(&beyond);
  UserBalance balance(1, options);
  CHECK_THROWS(std::invalid_argument, "next_entropy returned 69999", balance.next(0, 0));
}

TEST(user_balance_chooses_an_egress) {
  UserBalanceOptions options;
  options.choose = address(&emptiest);
  const std::array<UserPort, 3> ports{UserPort{500, 1000, 7}, UserPort{100, 1000, 8}, UserPort{200, 1000, 9}};
  CHECK(UserBalance::choose(options, ports, 1, 0) == 1);
}
