#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/harness.hpp"
#include "packet/balance/bitmap.hpp"
#include "packet/balance/mixed.hpp"
#include "packet/balance/reps.hpp"
#include "packet/balance/user.hpp"
#include "packet/control/nscc.hpp"
#include "packet/fabric/line.hpp"
#include "packet/fabric/port.hpp"
#include "packet/routing.hpp"
#include "packet/transport/credit.hpp"
#include "packet/transport/receiver.hpp"
#include "packet/transport/uec_options.hpp"
#include "packet/wheel.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr Ps kMicrosecond = 1'000'000;

NsccConstants constants() { return NsccConstants::make(4150, 4086, 400e9, 12'505'680, 9'379'260, 3); }

Nscc open_window(const NsccConstants& c) {
  Nscc flow;
  flow.open(c, 50 * 4150);
  flow.last_adjust = 100 * kMicrosecond;  // nothing is applied in what follows
  flow.adapt_at = 1000 * kMicrosecond;
  return flow;
}

/// Two hosts on a switch: links 0 (host 0 up), 1 (host 1 up), 2 (down to host 0), 3 (down to host 1).
struct Pair {
  std::vector<std::int32_t> source{0, 1, 2, 2}, target{2, 2, 0, 1};
  std::vector<std::int64_t> rate{4, 400'000'000'000}, latency;
  std::vector<std::int64_t> record_ptr{0, 1, 2, 3}, first{0, 1, 2};
  std::vector<std::int32_t> lo{0, 0, 0}, hi{2, 2, 2}, width{1, 1, 1}, stride{2, 2, 1}, choices{0, 1, 2, 3};

  explicit Pair(Ps delay) : rate(4, 400'000'000'000), latency(4, delay) {}

  NetworkColumns columns() const {
    return {2, 3, source, target, rate, latency, record_ptr, lo, hi, first, width, stride, choices};
  }
};

struct Bench {
  Pair pair;
  NetworkColumns network;
  TrafficColumns traffic;
  Options options;
  Derived derived;
  Context context;
  Slab& slab;
  Wheel& wheel;
  Counters& counters;
  Ports ports;

  explicit Bench(std::int64_t queue_packets, Ps delay = kMicrosecond)
      : pair(delay), network(pair.columns()), traffic(), derived(limits(queue_packets)),
        context(network, traffic, options, derived, nullptr), slab(context.slab), wheel(context.wheel),
        counters(context.outcome.counters), ports(context) {}

  static Derived limits(std::int64_t packets) {
    Derived derived;
    derived.queue_bytes = packets * 4150;
    derived.ecn_low_bytes = 2 * 4150;
    derived.ecn_high_bytes = 4 * 4150;
    return derived;
  }

  std::uint32_t packet(railyard::packet::Kind kind) {
    const std::uint32_t index = slab.acquire();
    slab[index] = Packet{};
    slab[index].kind = kind;
    slab[index].size = kind == railyard::packet::Kind::data ? 4150 : 64;
    return index;
  }

  /// What arrives at the other end, in order, with its time.
  std::vector<Due> arrivals() {
    std::vector<Due> all;
    Due due;
    while (context.take(ports, due)) {
      if (kind_of(due.what) == Event::port) ports.serve(index_of(due.what), due.time);
      else all.push_back(due);
    }
    return all;
  }
};

}  // namespace

TEST(packet_wheel_keeps_order_of_time) {
  for (const Ps span : {1000, 8192, 131'071}) {
    Wheel wheel(span);
    std::vector<std::pair<Ps, std::uint32_t>> wanted;
    Ps now = 0;
    std::uint32_t next = 0;
    std::uint64_t bits = 1;
    const auto push = [&](Ps time) {
      wheel.push(time, next);
      wanted.emplace_back(time, next++);
    };
    for (int at = 0; at < 200; ++at) push(static_cast<Ps>((bits = mix(bits)) % 3'000'000));
    std::vector<std::pair<Ps, std::uint32_t>> got;
    Due due;
    while (wheel.pop(due)) {
      CHECK(due.time >= now);
      now = due.time;
      got.emplace_back(due.time, due.what);
      bits = mix(bits);
      if (next < 20'000) push(now + static_cast<Ps>(bits % 7 == 0 ? 90'000'000 : bits % 5 == 0 ? 0 : bits % 1'100'000));
    }
    CHECK(got.size() == wanted.size());
    std::sort(wanted.begin(), wanted.end());
    std::vector<std::pair<Ps, std::uint32_t>> sorted = got;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == wanted);
  }
}

TEST(packet_wheel_serves_equal_times_by_their_ties) {
  Wheel wheel(8192);
  for (std::uint32_t at = 3000; at-- > 0;) wheel.push(500'000 + (at % 3), at);
  Due due;
  std::vector<std::uint32_t> last(3, 0);
  while (wheel.pop(due)) {
    CHECK(due.what >= last[due.what % 3]);
    last[due.what % 3] = due.what;
  }
}

TEST(packet_wheel_serves_a_window_owner_by_owner) {
  constexpr std::uint32_t kOwners = 40;
  Wheel wheel(131'071);
  const auto owner = [](const Due& due) { return due.what % kOwners; };
  std::uint64_t bits = 3;
  std::uint32_t pushed = 4000, taken = 0, turns = 0;
  for (std::uint32_t at = 0; at < pushed; ++at) wheel.push(static_cast<Ps>((bits = mix(bits)) % 1'000'000), at);
  wheel.push(700'000, Wheel::kNobody);
  const auto of_all = [&](const Due& due) { return due.what == Wheel::kNobody ? Wheel::kNobody : owner(due); };
  Due due, last{-1, 0, 0};
  while (wheel.open(kNever, kNever, kOwners, of_all)) {
    const Ps begin = wheel.end() - wheel.span();
    const bool in_time = begin <= 700'000 && 700'000 < wheel.end();  // one event concerns all: no groups
    last = {begin - 1, kOwners, 0};
    while (wheel.take(due, kNever)) {
      ++taken;
      CHECK(due.time >= begin && due.time < wheel.end());
      if (due.what == Wheel::kNobody) continue;
      const std::uint32_t turn = owner(due);
      if (in_time || turn == last.what) CHECK(due.time > last.time || (due.time == last.time && due.tie > last.tie));
      else ++turns;
      if (!in_time && last.what != kOwners) CHECK(turn >= last.what);
      last = {due.time, turn, due.tie};
      // What an event brings about within the window comes while its owner has its turn.
      if (pushed < 6000 && (bits = mix(bits)) % 3 == 0 && due.time + 500 < wheel.end())
        wheel.push(due.time + 500, (pushed++ / kOwners + 1000) * kOwners + turn);
    }
  }
  CHECK(taken == pushed + 1 && turns > 3 * kOwners && turns <= 8 * kOwners);
}

TEST(packet_line_is_a_queue_with_two_ends) {
  WordArena arena;
  Line line;
  for (std::uint32_t at = 0; at < 100; ++at) line.push(arena, {at, at + 7});
  for (std::uint32_t at = 0; at < 40; ++at) CHECK(line.pop_first(arena).index == at);
  for (std::uint32_t at = 100; at < 300; ++at) line.push(arena, {at, 1});
  CHECK(line.pop_last(arena).index == 299);
  for (std::uint32_t at = 40; at < 299; ++at) CHECK(line.pop_first(arena).index == at);
  CHECK(line.empty());
}

TEST(packet_nscc_quadrants) {
  const NsccConstants c = constants();
  const Ps low = 5 * kMicrosecond, high = 12 * kMicrosecond, now = 101 * kMicrosecond;
  Nscc flow = open_window(c);
  flow.on_ack(c, false, low, 4150, 0, now);
  const double proportional = c.alpha * 4150 * static_cast<double>(c.target - low);
  CHECK(flow.increase == static_cast<std::uint32_t>(proportional) && flow.window == 50 * 4150);
  flow = open_window(c);
  flow.on_ack(c, false, high, 4150, 0, now);
  CHECK(flow.increase == static_cast<std::uint32_t>(c.fair * 4150) && flow.window == 50 * 4150);
  flow = open_window(c);
  flow.on_ack(c, true, low, 4150, 0, now);
  CHECK(flow.increase == 0 && flow.window == 50 * 4150);
  flow = open_window(c);
  flow.mean_delay = 2 * c.target;
  flow.on_ack(c, true, high, 4150, 0, now);
  CHECK(flow.window == static_cast<std::int64_t>(50 * 4150 * (1 - 0.8 * 0.5)));
  const std::int64_t once = flow.window;
  flow.on_ack(c, true, high, 4150, 0, now + kMicrosecond);
  CHECK(flow.window == once);  // at most once a round trip
  flow.mean_delay = 100 * c.target;
  flow.on_ack(c, true, high, 4150, 0, now + 20 * kMicrosecond);
  CHECK(flow.window >= once / 2);  // and never below half
}

TEST(packet_nscc_fast_increase_and_quick_adapt) {
  const NsccConstants c = constants();
  Nscc flow = open_window(c);
  flow.window = 4 * 4150;
  for (int ack = 0; ack < 4; ++ack) flow.on_ack(c, false, 0, 4150, 0, 101 * kMicrosecond);
  CHECK(flow.window == 4 * 4150);
  flow.on_ack(c, false, 0, 4150, 0, 101 * kMicrosecond);
  CHECK(flow.window == static_cast<std::int64_t>(4 * 4150 + 4150 * c.fast));
  flow = open_window(c);
  flow.adapt_at = 50 * kMicrosecond;
  flow.on_received(3 * 4150);
  flow.on_nack(c, 4150, false, 20 * 4150, 101 * kMicrosecond);
  CHECK(flow.window == 3 * 4150 && flow.to_ignore == 20u * 4150);
  flow.on_nack(c, 4150, false, 20 * 4150, 102 * kMicrosecond);
  CHECK(flow.window == 3 * 4150);  // what was in flight then is ignored
}

TEST(packet_port_puts_headers_first_and_trims_when_full) {
  Bench bench(4);
  std::vector<std::uint32_t> data;
  for (int at = 0; at < 8; ++at) {
    data.push_back(bench.packet(railyard::packet::Kind::data));
    bench.ports.enqueue(3, data.back(), 0);
  }
  const std::uint32_t ack = bench.packet(railyard::packet::Kind::ack);
  bench.ports.enqueue(3, ack, 1000);
  CHECK(bench.counters.trimmed == 4 && bench.counters.dropped == 0);
  const std::vector<Due> got = bench.arrivals();
  CHECK(got.size() == 9);
  CHECK(got.front().what == data.front() && got.front().time == 83'000 + kMicrosecond);
  for (std::size_t at = 1; at <= 4; ++at) {
    const Packet& packet = bench.slab[got[at].what];
    CHECK(packet.size == 64 && (packet.flags & (kTrimmed | kLastHop)) == (kTrimmed | kLastHop));
  }
  CHECK(got[5].what == ack);
  CHECK(got.back().time == 4 * 83'000 + 5 * 1'280 + kMicrosecond);
}

TEST(packet_port_marks_by_what_a_packet_leaves_behind) {
  for (const Ps delay : {Ps{0}, kMicrosecond}) {
    Bench bench(20, delay);
    for (int at = 0; at < 10; ++at) bench.ports.enqueue(3, bench.packet(railyard::packet::Kind::data), 0);
    const std::vector<Due> got = bench.arrivals();
    CHECK(got.size() == 10);
    for (std::size_t at = 0; at < got.size(); ++at) {
      const std::size_t left = 9 - at;
      const bool marked = (bench.slab[got[at].what].flags & kMarked) != 0;
      if (left > 4) CHECK(marked);
      if (left <= 2) CHECK(!marked);
    }
  }
}

TEST(packet_port_drops_without_trimming) {
  Pair pair(kMicrosecond);
  const NetworkColumns network = pair.columns();
  Options options;
  options.trim = false;
  const Derived derived = Bench::limits(2);
  const TrafficColumns traffic;
  Context context(network, traffic, options, derived, nullptr);
  Slab& slab = context.slab;
  Counters& counters = context.outcome.counters;
  Ports ports(context);
  for (int at = 0; at < 6; ++at) {
    const std::uint32_t index = slab.acquire();
    slab[index] = Packet{};
    slab[index].size = 4150;
    ports.enqueue(3, index, 0);
  }
  CHECK(counters.dropped == 4 && counters.trimmed == 0);
}

TEST(packet_receiver_reports_gaps) {
  WordArena arena;
  Receiver receiver;
  receiver.open(arena, 2);
  receiver.take(arena, 0);
  receiver.take(arena, 2);
  receiver.take(arena, 65);
  CHECK(receiver.expected == 1 && receiver.out_of_order == 2);
  CHECK(receiver.bitmap(arena, 2) == (1 | std::uint64_t{1} << 63));
  CHECK(receiver.bitmap(arena, 1) == 2 && receiver.bitmap(arena, 0) == 4);
  receiver.take(arena, 3000);  // far ahead: the ring grows
  CHECK(receiver.has(arena, 3000) && receiver.has(arena, 65) && !receiver.has(arena, 64) && receiver.has(arena, 0));
  receiver.take(arena, 1);
  CHECK(receiver.expected == 3 && receiver.out_of_order == 2);
}

TEST(packet_window_knows_what_is_out) {
  WordArena arena;
  SendWindow window;
  window.open(arena, SendWindow::kLeastLog);
  for (int at = 0; at < 500; ++at) window.send_new(arena, 1000 + at);  // grows twice
  CHECK(window.out(arena, 0) && window.out(arena, 499) && !window.out(arena, 500));
  CHECK(window.sent_at(arena, 300) == 1300);
  int unqueued = 0;
  const auto count = [&](std::uint32_t) { ++unqueued; };
  window.forget(arena, 10);
  window.wait(arena, 10);
  window.forget(arena, 20);
  window.wait(arena, 20);
  CHECK(window.lowest_waiting(arena) == 10);
  window.acknowledge_below(arena, 15, count);
  CHECK(unqueued == 1 && window.first() == 15 && window.lowest_waiting(arena) == 20);
  window.acknowledge(arena, 10, 0xffff, count);  // 10..25, of which 15..25 were still open
  CHECK(unqueued == 2 && !window.out(arena, 25) && window.out(arena, 26) && window.waiting_count() == 0);
  std::uint32_t sequence = 0;
  Ps sent = 0;
  CHECK(window.oldest(arena, sequence, sent) && sequence == 26 && sent == 1026);
  window.forget(arena, 26);
  window.wait(arena, 26);
  window.send_again(arena, 26, 5000);
  CHECK(window.again(arena, 26) == 1 && window.oldest(arena, sequence, sent) && sequence == 27);
}

TEST(packet_bitmap_skips_what_was_congested) {
  Bitmap bitmap(1, 8, 5);
  std::vector<std::uint16_t> first;
  for (int at = 0; at < 8; ++at) first.push_back(bitmap.next(0));
  std::sort(first.begin(), first.end());
  CHECK(std::unique(first.begin(), first.end()) == first.end());
  bitmap.feedback(0, first[3], Feedback::trimmed, 0);
  int seen = 0;
  for (int at = 0; at < 21; ++at) seen += bitmap.next(0) == first[3] ? 1 : 0;  // three rounds of seven
  CHECK(seen == 0);
}

TEST(packet_mixed_uses_a_good_entropy_again) {
  Mixed mixed(2, 8, 5);
  const std::uint16_t good = mixed.next(1);
  mixed.feedback(1, good, Feedback::good, 0);
  CHECK(mixed.next(1) == good);
}

TEST(packet_balancer_keeps_what_a_connection_has_learnt) {
  const std::vector<std::int32_t> source{0, 0, 0};
  const std::vector<std::uint32_t> connection{1, 1, 0};
  TrafficColumns traffic{};
  traffic.source = source;
  traffic.connection = connection;
  CHECK(traffic.connections() == 2 && traffic.connection_of(1) == 1);
  Options options;
  options.load_balancing = "mixed";
  Balancer balancer(traffic, options);
  balancer.feedback(0, 77, Feedback::good, 0);
  CHECK(balancer.next(2, 0) != 77 && balancer.next(1, 0) == 77);
  traffic.connection = {};
  CHECK(traffic.connections() == 3 && traffic.connection_of(1) == 1);
}

TEST(packet_reps_recycles_once_and_freezes_after_a_timeout) {
  Reps reps(1, 64, 9);
  for (std::uint16_t at = 1; at <= 3; ++at) reps.feedback(0, static_cast<std::uint16_t>(100 + at), Feedback::good, 0);
  CHECK(reps.next(0) == 101 && reps.next(0) == 102 && reps.next(0) == 103 && reps.next(0) < 64);
  reps.feedback(0, 0, Feedback::timeout, 1);
  for (int round = 0; round < 3; ++round) CHECK(reps.next(0) == 101 + round % 3);
  CHECK(reps.next(0) == 101);
}

TEST(packet_pacer_takes_turns_and_runs_ahead_by_a_window) {
  constexpr std::int64_t kPull = RcccPacer::kQuantaPerPull;
  BigVector<Receiver> receivers(2);
  for (Receiver& receiver : receivers) receiver.latest_pull = receiver.pull_target = kFirstPull;
  Options options;
  options.pull_rate = 1;
  RcccPacer pacer(options, {.rate_bps = 8'000'000'000, .window_bytes = (3 * kPull) << RcccAccount::kShift});
  for (std::uint32_t flow = 0; flow < 2; ++flow) {
    receivers[flow].pull_target += 2 * kPull;
    pacer.saw_target(receivers[flow], flow);
  }
  for (const std::uint32_t wanted : {0u, 1u, 0u, 1u}) {
    const std::optional<Granted> granted = pacer.grant(receivers);
    // A byte a nanosecond.
    CHECK(granted && granted->flow == wanted && granted->pause == (kPull << RcccAccount::kShift) * 1000);
  }
  int ahead = 0;
  while (pacer.grant(receivers)) ++ahead;
  CHECK(ahead == 6 && receivers[0].latest_pull - receivers[0].pull_target == 3 * kPull);
}

TEST(packet_run_refuses_what_does_not_fit) {
  Pair pair(kMicrosecond);
  const std::vector<std::int32_t> source{0}, target{1}, none, loop{0}, far{7}, needs{0}, needs_one{1};
  const std::vector<std::int64_t> size{1000}, start{0}, zero{0}, ptr{0, 0}, one{0, 1};
  const std::vector<std::uint8_t> at{}, at_one{0}, klass{0}, wild{9};
  const auto nothing = [](std::uint64_t, Ps) {};
  const TrafficColumns good{source, target, size, start, ptr, none, zero, needs, at, klass};
  const Outcome outcome = run(pair.columns(), good, {}, nothing);
  // Data out, acknowledgement back: two links each way, 1064 and 64 bytes on the wire.
  CHECK(outcome.finish_ps.front() == 4 * kMicrosecond + 2 * (21'280 + 1'280));
  const auto refused = [&](const TrafficColumns& traffic, const Options& options, const char* word) {
    return harness::throws<std::invalid_argument>([&] { run(pair.columns(), traffic, options, nothing); }, word);
  };
  CHECK(refused({source, far, size, start, ptr, none, zero, needs, at, klass}, {}, "does not exist"));
  CHECK(refused({source, target, zero, start, ptr, none, zero, needs, at, klass}, {}, "without bytes"));
  CHECK(refused({source, target, size, start, one, loop, zero, needs_one, at_one, klass}, {}, "dependency cycle"));
  CHECK(refused({source, target, size, start, one, loop, zero, needs, at_one, klass}, {}, "needs more"));
  CHECK(refused({source, target, size, start, ptr, none, zero, needs_one, at, klass}, {}, "needs more"));
  CHECK(refused({source, target, size, start, one, loop, zero, needs_one, at, klass}, {}, "differ in length"));
  CHECK(refused({source, target, size, start, ptr, none, zero, needs, at, wild}, {}, "class"));
  TrafficColumns connected = good;
  const std::vector<std::uint32_t> first{0}, second{1}, two{0, 0};
  connected.connection = first;
  CHECK(run(pair.columns(), connected, {}, nothing).finish_ps == outcome.finish_ps);
  connected.connection = second;
  CHECK(refused(connected, {}, "a connection is not in"));
  connected.connection = two;
  CHECK(refused(connected, {}, "connection has not one row"));
  Options options;
  options.paths = 3;
  CHECK(refused(good, options, "power of two"));
}

TEST(packet_run_begins_flows_when_enough_of_what_they_wait_for_is_done) {
  Pair pair(kMicrosecond);
  // 0: a flow; 1: work of 7 us on host 1 once the flow has arrived there; 2: back when one of both is done at its sender;
  // 3: work of 1 us after both.
  const std::vector<std::int32_t> source{0, 1, 1, 0}, target{1, 1, 0, 0}, dep{0, 0, 1, 0, 1}, needs{0, 1, 1, 2};
  const std::vector<std::int64_t> size{1000, 0, 1000, 0}, start{0, -1, -1, -1}, ptr{0, 0, 1, 3, 5},
      delay{0, 7 * kMicrosecond, 0, kMicrosecond};
  const std::vector<std::uint8_t> at{1, 0, 0, 0, 0}, klass(4, 0);
  const TrafficColumns traffic{source, target, size, start, ptr, dep, delay, needs, at, klass};
  const Outcome outcome = run(pair.columns(), traffic, {}, [](std::uint64_t, Ps) {});
  const Ps there = 2 * kMicrosecond + 2 * 21'280, back = there + 2 * kMicrosecond + 2 * 1'280;
  CHECK(outcome.receiver_finish_ps[0] == there && outcome.finish_ps[0] == back);
  CHECK(outcome.start_ps[1] == there && outcome.finish_ps[1] == there + 7 * kMicrosecond);
  CHECK(outcome.start_ps[2] == back);
  CHECK(outcome.start_ps[3] == there + 7 * kMicrosecond && outcome.finish_ps[3] == there + 8 * kMicrosecond);
}

TEST(packet_run_delivers_everything_under_every_mechanism) {
  constexpr std::int32_t kHosts = 12;
  // Every host by two links to two switches, each of which leads to every host: two paths, queues that overflow.
  std::vector<std::int32_t> source, target, lo, hi, width, stride, choices;
  std::vector<std::int64_t> record_ptr{0}, first;
  for (std::int32_t host = 0; host < kHosts; ++host)
    for (std::int32_t box = 0; box < 2; ++box) {
      source.push_back(host);
      target.push_back(kHosts + box);
    }
  for (std::int32_t box = 0; box < 2; ++box)
    for (std::int32_t host = 0; host < kHosts; ++host) {
      source.push_back(kHosts + box);
      target.push_back(host);
    }
  for (std::int32_t link = 0; link < 4 * kHosts; ++link) choices.push_back(link);
  for (std::int32_t node = 0; node < kHosts + 2; ++node) {
    lo.push_back(0);
    hi.push_back(kHosts);
    width.push_back(node < kHosts ? 2 : 1);
    stride.push_back(node < kHosts ? kHosts : 1);
    first.push_back(node < kHosts ? 2 * node : 2 * kHosts + (node - kHosts) * kHosts);
    record_ptr.push_back(node + 1);
  }
  const std::vector<std::int64_t> rate(source.size(), 100'000'000'000), latency(source.size(), 500'000);
  const NetworkColumns network{kHosts, kHosts + 2, source, target, rate,  latency, record_ptr,
                               lo,     hi,         first,  width,  stride, choices};
  std::vector<std::int32_t> from, to;
  for (std::int32_t host = 1; host < kHosts; ++host) {
    from.insert(from.end(), {host, host});
    to.insert(to.end(), {0, (host + 3) % kHosts == host ? 0 : (host + 3) % kHosts});
  }
  const std::vector<std::int64_t> size(from.size(), 300'001), zero(from.size(), 0), ptr(from.size() + 1, 0);
  const std::vector<std::int32_t> none;
  const std::vector<std::int32_t> needs(from.size(), 0);
  const std::vector<std::uint8_t> at{}, klass(from.size(), 0);
  const TrafficColumns traffic{from, to, size, zero, ptr, none, zero, needs, at, klass};
  for (const char* const control : {"nscc", "rccc", "nscc+rccc", "constant"})
    for (const std::string balance : {"mixed", "reps", "bitmap", "spray",
                                  "ecmp", "adaptive", "flowlet"})
      for (const bool trim : {true, false}) {
        Options options;
        options.congestion_control = control;
        options.load_balancing = balance;
        options.trim = trim;
        options.queue_packets = 3;
        options.ecn_low_packets = 1;
        options.ecn_high_packets = 2;
        options.of<RcccOptions>().oversubscription = balance == "reps" ? 4 : 1;
        const Outcome outcome = run(network, traffic, options, [](std::uint64_t, Ps) {});
        CHECK(std::all_of(outcome.finish_ps.begin(), outcome.finish_ps.end(), [](Ps time) { return time > 0; }));
        CHECK(outcome.counters.sent == from.size() * 74);
        CHECK(trim ? outcome.counters.trimmed > 0 : outcome.counters.trimmed == 0);
      }
  for (const char* const transport : {"eqds", "ndp"})
    for (const std::string balance : {"skip", "spray", "adaptive"})
      for (const bool trim : {true, false}) {
        Options options;
        options.transport = transport;
        options.load_balancing = balance;
        options.trim = trim;
        options.queue_packets = 3;
        options.window_packets = 20;
        const Outcome outcome = run(network, traffic, options, [](std::uint64_t, Ps) {});
        CHECK(std::all_of(outcome.finish_ps.begin(), outcome.finish_ps.end(), [](Ps time) { return time > 0; }));
        CHECK(outcome.counters.sent == from.size() * 74 && outcome.counters.pulls > 0);
        CHECK(trim ? outcome.counters.trimmed > 0 : outcome.counters.timeouts > 0);
      }
}
