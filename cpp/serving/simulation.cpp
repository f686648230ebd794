#include "serving/simulation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "serving/state.hpp"

namespace railyard::serving {
namespace {

void require(bool condition, const std::string& what) {
  if (!condition) throw std::invalid_argument(what);
}

/// PRE for times in seconds: an hour is below what fine_of_seconds() holds.
bool is_time(double seconds) { return seconds >= 0 && seconds <= 3600; }

void check_cost(const CostSpec& cost, const PoolSpec& pool) {
  require(!cost.tokens.empty() && cost.tokens.size() == cost.compute_s.size() &&
              cost.tokens.size() == cost.network_s.size(),
          "cost: tokens, compute_s and network_s must have the same length, at least 1");
  for (std::size_t i = 0; i < cost.tokens.size(); ++i) {
    require(i == 0 ? cost.tokens[i] >= 0 : cost.tokens[i] > cost.tokens[i - 1], "cost: tokens must ascend from 0");
    require(is_time(cost.compute_s[i]) && is_time(cost.network_s[i]), "cost: times must be from 0 to 3600 s");
  }
  require(cost.tokens.back() >= pool.max_batched_tokens, "cost: tokens must reach max_batched_tokens");
  for (const double seconds : {cost.host_s, cost.host_per_seq_s, cost.attention_per_kv_token_s,
                               cost.attention_per_sequence_s, cost.attention_floor_s, cost.attention_per_pair_s}) {
    require(is_time(seconds), "cost: times must be from 0 to 3600 s");
  }
  require(cost.overlapped_s.size() == cost.overlapped_per_kv_token_s.size(), "cost: overlapped_s and overlapped_per_kv_token_s must have a line each");
  for (std::size_t i = 0; i < cost.overlapped_s.size(); ++i) {
    require(cost.overlapped_s[i].size() == cost.tokens.size(), "cost: overlapped_s must have a column for each of tokens");
    require(is_time(cost.overlapped_per_kv_token_s[i]) && std::ranges::all_of(cost.overlapped_s[i], is_time),
            "cost: times must be from 0 to 3600 s");
  }
  require(cost.scale_out_slack_s.empty() || cost.scale_out_slack_s.size() == cost.tokens.size(),
          "cost: scale_out_slack_s must have a column for each of tokens");
  require(std::ranges::all_of(cost.scale_out_slack_s, is_time), "cost: times must be from 0 to 3600 s");
  for (const double amount : {cost.scale_out_bytes_per_token, cost.scale_out_bps}) {
    require(amount >= 0 && amount <= 1e18, "cost: sizes and rates must be from 0 to 1e18");
  }
  require(cost.pipeline_stages >= 1 && cost.pipeline_stages <= 1024, "cost: pipeline_stages must be from 1 to 1024");
  require(cost.stage_share > 0 && cost.stage_share <= 1 && cost.stage_share * cost.pipeline_stages >= 1 - 1e-9,
          "cost: stage_share must be from 1 / pipeline_stages to 1");
}

/// WHY so little beside it: nobody serves so with several stages, and who comes, goes or is slowed would hold up the others.
void check_lockstep(const PoolSpec& pool, const Deployment& deployment) {
  const CostSpec& cost = pool.cost;
  const std::size_t rows = cost.joint_tokens.size();
  require(cost.joint_compute_s.size() == rows && cost.joint_network_s.size() == rows,
          "cost: joint_tokens, joint_compute_s and joint_network_s must have the same length");
  require(pool.lockstep >= 1 && pool.replicas % pool.lockstep == 0, "pool: lockstep must divide replicas");
  require(rows == 0 || pool.lockstep > 1, "cost: joint times are of replicas in lockstep");
  if (pool.lockstep == 1) return;
  require(cost.pipeline_stages == 1 && !pool.autoscale.on && deployment.outages.replica.empty() && deployment.links.collective_ptr.empty(),
          "pool: lockstep needs one pipeline stage, replicas that neither come nor go, and collectives that do not meet transfers");
  require(pool.max_batched_tokens * pool.lockstep <= 1 << 24, "pool: max_batched_tokens x lockstep must be up to 2^24");
  for (std::size_t i = 0; i < rows; ++i) {
    require(i == 0 ? cost.joint_tokens[i] >= 0 : cost.joint_tokens[i] > cost.joint_tokens[i - 1],
            "cost: joint_tokens must ascend from 0");
    require(is_time(cost.joint_compute_s[i]) && is_time(cost.joint_network_s[i]), "cost: times must be from 0 to 3600 s");
  }
  require(rows == 0 || cost.joint_tokens.back() >= pool.max_batched_tokens * pool.lockstep,
          "cost: joint_tokens must reach max_batched_tokens x lockstep");
}

void check_autoscale(const Autoscale& rule, const PoolSpec& pool) {
  if (!rule.on) return;
  require(rule.min_replicas >= 1 && rule.min_replicas <= pool.replicas, "autoscale: min_replicas must be from 1 to replicas");
  require(rule.first_replicas >= rule.min_replicas && rule.first_replicas <= pool.replicas,
          "autoscale: first_replicas must be from min_replicas to replicas");
  require(rule.target > 0 && rule.target <= 1e9 && rule.tolerance >= 0, "autoscale: target must be above 0");
  require(rule.interval_ps > 0 && rule.cold_start_ps >= 0 && rule.hold_ps >= 0, "autoscale: times must not be negative");
}

void check_memory(const PoolSpec& pool) {
  for (const double amount : {pool.kv_bytes_per_token, pool.swap_bytes, pool.host_kv_bytes, pool.swap_bps}) {
    require(amount >= 0 && amount <= 1e18, "pool: sizes and rates must be from 0 to 1e18");
  }
  const bool host = pool.host_kv_bytes > 0 || pool.preemption == Preemption::swap;
  require(!host || pool.swap_bps >= 1, "pool: host memory needs swap_bps");
  require(is_time(pool.host_latency_s), "pool: host_latency_s must be from 0 to 3600 s");
  require(pool.weight_bytes >= 0 && pool.weight_bytes <= 1e18 && is_time(pool.load_s),
          "pool: weights and their time must not be negative");
}

void check_pool(const PoolSpec& pool, std::int64_t hash_tokens) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  require(pool.replicas >= 1 && pool.replicas <= 1 << 20, "pool: replicas must be from 1 to 2^20");
  require(pool.block_tokens >= 1 && pool.block_tokens <= kMost, "pool: block_tokens must be at least 1");
  require(pool.kv_blocks >= 1 && pool.kv_blocks <= kMost, "pool: kv_blocks must be from 1 to 2^31");
  require(pool.max_sequences >= 1 && pool.max_sequences <= kMost, "pool: max_sequences must be from 1 to 2^31");
  require(pool.max_batched_tokens >= 1 && pool.max_batched_tokens <= 1 << 24,
          "pool: max_batched_tokens must be from 1 to 2^24");
  require(pool.prompt_tokens >= 0 && pool.prompt_tokens <= kMost, "pool: prompt_tokens must be from 0 to 2^31");
  require(pool.watermark >= 0 && pool.watermark < 1, "pool: watermark must be from 0 to below 1");
  require(pool.draft_tokens >= 0 && pool.draft_tokens <= 64, "pool: draft_tokens must be from 0 to 64");
  require(pool.acceptance >= 0 && pool.acceptance <= 1, "pool: acceptance must be from 0 to 1");
  require(is_time(pool.draft_s), "pool: draft_s must be from 0 to 3600 s");
  require(!pool.prefix_cache || (hash_tokens > 0 && hash_tokens % pool.block_tokens == 0),
          "pool: prefix_cache needs hashes of a multiple of block_tokens");
  require(!pool.ahead || pool.cost.pipeline_stages == 1, "pool: ahead needs one pipeline stage");
  check_memory(pool);
  check_cost(pool.cost, pool);
  check_autoscale(pool.autoscale, pool);
}

void check_ways(const std::vector<std::int64_t>& ptr, const std::vector<std::int32_t>& link,
                const std::vector<double>& share, std::size_t rows, std::size_t links, const char* what) {
  const std::string name(what);
  require(ptr.size() == rows + 1 || (ptr.empty() && rows == 0), name + ": ptr must have one entry more than rows");
  require(link.size() == share.size(), name + ": link and share must have the same length");
  require(ptr.empty() ? link.empty() : ptr.front() == 0 && ptr.back() == static_cast<std::int64_t>(link.size()),
          name + ": ptr must go from 0 to the number of links");
  for (std::size_t i = 1; i < ptr.size(); ++i) require(ptr[i - 1] <= ptr[i], name + ": ptr must not descend");
  for (std::size_t i = 0; i < link.size(); ++i) {
    require(link[i] >= 0 && static_cast<std::size_t>(link[i]) < links, name + ": no such link");
    require(share[i] > 0 && share[i] <= 1e6, name + ": share must be above 0");
  }
}

void check_links(const Deployment& deployment, std::int64_t replicas) {
  const LinkSpec& links = deployment.links;
  for (const double rate : links.rate_bps) require(rate > 0 && rate <= 1e18, "links: rate_bps must be above 0");
  const std::size_t ways = links.from.size();
  require(links.to.size() == ways && links.latency_ps.size() == ways, "links: columns must have the same length");
  check_ways(links.ptr, links.link, links.share, ways, links.rate_bps.size(), "links");
  for (std::size_t w = 0; w < ways; ++w) {
    require(links.from[w] >= -2 && links.from[w] < replicas && links.to[w] >= -1 && links.to[w] < replicas &&
                (links.from[w] >= 0 || links.to[w] >= 0),
            "links: no such replica");
    require(links.latency_ps[w] >= 0, "links: latency_ps must not be negative");
    require(links.ptr[w + 1] > links.ptr[w], "links: a way must use a link");
  }
  const auto own = static_cast<std::size_t>(links.collective_ptr.empty() ? 0 : replicas);
  check_ways(links.collective_ptr, links.collective_link, links.collective_share, own, links.rate_bps.size(), "links: own");
  const BackgroundSpec& other = deployment.background;
  const std::size_t rows = other.from_ps.size();
  require(other.to_ps.size() == rows && other.cap_bps.size() == rows && other.weight.size() == rows,
          "background: columns must have the same length");
  check_ways(other.ptr, other.link, other.share, rows, links.rate_bps.size(), "background");
  for (std::size_t i = 0; i < rows; ++i) {
    require(other.from_ps[i] >= 0 && other.to_ps[i] >= other.from_ps[i], "background: times must ascend from 0");
    require(other.cap_bps[i] > 0 && other.weight[i] > 0, "background: cap_bps and weight must be above 0");
  }
}

void check_outages(const OutageSpec& outages, std::int64_t replicas) {
  const std::size_t rows = outages.replica.size();
  require(outages.load.empty() || outages.load.size() == rows, "outages: columns must have the same length");
  for (const std::uint8_t load : outages.load) require(load <= 2, "outages: no such place to load from");
  require(outages.from_ps.size() == rows && outages.to_ps.size() == rows && outages.drain.size() == rows,
          "outages: columns must have the same length");
  for (std::size_t i = 0; i < rows; ++i) {
    require(outages.replica[i] >= 0 && outages.replica[i] < replicas, "outages: no such replica");
    require(outages.from_ps[i] >= 0 && outages.to_ps[i] >= outages.from_ps[i], "outages: times must ascend from 0");
  }
}

/// Every replica that prefills must reach every one that takes over from it.
void check_reach(const Deployment& deployment) {
  if (deployment.links.rate_bps.empty()) return;
  const Transfers transfers(deployment);
  std::int32_t a = 0;
  for (const PoolSpec& source : deployment.pools) {
    for (const std::int32_t end = a + source.replicas; a < end; ++a) {
      std::int32_t b = 0;
      for (const PoolSpec& target : deployment.pools) {
        for (const std::int32_t last = b + target.replicas; b < last; ++b) {
          if (source.role != Role::prefill || target.role != Role::decode) continue;
          require(transfers.way(a, b) != kNoWay,
                  "links: no way from replica " + std::to_string(a) + " to " + std::to_string(b));
        }
      }
    }
  }
}

}  // namespace

void check(const Deployment& deployment) {
  require(!deployment.pools.empty(), "a deployment needs a pool");
  require(deployment.hash_tokens >= 0, "hash_tokens must not be negative");
  std::int64_t replicas = 0;
  bool roles[3] = {};
  for (const PoolSpec& pool : deployment.pools) {
    check_pool(pool, deployment.hash_tokens);
    check_lockstep(pool, deployment);
    replicas += pool.replicas;
    roles[static_cast<std::size_t>(pool.role)] = true;
  }
  require(roles[0] || roles[1], "no pool prefills");
  require(roles[1] == roles[2], "pools that prefill need pools that decode, and the other way round");
  for (const RouterSpec& router : {deployment.router, deployment.decode_router}) {
    require(router.prefix_weight >= 0 && router.load_weight >= 0, "router: weights must not be negative");
  }
  require(!deployment.decode_router.move, "decode_router: prefixes are moved between replicas that prefill");
  require(deployment.transfer.overlap >= 0 && deployment.transfer.overlap <= 1, "transfer: overlap must be from 0 to 1");
  const StoreSpec& store = deployment.store;
  require(store.capacity_bytes >= 0 && is_time(store.latency_s), "store: sizes and times must not be negative");
  const auto& from = deployment.links.from;
  require(store.capacity_bytes <= 0 || store.rate_bps >= 1 || std::ranges::find(from, -1) != from.end(),
          "store: it needs rate_bps, or ways from it");
  check_links(deployment, replicas);
  check_outages(deployment.outages, replicas);
  check_reach(deployment);
}

Simulation::Simulation(const Deployment& deployment, const Options& options) {
  check(deployment);
  std::int64_t replicas = 0;
  for (const PoolSpec& pool : deployment.pools) replicas += pool.replicas;
  for (const std::int32_t id : options.logged) require(id >= 0 && id < replicas, "log: no such replica");
  require(options.users >= 0 && options.think_ps >= 0 && options.think_ps < kNever / 4,
          "users must not be negative, and think_ps must be from 0 to below 26 days");
  state_ = std::make_unique<State>(deployment, options);
}

Simulation::~Simulation() = default;

void Simulation::feed(const RequestColumns& requests) { state_->feed(requests); }
void Simulation::run(bool last, const Poll& poll) { state_->run(last, poll); }
Finished Simulation::drain() { return std::exchange(state_->finished, Finished{}); }
bool Simulation::overloaded() const { return state_->overloaded; }
Ps Simulation::now() const { return state_->now; }
std::uint64_t Simulation::events() const { return state_->events; }
ReplicaTotals Simulation::totals() const { return state_->totals(); }
IterationLog Simulation::log() const { return state_->iteration_log; }
std::vector<double> Simulation::link_bytes() const { return state_->transfers.link_bytes(state_->now); }
std::vector<std::int64_t> Simulation::gaps() const { return state_->gaps.counts(); }

std::vector<std::int64_t> Simulation::gap_lower_ps() {
  std::vector<std::int64_t> lower(Gaps::kBins + 1, kNever);
  for (std::size_t bin = 0; bin < Gaps::kBins; ++bin) lower[bin] = Gaps::lower(bin);
  return lower;
}

void Simulation::State::feed(const RequestColumns& requests) {
  const std::size_t n = requests.size();
  require(requests.input_tokens.size() == n && requests.output_tokens.size() == n, "requests: columns must have the same length");
  require(requests.priority.empty() || requests.priority.size() == n, "requests: priority must be as long as arrival_ps");
  require(requests.session.empty() || requests.session.size() == n, "requests: session must be as long as arrival_ps");
  const bool hashed = !requests.block_ptr.empty();
  require(!hashed || (requests.block_ptr.size() == n + 1 && requests.block_ptr.front() == 0 &&
                      requests.block_ptr.back() == static_cast<std::int64_t>(requests.block_hash.size())),
          "requests: block_ptr must have one entry more than requests and go from 0 to the number of hashes");
  Ps before = arrival_.empty() ? latest_ : arrival_.back();
  for (std::size_t i = 0; i < n; ++i) {
    require(requests.arrival_ps[i] >= before, "requests: arrival_ps must ascend from 0");
    require(requests.arrival_ps[i] < kNever / 4, "requests: arrival_ps must be below 26 days");
    require(requests.input_tokens[i] >= 1 && requests.output_tokens[i] >= 1, "requests: token counts must be at least 1");
    require(!hashed || requests.block_ptr[i] <= requests.block_ptr[i + 1], "requests: block_ptr must not descend");
    before = requests.arrival_ps[i];
  }
  const auto used = static_cast<std::ptrdiff_t>(next_);
  const std::int64_t gone = next_ > 0 ? block_ptr_[next_] : 0;
  arrival_.erase(arrival_.begin(), arrival_.begin() + used);
  input_.erase(input_.begin(), input_.begin() + used);
  output_.erase(output_.begin(), output_.begin() + used);
  session_.erase(session_.begin(), session_.begin() + used);
  priority_.erase(priority_.begin(), priority_.begin() + used);
  if (!block_ptr_.empty()) block_ptr_.erase(block_ptr_.begin(), block_ptr_.begin() + used);
  block_hash_.erase(block_hash_.begin(), block_hash_.begin() + gone);
  for (std::int64_t& pointer : block_ptr_) pointer -= gone;
  next_ = 0;
  latest_ = before;

  arrival_.insert(arrival_.end(), requests.arrival_ps.begin(), requests.arrival_ps.end());
  input_.insert(input_.end(), requests.input_tokens.begin(), requests.input_tokens.end());
  output_.insert(output_.end(), requests.output_tokens.begin(), requests.output_tokens.end());
  if (requests.session.empty()) {
    session_.insert(session_.end(), n, -1);
  } else {
    session_.insert(session_.end(), requests.session.begin(), requests.session.end());
  }
  priority_.insert(priority_.end(), requests.priority.begin(), requests.priority.end());
  priority_.resize(arrival_.size());
  if (block_ptr_.empty()) block_ptr_.push_back(0);
  const auto base = static_cast<std::int64_t>(block_hash_.size());
  for (std::size_t i = 1; i <= n; ++i) block_ptr_.push_back(hashed ? base + requests.block_ptr[i] : base);
  block_hash_.insert(block_hash_.end(), requests.block_hash.begin(), requests.block_hash.end());
  fed_ += static_cast<std::int64_t>(n);
}

ReplicaTotals Simulation::State::totals() const {
  ReplicaTotals found;
  for (const Replica& replica : replicas_) {
    found.busy_ps.push_back(whole(replica.busy));
    found.slowed_ps.push_back(whole(replica.slowed));
    found.loads.push_back(replica.loads);
    found.load_ps.push_back(replica.load_ps);
    found.up_ps.push_back(replica.up_ps + (replica.mode == Replica::Mode::down ? 0 : now - replica.mode_since));
    found.iterations.push_back(replica.iterations);
    found.input_tokens.push_back(replica.input_tokens);
    found.output_tokens.push_back(replica.output_tokens);
    found.kv_peak_blocks.push_back(replica.kv_peak);
    found.kv_used_blocks.push_back(replica.cache.used());
    found.cached_tokens.push_back(replica.cached_tokens);
    found.loaded_tokens.push_back(replica.loaded_tokens);
    found.moved_tokens.push_back(replica.moved_tokens);
    found.preemptions.push_back(replica.preemptions);
    found.tokens.push_back(replica.tokens);
    found.kv_tokens.push_back(static_cast<double>(replica.kv_tokens));
    found.pairs.push_back(static_cast<double>(replica.pairs));
  }
  return found;
}

}  // namespace railyard::serving
