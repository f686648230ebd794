#include <cmath>
#include <numeric>

#include "core/harness.hpp"
#include "packet/fabric/driver_test.hpp"
#include "packet/fabric/pfc.hpp"

using namespace driver;

namespace {

constexpr Ps kMicrosecond = 1'000'000;
constexpr std::int64_t kRate = 400'000'000'000;
constexpr std::uint32_t kMtu = 4150;

Options lossless(std::int64_t xoff_packets = 0) {
  Options options;
  options.switching = "pfc";
  options.mtu_bytes = kMtu;
  options.load_balancing = "ecmp";
  options.of<PfcOptions>().xoff_bytes = xoff_packets * kMtu;
  return options;
}

Derived no_marks() {
  Derived derived;
  derived.rate_bps = kRate;
  derived.queue_bytes = 100 * kMtu;
  derived.ecn_low_bytes = derived.ecn_high_bytes = std::int64_t{1} << 40;
  return derived;
}

/// So many hosts at one switch; link 2h leads up from host h, 2h + 1 down to it.
Net star(std::uint32_t hosts, Ps delay = kMicrosecond, std::int64_t rate = kRate) {
  Net net(hosts, 1);
  for (std::uint32_t host = 0; host < hosts; ++host) net.join(host, hosts, rate, delay);
  return net;
}

std::vector<Send> incast(std::uint32_t senders, std::int64_t packets) {
  std::vector<Send> streams;
  for (std::uint32_t host = 1; host <= senders; ++host) streams.push_back({host, 0, packets});
  return streams;
}

}  // namespace

TEST(pfc_dynamic_threshold_settles_at_alpha_over_one_plus_n_alpha) {
  for (const double alpha : {0.125, 0.5, 1.0, 2.0, 8.0}) {
    for (const int count : {1, 2, 8, 32}) {
      PfcOptions options;
      options.alpha = alpha;
      const BufferRules rules(options);
      Pool pool{.size = 10'000'000, .used = 0};
      std::vector<Ingress> ingresses(static_cast<std::size_t>(count));
      for (bool any = true; any;) {  // all in turn, by small packets, until nobody gets more
        any = false;
        for (Ingress& in : ingresses) {
          if (rules.should_pause(in, pool) || !rules.within(in, pool, 64)) continue;
          rules.take(in, pool, 64, true);
          any = true;
        }
      }
      const double expected = alpha * 1e7 / (1 + alpha * count);
      for (const Ingress& in : ingresses) CHECK(std::abs(static_cast<double>(in.bytes) - expected) < 64 * (alpha + 2));
      CHECK(!rules.may_resume(ingresses[0], pool));
      while (!rules.may_resume(ingresses[0], pool)) rules.give(ingresses[0], pool, 64);
      CHECK(ingresses[0].bytes + options.resume_bytes <= rules.threshold(pool));
      CHECK(ingresses[0].bytes + 64 + options.resume_bytes > rules.threshold({pool.size, pool.used + 64}));
    }
  }
}

TEST(pfc_buffer_charges_guarantee_shared_part_and_headroom) {
  PfcOptions options;
  options.reserve_bytes = 4096;
  options.alpha = 0.125;  // HPCC's ns-3: shift 3
  const BufferRules rules(options);
  Pool pool{.size = 80'000, .used = 0};
  Ingress in;
  for (int packet = 0; packet < 4; ++packet) rules.take(in, pool, 1000, rules.within(in, pool, 1000));
  CHECK(in.bytes == 4000 && pool.used == 0);
  rules.take(in, pool, 1000, rules.within(in, pool, 1000));
  CHECK(in.bytes == 5000 && pool.used == 904);
  while (rules.within(in, pool, 1000)) rules.take(in, pool, 1000, true);
  CHECK(rules.shared(in) <= (80'000 - pool.used + 1000) / 8);
  rules.take(in, pool, 1000, false);
  CHECK(in.headroom == 1000 && rules.should_pause(in, pool));
  rules.give(in, pool, 1000);
  CHECK(in.headroom == 0);
  while (in.bytes > 0) rules.give(in, pool, 1000);
  CHECK(pool.used == 0 && rules.may_resume(in, pool));
}

TEST(pfc_marking_is_a_ramp_or_a_step) {
  Marking ramp{.low = 100'000, .high = 400'000, .most = 0.2};
  CHECK(ramp.probability(100'000) == 0 && ramp.probability(400'001) == 1);
  CHECK(std::abs(ramp.probability(250'000) - 0.1) < 1e-12);
  std::uint64_t state = 1;
  int marked = 0;
  for (int at = 0; at < 100'000; ++at) marked += ramp.marks(250'000, [&] { return state = mix(state); });
  CHECK(std::abs(marked - 10'000) < 400);  // four standard deviations
  Marking step{.low = 5000, .high = 5000, .most = 1};
  CHECK(step.probability(5000) == 0 && step.probability(5001) == 1);
}

TEST(pfc_scheduler_serves_strict_classes_first_and_shares_the_rest_by_weight) {
  ClassScheduler scheduler({1, 3, 0}, kMtu);
  ClassScheduler::Round round;
  std::array<std::int32_t, 3> deficit{};
  std::array<std::int64_t, 3> bytes{};
  const std::array<std::int32_t, 3> size{4150, 1000, 64};
  const auto pick = [&](std::uint32_t ready) {
    const unsigned rank = scheduler.pick(
        ready, ready, round, [&](unsigned at) -> std::int32_t& { return deficit[at]; },
        [&](unsigned at) { return size[at]; });
    bytes[rank] += size[rank];
    return rank;
  };
  CHECK(pick(0b111) == 2 && pick(0b100) == 2);
  for (int at = 0; at < 100'000; ++at) pick(0b011);
  CHECK(std::abs(static_cast<double>(bytes[1]) / static_cast<double>(bytes[0]) - 3) < 0.01);
}

/// One sender, the way out shut: how many packets it has sent when the pause stops it, and when it goes on.
TEST(pfc_pause_and_resume_come_when_they_must) {
  const Ps delay = 3 * kMicrosecond, packet = wire_time(kMtu, kRate), frame = wire_time(64, kRate);
  Net net = star(2, delay);
  Options options = lossless(15);
  options.of<PfcOptions>().xon_bytes = 12 * kMtu;
  Driver<PfcFabric> driver(net, {{1, 0, 1000}}, options, no_marks());
  driver.fabric.hold(1, true);
  CHECK(driver.run(90 * kMicrosecond));
  // The 16th packet is one too many; it has arrived after 16 packets and a delay, the pause a frame and a delay later.
  const Ps told = 16 * packet + delay + frame + delay;
  const std::int64_t sent = told / packet + 1;
  CHECK(1000 - driver.left[0] == sent);
  CHECK(driver.fabric.ingress_bytes(2, 0) == sent * kMtu);
  CHECK(driver.fabric.paused(2) && !driver.fabric.ready(1, 0));
  driver.context.now = 90 * kMicrosecond;
  driver.fabric.hold(1, false);
  // Below 12 packets when all but 11 have left.
  const Ps free = 90 * kMicrosecond + (sent - 11) * packet + frame + delay;
  CHECK(driver.run(free - 1));
  CHECK(1000 - driver.left[0] == sent);
  CHECK(driver.run(free));
  CHECK(1000 - driver.left[0] == sent + 1);
  CHECK(!driver.run());
  CHECK(driver.received(0) == 1000 && driver.context.outcome.counters.dropped == 0);
  CHECK(driver.fabric.latest_resume() == 0);
}

/// Worst incasts over random parameters: delays, rates, sizes, thresholds. Nothing is lost, and what comes after the pause
/// fits into the headroom.
TEST(pfc_headroom_never_overflows) {
  std::uint64_t state = 7;
  const auto among = [&](std::int64_t low, std::int64_t high) {
    state = mix(state);
    return low + static_cast<std::int64_t>(state % static_cast<std::uint64_t>(high - low + 1));
  };
  double fullest = 0;
  for (int round = 0; round < 120; ++round) {
    const auto senders = static_cast<std::uint32_t>(among(1, 12));
    const Ps delay = among(0, 1) == 0 ? among(1000, 100'000) : among(100'000, 5 * kMicrosecond);
    const std::int64_t rate = std::array<std::int64_t, 3>{100'000'000'000, kRate, 800'000'000'000}[static_cast<std::size_t>(among(0, 2))];
    Net net = star(senders + 1, delay, rate);
    net.rate[1] = among(1, 8) * rate / 8;  // the way out is no faster than one sender
    Options options = lossless();
    options.mtu_bytes = static_cast<std::uint32_t>(among(256, 9216));
    options.of<PfcOptions>().alpha = std::array<double, 4>{0.0625, 0.5, 1, 8}[static_cast<std::size_t>(among(0, 3))];
    options.of<PfcOptions>().reserve_bytes = among(0, 1) * 4096;
    options.of<PfcOptions>().response_ps = among(0, 1) * among(0, 500'000);
    const auto mtu = static_cast<std::int64_t>(options.mtu_bytes);
    const std::int64_t own = headroom_of(static_cast<double>(rate), delay, options.of<PfcOptions>().response_ps, mtu, 64) + options.of<PfcOptions>().reserve_bytes;
    options.of<PfcOptions>().buffer_bytes = 2 * (senders + 1) * own + among(1, 200'000);
    // Traffic both ways, so that pause frames must wait for packets.
    std::vector<Send> streams = incast(senders, among(50, 300));
    for (std::uint32_t host = 1; host <= senders; ++host) streams.push_back({0, host, 40});
    Driver<PfcFabric> driver(net, streams, options, no_marks());
    CHECK(!driver.run());
    CHECK(driver.context.outcome.counters.dropped == 0);
    for (std::uint32_t flow = 0; flow < streams.size(); ++flow)
      CHECK(driver.received(flow) == static_cast<std::size_t>(streams[flow].packets));
    for (std::uint32_t link = 0; link < net.source.size(); ++link) CHECK(driver.fabric.depth(link) == 0);
    for (std::uint32_t host = 0; host <= senders; ++host) {
      CHECK(driver.fabric.headroom_most(2 * host, 0) <= driver.fabric.headroom_limit(2 * host));
      CHECK(driver.fabric.headroom_used(2 * host, 0) == 0 && driver.fabric.ingress_bytes(2 * host, 0) == 0);
      fullest = std::max(fullest, static_cast<double>(driver.fabric.headroom_most(2 * host, 0)) /
                                      static_cast<double>(driver.fabric.headroom_limit(2 * host)));
    }
    CHECK(driver.fabric.latest_resume() == 0);
  }
  CHECK(fullest > 0.8);  // it is needed
}

/// Half of the headroom is not enough: the test above can fail.
TEST(pfc_too_little_headroom_loses) {
  Net net = star(9);
  Options options = lossless();
  options.of<PfcOptions>().headroom_bytes = headroom_of(kRate, kMicrosecond, 0, kMtu, 64) / 2;
  options.of<PfcOptions>().buffer_bytes = 2 * 9 * options.of<PfcOptions>().headroom_bytes + 50'000;
  Driver<PfcFabric> driver(net, incast(8, 300), options, no_marks());
  CHECK(!driver.run());
  CHECK(driver.context.outcome.counters.dropped > 0);
}

TEST(pfc_buffer_smaller_than_its_headroom_is_refused) {
  Net net = star(3);
  Options options = lossless();
  options.of<PfcOptions>().buffer_bytes = 1000;
  CHECK_THROWS(std::invalid_argument, "headroom", Driver<PfcFabric>(net, incast(2, 1), options, no_marks()));
}

TEST(pfc_lossy_class_drops_at_the_tail_and_lossless_class_does_not) {
  Net net = star(9);
  Options options = lossless();
  options.of<PfcOptions>().lossless = 0xfe;
  options.of<PfcOptions>().buffer_bytes = 3'000'000;
  std::vector<Send> streams = incast(8, 1000);
  for (std::uint32_t host = 1; host <= 8; ++host) streams.push_back({host, 0, 20, 3});
  Driver<PfcFabric> driver(net, streams, options, no_marks());
  CHECK(!driver.run());
  std::size_t lossy = 0;
  for (std::uint32_t flow = 0; flow < 16; ++flow) {
    if (flow < 8) lossy += driver.received(flow);
    else CHECK(driver.received(flow) == 20);
  }
  CHECK(driver.context.outcome.counters.dropped == 8000 - lossy && lossy < 8000 && lossy > 700);
}

TEST(pfc_higher_class_overtakes_and_weights_share) {
  Net net = star(3);
  Options options = lossless(30);
  std::vector<Send> streams{{1, 0, 2000, 0}, {2, 0, 2000, 5}};
  {
    Driver<PfcFabric> driver(net, streams, options, no_marks());
    CHECK(!driver.run());
    // Class 5 has the link to itself, but for a packet that was there before; class 0 gets what is left.
    CHECK(driver.last(1) <= 2001 * wire_time(kMtu, kRate) + 2 * kMicrosecond + wire_time(kMtu, kRate));
    CHECK(driver.last(0) >= 4000 * wire_time(kMtu, kRate));
  }
  options.of<PfcOptions>().weights = {1, 1, 1, 1, 1, 4, 1, 1};
  Driver<PfcFabric> driver(net, streams, options, no_marks());
  CHECK(driver.run(100 * kMicrosecond));
  const double ratio = static_cast<double>(driver.received(1)) / static_cast<double>(driver.received(0));
  CHECK(ratio > 3.8 && ratio < 4.2);
}

TEST(pfc_step_marks_what_leaves_more_behind) {
  Net net = star(3);
  Options options = lossless(100);
  options.of<MarkingOptions>().low_bytes = options.of<MarkingOptions>().high_bytes = 10 * kMtu;
  Driver<PfcFabric> driver(net, incast(2, 50), options, no_marks());
  CHECK(!driver.run());
  // Two come where one leaves: after n packets out n + 1 wait, as long as they come.
  std::size_t first = 0;
  while (!driver.got[first].marked) ++first;
  CHECK(first >= 9 && first <= 11);
  std::size_t last = driver.got.size() - 1;
  while (!driver.got[last].marked) --last;
  CHECK(driver.got.size() - 1 - last == 11);  // ten left behind are not more than ten
}

TEST(pfc_telemetry_counts_hops) {
  Net net(2, 3);
  net.join(0, 2, kRate, kMicrosecond);
  net.join(2, 3, kRate, kMicrosecond);
  net.join(3, 4, kRate, kMicrosecond);
  net.join(4, 1, kRate, kMicrosecond);
  Options options = lossless();
  options.telemetry = true;
  Driver<PfcFabric> driver(net, {{0, 1, 5}}, options, no_marks());
  CHECK(!driver.run());
  for (const Got& one : driver.got) CHECK(one.hops == 3);
}

namespace {

/// Switches in a ring, a host at each; all go round the same way.
Net ring(std::uint32_t count) {
  Net net(count, count);
  std::vector<std::uint32_t> down, round;
  for (std::uint32_t at = 0; at < count; ++at) down.push_back(net.join(at, count + at, kRate, kMicrosecond) + 1);
  for (std::uint32_t at = 0; at < count; ++at)
    round.push_back(net.join(count + at, count + (at + 1) % count, kRate, kMicrosecond));
  for (std::uint32_t at = 0; at < count; ++at)
    for (std::uint32_t host = 0; host < count; ++host) net.route(count + at, host, host == at ? down[at] : round[at]);
  return net;
}

}  // namespace

TEST(pfc_deadlock_on_a_ring_is_found_and_named) {
  Net net = ring(4);
  std::vector<Send> streams;
  for (std::uint32_t host = 0; host < 4; ++host) streams.push_back({host, (host + 3) % 4, 2000});
  Driver<PfcFabric> driver(net, streams, lossless(15), no_marks());
  CHECK_THROWS(Stuck, "pause deadlock in class 0", driver.run());
  CHECK_THROWS(Stuck, "node 4 to node 5", [&] { Driver<PfcFabric> again(net, streams, lossless(15), no_marks()); again.run(); }());
  CHECK(driver.context.now < 1000 * kMicrosecond);
}

TEST(pfc_no_deadlock_is_seen_where_the_ring_is_cut) {
  Net net = ring(4);
  std::vector<Send> streams;
  for (std::uint32_t host = 0; host < 3; ++host) streams.push_back({host, 3, 2000});
  Driver<PfcFabric> driver(net, streams, lossless(15), no_marks());
  CHECK(!driver.run());
  CHECK(driver.received(0) == 2000 && driver.received(1) == 2000 && driver.received(2) == 2000);
}

TEST(pfc_circle_of_pauses_that_can_drain_is_no_deadlock) {
  // 0 waits for 1 and 1 for 0, but 1 holds mostly what may leave.
  const std::vector<Held> held{{0, 1, 100}, {1, 0, 10}};
  const MayResume below = [](std::uint32_t at, const std::vector<std::int64_t>& stuck) { return stuck[at] < 50; };
  CHECK(find_deadlock(2, {0, 1}, held, below).empty());
  const std::vector<Held> worse{{0, 1, 100}, {1, 0, 60}};
  CHECK(find_deadlock(2, {0, 1}, worse, below).size() == 2);
}

TEST(pfc_stall_without_a_circle_ends_with_an_error) {
  Net net = star(2);
  Options options = lossless(15);
  Driver<PfcFabric> driver(net, {{1, 0, 100}}, options, no_marks());
  driver.fabric.hold(1, true);
  CHECK_THROWS(Stuck, "nothing has moved", driver.run());
}

/// Hosts 2, 3 and 4 at the left switch, 0 and 1 at the right: 2, 3 -> 0 fill the trunk's buffer, and 4 -> 1 suffers.
TEST(pfc_pause_tree_slows_a_victim_and_names_its_root) {
  const auto build = [] {
    Net net(5, 2);
    for (std::uint32_t host = 0; host < 5; ++host) net.join(host, host < 2 ? 6 : 5, kRate, kMicrosecond);
    net.join(5, 6, 2 * kRate, kMicrosecond);  // links 10, 11: wide enough for all
    return net;
  };
  Net net = build();
  const std::vector<Send> streams{{2, 0, 3000}, {3, 0, 3000}, {4, 1, 1000}};
  Driver<PfcFabric> driver(net, streams, lossless(15), no_marks());
  CHECK(!driver.run());
  Net quiet = build();
  Driver<PfcFabric> alone(quiet, {{4, 1, 1000}}, lossless(15), no_marks());
  CHECK(!alone.run());
  CHECK(driver.last(2) > alone.last(0) * 13 / 10);
  driver.fabric.conclude();
  const PauseColumns& pauses = driver.context.outcome.pauses;
  CHECK(pauses.paused_ps[10] > 0 && pauses.origin[10] == 1);  // the link down to host 0
  CHECK(pauses.pauses[10] > 0 && pauses.longest_ps[10] <= pauses.paused_ps[10]);
  CHECK(pauses.paused_ps[4] > 0 && pauses.origin[4] == 1);    // host 2 is stopped by the same root
  CHECK(pauses.paused_ps[1] == 0);
  CHECK(pauses.flow_victim_ps[2] > 0 && pauses.flow_origin[2] == 1);  // 4 -> 1 stands for host 0's sake
  CHECK(pauses.flow_paused_ps[0] > 0 && pauses.flow_victim_ps[0] == 0 && pauses.flow_victim_ps[1] == 0);
}

TEST(pfc_adaptive_choice_goes_round_a_paused_egress) {
  // Two ways from the left switch to the right ones; one of the middles is shut behind.
  Net net(2, 4);
  net.join(0, 2, kRate, kMicrosecond);
  net.join(2, 3, kRate, kMicrosecond);  // 2
  net.join(2, 4, kRate, kMicrosecond);
  net.join(3, 5, kRate, kMicrosecond);  // 6
  net.join(4, 5, kRate, kMicrosecond);
  net.join(5, 1, kRate, kMicrosecond);
  Options options = lossless(15);
  options.load_balancing = "adaptive";
  Driver<PfcFabric> driver(net, {{0, 1, 3000}}, options, no_marks());
  driver.fabric.hold(6, true);
  driver.run(1000 * kMicrosecond);
  CHECK(driver.received(0) > 2900);
}

TEST(pfc_link_that_goes_down_drops_what_waits_and_comes_back_clean) {
  Net net = star(3);
  Driver<PfcFabric> driver(net, incast(2, 500), lossless(15), no_marks());
  CHECK(driver.run(30 * kMicrosecond));
  driver.fabric.set_rate(1, 0);
  CHECK(driver.fabric.ingress_bytes(2, 0) + driver.fabric.ingress_bytes(4, 0) <= kMtu);  // what is in service
  CHECK(driver.run(60 * kMicrosecond));
  driver.fabric.set_rate(1, 1);
  CHECK(!driver.run());
  const std::uint64_t dropped = driver.context.outcome.counters.dropped;
  CHECK(dropped > 0 && driver.received(0) + driver.received(1) + dropped == 1000);
  for (std::uint32_t link = 0; link < 6; ++link) CHECK(driver.fabric.depth(link) == 0);
  CHECK(driver.fabric.ingress_bytes(2, 0) == 0 && !driver.fabric.paused(2) && !driver.fabric.paused(4));
}


/// Three send to one of four hosts; the ingress of link 2 is otherwise than the others.
struct Misconfigured {
  std::vector<std::int64_t> at_ps;
  std::vector<std::int32_t> link;
  std::vector<std::uint8_t> kind;
  std::vector<double> value;
  Net net = star(4);
  Options options = lossless();

  Misconfigured(FaultColumns::Kind what, double kept)
      : at_ps{0}, link{2}, kind{static_cast<std::uint8_t>(what)}, value{kept} {
    options.of<PfcOptions>().buffer_bytes = 3'000'000;
    options.faults = {at_ps, link, kind, value};
  }

  Driver<PfcFabric> driver(const Derived& derived = no_marks()) { return {net, incast(3, 1000), options, derived}; }
};

TEST(pfc_ingress_that_pauses_nobody_drops_and_only_its_own) {
  Misconfigured wrong(FaultColumns::Kind::pause, 0);
  Driver<PfcFabric> driver = wrong.driver();
  CHECK(!driver.run());
  CHECK(driver.received(1) == 1000 && driver.received(2) == 1000);
  CHECK(driver.received(0) < 1000 && driver.context.outcome.counters.dropped == 1000 - driver.received(0));
  CHECK(driver.fabric.headroom_limit(2) == 0 && driver.fabric.paused_ps(2) == 0 && driver.fabric.paused_ps(4) > 0);
}

TEST(pfc_sender_that_does_not_obey_overruns_the_headroom) {
  Misconfigured wrong(FaultColumns::Kind::obey, 0);
  Driver<PfcFabric> driver = wrong.driver();
  CHECK(!driver.run());
  CHECK(driver.received(1) == 1000 && driver.received(2) == 1000 && driver.received(0) < 1000);
  CHECK(driver.fabric.headroom_most(2, 0) + kMtu > driver.fabric.headroom_limit(2));
  CHECK(driver.fabric.paused_ps(2) == 0);
}

TEST(pfc_headroom_that_one_ingress_lacks_loses_there) {
  const std::int64_t due = Misconfigured(FaultColumns::Kind::headroom, 1).driver().fabric.headroom_limit(2);
  CHECK(due == headroom_of(kRate, kMicrosecond, 0, kMtu, 64));
  Misconfigured wrong(FaultColumns::Kind::headroom, 0.25);
  Driver<PfcFabric> driver = wrong.driver();
  CHECK(!driver.run());
  CHECK(driver.fabric.headroom_limit(2) == due / 4 && driver.fabric.headroom_limit(4) == due);
  CHECK(driver.received(1) == 1000 && driver.received(2) == 1000 && driver.received(0) < 1000);
}

TEST(pfc_queue_that_marks_nothing_is_the_one_named) {
  Derived derived = no_marks();
  derived.ecn_low_bytes = derived.ecn_high_bytes = 10 * kMtu;
  Misconfigured other(FaultColumns::Kind::mark, 0), wrong(FaultColumns::Kind::mark, 0);
  wrong.link = {1};
  wrong.options.faults.link = wrong.link;
  Driver<PfcFabric> marked = other.driver(derived), unmarked = wrong.driver(derived);
  CHECK(!marked.run() && !unmarked.run());
  CHECK(marked.fabric.marks(1) > 1000 && unmarked.fabric.marks(1) == 0);
}
