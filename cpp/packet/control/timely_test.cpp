// TIMELY alone: rates after round-trip times that are written by hand, by the formulas of the paper.
#include "packet/control/timely.hpp"

#include <cmath>

#include "core/harness.hpp"

using namespace railyard;
using namespace railyard::packet;

namespace {

constexpr Ps kMicrosecond = 1'000'000;
constexpr double kLine = 100e9;

bool near(double found, double wanted) { return std::abs(found - wanted) <= 1e-9 * std::abs(wanted); }

/// A flow that has sent at 40 Gb/s and seen one round-trip time; every answer is a segment.
struct Bench {
  Options options;
  Derived derived;
  Timely::State state;

  explicit Bench(Ps first_rtt) {
    derived.base_rtt_ps = 20 * kMicrosecond;
    options.of<TimelyOptions>().segment_bytes = 1000;
    state.rate_bps = kLine;
    Timely(options, derived).open(state, 0);
    state.rate_bps = 40e9;
    answer(first_rtt);
  }

  double answer(Ps rtt, std::int64_t bytes = 1000) {
    Acknowledged ack;
    ack.rtt = rtt;
    ack.fresh_bytes = bytes;
    Timely(options, derived).on_ack(state, ack);
    return state.rate_bps;
  }
};

}  // namespace

TEST(timely_says_nothing_by_one_round_trip_or_half_a_segment) {
  Bench bench(70 * kMicrosecond);
  CHECK(near(bench.state.rate_bps, 40e9));
  CHECK(near(bench.answer(90 * kMicrosecond, 999), 40e9));
}

TEST(timely_cuts_by_the_gradient) {
  Bench bench(70 * kMicrosecond);
  // 0.875 x 7 us of 20 us is a gradient of 0.30625.
  CHECK(near(bench.answer(77 * kMicrosecond), 40e9 * (1 - 0.8 * 0.30625)));
  // 0.125 x 6.125 us + 0.875 x 3 us = 3.390625 us.
  CHECK(near(bench.answer(80 * kMicrosecond), 40e9 * (1 - 0.8 * 0.30625) * (1 - 0.8 * 3.390625 / 20)));
}

TEST(timely_rises_by_steps_and_from_the_fifth_on_faster) {
  Bench bench(100 * kMicrosecond);
  double wanted = 40e9;
  for (int step = 1; step <= 7; ++step) {
    wanted += step < 5 ? 10e6 : 50e6;
    CHECK(near(bench.answer(100 * kMicrosecond), wanted));
  }
}

TEST(timely_obeys_thresholds_before_the_gradient) {
  Bench low(20 * kMicrosecond);
  CHECK(near(low.answer(49 * kMicrosecond), 40e9 + 10e6));  // a steep rise below 50 us
  Bench high(900 * kMicrosecond);
  CHECK(near(high.answer(800 * kMicrosecond), 40e9 * (1 - 0.8 * (1 - 500.0 / 800))));  // a fall above 500 us
}

TEST(timely_stays_between_its_least_rate_and_the_line) {
  Bench slow(70 * kMicrosecond);
  for (int round = 1; round <= 9; ++round) slow.answer((70 + 40 * round) * kMicrosecond);
  CHECK(near(slow.state.rate_bps, 100e6));
  Bench fast(40 * kMicrosecond);
  fast.options.of<TimelyOptions>().additive_bps = 39e9;
  CHECK(near(fast.answer(40 * kMicrosecond), 79e9) && near(fast.answer(40 * kMicrosecond), kLine));
}
