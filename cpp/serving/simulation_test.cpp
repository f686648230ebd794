#include "serving/simulation.hpp"

#include <cmath>
#include <stdexcept>

#include "core/harness.hpp"
#include "core/random.hpp"
#include "serving/cases_test.hpp"
#include "serving/cost.hpp"
#include "serving/gaps.hpp"
#include "serving/hash_index.hpp"
#include "serving/kv_cache.hpp"

using namespace railyard;
using namespace railyard::serving;

TEST(serving_cost_of_a_run_is_the_sum_of_its_iterations) {
  const Cost cost(simple_cost(), 512);
  for (std::int64_t decodes = 1; decodes < 60; decodes += 7) {
    Load load{.tokens = decodes, .sequences = decodes, .decodes = decodes, .kv_tokens = 40 * decodes};
    Fine sum = 0;
    for (std::int64_t n = 0; n < 100; ++n) {
      CHECK(cost.run_time({.tokens = decodes, .sequences = decodes, .decodes = decodes, .kv_tokens = 40 * decodes}, n) == sum);
      CHECK(n == 0 || cost.run_within({.tokens = decodes, .sequences = decodes, .decodes = decodes,
                                       .kv_tokens = 40 * decodes}, sum, 1000) == n - 1);
      sum += cost.time(load);
      load.kv_tokens += decodes;
    }
  }
}

TEST(serving_cost_follows_its_law) {
  const CostSpec spec = simple_cost();
  const Cost cost(spec, 512);
  const Load load{.tokens = 100, .sequences = 5, .decodes = 4, .kv_tokens = 5000, .pairs = 9000};
  const double f = (2e-3 + 3e-5) + (9.1234567e-3 + 1.7e-4 - 2e-3 - 3e-5) * 36 / 448;
  const double want = spec.host_s + 5 * spec.host_per_seq_s + f + 4 * 1.1e-6 + 5000 * 3.7e-8 + 9000 * 6.1e-10;
  CHECK(std::abs(static_cast<double>(whole(cost.time(load))) * 1e-12 - want) < 1e-9 * want);
}

TEST(serving_hash_index_keeps_what_stays_when_others_go) {
  HashIndex index;
  for (std::uint64_t h = 0; h < 1000; ++h) index.insert(h * h, static_cast<std::uint32_t>(h));
  for (std::uint64_t h = 0; h < 1000; h += 3) index.erase(h * h);
  for (std::uint64_t h = 0; h < 1000; ++h) {
    CHECK(index.find(h * h) == (h % 3 == 0 ? HashIndex::kNone : static_cast<std::uint32_t>(h)));
  }
}

TEST(serving_cache_shares_and_evicts_what_was_let_go_first) {
  KvCache cache(8, 2);
  const std::vector<std::uint64_t> chain{11, 12, 13};
  std::vector<std::uint64_t> gone;
  const auto note = [&gone](std::uint64_t hash) { gone.push_back(hash); };
  cache.take(6, note);
  std::vector<std::uint32_t> units(3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(cache.publish(chain[i], units[i]));
  std::uint32_t other = 0;
  CHECK(!cache.publish(12, other));
  for (std::size_t i = 3; i-- > 0;) cache.let_go(units[i]);
  CHECK(cache.used() == 0 && cache.hits(chain) == 3 && cache.idle_blocks(chain) == 6);
  CHECK(cache.hold(11) == units[0] && cache.available() == 6);
  cache.take(4, note);
  CHECK(gone == std::vector<std::uint64_t>{13} && cache.hits(chain) == 2);
  cache.let_go(units[0]);
  cache.give_back(4);
  cache.clear();
  CHECK(cache.blank() == 8 && cache.hits(chain) == 0);
  const std::vector<std::uint64_t> twice{5, 5};
  cache.take(2, note);
  CHECK(cache.publish(5, other) && cache.hits(twice) == 1);
}

TEST(serving_tier_forgets_the_least_recently_used) {
  LruSet set(2);
  set.put(1);
  set.put(2);
  set.put(1);
  set.put(3);
  CHECK(set.has(1) && set.has(3) && !set.has(2) && set.size() == 2);
}

TEST(serving_gap_bins_meet) {
  for (Ps gap : {Ps{0}, Ps{63}, Ps{64}, Ps{127}, Ps{128}, Ps{129}, Ps{1000000007}, Ps{1} << 50}) {
    const std::size_t bin = Gaps::bin(gap);
    CHECK(Gaps::lower(bin) <= gap && gap < Gaps::lower(bin + 1));
  }
}

TEST(serving_skipping_runs_changes_no_bit) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Deployment deployment{.pools = {simple_pool()}};
    deployment.hash_tokens = 32;
    deployment.pools[0].replicas = 3;
    deployment.pools[0].prefix_cache = seed % 2 == 0;
    deployment.pools[0].kv_blocks = seed % 3 == 0 ? 40 : 80;
    deployment.pools[0].policy = seed % 4 == 1 ? Policy::prefill_first : Policy::decode_first;
    deployment.pools[0].preemption = seed % 5 == 2 ? Preemption::swap : Preemption::recompute;
    deployment.pools[0].swap_bytes = deployment.pools[0].host_kv_bytes = 1e6;
    deployment.pools[0].swap_bps = 1e9;
    deployment.router.kind = static_cast<RouterKind>(seed % 6);
    deployment.pools[0].watermark = 0.02;
    check_same(deployment, random_rows(seed * 1000, 150, seed % 2 == 0 ? 100'000'000'000 : 400'000'000'000));
  }
}

TEST(serving_prefill_and_decode_apart) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Deployment deployment{.pools = {simple_pool(), simple_pool()}};
    deployment.pools[0].role = Role::prefill;
    deployment.pools[1].role = Role::decode;
    deployment.pools[0].replicas = deployment.pools[1].replicas = 2;
    deployment.transfer.overlap = seed % 2 == 0 ? 0.5 : 0;
    if (seed > 0) {
      deployment.links = {.rate_bps = {1e9, 2e7}, .from = {0, 0, 1, 1}, .to = {2, 3, 2, 3}, .ptr = {0, 2, 3, 4, 6},
                          .link = {0, 1, 1, 0, 1, 0}, .share = {1, 1, 1, 1, 1, 0.5}, .latency_ps = {1, 1000, 0, 5}};
    }
    check_same(deployment, random_rows(seed * 77, 120, 200'000'000'000));
  }
}

TEST(serving_outages_and_scaling_lose_nobody) {
  Deployment deployment{.pools = {simple_pool()}};
  deployment.pools[0].replicas = 4;
  deployment.pools[0].autoscale = {.on = true, .min_replicas = 1, .first_replicas = 1, .target = 0.5,
                                   .interval_ps = 1'000'000'000'000, .cold_start_ps = 3'000'000'000'000};
  deployment.outages = {.replica = {0, 1, 0}, .from_ps = {2'000'000'000'000, 4'000'000'000'000, 9'000'000'000'000},
                        .to_ps = {5'000'000'000'000, 6'000'000'000'000, 9'500'000'000'000}, .drain = {0, 1, 0}};
  check_same(deployment, random_rows(5, 200, 100'000'000'000));
}

TEST(serving_chunks_do_not_show) {
  Deployment deployment{.pools = {simple_pool()}};
  deployment.pools[0].replicas = 2;
  const Rows rows = random_rows(99, 100, 300'000'000'000);
  const Finished at_once = simulate(deployment, rows, true);
  Simulation simulation(deployment, {.seed = 7, .skip_runs = true, .logged = {}});
  Finished all;
  for (std::size_t i = 0; i < 100; i += 10) {
    Rows part;
    for (std::size_t k = i; k < i + 10; ++k) {
      part.arrival.push_back(rows.arrival[k]);
      part.input.push_back(rows.input[k]);
      part.output.push_back(rows.output[k]);
      part.session.push_back(rows.session[k]);
      part.hash.insert(part.hash.end(), rows.hash.begin() + rows.ptr[k], rows.hash.begin() + rows.ptr[k + 1]);
      part.ptr.push_back(static_cast<std::int64_t>(part.hash.size()));
    }
    simulation.feed(part.columns());
    simulation.run(i == 90, [](std::uint64_t, Ps) {});
    const Finished some = simulation.drain();
    all.request.insert(all.request.end(), some.request.begin(), some.request.end());
    all.done_ps.insert(all.done_ps.end(), some.done_ps.begin(), some.done_ps.end());
  }
  CHECK(all.request == at_once.request && all.done_ps == at_once.done_ps);
}

TEST(serving_says_what_is_wrong) {
  Deployment deployment{.pools = {simple_pool()}};
  deployment.pools[0].cost.tokens.back() = 100;
  CHECK_THROWS(std::invalid_argument, "max_batched_tokens", Simulation(deployment, {}));
  deployment.pools = {simple_pool()};
  deployment.pools[0].role = Role::prefill;
  CHECK_THROWS(std::invalid_argument, "decode", Simulation(deployment, {}));
  deployment.pools = {simple_pool()};
  Simulation simulation(deployment, {});
  Rows rows = random_rows(1, 3, 1000);
  rows.arrival[2] = -5;
  CHECK_THROWS(std::invalid_argument, "ascend", simulation.feed(rows.columns()));
}
