// Small pools and random requests for the tests of serving.
#pragma once

#include <cstdint>
#include <vector>

#include "core/harness.hpp"
#include "core/random.hpp"
#include "serving/simulation.hpp"

namespace railyard::serving {

inline CostSpec simple_cost() {
  return {.tokens = {0, 64, 512},
          .compute_s = {1e-3, 2e-3, 9.1234567e-3},
          .network_s = {1e-5, 3e-5, 1.7e-4},
          .host_s = 2.5e-4,
          .host_per_seq_s = 1.3e-6,
          .attention_per_kv_token_s = 3.7e-8,
          .attention_per_sequence_s = 1.1e-6,
          .attention_floor_s = 4e-5,
          .attention_per_pair_s = 6.1e-10};
}

inline PoolSpec simple_pool() {
  return {.cost = simple_cost(), .block_tokens = 16, .kv_blocks = 80, .max_sequences = 8, .max_batched_tokens = 512,
          .kv_bytes_per_token = 1000};
}

struct Rows {
  std::vector<std::int64_t> arrival, ptr{0}, session;
  std::vector<std::int32_t> input, output;
  std::vector<std::uint64_t> hash;
  RequestColumns columns() const { return {arrival, input, output, ptr, hash, session}; }
};

inline Rows random_rows(std::uint64_t seed, int count, std::uint64_t gap) {
  Rows rows;
  Ps now = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t draw = mix(seed + static_cast<std::uint64_t>(i));
    now += static_cast<Ps>(draw % gap);
    rows.arrival.push_back(now);
    rows.input.push_back(static_cast<std::int32_t>(1 + (draw >> 10) % 300));
    rows.output.push_back(static_cast<std::int32_t>(1 + (draw >> 20) % 200));
    rows.session.push_back(static_cast<std::int64_t>((draw >> 30) % 5) - 1);
    const std::uint64_t family = (draw >> 40) % 3;
    const int units = (rows.input.back() + rows.output.back()) / 32;
    for (int u = 0; u < units; ++u) rows.hash.push_back(mix(family * 1000 + static_cast<std::uint64_t>(u < 3 ? u : u + i * 100)));
    rows.ptr.push_back(static_cast<std::int64_t>(rows.hash.size()));
  }
  return rows;
}

inline Finished simulate(const Deployment& deployment, const Rows& rows, bool skip, std::vector<double>* busy = nullptr) {
  Simulation simulation(deployment, {.seed = 7, .skip_runs = skip, .logged = {}});
  simulation.feed(rows.columns());
  simulation.run(true, [](std::uint64_t, Ps) {});
  const ReplicaTotals totals = simulation.totals();
  for (const std::int64_t used : totals.kv_used_blocks) CHECK(used == 0);
  if (busy != nullptr) {
    for (std::size_t i = 0; i < totals.busy_ps.size(); ++i) {
      busy->push_back(static_cast<double>(totals.busy_ps[i]));
      busy->push_back(static_cast<double>(totals.iterations[i]));
      busy->push_back(totals.kv_tokens[i]);
      busy->push_back(static_cast<double>(totals.kv_peak_blocks[i]));
      busy->push_back(static_cast<double>(totals.output_tokens[i]));
    }
    for (const std::int64_t count : simulation.gaps()) busy->push_back(static_cast<double>(count));
  }
  return simulation.drain();
}

inline void check_same(const Deployment& deployment, const Rows& rows) {
  std::vector<double> busy_a, busy_b;
  const Finished a = simulate(deployment, rows, true, &busy_a), b = simulate(deployment, rows, false, &busy_b);
  CHECK(a.request == b.request && a.replica == b.replica && a.first_token_ps == b.first_token_ps);
  CHECK(a.done_ps == b.done_ps && a.cached_tokens == b.cached_tokens && a.preemptions == b.preemptions);
  CHECK(a.network_ps == b.network_ps && a.status == b.status && a.transfer_end_ps == b.transfer_end_ps);
  CHECK(busy_a == busy_b);
  CHECK(a.request.size() == rows.arrival.size());
  for (std::size_t i = 0; i < a.request.size(); ++i) {
    const auto row = static_cast<std::size_t>(a.request[i]);
    CHECK(a.output_tokens[i] == (a.status[i] == 0 ? rows.output[row] : 0));
    if (a.status[i] == 0) CHECK(a.admitted_ps[i] >= rows.arrival[row] && a.done_ps[i] >= a.first_token_ps[i]);
  }
}

}  // namespace railyard::serving
