#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "core/harness.hpp"
#include "packet/draws.hpp"
#include "packet/fabric/cell_fabric.hpp"
#include "packet/fabric/scheduled_options.hpp"
#include "packet/fabric/voq.hpp"
#include "packet/options.hpp"
#include "packet/transport/rdma_options.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr std::int64_t kRate = 400'000'000'000;
constexpr Ps kMicrosecond = 1'000'000;

/// Hosts on leafs, every leaf joined to every spine.
struct Tree {
  std::vector<std::int32_t> source, target, lo, hi, width, stride, choices;
  std::vector<std::int64_t> rate, latency, record_ptr{0}, first;
  std::int32_t hosts, leafs, spines, per_leaf, up, down;

  Tree(std::int32_t leaf_count, std::int32_t hosts_of_leaf, std::int32_t spine_count, Ps delay = kMicrosecond)
      : hosts(leaf_count * hosts_of_leaf), leafs(leaf_count), spines(spine_count), per_leaf(hosts_of_leaf) {
    for (std::int32_t host = 0; host < hosts; ++host) add(host, hosts + host / per_leaf);
    for (std::int32_t host = 0; host < hosts; ++host) add(hosts + host / per_leaf, host);
    up = static_cast<std::int32_t>(source.size());
    for (std::int32_t at = 0; at < leafs * spines; ++at) add(hosts + at / spines, hosts + leafs + at % spines);
    down = static_cast<std::int32_t>(source.size());
    for (std::int32_t at = 0; at < leafs * spines; ++at) add(hosts + leafs + at % spines, hosts + at / spines);
    rate.assign(source.size(), kRate);
    latency.assign(source.size(), delay);
    for (std::int32_t host = 0; host < hosts; ++host) routes({{0, hosts, {host}, 1, hosts}});
    for (std::int32_t leaf = 0; leaf < leafs; ++leaf) {
      const std::int32_t begin = leaf * per_leaf, end = begin + per_leaf;
      const std::vector<std::int32_t> rising = numbers(up + leaf * spines, spines, 1);
      routes({{0, begin, rising, spines, hosts},
              {begin, end, numbers(hosts + begin, per_leaf, 1), 1, 1},
              {end, hosts, rising, spines, hosts}});
    }
    for (std::int32_t spine = 0; spine < spines; ++spine)
      routes({{0, hosts, numbers(down + spine, leafs, spines), 1, per_leaf}});
  }

  NetworkColumns columns() const {
    return {static_cast<std::uint32_t>(hosts), static_cast<std::uint32_t>(hosts + leafs + spines), source, target, rate,
            latency, record_ptr, lo, hi, first, width, stride, choices};
  }

 private:
  struct Record {
    std::int32_t low, high;
    std::vector<std::int32_t> links;
    std::int32_t wide, step;
  };
  static std::vector<std::int32_t> numbers(std::int32_t from, std::int32_t count, std::int32_t step) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    for (std::int32_t at = 0; at < count; ++at) all[static_cast<std::size_t>(at)] = from + at * step;
    return all;
  }
  void add(std::int32_t from, std::int32_t to) {
    source.push_back(from);
    target.push_back(to);
  }
  void routes(const std::vector<Record>& records) {
    for (const Record& record : records) {
      if (record.low >= record.high) continue;
      lo.push_back(record.low);
      hi.push_back(record.high);
      first.push_back(static_cast<std::int64_t>(choices.size()));
      choices.insert(choices.end(), record.links.begin(), record.links.end());
      width.push_back(record.wide);
      stride.push_back(record.step);
    }
    record_ptr.push_back(static_cast<std::int64_t>(lo.size()));
  }
};

struct Flows {
  std::vector<std::int32_t> source, target, no_dep, need;
  std::vector<std::int64_t> size, start, dep_ptr, delay;
  std::vector<std::uint8_t> dep_at, klass;

  void add(std::int32_t from, std::int32_t to, std::int64_t bytes, Ps at = 0, std::uint8_t traffic_class = 0) {
    source.push_back(from);
    target.push_back(to);
    size.push_back(bytes);
    start.push_back(at);
    klass.push_back(traffic_class);
    delay.push_back(0);
    need.push_back(0);
    dep_ptr.assign(source.size() + 1, 0);
  }
  TrafficColumns columns() const { return {source, target, size, start, dep_ptr, no_dep, delay, need, dep_at, klass}; }
};

Options scheduled() {
  Options options;
  options.transport = "rdma";
  options.switching = "scheduled";
  return options;
}

Outcome go(const Tree& tree, const Flows& flows, const Options& options) {
  return run(tree.columns(), flows.columns(), options, [](std::uint64_t, Ps) {});
}

bool all_done(const Outcome& outcome) {
  return std::all_of(outcome.finish_ps.begin(), outcome.finish_ps.end(), [](Ps time) { return time > 0; });
}

/// Collects what comes to the leafs.
struct Collector {
  std::vector<std::tuple<std::uint32_t, Ps, std::uint32_t>> data;  ///< Burst, arrival, number.
  std::vector<std::tuple<std::uint32_t, Ps>> control;
  int dead = 0;
  void data_cell(const Cell& cell) { data.emplace_back(cell.burst(), cell.time, cell.number()); }
  void control_cell(const Cell& cell) { control.emplace_back(cell.what, cell.time); }
  void lost(const Cell&) { ++dead; }
  void prefetch(const Cell&) const {}
};

struct Sent {
  Ps time;
  std::uint32_t from, to, burst, bytes;
};

/// The same cells, each an event of its own in a heap: element queues served strictly in the order of arrival.
std::vector<std::tuple<std::uint32_t, Ps, std::uint32_t>> one_by_one(const Tree& tree, const std::vector<Sent>& sent,
                                                                     const CellSizes& sizes, std::uint64_t seed) {
  const NetworkColumns network = tree.columns();
  const CellTopology topology(network);
  CellRoutes routes(topology, network, seed);
  std::vector<double> rates(topology.links.size(), static_cast<double>(kRate) * sizes.speedup);
  routes.update(rates);
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(kRate) * sizes.speedup);
  std::vector<Ps> busy(topology.links.size(), 0);
  using Flying = std::tuple<Ps, std::uint32_t, int, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::priority_queue<Flying, std::vector<Flying>, std::greater<>> events;
  int order = 0;
  const auto pass = [&](std::uint32_t link, Ps now, std::uint32_t bytes) {
    busy[link] = std::max(busy[link], now) + wire_time(bytes, rate);
    return busy[link] + kMicrosecond;
  };
  for (const Sent& burst : sent) {
    std::uint32_t number = 0;
    for (std::uint32_t left = burst.bytes; left > 0; ++number) {
      const std::uint32_t payload = std::min(left, sizes.payload);
      left -= payload;
      const std::uint32_t link = routes.next(burst.from, burst.to), bytes = payload + sizes.header;
      events.emplace(pass(link, burst.time, bytes), link, order++, burst.burst, number, burst.to, bytes);
    }
  }
  std::vector<std::tuple<std::uint32_t, Ps, std::uint32_t>> arrived;
  for (; !events.empty(); events.pop()) {
    const auto [time, link, unused, burst, number, to, bytes] = events.top();
    const std::uint32_t next = routes.next(topology.links[link].target, to);
    arrived.emplace_back(burst, pass(next, time, bytes), number);
  }
  return arrived;
}

}  // namespace

TEST(scheduled_cells_in_windows_are_the_same_as_cells_one_by_one) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Tree tree(5, 2, 3);
    const CellSizes sizes{256, 16, 32, seed % 2 == 0 ? 160.0 / 144 : 0.7};
    const NetworkColumns network = tree.columns();
    const CellTopology topology(network);
    CellRoutes routes(topology, network, seed);
    Collector found;
    CellFabric<Collector> fabric(network, topology, routes, sizes, found);
    std::vector<Sent> sent;
    Ps now = 0;
    for (std::uint32_t burst = 0; burst < 400; ++burst) {
      const std::uint64_t bits = draw(mix(seed), burst);
      now += below(bits, 2) == 0 ? 0 : below(bits << 7, 400'000);
      const std::uint32_t from = below(mix(bits), 5), to = (from + 1 + below(mix(bits + 1), 4)) % 5;
      sent.push_back({now, from, to, burst, 1 + below(mix(bits + 2), 9000)});
      while (fabric.due() <= now) fabric.sweep(fabric.due());
      const std::uint32_t cells = fabric.send(from, to, burst, sent.back().bytes, now);
      CHECK(cells == fabric.cells_for(sent.back().bytes));
    }
    while (fabric.due() != kNever) fabric.sweep(fabric.due());
    auto wanted = one_by_one(tree, sent, sizes, seed);
    std::sort(wanted.begin(), wanted.end());
    std::sort(found.data.begin(), found.data.end());
    CHECK(found.data == wanted);
    CHECK(found.dead == 0 && fabric.lost() == 0);
  }
}

TEST(scheduled_cells_keep_off_dead_links_once_routes_know) {
  const Tree tree(3, 1, 4);
  const NetworkColumns network = tree.columns();
  const CellTopology topology(network);
  CellRoutes routes(topology, network, 1);
  Collector found;
  CellFabric<Collector> fabric(network, topology, routes, {256, 16, 32, 1.0}, found);
  const std::uint32_t dead = topology.link_of[static_cast<std::size_t>(tree.up)];         // leaf 0 to spine 0
  const std::uint32_t behind = topology.link_of[static_cast<std::size_t>(tree.down) + 5];  // spine 1 to leaf 1
  fabric.set_rate(dead, 0);
  fabric.set_rate(behind, 0);
  const auto flush = [&] {
    while (fabric.due() != kNever) fabric.sweep(fabric.due());
  };
  fabric.send(0, 1, 0, 8 * 256, 0);
  flush();
  CHECK(found.dead == 4 && found.data.size() == 4);  // a quarter on either
  fabric.reroute();
  found = {};
  fabric.send(0, 1, 1, 8 * 256, 100 * kMicrosecond);
  fabric.send(0, 2, 2, 9 * 256, 100 * kMicrosecond);  // spine 1 still leads to leaf 2
  flush();
  CHECK(found.dead == 0 && found.data.size() == 17);
}

TEST(scheduled_cells_go_to_unlike_links_by_their_bandwidth) {
  Tree tree(2, 1, 3);
  tree.rate[static_cast<std::size_t>(tree.up)] = kRate / 4;
  const NetworkColumns network = tree.columns();
  const CellTopology topology(network);
  CellRoutes routes(topology, network, 3);
  Collector found;
  CellFabric<Collector> fabric(network, topology, routes, {256, 16, 32, 1.0}, found);
  fabric.send(0, 1, 0, 900 * 256, 0);
  const auto carried = [&](std::int32_t spine) {
    return fabric.carried(topology.link_of[static_cast<std::size_t>(tree.up + spine)]) / 272;
  };
  CHECK(carried(0) >= 98 && carried(0) <= 102);
  CHECK(carried(1) >= 398 && carried(1) <= 402 && carried(0) + carried(1) + carried(2) == 900);
}

TEST(scheduled_port_grants_classes_and_queues_in_turn) {
  EgressPort port;
  BigVector<Claim> claims(4);
  const std::vector<std::uint8_t> klass{0, 0, 3, 3};
  claims[0].wanted = 3;
  claims[1].wanted = 1;
  claims[2].wanted = 2;
  claims[3].wanted = 2;
  for (std::uint32_t voq = 0; voq < 4; ++voq) port.join(claims, voq, klass[voq]);
  std::vector<std::uint32_t> order;
  while (port.classes != 0) {
    std::uint8_t of = 9;
    const std::uint32_t voq = port.turn(claims, of);
    CHECK(of == klass[voq]);
    port.granted(claims, voq, of);
    order.push_back(voq);
  }
  CHECK((order == std::vector<std::uint32_t>{0, 2, 1, 3, 0, 2, 0, 3}));
}

/// A packet of one cell and its acknowledgement through an empty fabric: every step of the way, to the picosecond.
TEST(scheduled_packet_alone_takes_the_credit_loop) {
  const Tree tree(2, 1, 4);
  Options options = scheduled();
  options.mtu_bytes = 264;
  options.of<ScheduledOptions>().fabric_speedup = 1;
  options.of<ScheduledOptions>().request_ps = 70'000;
  options.of<ScheduledOptions>().grant_ps = 130'000;
  Flows flows;
  flows.add(0, 1, 100);
  const Outcome outcome = go(tree, flows, options);
  const auto wire = [](std::uint32_t bytes) { return wire_time(bytes, kRate); };
  const auto crossing = [&](std::uint32_t bytes) { return 2 * (wire(bytes) + kMicrosecond); };
  const auto packet = [&](std::uint32_t bytes) {
    return 2 * (wire(bytes) + kMicrosecond) + 2 * crossing(32) + 70'000 + 130'000 + crossing(bytes + 16);
  };
  CHECK(outcome.receiver_finish_ps.front() == packet(164));
  CHECK(outcome.finish_ps.front() == packet(164) + packet(64));
  CHECK(outcome.scheduled.requests == 2 && outcome.scheduled.grants == 2);
}

TEST(scheduled_same_leaf_needs_no_fabric) {
  const Tree tree(2, 4, 2);
  Options options = scheduled();
  Flows flows;
  flows.add(0, 1, 4000);
  const Outcome outcome = go(tree, flows, options);
  CHECK(outcome.scheduled.cells == 0);
  const Ps loop = options.of<ScheduledOptions>().request_ps + options.of<ScheduledOptions>().grant_ps;
  const auto packet = [&](std::uint32_t bytes) { return 2 * (wire_time(bytes, kRate) + kMicrosecond) + loop; };
  CHECK(outcome.finish_ps.front() == packet(4064) + packet(64));
}

/// Random traffic under odd constants: nothing is lost, nothing comes out of order (a reliable connection that goes back
/// at a gap would send again), every byte arrives, no bound is broken.
TEST(scheduled_loses_nothing_and_keeps_the_order) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::uint64_t drawn = 0;
    const auto random = [&](std::uint32_t limit) { return below(draw(mix(seed), drawn++), limit); };
    const std::vector<Ps> delays{0, 1'000, 200'000, kMicrosecond};
    const auto leafs = static_cast<std::int32_t>(2 + random(5)), hosts = static_cast<std::int32_t>(1 + random(4)),
               spines = static_cast<std::int32_t>(1 + random(6));
    const Tree tree(leafs, hosts, spines, delays[random(4)]);
    Options options = scheduled();
    options.seed = seed;
    options.mtu_bytes = std::vector<std::uint32_t>{300, 1500, 4150, 9000}[random(4)];
    options.of<ScheduledOptions>().cell_bytes = std::vector<std::uint32_t>{64, 200, 256, 1024}[random(4)];
    options.of<ScheduledOptions>().credit_bytes = std::vector<std::uint32_t>{512, 2048, 4096, 16384}[random(4)];
    options.of<ScheduledOptions>().fabric_speedup = std::vector<double>{0.5, 1.0, 160.0 / 144, 2.0}[random(4)];
    options.of<ScheduledOptions>().voq_bytes = random(2) == 0 ? 0 : 30'000;
    options.of<ScheduledOptions>().memory_bytes = random(2) == 0 ? 100'000 : 1'000'000'000;
    Flows flows;
    std::vector<std::int64_t> into(static_cast<std::size_t>(tree.hosts), 0);
    for (int count = 0; count < 30; ++count) {
      const auto from = static_cast<std::int32_t>(random(static_cast<std::uint32_t>(tree.hosts)));
      const auto step = 1 + static_cast<std::int32_t>(random(static_cast<std::uint32_t>(tree.hosts - 1)));
      flows.add(from, (from + step) % tree.hosts, 1 + random(200'000), random(30'000'000),
                static_cast<std::uint8_t>(random(3)));
      into[static_cast<std::size_t>(flows.target.back())] += flows.size.back();
    }
    const Outcome outcome = go(tree, flows, options);
    CHECK(all_done(outcome));
    const Counters& counters = outcome.counters;
    CHECK(counters.dropped == 0 && counters.lost == 0 && counters.retransmitted == 0 && counters.nacks == 0);
    CHECK(counters.duplicates == 0 && outcome.scheduled.cells_lost == 0 && counters.marked == 0);
    for (std::size_t flow = 0; flow < flows.size.size(); ++flow) {
      const std::int64_t packets = (flows.size[flow] - 1) / (options.mtu_bytes - options.header_bytes) + 1;
      const Ps least = 20 * (flows.size[flow] + packets * options.header_bytes) + 4 * tree.latency.front();
      CHECK(outcome.finish_ps[flow] - outcome.start_ps[flow] >= least);
    }
    for (std::int32_t host = 0; host < tree.hosts; ++host)
      CHECK(outcome.link_bytes[static_cast<std::size_t>(tree.hosts + host)] >= into[static_cast<std::size_t>(host)]);
  }
}

TEST(scheduled_queues_to_one_port_share_it_evenly) {
  for (const std::int32_t queues : {2, 3, 7, 16}) {
    const Tree tree(queues + 1, 4, 8);
    Options options = scheduled();
    options.end_ps = 300 * kMicrosecond;
    options.of<ScheduledOptions>().control_cell_bytes = 1;  // links are to tell of the data alone
    Flows flows;
    // Leafs send from one host or from four: the queue counts, not how many fill it.
    for (std::int32_t leaf = 1; leaf <= queues; ++leaf)
      for (std::int32_t host = 0; host < (leaf % 2 == 0 ? 4 : 1); ++host) flows.add(4 * leaf + host, 0, 100'000'000);
    const Outcome outcome = go(tree, flows, options);
    double sum = 0, squares = 0;
    for (std::int32_t leaf = 1; leaf <= queues; ++leaf) {
      double bytes = 0;
      for (std::int32_t spine = 0; spine < tree.spines; ++spine)
        bytes += static_cast<double>(outcome.link_bytes[static_cast<std::size_t>(tree.up + leaf * tree.spines + spine)]);
      sum += bytes;
      squares += bytes * bytes;
    }
    CHECK(sum * sum / (queues * squares) > 0.999);
    const double port = static_cast<double>(outcome.link_bytes[static_cast<std::size_t>(tree.hosts)]);
    CHECK(port > 0.95 * (300 - 12) * 50'000);  // 50 kB a microsecond, but for the first credit loop
  }
}

TEST(scheduled_fabric_slower_than_its_ports_is_shared_and_holds_little) {
  Flows flows;
  const Tree tree(4, 4, 4);
  for (std::int32_t host = 0; host < tree.hosts; ++host) flows.add(host, (host + 4) % tree.hosts, 2'000'000);
  Options options = scheduled();
  const auto last = [](const Outcome& outcome) { return *std::max_element(outcome.finish_ps.begin(), outcome.finish_ps.end()); };
  const Outcome full = go(tree, flows, options);
  options.of<ScheduledOptions>().fabric_speedup /= 2;
  const Outcome half = go(tree, flows, options);
  CHECK(all_done(full) && all_done(half));
  const double fabric = 160.0 / 144 / 2 * 256 / 272;
  const auto wire = static_cast<double>(2'000'000 + 490 * 64) * 20;
  CHECK(static_cast<double>(last(full)) < wire + 17e6);
  CHECK(static_cast<double>(last(half)) > wire / fabric && static_cast<double>(last(half)) < wire / fabric * 1.08 + 14e6);
  CHECK(half.scheduled.element_bytes < 60'000 && half.scheduled.cells_lost == 0);
}

TEST(scheduled_leafs_pause_hosts_before_their_memory_is_full) {
  const Tree tree(5, 4, 4);
  Flows flows;
  for (std::int32_t host = 4; host < tree.hosts; ++host) flows.add(host, 0, 2'000'000);
  Options options = scheduled();
  const Outcome deep = go(tree, flows, options);
  CHECK(deep.scheduled.pauses == 0 && deep.scheduled.voq_bytes > 6'000'000);
  // What comes after the pause: two delays of the link, what is on the wire, a packet at either end.
  const std::int64_t headroom = 4 * (2 * 50'000 + 3 * 4150);
  options.of<ScheduledOptions>().voq_bytes = 500'000;
  const Outcome queue = go(tree, flows, options);
  CHECK(queue.scheduled.pauses > 0 && queue.scheduled.voq_bytes <= 500'000 + headroom);
  options.of<ScheduledOptions>().voq_bytes = 0;
  options.of<ScheduledOptions>().memory_bytes = 700'000;
  const Outcome memory = go(tree, flows, options);
  CHECK(memory.scheduled.pauses > 0 && memory.scheduled.memory_bytes <= 700'000 + headroom);
  for (const Outcome* outcome : {&queue, &memory}) {
    CHECK(all_done(*outcome) && outcome->counters.retransmitted == 0);
    const Ps last = *std::max_element(outcome->finish_ps.begin(), outcome->finish_ps.end());
    CHECK(last <= *std::max_element(deep.finish_ps.begin(), deep.finish_ps.end()) + 20 * kMicrosecond);
  }
}

TEST(scheduled_recovers_from_a_link_that_dies) {
  const Tree tree(4, 2, 4);
  Flows flows;
  for (std::int32_t host = 0; host < tree.hosts; ++host) flows.add(host, (host + 2) % tree.hosts, 3'000'000);
  const std::vector<std::int64_t> at{20 * kMicrosecond};
  const std::vector<std::int32_t> link{tree.down};  // spine 0 to leaf 0
  const std::vector<std::uint8_t> kind{0};
  const std::vector<double> value{0};
  Options options = scheduled();
  options.faults = {at, link, kind, value};
  options.of<RdmaOptions>().rto_ps = 200 * kMicrosecond;
  const Outcome outcome = go(tree, flows, options);
  CHECK(all_done(outcome) && outcome.scheduled.cells_lost > 0 && outcome.counters.retransmitted > 0);
  // Lost is what went that way until all knew: a microsecond on the spine's own side, and what was in flight.
  CHECK(outcome.scheduled.cells_lost < 1500);
  const auto carried = [&](std::int32_t spine) { return outcome.link_bytes[static_cast<std::size_t>(tree.down + spine)]; };
  CHECK(carried(0) < carried(1) / 2);
}

TEST(scheduled_refuses_what_makes_no_sense) {
  const Tree tree(2, 1, 1);
  Flows flows;
  flows.add(0, 1, 1000);
  const auto refused = [&](auto change, const char* word) {
    Options options = scheduled();
    change(options.of<ScheduledOptions>());
    return harness::throws<std::invalid_argument>([&] { go(tree, flows, options); }, word);
  };
  CHECK(refused([](ScheduledOptions& o) { o.cell_bytes = 4; }, "cell"));
  CHECK(refused([](ScheduledOptions& o) { o.credit_bytes = 1; }, "credit_bytes"));
  CHECK(refused([](ScheduledOptions& o) { o.credit_rate = 0; }, "credit_rate"));
  CHECK(refused([](ScheduledOptions& o) { o.fabric_speedup = -1; }, "fabric_speedup"));
  CHECK(refused([](ScheduledOptions& o) { o.grant_ps = -1; }, "grant_ps"));
}
