// How an iteration is put together, as vLLM's scheduler (v1) does it.
#include <algorithm>
#include <tuple>

#include "serving/state.hpp"

namespace railyard::serving {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Query and key pairs of so many tokens after others.
i128 pairs(std::int64_t tokens, std::int64_t before) {
  return static_cast<i128>(tokens) * before + static_cast<i128>(tokens) * (tokens + 1) / 2;
}

}  // namespace

void Simulation::State::schedule(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.mode == Replica::Mode::down || replica.mode == Replica::Mode::starting) return;
  const PoolState& pool = pool_of(id);
  if (pool.spec.lockstep > 1) return schedule_together(id);
  if (replica.flight.size() >= static_cast<std::size_t>(pool.spec.cost.pipeline_stages)) return;
  if (whole(replica.clock) > now) return;  // an event will come when the first stage is free
  Batch batch = put_together(id);
  if (batch.empty()) {
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
  bool more = true;
  while (more) {
    batch.items.clear();
    batch.ended.clear();
    batch.load = Load{};
    batch.together = batch.joint = 0;
    form(id, batch);
    const auto taking = [this](Slot slot) { return requests_[slot].taking > 0; };
    const auto first = replica.waiting.begin();
    const bool comes = std::any_of(first, first + static_cast<std::ptrdiff_t>(holders(replica)), taking);
    // All that ran was preempted, by what is there no more: the queue can go on at once. So it can when nothing was known
    // ahead that could run, and when a cache that has come is all that it waits for.
    more = batch.empty() && replica.flight.empty() && (see_all(replica) || replica.again || comes);
  }
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
    if (!batch.empty()) {
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
  const std::size_t count = holders(replica);
  for (std::size_t i = 0; i < count; ++i) {
    Request& request = requests_[replica.waiting[i]];
    request.taking = std::max(0, request.taking - 1);
  }
  const bool decode_first = spec.policy == Policy::decode_first;
  add_running(id, batch, budget, true, decode_first);
  if (!replica.again) add_waiting(id, batch, budget);
  if (decode_first || !batch.items.empty()) return replica.ended.clear();
  const KvCache& cache = replica.cache;
  const std::int64_t kept = cache.available() - cache.blank();
  add_running(id, batch, budget, false, true);
  replica.ended.clear();
  replica.evicted = cache.available() - cache.blank() < kept;
}

/// Whether there is at most one request that runs or waits, as far as is known.
bool Simulation::State::alone(const Replica& replica) const {
  std::size_t known = replica.running.size() + static_cast<std::size_t>(replica.freed_places);
  for (auto slot = replica.waiting.begin(); known < 2 && slot != replica.waiting.end(); ++slot) {
    known += requests_[*slot].joined_queue <= replica.horizon ? 1 : 0;
  }
  return known < 2;
}

/// Tokens that a running request takes of the budget when `from` are there already.
std::int64_t Simulation::State::wanted(ReplicaId id, const Request& request, std::int64_t from, std::int64_t budget) const {
  const PoolSpec& pool = pool_of(id).spec;
  std::int64_t rest = request.target() - from;
  // WHY not fewer guesses where fewer tokens are left of the answer: the drafter does not look at that.
  if (request.decodes() && !request.chunk) rest = std::min(1 + std::int64_t{pool.draft_tokens}, pool.kv_blocks * pool.block_tokens - from);
  if (pool.prompt_tokens > 0 && pool.prompt_tokens < rest && !alone(replicas_[id])) rest = pool.prompt_tokens;
  return std::min(rest, budget);
}

/// The same of a request that is admitted; 0: not in this iteration.
std::int64_t Simulation::State::wanted_at_first(ReplicaId id, const Request& request, const Batch& batch, std::int64_t from,
                                                std::int64_t budget) const {
  const PoolSpec& pool = pool_of(id).spec;
  const std::int64_t rest = request.target() - from;
  if (rest == 1 && pool.draft_tokens > 0) {
    // An iteration of decodes stays one of equal lengths: the request brings guesses that nobody made.
    const auto prefills = [](const Item& item) { return item.admitted < 0 && !item.decode; };
    const bool uniform = std::ranges::none_of(batch.items, prefills);
    const bool room = from + 1 + pool.draft_tokens <= pool.kv_blocks * pool.block_tokens;
    if (!room || !uniform || (from == 0 && batch.items.empty())) return 1;
    return pool.draft_tokens < budget ? 1 + pool.draft_tokens : 0;
  }
  const bool limited = pool.prompt_tokens > 0 && pool.prompt_tokens < rest && !alone(replicas_[id]);
  const std::int64_t some = limited ? pool.prompt_tokens : rest;
  // WHY not what never fits: what is computed anew can be longer than any prompt.
  return !pool.chunked && some > budget && some <= pool.max_batched_tokens ? 0 : std::min(some, budget);
}

void Simulation::State::add_running(ReplicaId id, Batch& batch, std::int64_t& budget, bool prefills, bool decodes) {
  Replica& replica = replicas_[id];
  for (std::size_t place = 0; place < replica.running.size() && budget > 0; ++place) {
    if (decodes) add_ended(id, place, batch, budget);
    if (budget == 0) break;
    const Slot slot = replica.running[place];
    const Request& request = requests_[slot];
    if (request.computed >= request.target()) continue;  // its next token is under way
    if (!(request.decodes() ? decodes : prefills)) continue;
    const std::int64_t tokens = wanted(id, request, request.computed, budget);
    // WHY with what was refused: a schedule made ahead does not know it yet.
    const std::int64_t refused = replica.blind() && request.iterated == replica.last_end ? request.refused : 0;
    if (!make_room(id, place, request.computed + refused + tokens, batch, budget)) {
      if (pool_of(id).spec.by_priority && request.where == Request::Where::waiting) continue;  // others go before it
      return;
    }
    add_item(id, slot, tokens, batch);
    budget -= tokens;
  }
  if (decodes) add_ended(id, replica.running.size(), batch, budget);
}

/// Those at that place that have ended without its being known: computed once more, for nothing. Their blocks are not free yet.
void Simulation::State::add_ended(ReplicaId id, std::size_t place, Batch& batch, std::int64_t& budget) {
  Replica& replica = replicas_[id];
  const PoolSpec& spec = pool_of(id).spec;
  for (Ended& one : replica.ended) {
    if (one.place != place || one.tokens > 0 || budget == 0) continue;
    const bool limited = spec.prompt_tokens > 0 && !alone(replica);
    one.tokens = std::min({1 + std::int64_t{spec.draft_tokens}, budget, limited ? spec.prompt_tokens : budget});
    const std::int64_t missing = divide_up(one.computed + one.tokens, spec.block_tokens) - one.blocks;
    if (missing > replica.available()) continue;
    replica.freed_blocks += std::max<std::int64_t>(0, missing);
    budget -= one.tokens;
    batch.ended.push_back(one);
    batch.load.tokens += one.tokens;
    batch.load.kv_tokens += one.computed + one.tokens;
    ++batch.load.sequences;
    ++batch.load.decodes;
  }
}

/// Who gives way to the request at that place: the newest that is not in an iteration under way, or of a pool with
/// priorities the last in their order. With nobody behind it, itself.
std::size_t Simulation::State::victim(const Replica& replica, std::size_t place, const Batch& batch) const {
  std::size_t last = replica.running.size();
  if (!pools_[replica.pool].spec.by_priority) {
    while (last > place + 1 && requests_[replica.running[last - 1]].in_flight > 0) --last;
    return last - 1;
  }
  for (std::size_t i = 0; i < replica.running.size(); ++i) {
    const Request& one = requests_[replica.running[i]];
    const bool here = i < place && std::ranges::find(batch.items, replica.running[i], &Item::slot) != batch.items.end();
    if (one.in_flight > (here ? 1 : 0)) continue;
    if (last == replica.running.size() || goes_before(requests_[replica.running[last]], one)) last = i;
  }
  return last == replica.running.size() ? place : last;
}

/// Blocks for the request at that place among the running ones; others are preempted for it, and in the end it itself:
/// false. The place moves with the request.
bool Simulation::State::make_room(ReplicaId id, std::size_t& place, std::int64_t tokens, Batch& batch, std::int64_t& budget) {
  Replica& replica = replicas_[id];
  const Slot slot = replica.running[place];
  Request& request = requests_[slot];
  const std::int64_t missing = missing_blocks(replica, request, tokens);
  while (missing > replica.available()) {
    const std::size_t last = victim(replica, place, batch);
    if (busy(replica, requests_[replica.running[last]])) return false;
    const bool itself = last == place;
    // WHY it waits for those behind it: were it to give way to them, two could take turns and neither ever get through.
    const bool others = !pool_of(id).spec.by_priority && replica.running.size() > place + 1;
    if (itself && (request.in_flight > 0 || others)) return false;
    if (last < place) take_back(replica.running[last], batch, budget);
    preempt(id, last);
    if (last <= place) --place;
    if (itself) return false;
  }
  take_blocks(replica, missing);
  request.blocks += missing;
  return true;
}

/// Whether its blocks cannot come free at once: an iteration made ahead still writes them, and where caches come from elsewhere
/// nothing orders that before what would come into them.
bool Simulation::State::busy(const Replica& replica, const Request& request) const {
  const PoolSpec& spec = pools_[replica.pool].spec;
  return spec.ahead && spec.role == Role::decode && replica.blind() && request.iterated == replica.last_end;
}

/// A request that gives way after it was put into the iteration leaves it.
void Simulation::State::take_back(Slot slot, Batch& batch, std::int64_t& budget) {
  const auto item = std::ranges::find(batch.items, slot, &Item::slot);
  if (item == batch.items.end()) return;
  Request& request = requests_[slot];
  budget += item->tokens;
  batch.load.tokens -= item->tokens;
  --batch.load.sequences;
  --request.in_flight;
  if (item->decode) {
    --batch.load.decodes;
    batch.load.kv_tokens -= request.computed;
  } else {
    batch.load.pairs -= pairs(item->tokens, request.computed - item->tokens);
    replicas_[request.replica].input_tokens -= item->tokens - item->guesses;
  }
  request.computed -= item->tokens;
  batch.items.erase(item);
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
    publish(replica, request, late(replica, request));
    release(id, request);
    request.computed = 0;
  }
  request.settled = -1;
  ++request.preemptions;
  ++replica.preemptions;
  if (replica.logged) replica.given_way.push_back(request.id);
  replica.again = true;
  set_pending(request, request.decodes() ? 0 : request.target() - request.computed);
  request.chunk = false;
  place(request, Request::Where::waiting);
  queue_up(id, slot, true);
}

/// Who runs first where priorities count.
bool Simulation::State::goes_before(const Request& a, const Request& b) const {
  return std::tie(a.priority, a.arrival, a.id) < std::tie(b.priority, b.arrival, b.id);
}

void Simulation::State::queue_up(ReplicaId id, Slot slot, bool front) {
  std::deque<Slot>& waiting = replicas_[id].waiting;
  const auto first = waiting.begin() + static_cast<std::ptrdiff_t>(holders(replicas_[id]));
  auto at = front ? first : waiting.end();
  if (pool_of(id).spec.by_priority) {
    const auto before = [this](Slot a, Slot b) { return goes_before(requests_[a], requests_[b]); };
    at = std::upper_bound(first, waiting.end(), slot, before);
  }
  waiting.insert(at, slot);
}

void Simulation::State::add_waiting(ReplicaId id, Batch& batch, std::int64_t& budget) {
  Replica& replica = replicas_[id];
  const auto most = static_cast<std::size_t>(pool_of(id).spec.max_sequences);
  const auto places = static_cast<std::size_t>(replica.freed_places);
  std::size_t at = 0;
  while (at < replica.waiting.size() && budget > 0 && replica.running.size() + places < most) {
    const Request& request = requests_[replica.waiting[at]];
    const bool unseen = request.joined_queue > replica.horizon;
    if (request.taking > 0 || (unseen && pool_of(id).spec.by_priority)) {
      ++at;  // others can go before it
    } else if (unseen || !(request.arrived ? take_arrived(id, at) : admit(id, at, batch, budget))) {
      break;
    }
  }
}

/// Requests in front of the queue that have blocks for a cache that came from elsewhere.
std::size_t Simulation::State::holders(const Replica& replica) const {
  const auto holds = [this](Slot slot) { return requests_[slot].taking >= 0; };
  return static_cast<std::size_t>(std::ranges::find_if_not(replica.waiting, holds) - replica.waiting.begin());
}

/// Blocks that admission leaves free while something runs.
std::int64_t Simulation::State::reserve(const Replica& replica) const {
  const PoolSpec& spec = pools_[replica.pool].spec;
  if (replica.running.empty() && replica.flight.empty()) return 0;
  return static_cast<std::int64_t>(spec.watermark * static_cast<double>(spec.kv_blocks));
}

/// A request whose cache comes from a prefill elsewhere gets blocks for it, what prefills here still need and a step of
/// guesses left free. As in vLLM it takes part in iterations once the schedule after that has seen that the cache is there.
/// False: it must wait.
bool Simulation::State::take_arrived(ReplicaId id, std::size_t at) {
  Replica& replica = replicas_[id];
  Request& request = requests_[replica.waiting[at]];
  const PoolSpec& spec = pool_of(id).spec;
  const std::span<const std::uint64_t> chain = std::span(request.chain).first(held_by(id, request));
  const std::int64_t shared = static_cast<std::int64_t>(chain.size()) * replica.cache.unit_blocks();
  const std::int64_t missing = missing_blocks(replica, request, request.target()) - shared;
  std::int64_t left = reserve(replica);
  const bool others = !replica.running.empty() || !replica.flight.empty() || holders(replica) > 0;
  if (others && spec.draft_tokens > 0) left += divide_up(1 + spec.draft_tokens, spec.block_tokens);
  for (const Slot slot : replica.running) {
    if (requests_[slot].chunk) left += missing_blocks(replica, requests_[slot], requests_[slot].target());
  }
  if (missing + left > replica.available() - replica.cache.idle_blocks(chain)) return false;
  for (const std::uint64_t hash : chain) request.units.push_back(replica.cache.hold(hash));
  request.published = chain.size();
  take_blocks(replica, missing);
  request.blocks += missing;
  const auto first = replica.waiting.begin();
  const auto held = static_cast<std::ptrdiff_t>(holders(replica)), from = static_cast<std::ptrdiff_t>(at);
  std::rotate(first + held, first + from, first + from + 1);
  request.arrived = false;
  request.taking = spec.ahead ? 2 : 1;
  return true;
}

/// One of the queue starts to run, or to load; false: it must wait.
bool Simulation::State::admit(ReplicaId id, std::size_t at, Batch& batch, std::int64_t& budget) {
  Replica& replica = replicas_[id];
  const PoolSpec& spec = pool_of(id).spec;
  const Slot slot = replica.waiting[at];
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
    if (loading == Loading::no_room) return alone && reclaim(id) && admit(id, at, batch, budget);
    chain = chain.first(hits);
  }
  const std::int64_t cached = static_cast<std::int64_t>(chain.size()) * deployment_.hash_tokens;
  const std::int64_t from = std::max(request.computed, cached);
  const std::int64_t tokens = wanted_at_first(id, request, batch, from, budget);
  if (tokens == 0) return false;
  const std::int64_t shared = static_cast<std::int64_t>(chain.size()) * replica.cache.unit_blocks();
  std::int64_t missing = missing_blocks(replica, request, from + tokens) - shared;
  // WHY all of it: were only its first chunk to fit, it would be preempted before it is through.
  const std::int64_t all = missing_blocks(replica, request, request.target()) - shared;
  if (std::max(missing, all) + reserve(replica) > replica.available() - replica.cache.idle_blocks(chain)) {
    return alone && reclaim(id) && admit(id, at, batch, budget);
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
  replica.waiting.erase(replica.waiting.begin() + static_cast<std::ptrdiff_t>(at));
  request.taking = -1;
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
  if (holders(replica) > 0 && requests_[replica.waiting.front()].taking > 0) return false;
  for (std::size_t i = replica.waiting.size(); i-- > 1;) {
    Request& request = requests_[replica.waiting[i]];
    if (request.blocks == 0 && request.units.empty()) continue;
    release(id, request);
    request.computed = 0;
    request.taking = -1;
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
  request.chunk = request.computed < request.target();
  ++request.in_flight;
  batch.items.push_back({slot, tokens, !request.chunk, decode, std::max<std::int64_t>(0, request.computed - request.target()),
                         admitted ? before : -1});
  publish(replica, request, late(replica, request));
  batch.load.tokens += tokens;
  ++batch.load.sequences;
  set_pending(request, std::max<std::int64_t>(0, decode ? 0 : request.target() - request.computed));
  if (decode) {
    ++batch.load.decodes;
    batch.load.kv_tokens += request.computed;
    return;
  }
  batch.load.pairs += pairs(tokens, before);
  replica.input_tokens += tokens - batch.items.back().guesses;
}

/// Of the request's tokens, those that a schedule made ahead does not know yet.
std::int64_t Simulation::State::late(const Replica& replica, const Request& request) const {
  return replica.blind() && request.iterated == replica.last_end ? request.emitted : 0;
}

/// Offers the whole units that the request has computed to others, of known tokens: neither guesses nor the last `late`.
void Simulation::State::publish(Replica& replica, Request& request, std::int64_t late) {
  if (!replica.cache.caches()) return;
  const std::int64_t known = std::min(request.computed, request.target() - late);
  while (request.published < request.chain.size() &&
         static_cast<std::int64_t>(request.published + 1) * deployment_.hash_tokens <= known) {
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
