#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "core/harness.hpp"
#include "packet/bit_window.hpp"
#include "packet/control/dcqcn.hpp"
#include "packet/control/rate_controls.hpp"
#include "packet/control/spectrum.hpp"
#include "packet/transport/rdma_options.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr Ps kMicrosecond = 1'000'000;
constexpr double kLine = 400e9;

Options paper() {
  Options options;
  options.of<DcqcnOptions>().byte_counter = 0;
  options.of<DcqcnOptions>().additive_bps = 1e9;
  options.of<DcqcnOptions>().hyper_bps = 5e9;
  return options;
}

Options periodic() {
  Options options = paper();
  options.of<DcqcnOptions>().form = DcqcnForm::periodic;
  options.of<DcqcnOptions>().alpha_interval_ps = kMicrosecond;
  options.of<DcqcnOptions>().decrease_interval_ps = 4 * kMicrosecond;
  options.of<DcqcnOptions>().increase_interval_ps = 300 * kMicrosecond;
  return options;
}

Dcqcn::State opened(Dcqcn& control) {
  Dcqcn::State state;
  state.rate_bps = kLine;
  control.open(state, 0);
  return state;
}

bool near(double found, double expected) { return std::abs(found - expected) <= 1e-9 * std::abs(expected); }

/// Lets time pass to `until`, timer by timer.
void pass(Dcqcn& control, Dcqcn::State& state, Ps until) {
  for (Ps due = control.next_timer(state); due != 0 && due <= until; due = control.next_timer(state))
    control.on_timer(state, due);
}

}  // namespace

TEST(one_notification_halves_and_recovery_halves_the_distance) {
  Dcqcn control(paper(), Derived{});
  Dcqcn::State state = opened(control);
  control.on_cnp(state, 10 * kMicrosecond);
  CHECK(near(state.rate_bps, kLine / 2));
  for (int step = 1; step <= 5; ++step) {
    pass(control, state, (10 + 55 * step) * kMicrosecond);
    CHECK(near(state.rate_bps, kLine * (1 - std::pow(0.5, step + 1))));
    CHECK(near(state.target_bps, kLine));
  }
}

TEST(after_fast_recovery_the_target_rises_additively_then_faster) {
  Dcqcn control(paper(), Derived{});
  Dcqcn::State state = opened(control);
  control.on_cnp(state, 0);
  control.on_cnp(state, kMicrosecond);  // the target is half the line rate now, the rate below that
  const double target = state.target_bps;
  pass(control, state, (1 + 5 * 55) * kMicrosecond);
  CHECK(near(state.target_bps, target));
  pass(control, state, (1 + 6 * 55) * kMicrosecond);
  CHECK(near(state.target_bps, target + 1e9));
  pass(control, state, (1 + 8 * 55) * kMicrosecond);
  CHECK(near(state.target_bps, target + 1e9 + 2 * 5e9));
}

TEST(alpha_follows_its_closed_form) {
  const double g = 1.0 / 256;
  Dcqcn control(paper(), Derived{});
  Dcqcn::State state = opened(control);
  control.on_cnp(state, 0);
  CHECK(near(state.alpha, 1));
  const double before = state.rate_bps = kLine;
  control.on_cnp(state, 10 * 55 * kMicrosecond);  // ten alpha intervals without one
  const double alpha = std::pow(1 - g, 10);
  CHECK(near(state.rate_bps, before * (1 - alpha / 2)));
  CHECK(near(state.alpha, (1 - g) * alpha + g));
}

TEST(the_byte_counter_raises_too_and_both_are_needed_for_hyper) {
  Options options = paper();
  options.of<DcqcnOptions>().byte_counter = 1000;
  Dcqcn control(options, Derived{});
  Dcqcn::State state = opened(control);
  control.on_cnp(state, 0);
  control.on_cnp(state, 1);
  const double target = state.target_bps;
  control.on_sent(state, 5 * 1000, 2);
  CHECK(near(state.target_bps, target));
  control.on_sent(state, 3 * 1000, 3);  // beyond fast recovery by bytes alone: additive
  CHECK(near(state.target_bps, target + 3 * 1e9));
  CHECK(state.byte_stage == 8);
}

TEST(notifications_between_ticks_cut_once) {
  Dcqcn control(periodic(), Derived{});
  Dcqcn::State state = opened(control);
  for (int count = 0; count < 30; ++count) control.on_cnp(state, kMicrosecond + count * 100'000);
  CHECK(state.rate_bps == kLine);  // nothing before the first tick
  pass(control, state, 5 * kMicrosecond);
  const double g = 1.0 / 256;
  // Alpha began at 1 and was signalled in its first three intervals but not in the fourth.
  CHECK(near(state.alpha, 1 - g));
  CHECK(near(state.rate_bps, kLine * (1 - (1 - g) / 2)));
  CHECK(state.target_bps == kLine);
  pass(control, state, 100 * kMicrosecond);
  CHECK(near(state.rate_bps, kLine * (1 - (1 - g) / 2)));
}

TEST(a_second_cut_keeps_the_target_until_the_rate_has_risen) {
  Dcqcn control(periodic(), Derived{});
  Dcqcn::State state = opened(control);
  control.on_cnp(state, 0);
  pass(control, state, 4 * kMicrosecond);
  control.on_cnp(state, 5 * kMicrosecond);
  pass(control, state, 8 * kMicrosecond);
  CHECK(state.target_bps == kLine);
  CHECK(state.rate_bps < 0.27 * kLine && state.rate_bps > 0.25 * kLine);
  pass(control, state, 308 * kMicrosecond);  // one step of recovery
  const double risen = state.rate_bps;
  CHECK(risen > 0.62 * kLine && risen < 0.64 * kLine);
  control.on_cnp(state, 309 * kMicrosecond);
  pass(control, state, 312 * kMicrosecond);
  CHECK(near(state.target_bps, risen));
}

TEST(the_rate_stays_between_its_bounds) {
  Options options = periodic();
  options.of<DcqcnOptions>().min_rate_bps = 1e9;
  Dcqcn control(options, Derived{});
  Dcqcn::State state = opened(control);
  std::mt19937_64 random(1);
  for (Ps now = 0; now < 20'000 * kMicrosecond; now += kMicrosecond) {
    if (random() % 3 == 0) control.on_cnp(state, now);
    pass(control, state, now);
    CHECK(state.rate_bps >= 1e9 && state.rate_bps <= kLine && state.target_bps <= kLine);
  }
  pass(control, state, 5'000'000 * kMicrosecond);
  CHECK(state.rate_bps == kLine);
  CHECK(control.next_timer(state) == 0);
}

TEST(a_bit_window_is_a_set) {
  WordArena arena;
  BitWindow window;
  window.open(arena, BitWindow::kLeastLog);
  std::set<std::uint32_t> truth;
  std::mt19937_64 source(7);
  const auto random = [&source] { return static_cast<std::uint32_t>(source() >> 32); };
  std::uint32_t first = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint32_t at = first + random() % 700;
    switch (random() % 4) {
      case 0:
      case 1: CHECK(window.set(arena, at) == truth.insert(at).second); break;
      case 2:
        window.clear(arena, at);
        truth.erase(at);
        break;
      default: {
        const std::uint32_t to = first + random() % 90;
        const auto end = truth.lower_bound(to);
        const auto gone = static_cast<std::uint32_t>(std::distance(truth.begin(), end));
        truth.erase(truth.begin(), end);
        CHECK(window.advance(arena, to) == gone);
        first = to;
      }
    }
    CHECK(window.count() == truth.size());
    CHECK(window.has(arena, at) == truth.contains(at));
    if (!truth.empty()) CHECK(window.lowest(arena) == *truth.begin());
    const std::uint32_t from = first + random() % 400;
    const std::uint64_t word = window.word(arena, from);
    for (std::uint32_t bit = 0; bit < 64; ++bit) CHECK(((word >> bit) & 1) == (truth.contains(from + bit) ? 1u : 0u));
  }
}

TEST(controls_hand_back_what_rules) {
  Options options = paper();
  options.of<RdmaOptions>().control = "dcqcn";
  const auto controls = RateControls::of(options, Derived{}, 3);
  auto ruling = controls->open(1, {kLine, 77}, 0);
  CHECK(ruling.rate_bps == kLine && ruling.window_bytes == 77);
  ruling = controls->on_cnp(1, 5);
  CHECK(near(ruling.rate_bps, kLine / 2));
  CHECK(controls->next_timer(1) == 5 + 55 * kMicrosecond);
  CHECK(!controls->sees_acks() && !controls->sees_departures());
}

namespace {

struct SpectrumBench {
  Options options;
  Derived derived;
  Spectrum::State state;

  SpectrumBench() {
    derived.base_rtt_ps = 10 * kMicrosecond;
    options.of<SpectrumOptions>().threshold_ps = 12 * kMicrosecond;
    state.rate_bps = kLine;
  }
};

Acknowledged answer(Ps now, Ps rtt) {
  Acknowledged ack;
  ack.now = now;
  ack.rtt = rtt;
  return ack;
}

}  // namespace

TEST(a_long_delay_cuts_once_a_returned_probe_and_the_first_time_most) {
  SpectrumBench bench;
  const Spectrum control(bench.options, bench.derived);
  control.open(bench.state, 0);
  control.on_ack(bench.state, answer(28 * kMicrosecond, 28 * kMicrosecond));
  // Half a threshold of excess at a responsiveness of 0.1: 5 %, of which 3 % are allowed; the first time to half.
  CHECK(near(bench.state.rate_bps, kLine * 0.5));
  control.on_ack(bench.state, answer(300 * kMicrosecond, 283 * kMicrosecond));  // it stood in the same queue
  CHECK(near(bench.state.rate_bps, kLine * 0.5));
  control.on_ack(bench.state, answer(56 * kMicrosecond, 28 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5 * 63570 / 65536));
  control.on_ack(bench.state, answer(79 * kMicrosecond, 23 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5 * 63570 / 65536 * (1 - 0.1 / 12)));
}

TEST(notifications_count_once_when_the_probe_returns) {
  SpectrumBench bench;
  const Spectrum control(bench.options, bench.derived);
  control.open(bench.state, 0);
  for (int step = 1; step < 9; ++step) control.on_cnp(bench.state, step * kMicrosecond);
  CHECK(bench.state.rate_bps == kLine);
  control.on_ack(bench.state, answer(12 * kMicrosecond, 10 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5));
  control.on_cnp(bench.state, 13 * kMicrosecond);
  control.on_ack(bench.state, answer(22 * kMicrosecond, 10 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5 * 0.94));
}

TEST(a_gap_counts_with_a_round_trip_beyond_the_greatest_delay) {
  SpectrumBench bench;
  const Spectrum control(bench.options, bench.derived);
  control.open(bench.state, 0);
  control.on_nack(bench.state, kMicrosecond);
  control.on_ack(bench.state, answer(10 * kMicrosecond, 10 * kMicrosecond));
  CHECK(bench.state.rate_bps == kLine);
  control.on_timeout(bench.state, kMicrosecond);
  control.on_ack(bench.state, answer(1000 * kMicrosecond, 270 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5));
  control.on_nack(bench.state, 1001 * kMicrosecond);
  control.on_ack(bench.state, answer(1300 * kMicrosecond, 270 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5 * 0.85));
  control.on_ack(bench.state, answer(1600 * kMicrosecond, 270 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine * 0.5 * 0.85 * 0.94));
  for (Ps now = 2000; now < 100'000; now += 300) control.on_ack(bench.state, answer(now * kMicrosecond, 270 * kMicrosecond));
  CHECK(near(bench.state.rate_bps, kLine / 16384));
}

TEST(a_short_delay_raises_the_rate_up_to_the_line) {
  SpectrumBench bench;
  const Spectrum control(bench.options, bench.derived);
  control.open(bench.state, 0);
  control.on_cnp(bench.state, kMicrosecond);
  control.on_ack(bench.state, answer(12 * kMicrosecond, 10 * kMicrosecond));
  control.on_ack(bench.state, answer(31 * kMicrosecond, 19 * kMicrosecond));
  double rate = 0.5 * (1 + 0.1 / 4) + 96.0 / 1048576;
  CHECK(near(bench.state.rate_bps, kLine * rate));
  control.on_ack(bench.state, answer(39 * kMicrosecond, 8 * kMicrosecond));
  rate = rate * 69468 / 65536 + 96.0 / 1048576;
  CHECK(near(bench.state.rate_bps, kLine * rate));
  control.on_ack(bench.state, answer(56 * kMicrosecond, 17 * kMicrosecond));  // 9 us beyond the least that was seen
  CHECK(near(bench.state.rate_bps, kLine * (rate * (1 + 0.1 / 4) + 96.0 / 1048576)));
  for (Ps now = 66; now < 300; now += 10) control.on_ack(bench.state, answer(now * kMicrosecond, 10 * kMicrosecond));
  CHECK(bench.state.rate_bps == kLine && bench.state.whole);
}
