// Keys and values come to a request: up from the tiers below a replica's own memory, and over from other replicas.
#include <algorithm>

#include "serving/state.hpp"

namespace railyard::serving {

/// WHY one token less: the last one must be computed for the next one to come out.
std::size_t Simulation::State::most_units(const Request& request) const {
  const auto most = static_cast<std::size_t>((request.target() - 1) / deployment_.hash_tokens);
  return std::min(most, request.chain.size());
}

/// Units of the request's prefix in the memory of a replica.
std::size_t Simulation::State::held_by(ReplicaId id, const Request& request) {
  Replica& replica = replicas_[id];
  if (!replica.cache.caches() || request.chain.empty()) return 0;
  sync(id);  // what a run has not yet written down may have completed units, and evicted others
  return replica.cache.hits(std::span<const std::uint64_t>(request.chain).first(most_units(request)));
}

/// Who has the beginning of the request's prefix, the longest first.
void Simulation::State::find_holders(const Request& request, std::span<const ReplicaId> from) {
  holders_.clear();
  for (const ReplicaId id : from) {
    const std::size_t units = held_by(id, request);
    if (units > 0) holders_.push_back({.id = id, .units = units});
  }
  std::stable_sort(holders_.begin(), holders_.end(), [](const Giver& a, const Giver& b) { return a.units > b.units; });
}

/// Of the holders the one of the same pool that has most, and more than `own`, with a way to this replica.
Simulation::State::Giver Simulation::State::giver_for(ReplicaId id, std::size_t own) const {
  for (Giver holder : holders_) {
    if (holder.units <= own) break;
    if (holder.id == id || replicas_[holder.id].pool != replicas_[id].pool) continue;
    holder.way = transfers.way(static_cast<std::int32_t>(holder.id), static_cast<std::int32_t>(id), replicas_[holder.id].turn);
    if (holder.way != kNoWay) return holder;
  }
  return {};
}

Ps Simulation::State::recompute_time(const PoolState& pool, std::int64_t from, std::int64_t to) const {
  const std::int64_t tokens = to - from, most = pool.spec.max_batched_tokens;
  if (tokens <= 0) return 0;
  Load rest{.tokens = tokens % most, .sequences = 1};
  rest.pairs = static_cast<i128>(tokens) * from + static_cast<i128>(tokens) * (tokens + 1) / 2;
  const Fine whole_ones = pool.cost.time({.tokens = most, .sequences = 1}) * (tokens / most);
  return whole(whole_ones + pool.cost.time(rest));
}

/// Whether the request may load. WHY not beside a flow of its own: its last transfer has not ended.
bool Simulation::State::asks_tiers(const Replica& replica, const Request& request) const {
  if (request.computed > 0 || request.flow != kNoFlow || !replica.cache.caches()) return false;
  return replica.host.capacity() > 0 || store_.capacity() > 0 || (deployment_.router.move && transfers.any());
}

/// Whether the request begins to load, because that is faster than to compute: what follows its `hits` in host memory, and
/// what follows that in the store or in another replica. Settled each time that it joins a queue, and anew when it has other
/// hits; for room it waits.
Simulation::State::Loading Simulation::State::try_tiers(ReplicaId id, Slot slot, std::size_t hits) {
  Replica& replica = replicas_[id];
  Request& request = requests_[slot];
  if (!asks_tiers(replica, request) || request.settled == static_cast<std::int64_t>(hits)) return Loading::no;
  Fetch plan{.hits = hits, .upper = hits};
  const std::size_t most = most_units(request);
  plan_host(id, request, most, plan);
  plan.top = plan.upper;
  plan_store(id, request, most, plan);
  if (deployment_.router.move && transfers.any()) plan_move(id, request, plan);
  if (plan.top == hits) {
    request.settled = static_cast<std::int64_t>(hits);
    return Loading::no;
  }

  const std::span<const std::uint64_t> held(request.chain.data(), hits);
  const std::int64_t missing = tokens_of(plan.top) / pool_of(id).spec.block_tokens -
                               static_cast<std::int64_t>(hits) * replica.cache.unit_blocks();
  if (missing > replica.available() - replica.cache.idle_blocks(held)) {
    request.settled = -1;
    return Loading::no_room;
  }
  request.settled = static_cast<std::int64_t>(hits);
  for (const std::uint64_t hash : held) request.units.push_back(replica.cache.hold(hash));
  take_blocks(replica, missing);
  request.blocks += missing;
  request.published = hits;
  fetch(id, slot, plan);
  return Loading::begun;
}

void Simulation::State::plan_host(ReplicaId id, const Request& request, std::size_t most, Fetch& plan) const {
  const Replica& replica = replicas_[id];
  const PoolState& pool = pool_of(id);
  while (plan.upper < most && replica.host.has(request.chain[plan.upper])) ++plan.upper;
  plan.host_end = std::max(fine(now), replica.channel_free);
  if (plan.upper > plan.hits) {
    const double bits = static_cast<double>(tokens_of(plan.upper - plan.hits)) * pool.spec.kv_bytes_per_token * 8;
    plan.host_end += fine_of_seconds(bits / pool.spec.swap_bps + pool.spec.host_latency_s);
  }
  if (whole(plan.host_end) - now >= recompute_time(pool, tokens_of(plan.hits), tokens_of(plan.upper))) {
    plan.upper = plan.hits;
  }
  if (plan.upper == plan.hits) plan.host_end = fine(now);
}

void Simulation::State::plan_store(ReplicaId id, const Request& request, std::size_t most, Fetch& plan) {
  const Replica& replica = replicas_[id];
  const PoolState& pool = pool_of(id);
  std::size_t top = plan.upper;
  while (top < most && store_.has(request.chain[top])) ++top;
  if (top == plan.upper) return;
  const double bytes = static_cast<double>(tokens_of(top - plan.upper)) * pool.spec.kv_bytes_per_token;
  const std::uint32_t way = transfers.any() ? transfers.way(-1, static_cast<std::int32_t>(id)) : kNoWay;
  Fine end = fine(now);
  if (way == kNoWay) {
    end = std::max(end, replica.store_free) +
          fine_of_seconds(bytes * 8 / deployment_.store.rate_bps + deployment_.store.latency_s);
  } else {
    const Ps takes = transfers.time_to_move(way, bytes, now);
    if (takes == kNever) return;
    end += fine(takes);
  }
  const Ps longer = whole(std::max<Fine>(end - plan.host_end, 0));
  plan.gain = recompute_time(pool, tokens_of(plan.upper), tokens_of(top)) - longer;
  if (plan.gain <= 0) return;
  plan.top = top;
  plan.store_end = end;
  plan.way = way;
}

/// Another replica in place of the store, where that gains more.
void Simulation::State::plan_move(ReplicaId id, const Request& request, Fetch& plan) {
  const PoolState& pool = pool_of(id);
  find_holders(request, front_);
  const Giver giver = giver_for(id, plan.upper);
  if (giver.id == kNobody) return;
  const double bytes = static_cast<double>(tokens_of(giver.units - plan.upper)) * pool.spec.kv_bytes_per_token;
  const Ps takes = transfers.time_to_move(giver.way, bytes, now);
  if (takes == kNever) return;
  const Ps longer = whole(std::max<Fine>(fine(now + takes) - plan.host_end, 0));
  const Ps gain = recompute_time(pool, tokens_of(plan.upper), tokens_of(giver.units)) - longer;
  if (gain <= 0 || (plan.top > plan.upper && gain <= plan.gain)) return;
  plan.top = giver.units;
  plan.gain = gain;
  plan.way = giver.way;
  plan.giver = giver.id;
}

/// What is not here sets out. PRE: the request holds its blocks.
void Simulation::State::fetch(ReplicaId id, Slot slot, const Fetch& plan) {
  Replica& replica = replicas_[id];
  Request& request = requests_[slot];
  request.load_target = tokens_of(plan.top);
  request.load_host = tokens_of(plan.upper - plan.hits);
  if (request.admitted < 0) request.admitted = now;
  replica.waiting.erase(std::ranges::find(replica.waiting, slot));
  place(request, Request::Where::loading);
  ++replica.loading;
  if (plan.upper > plan.hits) replica.channel_free = plan.host_end;
  request.load_ready = whole(plan.host_end);
  const std::size_t far = plan.top - plan.upper;
  if (far > 0 && plan.way != kNoWay) {
    const std::span<const std::uint64_t> chain(request.chain);
    if (plan.giver != kNobody) lend(plan.giver, request, chain.subspan(plan.upper, far));
    const double bytes = static_cast<double>(tokens_of(far)) * pool_of(id).spec.kv_bytes_per_token;
    request.flow = transfers.open(plan.way, bytes, Cargo::request, slot, now);
    return;
  }
  if (far > 0) {
    replica.store_free = plan.store_end;
    request.load_ready = std::max(request.load_ready, whole(plan.store_end));
  }
  push(request.load_ready, Topic::loaded, slot, request.stamp, request.id);
}

void Simulation::State::loaded(Slot slot) {
  Request& request = requests_[slot];
  Replica& replica = replicas_[request.replica];
  const std::int64_t cached = tokens_of(request.published);
  const std::int64_t far = request.load_target - cached - request.load_host;
  const bool moved = request.giver != kNobody;
  request.cached += cached;
  replica.cached_tokens += cached;
  request.loaded += request.load_host + (moved ? 0 : far);
  replica.loaded_tokens += request.load_host + (moved ? 0 : far);
  request.moved += moved ? far : 0;
  replica.moved_tokens += moved ? far : 0;
  give_back(request);
  request.computed = request.load_target;
  --replica.loading;
  publish(replica, request);
  enqueue(slot, request.replica, true);
}

/// Units of the giver stay while they are read. WHY its run ends: it counted on their blocks.
void Simulation::State::lend(ReplicaId giver, Request& request, std::span<const std::uint64_t> hashes) {
  sync(giver);
  interrupt(giver);
  Replica& replica = replicas_[giver];
  for (const std::uint64_t hash : hashes) request.lent.push_back(replica.cache.hold(hash));
  ++replica.readers;
  ++replica.turn;
  request.giver = giver;
}

void Simulation::State::give_back(Request& request) {
  if (request.giver == kNobody) return;
  const ReplicaId id = request.giver;
  request.giver = kNobody;
  sync(id);
  interrupt(id);
  for (std::size_t i = request.lent.size(); i-- > 0;) replicas_[id].cache.let_go(request.lent[i]);
  request.lent.clear();
  --replicas_[id].readers;
  touch(id);
  if_empty(id);
}

/// Its memory is lost: who was reading from it computes what was to come.
void Simulation::State::abandon(ReplicaId giver) {
  std::vector<Slot> readers;
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].giver == giver) readers.push_back(slot);
  }
  std::sort(readers.begin(), readers.end(), [this](Slot a, Slot b) { return requests_[a].id < requests_[b].id; });
  for (const Slot slot : readers) {
    Request& request = requests_[slot];
    if (request.flow != kNoFlow) transfers.close(request.flow, now);
    request.flow = kNoFlow;
    ++request.stamp;
    give_back(request);
    release(request.replica, request);
    --replicas_[request.replica].loading;
    enqueue(slot, request.replica, true);
  }
  for (ReplicaId id = 0; id < replicas_.size(); ++id) {
    if (replicas_[id].source != giver) continue;
    stop_loading(id);
    load_weights(id);
  }
}

/// A computed unit goes to the store. Over links it is there once it has been written, one batch of units after the other.
void Simulation::State::keep(Replica& replica, std::uint64_t hash) {
  if (replica.write_way == kNoWay || store_.capacity() == 0 || store_.has(hash)) return store_.put(hash);
  replica.to_write.push_back(hash);
  if (replica.write_flow == kNoFlow) write_more(static_cast<ReplicaId>(&replica - replicas_.data()));
}

void Simulation::State::write_more(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.to_write.empty()) return;
  replica.writing.swap(replica.to_write);
  const double bytes =
      static_cast<double>(tokens_of(replica.writing.size())) * pool_of(id).spec.kv_bytes_per_token;
  replica.write_flow = transfers.open(replica.write_way, bytes, Cargo::written, id, now);
}

void Simulation::State::written(ReplicaId id) {
  Replica& replica = replicas_[id];
  transfers.close(replica.write_flow, now);
  replica.write_flow = kNoFlow;
  for (const std::uint64_t hash : replica.writing) store_.put(hash);
  replica.writing.clear();
  write_more(id);
}

}  // namespace railyard::serving
