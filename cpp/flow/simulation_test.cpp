#include "flow/simulation.hpp"

#include <stdexcept>

#include "core/harness.hpp"
#include "flow/rows_test.hpp"

using namespace railyard;

namespace {

const Poll kNoPoll = [](std::uint64_t, Ps) {};

Result play(const GraphRows& graph, const EntityRows& entities, const std::vector<double>& capacity,
            const Options& options = {}, const FaultColumns& faults = {}) {
  return simulate(graph.columns(), entities.columns(), capacity, faults, options, kNoPoll);
}

}  // namespace

TEST(simulation_of_nothing) { CHECK(play(GraphRows(), EntityRows(), {}).outcome == Result::Outcome::finished); }

TEST(simulation_of_a_small_step) {
  GraphRows graph;
  graph.ranks = 2;
  graph.group({0, 1});
  graph.add(Kind::compute, 0, 0, 10, -1);
  graph.add(Kind::compute, 1, 0, 30, -1);
  graph.add(Kind::collective, 0, 0, 0, 0);
  graph.add(Kind::transfer, 0, 3, 0, 1, {2});
  EntityRows entities;
  entities.add({{0, 1.0}}, 1'000, 1, 1e300, 5);
  entities.add({{0, 1.0}}, 2'000);
  const Result result = play(graph, entities, {8e12});
  CHECK(result.start_ps == (BigVector<Ps>{0, 0, 30, 1'035}));
  CHECK(result.end_ps == (BigVector<Ps>{10, 30, 1'035, 3'035}));
  CHECK(result.blocker == (BigVector<std::int32_t>{-1, -1, 1, 2}));
  CHECK(result.link_bytes == std::vector<double>{3'000});
}

TEST(simulation_finds_a_circle) {
  GraphRows graph;
  graph.add(Kind::compute, 0, 0, 1, -1);
  graph.add(Kind::compute, 0, 1, 1, -1, {2});
  graph.add(Kind::compute, 0, 2, 1, -1, {1, 0});
  const Result result = play(graph, EntityRows(), {});
  CHECK(result.outcome == Result::Outcome::cycle && result.stuck.size() == 2);
}

TEST(simulation_tells_of_a_dead_link) {
  GraphRows graph;
  graph.add(Kind::transfer, 0, 0, 0, 0);
  EntityRows entities;
  entities.add({{0, 1.0}}, 1'000);
  const Result result = play(graph, entities, {0.0});
  CHECK(result.outcome == Result::Outcome::stalled && result.stuck == std::vector<std::int32_t>{0});
}

TEST(simulation_applies_faults) {
  GraphRows graph;
  graph.add(Kind::compute, 0, 0, 100, -1);
  graph.add(Kind::transfer, 0, 1, 0, 0);
  EntityRows entities;
  entities.add({{0, 1.0}}, 1'000);
  const std::vector<std::int64_t> at{50, 60, 500};
  const std::vector<std::uint8_t> kind{1, 2, 0};
  const std::vector<std::int32_t> target{0, 0, 0};
  const std::vector<double> value{0.5, 7, 0.25};
  const Result result = play(graph, entities, {8e12}, {}, {at, kind, target, value});
  CHECK(result.end_ps == (BigVector<Ps>{157, 2'500}));
  const std::vector<double> wrong{0.0, 7, 0.25};
  CHECK_THROWS(std::invalid_argument, "fault", play(graph, entities, {8e12}, {}, {at, kind, target, wrong}));
}

TEST(simulation_reroutes_what_flows_and_what_follows) {
  GraphRows graph;
  graph.add(Kind::transfer, 0, 0, 0, 0);
  graph.add(Kind::transfer, 0, 0, 0, 0, {0});
  EntityRows entities;
  entities.add({{0, 1.0}}, 1'000, 1, 1e300, 3);
  entities.add({{1, 2.0}}, 1'000, 1, 1e300, 11);
  const std::vector<std::int64_t> at{403, 703};
  const std::vector<std::uint8_t> kind{0, 3};
  const std::vector<std::int32_t> target{0, 0};
  const std::vector<double> value{0.0, 1};
  const Result result = play(graph, entities, {8e12, 8e12}, {}, {at, kind, target, value});
  // 400 bytes before the death, nothing for 300 ps, 600 bytes at half a byte a ps; then 1,000 bytes by the new way.
  CHECK(result.end_ps == (BigVector<Ps>{1'903, 1'903 + 11 + 2'000}));
  CHECK(result.link_bytes == (std::vector<double>{400, 2 * 1'600}));
  const std::vector<double> wrong{0.0, 2};
  CHECK_THROWS(std::invalid_argument, "fault", play(graph, entities, {8e12, 8e12}, {}, {at, kind, target, wrong}));
}

TEST(simulation_shares_the_links_of_a_new_way) {
  GraphRows graph;
  graph.ranks = 2;
  graph.add(Kind::transfer, 0, 0, 0, 0);
  graph.add(Kind::transfer, 1, 0, 0, 1);
  EntityRows entities;
  entities.add({{0, 1.0}}, 1'000);
  entities.add({{1, 1.0}}, 1'000);
  entities.add({{1, 1.0}}, 1'000);
  const std::vector<std::int64_t> at{200, 200};
  const std::vector<std::uint8_t> kind{0, 3};
  const std::vector<std::int32_t> target{0, 0};
  const std::vector<double> value{0.0, 2};
  const Result result = play(graph, entities, {8e12, 8e12}, {}, {at, kind, target, value});
  CHECK(result.end_ps == (BigVector<Ps>{1'800, 1'800}));
}

TEST(simulation_records_links) {
  GraphRows graph;
  graph.add(Kind::transfer, 0, 0, 0, 0);
  EntityRows entities;
  entities.add({{1, 0.5}}, 1e7);
  const std::vector<std::int32_t> probed{1};
  Options options;
  options.probe_links = probed;
  options.probe_samples = 7;
  const Result result = play(graph, entities, {8e12, 8e12}, options);
  double sum = 0;
  for (const double bytes : result.probe_bytes) sum += bytes;
  CHECK(result.probe_bytes.size() == 8 && sum > 4.999e6 && sum < 5.001e6);
  CHECK(result.probe_interval_ps * 8 >= result.end_ps[0]);
}

TEST(simulation_counts_how_long_links_are_full) {
  GraphRows graph;
  graph.ranks = 2;
  graph.add(Kind::transfer, 0, 0, 0, 0);
  graph.add(Kind::transfer, 1, 0, 0, 1);
  EntityRows entities;
  entities.add({{0, 1.0}, {1, 1.0}}, 1'000, 1, 1e300, 100);  // link 1 carries half as much as link 0
  entities.add({{0, 1.0}, {2, 1.0}}, 900);
  Options options;
  options.count_full = true;
  const std::vector<std::int64_t> at{1'500};
  const std::vector<std::uint8_t> kind{0};
  const std::vector<std::int32_t> target{1};
  const std::vector<double> value{0.5};
  const Result result = play(graph, entities, {8e12, 4e12, 80e12}, options, {at, kind, target, value});
  // Alone the second fills link 0 for 100 ps; then both get half of it, the first all of link 1: 800 bytes in 1,600 ps. From
  // 1,500 on link 1 carries a quarter: 300 bytes of the first are left then, the second has the other three quarters.
  CHECK(result.end_ps == (BigVector<Ps>{2'700, 1'634}));
  CHECK(result.link_full_ps == (std::vector<Ps>{1'634, 2'600, 0}));
  CHECK(play(graph, entities, {8e12, 4e12, 80e12}).link_full_ps.empty());
}

TEST(simulation_ends_when_poll_throws) {
  GraphRows graph;
  for (int i = 0; i < 1'000; ++i) graph.add(Kind::compute, 0, 0, 1, -1);
  const Poll stop = [](std::uint64_t, Ps) { throw std::runtime_error("stop"); };
  CHECK_THROWS(std::runtime_error, "stop", simulate(graph.columns(), EntityRows().columns(), {}, {}, {}, stop));
}
