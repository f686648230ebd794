// How an iteration is put together, as vLLM's scheduler (v1) does it.
#include <algorithm>

#include "serving/state.hpp"

namespace railyard::serving {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

void Simulation::State::schedule(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.mode == Replica::Mode::down || replica.mode == Replica::Mode::starting) return;
  const PoolState& pool = pool_of(id);
  if (pool.spec.lockstep > 1) return schedule_together(id);
  if (replica.flight.size() >= static_cast<std::size_t>(pool.spec.cost.pipeline_stages)) return;
  if (whole(replica.clock) > now) return;  // an event will come when the first stage is free
  Batch batch = put_together(id);
  if (batch.items.empty()) {
    replica.spare.push_back(std::move(batch));
    if (replica.flight.empty()) rest(id);
  } else {
    launch(id, std::move(batch));
  }
  see_all(replica);
}

/// The next iteration of a replica; without items where there is nothing to do.
Batch Simulation::State::put_together(ReplicaId id) {
  Replica& replica = replicas_[id];
  Batch batch;
  if (!replica.spare.empty()) {
    batch = std::move(replica.spare.back());
    replica.spare.pop_back();
  }
  do {
    batch.items.clear();
    batch.load = Load{};
    batch.together = batch.joint = 0;
    form(id, batch);
    // All that ran was preempted, by what is there no more: the queue can go on at once. So it can when nothing was known
    // ahead that could run.
  } while (batch.items.empty() && replica.flight.empty() && (replica.again || see_all(replica)));
  return batch;
}

/// Those in lockstep begin when the last of them is free, those with nothing to do as well: they take part in the
/// collectives. The slowest and what the tokens of all take together is everybody's time.
void Simulation::State::schedule_together(ReplicaId id) {
  const PoolState& pool = pool_of(id);
  const auto count = static_cast<ReplicaId>(pool.spec.lockstep);
  const ReplicaId first = pool.first + (id - pool.first) / count * count;
  for (ReplicaId other = first; other < first + count; ++other) {
    if (!replicas_[other].flight.empty() || whole(replicas_[other].clock) > now) return;
  }
  side_by_side_.clear();
  Fine longest = 0, clock = fine(now);
  std::int64_t tokens = 0;
  for (ReplicaId other = first; other < first + count; ++other) {
    Replica& replica = replicas_[other];
    const Batch& batch = side_by_side_.emplace_back(put_together(other));
    const bool drafts = batch.load.decodes > 0;
    longest = std::max(longest, pool.cost.time(batch.load) + replica.extra +
                                    (drafts ? static_cast<Fine>(pool.draft) * pool.spec.draft_tokens : 0));
    tokens += batch.load.tokens;
    clock = std::max(clock, replica.clock);
  }
  const Fine together = longest + pool.cost.joint(tokens);
  for (ReplicaId other = first; other < first + count; ++other) {
    Replica& replica = replicas_[other];
    Batch& batch = side_by_side_[other - first];
    if (tokens > 0) replica.clock = clock;
    if (!batch.items.empty()) {
      batch.together = together;
      batch.joint = pool.cost.joint_network(tokens);
      launch(other, std::move(batch));
    } else if (tokens > 0) {
      replica.clock = clock + together;
    }
    see_all(replica);
  }
}

/// The schedule need not do with what was known ahead; whether it had to until now.
bool Simulation::State::see_all(Replica& replica) {
  const bool blind = replica.blind();
  replica.horizon = kNever;
  replica.freed_places = replica.freed_blocks = 0;
  return blind;
}

void Simulation::State::form(ReplicaId id, Batch& batch) {
  Replica& replica = replicas_[id];
  const PoolSpec& spec = pool_of(id).spec;
  std::int64_t budget = spec.max_batched_tokens;
  replica.again = replica.evicted = false;
  const bool decode_first = spec.policy == Policy::decode_first;
  add_running(id, batch, budget, true, decode_first);
  if (!replica.again) add_waiting(id, batch, budget);
  if (decode_first || !batch.items.empty()) return;
  const KvCache& cache = replica.cache;
  const std::int64_t kept = cache.available() - cache.blank();
  add_running(id, batch, budget, false, true);
  replica.evicted = cache.available() - cache.blank() < kept;
}

/// Tokens that the request takes of the budget when `from` are there already; 0: not in this iteration.
std::int64_t Simulation::State::wanted(const PoolSpec& pool, const Request& request, std::int64_t from,
                                       std::int64_t budget) const {
  const std::int64_t rest = request.target() - from;
  if (request.generated > 0 && rest == 1) {
    return std::min({std::int64_t{1} + pool.draft_tokens, request.output - request.generated, budget});
  }
  // WHY not what is computed anew: it can be longer than any prompt.
  return !pool.chunked && request.generated == 0 && rest > budget ? 0 : std::min(rest, budget);
}

void Simulation::State::add_running(ReplicaId id, Batch& batch, std::int64_t& budget, bool prefills, bool decodes) {
  Replica& replica = replicas_[id];
  const PoolSpec& spec = pool_of(id).spec;
  for (std::size_t place = 0; place < replica.running.size() && budget > 0; ++place) {
    const Slot slot = replica.running[place];
    const Request& request = requests_[slot];
    if (request.computed >= request.target()) continue;  // its next token is under way
    if (!(request.decodes() ? decodes : prefills)) continue;
    const std::int64_t tokens = wanted(spec, request, request.computed, budget);
    if (tokens == 0) continue;
    if (!make_room(id, place, request.computed + tokens)) break;
    add_item(id, slot, tokens, batch);
    budget -= tokens;
  }
}

/// Blocks for the request at that place among the running ones; the newest ones behind it are preempted for it, and if
/// there are none, it is preempted itself: false.
bool Simulation::State::make_room(ReplicaId id, std::size_t place, std::int64_t tokens) {
  Replica& replica = replicas_[id];
  Request& request = requests_[replica.running[place]];
  const std::int64_t missing = missing_blocks(replica, request, tokens);
  while (missing > replica.available()) {
    std::size_t victim = replica.running.size();
    while (victim > place + 1 && requests_[replica.running[victim - 1]].in_flight > 0) --victim;
    // WHY it waits for those behind it: were it to give way to them, two could take turns and neither ever get through.
    const bool itself = victim - 1 == place;
    if (itself && (request.in_flight > 0 || replica.running.size() > place + 1)) return false;
    preempt(id, victim - 1);
    if (itself) return false;
  }
  take_blocks(replica, missing);
  request.blocks += missing;
  return true;
}

std::int64_t Simulation::State::missing_blocks(const Replica& replica, const Request& request,
                                               std::int64_t tokens) const {
  const std::int64_t held =
      request.blocks + static_cast<std::int64_t>(request.units.size()) * replica.cache.unit_blocks();
  return std::max<std::int64_t>(0, divide_up(tokens, pools_[replica.pool].spec.block_tokens) - held);
}

void Simulation::State::preempt(ReplicaId id, std::size_t place_in_running) {
  Replica& replica = replicas_[id];
  const PoolSpec& spec = pool_of(id).spec;
  const Slot slot = replica.running[place_in_running];
  replica.running.erase(replica.running.begin() + static_cast<std::ptrdiff_t>(place_in_running));
  Request& request = requests_[slot];
  const auto bytes = static_cast<std::int64_t>(bytes_of(request));
  if (spec.preemption == Preemption::swap && static_cast<double>(replica.swapped_bytes + bytes) <= spec.swap_bytes) {
    request.swapped_bytes = bytes;
    replica.swapped_bytes += bytes;
    replica.extra += fine_of_seconds(static_cast<double>(bytes) * 8 / spec.swap_bps);
    release(id, request);
  } else {
    publish(replica, request);
    release(id, request);
    request.computed = 0;
  }
  request.settled = -1;
  ++request.preemptions;
  ++replica.preemptions;
  if (replica.logged) replica.given_way.push_back(request.id);
  replica.again = true;
  set_pending(request, request.decodes() ? 0 : request.target() - request.computed);
  place(request, Request::Where::waiting);
  replica.waiting.push_front(slot);
}

void Simulation::State::add_waiting(ReplicaId id, Batch& batch, std::int64_t& budget) {
  Replica& replica = replicas_[id];
  const auto most = static_cast<std::size_t>(pool_of(id).spec.max_sequences);
  const auto places = static_cast<std::size_t>(replica.freed_places);
  while (!replica.waiting.empty() && budget > 0 && replica.running.size() + places < most) {
    if (requests_[replica.waiting.front()].queued > replica.horizon) break;
    if (!admit(id, replica.waiting.front(), batch, budget)) break;
  }
}

/// The first of the queue starts to run, or to load; false: it must wait.
bool Simulation::State::admit(ReplicaId id, Slot slot, Batch& batch, std::int64_t& budget) {
  Replica& replica = replicas_[id];
  const PoolSpec& spec = pool_of(id).spec;
  Request& request = requests_[slot];
  const bool alone = replica.running.empty() && replica.flight.empty();
  std::span<const std::uint64_t> chain;
  if (request.computed == 0 && replica.cache.caches()) {
    // WHY one less: the last token must be computed for the next one to come out.
    const auto most = static_cast<std::size_t>((request.target() - 1) / deployment_.hash_tokens);
    chain = std::span(request.chain).first(std::min(most, request.chain.size()));
    const std::size_t hits = replica.cache.hits(chain);
    const Loading loading = try_tiers(id, slot, hits);
    if (loading == Loading::begun) return true;
    if (loading == Loading::no_room) return alone && reclaim(id) && admit(id, slot, batch, budget);
    chain = chain.first(hits);
  }
  std::int64_t cached = static_cast<std::int64_t>(chain.size()) * deployment_.hash_tokens;
  std::int64_t from = std::max(request.computed, cached);
  std::int64_t tokens = wanted(spec, request, from, budget);
  if (tokens == 0) return false;
  const std::int64_t shared = static_cast<std::int64_t>(chain.size()) * replica.cache.unit_blocks();
  std::int64_t missing = missing_blocks(replica, request, from + tokens) - shared;
  const auto reserve = alone ? 0 : static_cast<std::int64_t>(spec.watermark * static_cast<double>(spec.kv_blocks));
  if (missing + reserve > replica.available() - replica.cache.idle_blocks(chain)) {
    return alone && reclaim(id) && admit(id, slot, batch, budget);
  }

  for (const std::uint64_t hash : chain) request.units.push_back(replica.cache.hold(hash));
  if (request.computed == 0) {
    request.computed = from;
    request.published = chain.size();
    request.cached += cached;
    replica.cached_tokens += cached;
  }
  missing = std::max<std::int64_t>(missing, 0);
  take_blocks(replica, missing);
  request.blocks += missing;
  if (request.swapped_bytes > 0) {
    replica.swapped_bytes -= request.swapped_bytes;
    replica.extra += fine_of_seconds(static_cast<double>(request.swapped_bytes) * 8 / spec.swap_bps);
    request.swapped_bytes = 0;
  }
  replica.waiting.pop_front();
  place(request, Request::Where::running);
  replica.running.push_back(slot);
  if (request.admitted < 0) request.admitted = now;
  if (request.prefill_start < 0) request.prefill_start = now;
  if (spec.role == Role::prefill) open_transfer(slot);
  add_item(id, slot, tokens, batch, true);
  budget -= tokens;
  return true;
}

/// Takes what a request further back in the queue has loaded, so that the first one cannot wait for it for ever.
bool Simulation::State::reclaim(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.sending > 0 || replica.loading > 0) return false;  // they will give back theirs
  for (std::size_t i = replica.waiting.size(); i-- > 1;) {
    Request& request = requests_[replica.waiting[i]];
    if (request.blocks == 0 && request.units.empty()) continue;
    release(id, request);
    request.computed = 0;
    set_pending(request, request.target());
    return true;
  }
  return false;
}

void Simulation::State::add_item(ReplicaId id, Slot slot, std::int64_t tokens, Batch& batch, bool admitted) {
  Replica& replica = replicas_[id];
  Request& request = requests_[slot];
  const bool decode = request.decodes();
  const std::int64_t before = request.computed;
  request.computed += tokens;
  ++request.in_flight;
  batch.items.push_back({slot, tokens, request.computed >= request.target(), decode, admitted ? before : -1});
  batch.load.tokens += tokens;
  ++batch.load.sequences;
  set_pending(request, std::max<std::int64_t>(0, decode ? 0 : request.target() - request.computed));
  if (decode) {
    ++batch.load.decodes;
    batch.load.kv_tokens += request.computed;
    return;
  }
  batch.load.pairs += static_cast<i128>(tokens) * before + static_cast<i128>(tokens) * (tokens + 1) / 2;
  replica.input_tokens += tokens;
  publish(replica, request);
}

/// Offers the whole units that the request has computed to others.
void Simulation::State::publish(Replica& replica, Request& request) {
  if (!replica.cache.caches()) return;
  while (request.published < request.chain.size() &&
         static_cast<std::int64_t>(request.published + 1) * deployment_.hash_tokens <= request.computed) {
    const std::uint64_t hash = request.chain[request.published++];
    std::uint32_t unit = 0;
    if (!replica.cache.publish(hash, unit)) continue;
    request.units.push_back(unit);
    request.blocks -= replica.cache.unit_blocks();
    keep(replica, hash);
  }
}

/// All that the request holds on the replica. WHY from the back: the end of a prefix is worth less than its beginning.
void Simulation::State::release(ReplicaId id, Request& request) {
  Replica& replica = replicas_[id];
  for (std::size_t i = request.units.size(); i-- > 0;) replica.cache.let_go(request.units[i]);
  request.units.clear();
  replica.cache.give_back(request.blocks);
  request.blocks = 0;
  request.published = 0;
}

void Simulation::State::take_blocks(Replica& replica, std::int64_t count) {
  replica.cache.take(count, [&replica](std::uint64_t hash) { replica.host.put(hash); });
  replica.kv_peak = std::max(replica.kv_peak, replica.cache.used());
}

}  // namespace railyard::serving
