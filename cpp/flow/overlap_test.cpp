#include <stdexcept>

#include "core/harness.hpp"
#include "flow/rows_test.hpp"
#include "flow/simulation.hpp"

using namespace railyard;

namespace {

const Poll kNoPoll = [](std::uint64_t, Ps) {};

/// A graph whose computations lose speed to communications; `beside` as long as the graph.
struct Overlapped {
  GraphRows graph;
  std::vector<std::int32_t> loss_index;
  std::vector<double> loss;
  std::size_t contenders = 1;

  Result play(const EntityRows& entities, const std::vector<double>& capacity, const FaultColumns& faults = {}) const {
    GraphColumns columns = graph.columns();
    columns.loss_index = loss_index;
    columns.loss = loss;
    columns.contenders = contenders;
    return simulate(columns, entities.columns(), capacity, faults, {}, kNoPoll);
  }
};

EntityRows ten_long() {
  EntityRows entities;
  entities.add({{0, 1.0}}, 10'000);  // 10 us at 8 Gb/s
  return entities;
}

constexpr Ps kUs = 1'000'000;

}  // namespace

TEST(beside_slows_while_it_runs) {
  Overlapped step;
  step.loss = {0.2};
  step.graph.add(Kind::compute, 0, 0, 100 * kUs, -1);
  step.graph.add(Kind::read, 0, 1, 0, 0);
  step.graph.add(Kind::compute, 0, 0, 50 * kUs, -1);
  step.loss_index = {0, 0, 0};
  const Result result = step.play(ten_long(), {8e9});
  CHECK(result.end_ps == (BigVector<Ps>{102 * kUs, 10 * kUs, 152 * kUs}));  // a fifth of ten is made up for
  CHECK(result.contention_ps == (BigVector<Ps>{2 * kUs, 0, 0}));
}

TEST(beside_nothing_is_what_it_was) {
  Overlapped step;
  step.loss = {0.2};
  for (const Ps duration : {Ps{1}, Ps{7'919}, 9'999'999'999'999, 123'456'789'012'345}) {
    step.graph.add(Kind::compute, 0, 0, duration, -1);
    step.loss_index.push_back(0);
  }
  const Result plain = simulate(step.graph.columns(), EntityRows().columns(), {}, {}, {}, kNoPoll);
  CHECK(step.play(EntityRows(), {}).end_ps == plain.end_ps);
}

TEST(beside_shares_add_up_and_leave_a_rest) {
  for (const double each : {0.25, 0.9}) {
    Overlapped step;
    step.contenders = 2;
    step.loss = {each, each};
    step.graph.add(Kind::compute, 0, 0, 5 * kUs, -1);
    step.graph.add(Kind::read, 0, 1, 0, 0);
    step.graph.add(Kind::read, 0, 2, 0, 0);
    step.loss_index = {0, 0, 1};
    const Ps end = step.play(ten_long(), {8e9}).end_ps[0];  // both at half of the link: 20 us
    CHECK(end == (each < 0.5 ? 10 * kUs : 23 * kUs));  // 5 / 0.5; 20 us at a tenth leave 3
  }
}

TEST(beside_reaches_members_only) {
  Overlapped step;
  step.graph.ranks = 3;
  step.graph.group({0, 2});
  step.loss = {0.5};
  for (int rank = 0; rank < 3; ++rank) step.graph.add(Kind::compute, rank, 0, 100 * kUs, -1);
  step.graph.add(Kind::collective, 0, 1, 0, 0);
  step.loss_index = {0, 0, -1, 0};  // what rank 2 computes does not mind
  CHECK(step.play(ten_long(), {8e9}).end_ps == (BigVector<Ps>{105 * kUs, 100 * kUs, 100 * kUs, 10 * kUs}));
}

TEST(beside_with_faults) {
  Overlapped step;
  step.loss = {0.5};
  step.graph.add(Kind::compute, 0, 0, 100 * kUs, -1);
  step.graph.add(Kind::read, 0, 1, 0, 0);
  step.loss_index = {0, 0};
  const std::vector<std::int64_t> at{4 * kUs, 20 * kUs};
  const std::vector<std::uint8_t> kind{1, 2};
  const std::vector<std::int32_t> target{0, 0};
  const std::vector<double> value{0.5, 1.0 * kUs};
  // 4 us at 1/2, 6 at 1/4, the rest at 1/2: 2 + 1.5 + 96.5, of which the last take 193; and one late
  CHECK(step.play(ten_long(), {8e9}, {at, kind, target, value}).end_ps[0] == 204 * kUs);
}

TEST(beside_many_against_the_sum) {
  // One computation beside a random row of communications: what it takes is its work and what each took from it.
  for (std::uint64_t round = 0; round < 200; ++round) {
    Overlapped step;
    step.contenders = 3;
    step.loss = {0.05, 0.1, 0.3};
    EntityRows entities;
    double lost = 0;
    std::uint64_t draw = round;
    for (int i = 0; i < 20; ++i) {
      draw = draw * 6364136223846793005u + 1442695040888963407u;
      const auto column = static_cast<std::int32_t>((draw >> 40) % 3);
      const double bytes = static_cast<double>(1 + (draw >> 33) % 977);
      entities.add({{0, 1.0}}, bytes);  // 1 ns a byte
      step.graph.add(Kind::read, 0, 1, 0, i);
      step.loss_index.push_back(column);
      lost += bytes * 1'000 * step.loss[static_cast<std::size_t>(column)];
    }
    step.graph.add(Kind::compute, 0, 0, 100 * kUs, -1);
    step.loss_index.push_back(0);
    const Result result = step.play(entities, {8e9});
    const auto expected = static_cast<double>(100 * kUs) + lost;
    const auto found = static_cast<double>(result.end_ps[20]);
    CHECK(found >= expected - 1 && found <= expected + 22);
    CHECK(result.end_ps[20] - 100 * kUs - result.contention_ps[20] <= 22);
  }
}

TEST(beside_refuses_what_does_not_fit) {
  Overlapped step;
  step.graph.add(Kind::compute, 0, 0, 1, -1);
  step.loss = {1.5};
  step.loss_index = {0};
  CHECK_THROWS(std::invalid_argument, "0 to 1", step.play(EntityRows(), {}));
  step.loss = {0.5};
  step.loss_index = {1};
  CHECK_THROWS(std::invalid_argument, "no such row", step.play(EntityRows(), {}));
}
