// Random deployments with everything at once: nobody is lost, skipping shows in no bit, no memory is misused on the way.
#include <numeric>

#include "serving/cases_test.hpp"

using namespace railyard;
using namespace railyard::serving;

namespace {

constexpr Ps kMs = 1'000'000'000;

/// Draws from a hash of a counter.
struct Draw {
  std::uint64_t state;
  std::uint64_t below(std::uint64_t count) { return mix(state++) % count; }
  bool coin() { return below(2) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) { return *(values.begin() + below(values.size())); }
};

PoolSpec random_pool(Draw& draw, Role role) {
  PoolSpec pool = simple_pool();
  pool.role = role;
  pool.replicas = static_cast<std::int32_t>(1 + draw.below(3));
  pool.kv_blocks = draw.of({20, 40, 80, 1000});
  pool.max_sequences = draw.of({1, 2, 8});
  pool.max_batched_tokens = draw.of({32, 100, 512});
  pool.cost.pipeline_stages = draw.of({1, 1, 2, 3});
  if (pool.cost.pipeline_stages > 1) pool.cost.stage_share = draw.of({0.5, 0.8});
  pool.ahead = pool.cost.pipeline_stages == 1 && draw.coin();
  pool.chunked = draw.below(3) > 0;
  pool.prefix_cache = draw.coin();
  pool.policy = draw.coin() ? Policy::decode_first : Policy::prefill_first;
  pool.preemption = draw.coin() ? Preemption::recompute : Preemption::swap;
  pool.watermark = draw.of({0.0, 0.05});
  pool.swap_bytes = draw.of({0.0, 1e5, 1e9});
  pool.host_kv_bytes = draw.of({0.0, 1e5, 1e9});
  pool.swap_bps = draw.of({1e8, 1e10});
  if (draw.below(3) == 0) {
    pool.draft_tokens = 3;
    pool.acceptance = 0.7;
    pool.draft_s = 1e-4;
  }
  if (draw.coin()) {
    pool.autoscale = {.on = true, .first_replicas = pool.replicas, .target = draw.of({0.2, 1.0}), .by_queue = draw.coin(),
                      .interval_ps = 40 * kMs, .cold_start_ps = draw.of<Ps>({0, 60 * kMs}), .hold_ps = draw.of<Ps>({0, 90 * kMs})};
  }
  return pool;
}

/// A link for each replica, one that all share, ways between all and from the store; other traffic on the shared one.
void add_links(Draw& draw, Deployment& deployment, std::int32_t replicas) {
  LinkSpec& links = deployment.links;
  const double rate = draw.of({1e7, 1e9});
  links.rate_bps.assign(static_cast<std::size_t>(replicas) + 1, rate);
  links.ptr = {0};
  for (std::int32_t a = draw.coin() ? -1 : 0; a < replicas; ++a) {
    for (std::int32_t b = 0; b < replicas; ++b) {
      if (a == b) continue;
      links.from.push_back(a);
      links.to.push_back(b);
      links.link.insert(links.link.end(), {a < 0 ? b : a, replicas});
      links.share.insert(links.share.end(), {1.0, 0.5});
      links.ptr.push_back(static_cast<std::int64_t>(links.link.size()));
      links.latency_ps.push_back(draw.of<Ps>({0, 2 * kMs}));
    }
  }
  deployment.background = {.from_ps = {50 * kMs}, .to_ps = {900 * kMs}, .ptr = {0, 1}, .link = {replicas}, .share = {1},
                           .cap_bps = {rate}, .weight = {2}};
}

Deployment random_deployment(Draw& draw) {
  Deployment deployment;
  if (draw.coin()) {
    deployment.pools = {random_pool(draw, Role::both), random_pool(draw, Role::both)};
  } else {
    deployment.pools = {random_pool(draw, Role::prefill), random_pool(draw, Role::decode)};
  }
  deployment.hash_tokens = 32;
  deployment.stop_on_overload = false;
  deployment.router = {.kind = static_cast<RouterKind>(draw.below(6)), .move = draw.coin()};
  deployment.decode_router.kind = static_cast<RouterKind>(draw.below(6));
  deployment.transfer.overlap = draw.of({0.0, 0.5, 1.0});
  deployment.store = {.capacity_bytes = draw.of({0.0, 1e5, 1e9}), .rate_bps = 1e8, .latency_s = 1e-4};
  const std::int32_t replicas = deployment.pools[0].replicas + deployment.pools[1].replicas;
  if (draw.coin()) add_links(draw, deployment, replicas);
  for (std::uint64_t row = draw.below(4); row > 0; --row) {
    const Ps from = static_cast<Ps>(draw.below(2000)) * kMs;
    deployment.outages.replica.push_back(static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(replicas))));
    deployment.outages.from_ps.push_back(from);
    deployment.outages.to_ps.push_back(from + static_cast<Ps>(draw.below(500)) * kMs);
    deployment.outages.drain.push_back(draw.coin() ? 1 : 0);
  }
  return deployment;
}

}  // namespace

TEST(serving_random_deployments_lose_nobody) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw{mix(seed)};
    check_same(random_deployment(draw), random_rows(seed * 1000, 40, draw.of({100'000'000'000u, 5'000'000'000u})));
  }
}
