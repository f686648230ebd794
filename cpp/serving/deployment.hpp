#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/time.hpp"

namespace railyard::serving {

/// What an iteration of a replica costs:
/// host_s + host_per_seq_s x sequences + f(tokens) + g + per_pair x pairs, and where something decodes
/// g = max(floor, per_sequence x decodes + per_kv_token x kv_tokens, overlapped_per_kv_token[i] x kv_tokens - overlapped[i](tokens));
/// f is compute_s + network_s. Tables over tokens are linear between the rows, constant below the first.
struct CostSpec {
  std::vector<std::int64_t> tokens;  ///< Ascending; the last is at least max_batched_tokens of the pool.
  std::vector<double> compute_s, network_s;
  double host_s = 0, host_per_seq_s = 0;
  double attention_per_kv_token_s = 0, attention_per_sequence_s = 0, attention_floor_s = 0;
  double attention_per_pair_s = 0;
  std::vector<double> overlapped_per_kv_token_s = {};   ///< Attention beside other work, which hides so much of it:
  std::vector<std::vector<double>> overlapped_s = {};  ///< by line, over tokens.
  double scale_out_bytes_per_token = 0;  ///< Of its own collectives over the NICs of the replica, all of them together ...
  double scale_out_bps = 0;              ///< ... their rate in the tables ...
  std::vector<double> scale_out_slack_s = {};  ///< ... and what other work hides of a lower one, by tokens; empty: nothing.
  /// Of replicas in lockstep: what the tokens of all of them take together, on top; tables as above.
  std::vector<std::int64_t> joint_tokens = {};
  std::vector<double> joint_compute_s = {}, joint_network_s = {};
  std::int32_t pipeline_stages = 1;
  double stage_share = 1;  ///< The slowest stage's part of an iteration: a new one may start after it.
};

enum class Role : std::uint8_t { both = 0, prefill = 1, decode = 2 };
enum class Preemption : std::uint8_t { recompute = 0, swap = 1 };
enum class Policy : std::uint8_t { decode_first = 0, prefill_first = 1 };
enum class RouterKind : std::uint8_t { round_robin = 0, random = 1, least_loaded = 2, two_choices = 3, prefix = 4, session = 5 };

/// Whether a replica that starts loads its weights over links: from the cluster's storage, or from a replica of its pool that is
/// up. Without a way from one, from storage, and without that, in the pool's own time.
enum class LoadFrom : std::uint8_t { none = 0, storage = 1, peer = 2 };

/// When replicas are added and taken away; every `interval_ps` one look.
struct Autoscale {
  bool on = false;
  std::int32_t min_replicas = 1, first_replicas = 1;  ///< At least; at the start.
  double target = 0.7;     ///< Wanted requests per replica, in parts of max_sequences; with by_queue: waiting ones per replica.
  bool by_queue = false;
  double tolerance = 0.1;  ///< No change while the measure is within this share of the target.
  Ps interval_ps = 0, cold_start_ps = 0, hold_ps = 0;  ///< hold: how long a lower need must last before one goes.
  LoadFrom load = LoadFrom::none;                      ///< After the cold start.
};

/// Replicas that are alike.
struct PoolSpec {
  CostSpec cost = {};
  Role role = Role::both;
  std::int32_t replicas = 1;
  std::int64_t block_tokens = 16, kv_blocks = 1, max_sequences = 1, max_batched_tokens = 1;
  std::int64_t prompt_tokens = 0;  ///< Of one request in an iteration at most, unless it is the only one; 0: no limit.
  bool chunked = true, prefix_cache = false;
  bool by_priority = false;  ///< The queue is in the order of priorities, and the last in that order gives way.
  bool ahead = false;  ///< An iteration is put together when the one before it begins (asynchronous scheduling).
  std::int32_t lockstep = 1;  ///< So many neighbours begin and end every iteration together: ranks that exchange tokens.
  Policy policy = Policy::decode_first;
  Preemption preemption = Preemption::recompute;
  double watermark = 0;  ///< Share of the blocks that admission leaves free, unless nothing runs.
  double kv_bytes_per_token = 0;
  double swap_bytes = 0;     ///< Host memory for preempted requests; without room they are computed anew.
  double host_kv_bytes = 0;  ///< Host memory for what prefix caching evicts.
  double swap_bps = 0, host_latency_s = 0;  ///< Between a replica and its host, each way.
  std::int32_t draft_tokens = 0;
  double acceptance = 0, draft_s = 0;  ///< Chance that a draft token is accepted; time of one draft pass.
  Autoscale autoscale = {};
  double weight_bytes = 0, load_s = 0;  ///< Of a replica's weights; to load them where there is no way.
};

struct RouterSpec {
  RouterKind kind = RouterKind::round_robin;
  double prefix_weight = 1;  ///< Cost of a token that is to be computed (its own, and of those queued before it) ...
  double load_weight = 64;   ///< ... and of a request that the replica has.
  bool move = false;  ///< A prefix that another replica of the pool has may be moved, where that is faster than computing it.
};

/// Links and ways between replicas. Way w uses link[k], k in ptr[w]..ptr[w+1], with share[k] wire bytes per byte.
/// Of several ways between the same two, a replica's transfers take the next each time: copies of attention take turns.
struct LinkSpec {
  std::vector<double> rate_bps;
  std::vector<std::int32_t> from, to;  ///< Replicas; -1: the store, read or written; from -2: the storage that has the weights.
  std::vector<std::int64_t> ptr;
  std::vector<std::int32_t> link;
  std::vector<double> share;
  std::vector<std::int64_t> latency_ps;  ///< Of each way.
  /// What collectives of replica r take: link[k], k in ptr[r]..ptr[r+1], with share[k] wire bytes per byte of them all. Empty:
  /// they and transfers do not meet.
  std::vector<std::int64_t> collective_ptr = {};
  std::vector<std::int32_t> collective_link = {};
  std::vector<double> collective_share = {};
};

/// Other traffic: flows that take their fair share between two times.
struct BackgroundSpec {
  std::vector<std::int64_t> from_ps = {}, to_ps = {}, ptr = {};
  std::vector<std::int32_t> link;
  std::vector<double> share, cap_bps, weight;
};

struct TransferSpec {
  double overlap = 0;  ///< Share of the bytes that may flow while the prefill runs (layer by layer).
};

/// KV cache kept outside the replicas, for all of them.
struct StoreSpec {
  double capacity_bytes = 0, rate_bps = 0, latency_s = 0;  ///< The rate is each replica's own, unless there is a way.
};

/// A replica is away; its requests start anew elsewhere and its KV cache is lost. `drain`: it finishes them first.
struct OutageSpec {
  std::vector<std::int32_t> replica;
  std::vector<std::int64_t> from_ps, to_ps;  ///< of a drained one: to - from is how long it is away once empty.
  std::vector<std::uint8_t> drain;
  std::vector<std::uint8_t> load = {};  ///< LoadFrom, once it is back; empty: none.
};

struct Deployment {
  std::vector<PoolSpec> pools = {};
  RouterSpec router = {};         ///< To replicas that prefill.
  RouterSpec decode_router = {.kind = RouterKind::least_loaded};
  LinkSpec links = {};
  BackgroundSpec background = {};
  TransferSpec transfer = {};
  StoreSpec store = {};
  OutageSpec outages = {};
  std::int64_t hash_tokens = 0;  ///< Tokens that one prefix hash stands for; 0: none.
  bool stop_on_overload = true;
};

struct Options {
  std::uint64_t seed = 0;
  bool skip_runs = true;  ///< Off: every iteration is an event of its own; the result is the same.
  std::vector<std::int32_t> logged;  ///< Replicas whose iterations are written down.
  std::int64_t users = 0;  ///< Closed loop: each sends the next request when it is free; 0: all are sent as they arrive.
  Ps think_ps = 0;         ///< From the answer until its user is free again.
};

/// Requests to feed: sorted by arrival, and none before those fed earlier.
struct RequestColumns {
  std::span<const std::int64_t> arrival_ps;
  std::span<const std::int32_t> input_tokens, output_tokens;
  std::span<const std::int64_t> block_ptr;   ///< n+1, or empty.
  std::span<const std::uint64_t> block_hash;
  std::span<const std::int64_t> session;     ///< -1: none; may be empty.
  std::span<const std::int32_t> priority = {};  ///< The least goes first; may be empty.
  std::size_t size() const { return arrival_ps.size(); }
};

/// Throws std::invalid_argument when something does not fit together.
void check(const Deployment& deployment);

}  // namespace railyard::serving
