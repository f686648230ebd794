#include <cmath>
#include <stdexcept>

#include "core/harness.hpp"
#include "packet/draws.hpp"
#include "packet/fabric/link_credit.hpp"
#include "packet/pour_test.hpp"
#include "packet/stuck.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

using Run = Pouring<CreditFabric>;
constexpr std::int64_t kMtu = 4096;  // 64 blocks, 81.92 ns at 400 Gb/s
constexpr Ps kMtuTime = 81'920, kHeadTime = 400, kCreditTime = 160, kLatency = 450'000;

Options credit(std::int64_t buffer_bytes = 131'072) {
  Options options;
  options.mtu_bytes = kMtu;
  options.switching = "credit";
  options.load_balancing = "ecmp";
  options.of<LinkCreditOptions>().buffer_bytes = buffer_bytes;
  return options;
}

/// Hosts on one switch.
HandNetwork star(std::int32_t hosts, Ps latency = kLatency) {
  HandNetwork network(static_cast<std::uint32_t>(hosts), static_cast<std::uint32_t>(hosts) + 1);
  for (std::int32_t host = 0; host < hosts; ++host) network.join(host, hosts, latency);
  return network;
}

/// Leaves of `each` hosts and `spines` above them.
HandNetwork leaves(std::int32_t count, std::int32_t each, std::int32_t spines) {
  const std::int32_t hosts = count * each;
  HandNetwork network(static_cast<std::uint32_t>(hosts), static_cast<std::uint32_t>(hosts + count + spines));
  for (std::int32_t host = 0; host < hosts; ++host) network.join(host, hosts + host / each);
  for (std::int32_t leaf = 0; leaf < count; ++leaf)
    for (std::int32_t spine = 0; spine < spines; ++spine) network.join(hosts + leaf, hosts + count + spine);
  return network;
}

/// Switches in a ring, one host each, all ways clockwise: credit can wait for itself.
HandNetwork ring(std::int32_t size) {
  HandNetwork network(static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(2 * size));
  std::vector<std::int32_t> down, around;
  for (std::int32_t at = 0; at < size; ++at) down.push_back(network.join(at, size + at) + 1);
  for (std::int32_t at = 0; at < size; ++at) around.push_back(network.join(size + at, size + (at + 1) % size));
  for (std::int32_t at = 0; at < size; ++at)
    for (std::int32_t host = 0; host < size; ++host)
      network.route(size + at, host, {at == host ? down[static_cast<std::size_t>(at)] : around[static_cast<std::size_t>(at)]});
  return network;
}

void check_credit(Run& run) {
  const std::int32_t buffer = run.fabric.buffer(0);
  for (std::uint32_t link = 0; link < run.network.link_source.size(); ++link)
    for (unsigned lane = 0; lane < run.options.of<LinkCreditOptions>().lanes; ++lane) {
      const std::int32_t here = run.fabric.credit(link, lane), granted = run.fabric.granted(link, lane);
      CHECK(here >= 0 && here <= granted && granted <= buffer);
      CHECK(run.fabric.held(link, lane) >= 0 && run.fabric.held(link, lane) <= buffer);
    }
}

}  // namespace

TEST(link_credit_a_packet_alone_is_cut_through) {
  HandNetwork network = star(2);
  HandTraffic traffic;
  traffic.flow(0, 1, kMtu);
  CHECK(Run(network, traffic, credit()).run() == kHeadTime + kMtuTime + 2 * kLatency);
  HandNetwork again = star(2);
  Options options = credit();
  options.of<LinkCreditOptions>().cut_through = false;
  CHECK(Run(again, traffic, options).run() == 2 * kMtuTime + 2 * kLatency);
}

TEST(link_credit_bounds_the_rate_by_buffer_over_round_trip) {
  // A credit comes back after the packet's head has gone over, the packet has left, and a credit packet has come back.
  for (const std::int64_t packets : {1, 2, 4, 8, 16, 24, 48})
    for (const Ps latency : {Ps{450'000}, Ps{2'000'000}}) {
      HandNetwork network = star(2, latency);
      HandTraffic traffic;
      const std::int64_t bytes = 2000 * kMtu;
      traffic.flow(0, 1, bytes);
      Options options = credit(packets * kMtu);
      options.of<LinkCreditOptions>().update_bytes = 0;
      const Ps took = Run(network, traffic, options).run();
      const double round_trip = static_cast<double>(kHeadTime + latency + kMtuTime + kCreditTime + latency);
      const double bound = std::min(static_cast<double>(packets * kMtu) / round_trip, static_cast<double>(kMtu) / kMtuTime);
      const double found = static_cast<double>(bytes) / static_cast<double>(took - 2 * latency);
      CHECK(found <= bound * 1.02 && found > bound * 0.98);
    }
}

TEST(link_credit_is_never_negative_nor_above_the_buffer) {
  for (std::uint64_t round = 0; round < 40; ++round) {
    const auto pick = [&](std::uint64_t at, std::uint32_t limit) { return below(draw(mix(round + 7), at), limit); };
    HandNetwork network = leaves(3, 3, 2);
    Options options = credit(kMtu * (1 + pick(0, 12)) + 64 * pick(1, 64));
    options.seed = round;
    options.of<LinkCreditOptions>().lanes = 1 + pick(2, 4);
    options.of<LinkCreditOptions>().update_bytes = kMtu * pick(3, 6);
    options.of<LinkCreditOptions>().fifo = pick(4, 3) == 0;
    options.of<LinkCreditOptions>().cut_through = pick(5, 2) == 0;
    options.of<LinkCreditOptions>().update_period_ps = 100'000 + 1000 * static_cast<Ps>(pick(6, 9000));
    options.of<LinkCreditOptions>().high_weight[0] = static_cast<std::uint8_t>(pick(7, 200));
    options.load_balancing = pick(8, 2) == 0 ? "adaptive" : pick(9, 2) == 0 ? "spray" : "ecmp";
    HandTraffic traffic;
    std::int64_t bytes = 0;
    for (std::uint32_t at = 0; at < 20; ++at) {
      const std::uint32_t from = pick(100 + 4 * at, 9), to = pick(101 + 4 * at, 4) == 0 ? 0 : pick(102 + 4 * at, 9);
      if (from == to) continue;
      traffic.flow(static_cast<std::int32_t>(from), static_cast<std::int32_t>(to), 1 + pick(103 + 4 * at, 150'000),
                   static_cast<std::uint8_t>(at % 8), static_cast<Ps>(pick(200 + at, 5'000'000)));
      bytes += traffic.size.back();
    }
    Run run(network, traffic, options);
    while (run.context.flows.unfinished() != 0 && run.step()) check_credit(run);
    std::int64_t into = 0;
    for (std::size_t flow = 0; flow < traffic.size.size(); ++flow) {
      CHECK(run.senders.missing(static_cast<std::uint32_t>(flow)) == 0);
      const Ps bound = wire_time(static_cast<std::uint32_t>(traffic.size[flow]), 400'000'000'000) + 2 * kLatency;
      CHECK(run.finish(flow) - traffic.start[flow] >= bound);
      if (options.load_balancing == "ecmp") CHECK(run.senders.in_order(static_cast<std::uint32_t>(flow)));
    }
    for (std::uint32_t link = 0; link < run.network.link_source.size(); ++link)
      if (run.network.link_target[link] < 9) into += run.fabric.carried(link);
    CHECK(into >= bytes && into < bytes + 8 * static_cast<std::int64_t>(run.context.outcome.counters.credits));
    // Afterwards everything is given back, but for what is not enough to be told of.
    while (run.step()) check_credit(run);
    for (std::uint32_t link = 0; link < run.network.link_source.size(); ++link)
      for (unsigned lane = 0; lane < options.of<LinkCreditOptions>().lanes; ++lane) {
        CHECK(run.fabric.held(link, lane) == 0);
        CHECK(run.fabric.credit(link, lane) == run.fabric.granted(link, lane));
      }
  }
}

TEST(link_credit_inputs_of_an_egress_take_turns) {
  HandNetwork network = star(5);
  HandTraffic traffic;
  for (std::int32_t host = 1; host < 5; ++host) traffic.flow(host, 0, 500 * kMtu);
  Run run(network, traffic, credit());
  const Ps took = run.run();
  // The wire to host 0 is never idle, and nobody ends long before the others.
  CHECK(took < 2000 * kMtuTime + 2 * kLatency + 4 * kMtuTime);
  for (std::size_t flow = 0; flow < 4; ++flow) CHECK(took - run.finish(flow) <= 4 * kMtuTime);
}

TEST(link_credit_lanes_share_by_their_weights) {
  // Two lanes of the low table, 3 to 1, from two hosts each; then one of them in the high table.
  for (const bool high : {false, true}) {
    HandNetwork network = star(3);
    HandTraffic traffic;
    traffic.flow(1, 0, 3000 * kMtu, 0);
    traffic.flow(2, 0, 3000 * kMtu, 1);
    Options options = credit();
    options.of<LinkCreditOptions>().lanes = 2;
    options.of<LinkCreditOptions>().low_weight = {192, 64, 0, 0, 0, 0, 0, 0};
    if (high) {
      options.of<LinkCreditOptions>().high_weight = {0, 255, 0, 0, 0, 0, 0, 0};
      options.of<LinkCreditOptions>().low_weight = {64, 0, 0, 0, 0, 0, 0, 0};
      options.of<LinkCreditOptions>().high_limit = 9;  // 36 KiB, nine packets, before one of the others
    }
    Run run(network, traffic, options);
    while (run.finish(0) < 0 && run.finish(1) < 0 && run.step()) {}
    const double share = static_cast<double>(3000 * kMtu - run.senders.missing(0)) /
                         static_cast<double>(6000 * kMtu - run.senders.missing(0) - run.senders.missing(1));
    CHECK(std::abs(share - (high ? 0.1 : 0.75)) < 0.02);
  }
}

TEST(link_credit_fifo_inputs_block_behind_their_head) {
  // Hosts 0 and 1 pour to host 3, host 0 also to host 4, which is idle. Its packets lie behind those for host 3.
  const auto finish = [](bool fifo) {
    HandNetwork network = leaves(2, 3, 1);
    HandTraffic traffic;
    traffic.flow(0, 3, 1000 * kMtu);
    traffic.flow(1, 3, 1000 * kMtu);
    traffic.flow(4, 3, 1000 * kMtu);
    traffic.flow(2, 5, 200 * kMtu);
    Options options = credit();
    options.of<LinkCreditOptions>().fifo = fifo;
    Run run(network, traffic, options);
    run.run();
    return run.finish(3);
  };
  CHECK(finish(true) > finish(false));
}

TEST(link_credit_tree_of_an_incast_blocks_an_innocent_flow) {
  // Four leaves. All of leaves 0 and 1 send to host 12; host 0 also to host 13, which nobody else wants.
  const auto slowdown = [](const char* balance, bool incast) {
    HandNetwork network = leaves(4, 4, 4);
    HandTraffic traffic;
    traffic.flow(3, 13, 400 * kMtu);
    if (incast)
      for (std::int32_t host = 0; host < 8; ++host)
        if (host != 3) traffic.flow(host, 12, 400 * kMtu);
    Options options = credit(16 * kMtu);
    options.load_balancing = balance;
    Run run(network, traffic, options);
    run.run();
    return static_cast<double>(run.finish(0));
  };
  const double alone = slowdown("ecmp", false);
  CHECK(slowdown("ecmp", true) < 1.1 * alone);  // a link of its own: d-mod-k
  CHECK(slowdown("adaptive", true) > 2 * alone);       // the tree has filled every link
}

TEST(link_credit_waits_for_itself_on_a_ring) {
  HandNetwork network = ring(4);
  HandTraffic traffic;
  for (std::int32_t host = 0; host < 4; ++host) traffic.flow(host, (host + 3) % 4, 400 * kMtu);
  Run run(network, traffic, credit(8 * kMtu));
  CHECK((harness::throws<Stuck>([&] { run.run(); }, "node 4 to node 5")));
  // With the way that an arrangement of lanes would break, it ends.
  HandNetwork line = star(4);
  CHECK(Run(line, traffic, credit(8 * kMtu)).run() > 400 * kMtuTime);
}

TEST(link_credit_a_slow_link_holds_its_host) {
  HandNetwork network = star(2);
  HandTraffic traffic;
  traffic.flow(0, 1, 100 * kMtu);
  Run run(network, traffic, credit());
  while (run.context.now < 2'000'000 && run.step()) {}
  run.fabric.set_rate(3, 0.01);
  while (run.context.now < 40'000'000 && run.step()) check_credit(run);
  CHECK(run.context.flows.unfinished() == 1 && run.fabric.paused(0) && run.fabric.paused_ps(0) > 20'000'000);
  run.fabric.set_rate(3, 0.5);
  const Ps took = run.run();
  CHECK(run.senders.missing(0) == 0 && took < 50'000'000 + 101 * 2 * kMtuTime + 2 * kLatency);
}

TEST(link_credit_a_switch_drops_what_it_has_for_a_link_that_is_down) {
  for (const bool fifo : {false, true}) {
    HandNetwork network = star(4);
    HandTraffic traffic;
    traffic.flow(0, 1, 100 * kMtu);
    traffic.flow(2, 1, 100 * kMtu);
    traffic.flow(2, 3, 100 * kMtu);
    Options options = credit();
    options.of<LinkCreditOptions>().fifo = fifo;
    Run run(network, traffic, options);
    while (run.context.now < 4'000'000 && run.step()) {}
    run.fabric.set_rate(3, 0);
    while (run.finish(2) < 0 && run.step()) check_credit(run);
    CHECK(run.finish(2) > 0 && run.fabric.depth(3) == 0);
    while (run.step()) check_credit(run);
    const std::int64_t sent = run.context.slab.capacity() > 0 ? run.fabric.carried(3) : 0;
    CHECK(sent < 200 * kMtu && run.context.outcome.counters.lost * kMtu + static_cast<std::uint64_t>(sent) >= 200 * kMtu);
    for (std::uint32_t link = 0; link < 8; ++link) CHECK(run.fabric.held(link, 0) == 0);
  }
}

TEST(link_credit_refuses_what_does_not_fit) {
  HandTraffic traffic;
  traffic.flow(0, 1, kMtu);
  const auto refused = [&](const LinkCreditOptions& chosen, const char* word) {
    HandNetwork network = star(2);
    Options options = credit();
    options.of<LinkCreditOptions>() = chosen;
    return harness::throws<std::invalid_argument>([&] { Run(network, traffic, options).run(); }, word);
  };
  LinkCreditOptions small, many, weightless;
  small.buffer_bytes = kMtu - 1;
  many.lanes = 9;
  weightless.lanes = 2;
  weightless.low_weight[1] = 0;
  CHECK(refused(small, "full packet") && refused(weightless, "weight"));
  Options options = credit();
  options.of<LinkCreditOptions>() = many;
  CHECK(harness::throws<std::invalid_argument>([&] { check_fields(options); }, "lanes must be in [1, 8], not 9"));
}
