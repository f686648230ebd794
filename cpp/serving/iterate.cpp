// Iterations, and runs of iterations that are alike, begin and end.
#include <algorithm>
#include <utility>

#include "serving/state.hpp"

namespace railyard::serving {
namespace {

Load later(const Load& load, std::int64_t iterations) {
  Load found = load;
  found.kv_tokens += load.decodes * iterations;
  return found;
}

}  // namespace

void Simulation::State::launch(ReplicaId id, Batch&& batch) {
  Replica& replica = replicas_[id];
  const PoolState& pool = pool_of(id);
  batch.start = std::max(fine(now), replica.clock);
  batch.applied = 0;
  batch.given_way = std::exchange(replica.given_way, {});
  batch.repeats = run_length(replica, batch);
  batch.slower = batch.slower_now = batch.slower_last = slower(id, batch.load.tokens);
  Fine time = pool.cost.run_time(batch.load, batch.repeats);
  if (batch.load.decodes == 0) time = pool.cost.time(batch.load);
  batch.other = replica.extra;
  if (batch.load.decodes > 0) batch.other += static_cast<Fine>(pool.draft) * pool.spec.draft_tokens;
  replica.extra = 0;
  time += batch.other + batch.slower * batch.repeats;
  if (batch.together > 0) time = batch.together;
  batch.end = batch.start + time;
  replica.clock = batch.end;
  if (pool.spec.cost.pipeline_stages > 1) {
    batch.slowest = (time * pool.share_q32) >> 32;
    batch.end = std::max(batch.end, replica.last_end + batch.slowest);
    replica.clock = batch.start + batch.slowest;
    push(whole(replica.clock), Topic::entry, id, replica.stamp);
  }
  replica.last_end = batch.end;
  push(whole(batch.end), Topic::iterated, id, replica.stamp);
  if (transfers.has_own(id)) ask(id, batch, pool.cost.time(batch.load) + batch.slower);
  replica.flight.push_back(std::move(batch));
}

/// How many iterations from this one on will be alike: all of decodes only, until the first of them is done or blocks run
/// out. Whoever waits now waits until then, because nothing that it lacks comes free before; an eviction could change
/// that (of its own prefix, say, of which it then wants less), so that with somebody waiting a run ends in front of one.
std::int64_t Simulation::State::run_length(const Replica& replica, const Batch& batch) const {
  const PoolSpec& spec = pools_[replica.pool].spec;
  if (!options_.skip_runs || replica.again || replica.extra > 0 || spec.draft_tokens > 0 || spec.lockstep > 1) return 1;
  if (learns(replica) || holders(replica) > 0) return 1;
  if (spec.cost.pipeline_stages > 1 || batch.load.decodes != static_cast<std::int64_t>(replica.running.size())) return 1;
  if (batch.load.sequences != batch.load.decodes || spec.role == Role::prefill) return 1;  // one token, then it travels
  std::int64_t length = std::numeric_limits<std::int64_t>::max();
  for (const Item& item : batch.items) {
    const Request& request = requests_[item.slot];
    length = std::min(length, request.output - request.generated);
    // Whoever waits may want less once a unit of an answer is there; other replicas find it in the store at once.
    if (!replica.waiting.empty() || store_.capacity() > 0) length = std::min(length, until_published(replica, request));
  }
  return run_within_blocks(replica, batch, length);
}

/// Iterations until a decode completes the next unit of its chain, of which one completes it now when that is 0.
std::int64_t Simulation::State::until_published(const Replica& replica, const Request& request) const {
  if (!replica.cache.caches() || request.published >= request.chain.size()) return std::numeric_limits<std::int64_t>::max();
  return tokens_of(request.published + 1) + (pools_[replica.pool].spec.ahead ? 1 : 0) - request.computed;
}

/// The iteration after this one can admit whom this one could not: it knows more than was known ahead, or tiers hold less.
bool Simulation::State::learns(const Replica& replica) const {
  if (replica.waiting.empty()) return false;
  const Request& first = requests_[replica.waiting.front()];
  if (replica.evicted || replica.freed_places > 0 || replica.freed_blocks > 0) return true;
  const bool ordered = pools_[replica.pool].spec.by_priority;  // whoever came last may be anywhere
  const auto unseen = [&](Slot slot) { return requests_[slot].joined_queue > replica.horizon; };
  if (ordered ? std::ranges::any_of(replica.waiting, unseen) : unseen(replica.waiting.front())) return true;
  const auto places = static_cast<std::size_t>(pools_[replica.pool].spec.max_sequences);
  return replica.running.size() < places && first.settled < 0 && asks_tiers(replica, first);
}

std::int64_t Simulation::State::run_within_blocks(const Replica& replica, const Batch& batch,
                                                  std::int64_t limit) const {
  const std::int64_t block = pools_[replica.pool].spec.block_tokens;
  const std::int64_t available = replica.waiting.empty() ? replica.cache.available() : replica.cache.blank();
  if (batch.load.decodes * ((limit - 1) / block + 1) <= available) return limit;
  std::int64_t low = 1, high = limit;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    std::int64_t missing = 0;
    for (const Item& item : batch.items) {
      const Request& request = requests_[item.slot];
      missing += missing_blocks(replica, request, request.computed + middle - 1);
    }
    if (missing <= available) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Fine Simulation::State::end_of(const Replica& replica, const Batch& batch, std::int64_t count) const {
  if (count == batch.repeats) return batch.end;
  return batch.start + pools_[replica.pool].cost.run_time(batch.load, count) + batch.slower * count;
}

/// Iterations of the run that ended before now. WHY before: at one time, what comes from outside comes first.
std::int64_t Simulation::State::ended_iterations(const Replica& replica, const Batch& batch) const {
  return pools_[replica.pool].cost.run_within(batch.load, fine(now) - batch.start, batch.repeats - 1,
                                               batch.slower);
}

/// Something has come: the run ends with the iteration that is under way.
void Simulation::State::interrupt(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.flight.empty() || replica.flight.front().repeats == 1) return;
  Batch& batch = replica.flight.front();
  const std::int64_t repeats = std::max(ended_iterations(replica, batch), batch.applied) + 1;
  if (repeats == batch.repeats) return;
  batch.end = end_of(replica, batch, repeats);
  batch.repeats = repeats;
  replica.clock = replica.last_end = batch.end;
  push(whole(batch.end), Topic::iterated, id, ++replica.stamp);
}

/// Writes what has happened until now into the requests, for somebody who wants to see the cache.
void Simulation::State::sync(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.flight.empty() || replica.flight.front().repeats == 1) return;
  Batch& batch = replica.flight.front();
  const std::int64_t ended = ended_iterations(replica, batch);
  if (ended > batch.applied) advance(id, batch, ended - batch.applied);
}

/// `count` iterations of the run are over; it is not over with them.
void Simulation::State::advance(ReplicaId id, Batch& batch, std::int64_t count) {
  Replica& replica = replicas_[id];
  const Cost& cost = pool_of(id).cost;
  const Fine network = (cost.network(batch.load.tokens) + batch.slower) * count;
  const Fine end = end_of(replica, batch, batch.applied + count);
  if (batch.applied == 0) {
    const Fine first = end_of(replica, batch, 1);
    for (const Item& item : batch.items) gaps.add(whole(first - requests_[item.slot].last_token), 1);
  }
  count_run_gaps(cost, batch, std::max<std::int64_t>(batch.applied, 1), batch.applied + count);
  account(id, batch, count);
  for (std::int64_t done = 0; done < count;) done += decode_more(replica, batch, count - done);
  for (const Item& item : batch.items) {
    requests_[item.slot].network += network;
    requests_[item.slot].last_token = end;
  }
  batch.applied += count;
}

/// Up to so many iterations of decodes at once; how many. WHY one by one where a unit is completed: what is there already
/// depends on who comes first, and on what was evicted before.
std::int64_t Simulation::State::decode_more(Replica& replica, const Batch& batch, std::int64_t count) {
  for (const Item& item : batch.items) {
    count = std::min(count, std::max<std::int64_t>(1, until_published(replica, requests_[item.slot]) - 1));
  }
  for (const Item& item : batch.items) {
    Request& request = requests_[item.slot];
    request.generated += count;
    request.computed += count;
    const std::int64_t missing = std::max<std::int64_t>(0, missing_blocks(replica, request, request.computed));
    take_blocks(replica, missing);
    request.blocks += missing;
    publish(replica, request, pools_[replica.pool].spec.ahead ? 1 : 0);
  }
  return count;
}

/// Iterations from..to of the run: each took longer than the one before, so equal bins lie together.
void Simulation::State::count_run_gaps(const Cost& cost, const Batch& batch, std::int64_t from, std::int64_t to) {
  const auto gap = [&](std::int64_t k) { return whole(cost.time(later(batch.load, k)) + batch.slower); };
  while (from < to) {
    const std::size_t bin = Gaps::bin(gap(from));
    std::int64_t low = from, high = to - 1;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (Gaps::bin(gap(middle)) == bin) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    gaps.add(gap(from), (low + 1 - from) * batch.load.decodes);
    from = low + 1;
  }
}

/// Totals of the next `count` iterations.
void Simulation::State::account(ReplicaId id, Batch& batch, std::int64_t count) {
  Replica& replica = replicas_[id];
  const PoolState& pool = pool_of(id);
  const std::int64_t done = batch.applied;
  const Fine begin = done == 0 ? batch.start : end_of(replica, batch, done);
  const Fine end = end_of(replica, batch, done + count);
  replica.busy += pool.spec.cost.pipeline_stages > 1 ? batch.slowest : end - begin;
  replica.iterations += count;
  replica.slowed += batch.slower * count + (done + count == batch.repeats ? batch.slower_last - batch.slower : 0);
  replica.tokens += batch.load.tokens * count;
  replica.output_tokens += done + count < batch.repeats ? batch.load.decodes * count : 0;
  replica.kv_tokens += static_cast<i128>(batch.load.kv_tokens + batch.load.decodes * done) * count +
                       static_cast<i128>(batch.load.decodes) * count * (count - 1) / 2;
  replica.pairs += batch.load.pairs * count;
  if (replica.logged) log(id, batch, begin, end, count);
}

void Simulation::State::log(ReplicaId id, const Batch& batch, Fine begin, Fine end, std::int64_t count) {
  const auto add = [this, row = static_cast<std::int64_t>(iteration_log.replica.size())](
                       std::int64_t request, std::int64_t tokens, std::int64_t admitted) {
    iteration_log.item_iteration.push_back(row);
    iteration_log.item_request.push_back(request);
    iteration_log.item_tokens.push_back(tokens);
    iteration_log.item_admitted.push_back(admitted);
  };
  const bool first = batch.applied == 0;
  if (first) {
    for (const std::int64_t request : batch.given_way) add(request, 0, -1);
  }
  for (const Item& item : batch.items) add(requests_[item.slot].id, item.tokens, first ? item.admitted : -1);
  for (const Ended& one : batch.ended) add(one.request, one.tokens, -1);
  iteration_log.replica.push_back(static_cast<std::int32_t>(id));
  iteration_log.start_ps.push_back(whole(begin));
  iteration_log.end_ps.push_back(whole(end));
  iteration_log.count.push_back(count);
  iteration_log.tokens.push_back(batch.load.tokens);
  iteration_log.decodes.push_back(batch.load.decodes);
  iteration_log.kv_tokens.push_back(batch.load.kv_tokens + batch.load.decodes * batch.applied);
}

void Simulation::State::end_iteration(ReplicaId id) {
  Replica& replica = replicas_[id];
  Batch batch = std::move(replica.flight.front());
  replica.flight.erase(replica.flight.begin());
  const std::int64_t rest = batch.repeats - batch.applied;
  if (rest > 1) advance(id, batch, rest - 1);
  account(id, batch, 1);
  const auto places = static_cast<std::int64_t>(replica.running.size());
  const std::int64_t blocks = replica.cache.available();
  for (const Item& item : batch.items) {
    --requests_[item.slot].in_flight;
    emit(id, batch, item);
  }
  for (Ended& one : replica.ended) {
    const auto runs_on = [this](Slot slot) { return requests_[slot].where == Request::Where::running; };
    const auto end = std::ranges::find(replica.running, one.request, [this](Slot slot) { return requests_[slot].id; });
    one.place = static_cast<std::size_t>(std::count_if(replica.running.begin(), end, runs_on));
  }
  std::erase_if(replica.running, [this, id](Slot slot) {
    return requests_[slot].where != Request::Where::running || requests_[slot].replica != id;
  });
  if (pool_of(id).spec.ahead) {
    replica.horizon = whole(batch.applied == 0 ? batch.start : end_of(replica, batch, batch.applied));
    replica.freed_places = places - static_cast<std::int64_t>(replica.running.size());
    replica.freed_blocks = replica.cache.available() - blocks;
  }
  replica.spare.push_back(std::move(batch));
  touch(id);
  if_empty(id);
}

/// Its collectives that nothing hides, for a request in it. WHY only a part where the chunk before is still under way, in a
/// later stage: of the time that the request waits, this iteration adds no more than from that one's end to its own.
Fine Simulation::State::network_of(const PoolState& pool, const Request& request, const Batch& batch) const {
  const Fine network = pool.cost.network(batch.load.tokens) + batch.joint + batch.slower_last;
  if (pool.spec.cost.pipeline_stages == 1 || request.iterated <= batch.start) return network;
  return network * (batch.end - request.iterated) / (batch.end - batch.start);
}

/// What comes out of an iteration for one request.
void Simulation::State::emit(ReplicaId id, const Batch& batch, const Item& item) {
  const PoolState& pool = pool_of(id);
  Request& request = requests_[item.slot];
  request.network += network_of(pool, request, batch);
  request.iterated = batch.end;
  request.emitted = request.refused = 0;
  if (!item.emits) return;
  std::int64_t tokens = 1;
  if (item.guesses > 0) {
    // Those that came with its admission were made by nobody. WHY no more than are left: the answer ends there.
    if (item.admitted < 0) tokens += accepted(pool, request, item);
    request.refused = 1 + item.guesses - tokens;
    tokens = std::min(tokens, request.output - request.generated);
    if (pool.spec.ahead && tokens > 1 && tokens == request.output - request.generated) {
      const std::int64_t blocks = request.blocks + static_cast<std::int64_t>(request.units.size()) * replicas_[id].cache.unit_blocks();
      replicas_[id].ended.push_back({.request = request.id, .place = 0, .computed = request.computed, .blocks = blocks});
    }
    request.computed += tokens - 1 - item.guesses;
  }
  request.emitted = tokens;
  request.generated += tokens;
  replicas_[id].output_tokens += tokens;
  if (request.first_token < 0) {
    request.first_token = whole(batch.end);
    request.network_prefill = request.network;
  } else {
    gaps.add(whole(batch.end - request.last_token), 1);
    if (tokens > 1) gaps.add(0, tokens - 1);
  }
  request.last_token = batch.end;
  if (request.generated >= request.output) return leave(item.slot, Status::done);
  if (pool.spec.role == Role::prefill) close_transfer(item.slot);
}

/// Draft tokens accepted before the first refusal. WHY a hash of request and place: nothing else shifts the draw.
std::int64_t Simulation::State::accepted(const PoolState& pool, const Request& request, const Item& item) const {
  const std::uint64_t key = mix(mix(options_.seed ^ 0x64726166u) ^ static_cast<std::uint64_t>(request.id));
  const std::uint64_t draw = mix(key ^ static_cast<std::uint64_t>(request.generated));
  std::int64_t count = 0;
  while (count < item.guesses && draw < pool.accept_below[static_cast<std::size_t>(count)]) ++count;
  return count;
}

}  // namespace railyard::serving
