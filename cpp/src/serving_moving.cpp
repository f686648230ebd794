// Keys and values travel: from prefill to decode, and up from the tiers below a replica's own memory.
#include <algorithm>

#include "serving_state.hpp"

namespace railyard::serving {

double Simulation::State::bytes_of(const Request& request) const {
  return pool_of(request.replica).spec.kv_bytes_per_token * static_cast<double>(request.computed);
}

/// Who decodes, and by which of the ways there.
void Simulation::State::choose_decoder(Request& request) {
  if (request.decoder != kNobody) return;
  request.decoder = choose(request, deployment_.decode_router, back_, 1);
  if (request.decoder != kNobody) request.turn = replicas_[request.replica].turn++;
}

std::uint32_t Simulation::State::way_of(const Request& request) const {
  return transfers.way(static_cast<std::int32_t>(request.replica), static_cast<std::int32_t>(request.decoder), request.turn);
}

/// The part that may flow while the prefill runs begins to.
void Simulation::State::open_transfer(Slot slot) {
  Request& request = requests_[slot];
  const double overlap = deployment_.transfer.overlap;
  if (overlap <= 0 || !transfers.any() || request.output - request.generated <= 1 || request.sent > 0) return;
  choose_decoder(request);
  if (request.decoder == kNobody) return;
  const double bytes = pool_of(request.replica).spec.kv_bytes_per_token * static_cast<double>(request.target());
  request.transfer_start = now;
  request.sent = overlap * bytes;
  request.flow = transfers.open(way_of(request), request.sent, slot, now);
}

/// The prefill is over: what has not been sent follows.
void Simulation::State::close_transfer(Slot slot) {
  Request& request = requests_[slot];
  if (request.where != Request::Where::sending) {
    place(request, Request::Where::sending);
    ++replicas_[request.replica].sending;
  }
  choose_decoder(request);
  if (request.decoder == kNobody) {
    stranded_.push_back(slot);
    return;
  }
  if (request.transfer_start < 0 || request.sent == 0) request.transfer_start = now;
  if (!transfers.any()) return sent(slot, 0);
  const double rest = std::max(0.0, bytes_of(request) - request.sent);
  if (request.flow != kNoFlow) return transfers.add(request.flow, rest, now);
  request.flow = transfers.open(way_of(request), rest, slot, now);
}

void Simulation::State::flow_ended(std::uint32_t flow) {
  const Slot slot = transfers.owner(flow);
  Request& request = requests_[slot];
  const auto way = transfers.way_of(flow);
  transfers.close(flow, now);
  request.flow = kNoFlow;
  if (request.where == Request::Where::sending) return sent(slot, transfers.latency(way));
  if (request.where != Request::Where::loading) return;  // the prefill still runs: the rest follows it
  push(std::max(now + transfers.latency(way), request.load_ready), Topic::loaded, slot, request.stamp, request.id);
}

/// The last byte has left: the prefill replica has its blocks again.
void Simulation::State::sent(Slot slot, Ps latency) {
  Request& request = requests_[slot];
  const ReplicaId source = request.replica;
  publish(replicas_[source], request);
  release(source, request);
  --replicas_[source].sending;
  unqueue(slot);
  touch(source);
  if_empty(source);
  push(now + latency, Topic::landed, slot, request.stamp, request.id);
}

void Simulation::State::landed(Slot slot) {
  Request& request = requests_[slot];
  const Replica::Mode mode = replicas_[request.decoder].mode;
  if (mode == Replica::Mode::down || mode == Replica::Mode::starting) return restart(slot);
  request.transfer_end = now;
  request.sent = 0;
  enqueue(slot, request.decoder, false);
}

void Simulation::State::retry_stranded() {
  std::deque<Slot> again;
  again.swap(stranded_);
  for (const Slot slot : again) close_transfer(slot);
}

/// Everything computed is lost; the tokens that have come out are not.
void Simulation::State::restart(Slot slot) {
  Request& request = requests_[slot];
  if (request.flow != kNoFlow) transfers.close(request.flow, now);
  request.flow = kNoFlow;
  request.computed = request.swapped_bytes = 0;
  request.in_flight = 0;
  request.sent = 0;
  request.tried_tiers = false;
  request.decoder = kNobody;
  ++request.stamp;
  ++request.requeued;
  place(request, Request::Where::nowhere);
  route(slot);
}

void Simulation::State::background(std::uint32_t row, bool over) {
  if (background_.size() <= row) background_.resize(row + 1, kNoFlow);
  if (over) return transfers.close(background_[row], now);
  background_[row] = transfers.open(transfers.background(row), std::numeric_limits<double>::infinity(), kNobody, now);
  push(deployment_.background.to_ps[row], Topic::background, 2 * row + 1);
}

Ps Simulation::State::recompute_time(const PoolState& pool, std::int64_t from, std::int64_t to) const {
  const std::int64_t tokens = to - from, most = pool.spec.max_batched_tokens;
  if (tokens <= 0) return 0;
  Load rest{.tokens = tokens % most, .sequences = 1};
  rest.pairs = static_cast<i128>(tokens) * from + static_cast<i128>(tokens) * (tokens + 1) / 2;
  const Fine whole_ones = pool.cost.time({.tokens = most, .sequences = 1}) * (tokens / most);
  return whole(whole_ones + pool.cost.time(rest));
}

/// Whether the request begins to load, because that is faster than to compute: what follows its `hits` in host memory, and
/// what follows that in the store. Asked once each time that it joins a queue.
bool Simulation::State::try_tiers(ReplicaId id, Slot slot, std::size_t hits) {
  Replica& replica = replicas_[id];
  Request& request = requests_[slot];
  const PoolState& pool = pool_of(id);
  if (request.tried_tiers || (replica.host.size() == 0 && store_.size() == 0)) return false;
  request.tried_tiers = true;
  const std::size_t most = std::min(request.chain.size(),
                                    static_cast<std::size_t>((request.target() - 1) / deployment_.hash_tokens));
  const auto tokens_of = [this](std::size_t units) { return static_cast<std::int64_t>(units) * deployment_.hash_tokens; };
  const auto bits = [&](std::size_t units) {
    return static_cast<double>(tokens_of(units)) * pool.spec.kv_bytes_per_token * 8;
  };
  std::size_t upper = hits;  // end of what the host has
  while (upper < most && replica.host.has(request.chain[upper])) ++upper;
  Fine host_end = std::max(fine(now), replica.channel_free);
  if (upper > hits) host_end += fine_of_seconds(bits(upper - hits) / pool.spec.swap_bps + pool.spec.host_latency_s);
  if (whole(host_end) - now >= recompute_time(pool, tokens_of(hits), tokens_of(upper))) upper = hits;
  if (upper == hits) host_end = fine(now);

  std::size_t top = upper;  // end of what the store has
  while (top < most && store_.has(request.chain[top])) ++top;
  const std::uint32_t way = transfers.any() ? transfers.way(-1, static_cast<std::int32_t>(id)) : kNoWay;
  const double rate = way == kNoWay ? deployment_.store.rate_bps : transfers.alone_bps(way);
  Fine store_end = way == kNoWay ? std::max(fine(now), replica.store_free) : fine(now);
  if (top > upper) store_end += fine_of_seconds(bits(top - upper) / rate + deployment_.store.latency_s);
  const Fine longer = std::max<Fine>(store_end - host_end, 0);
  if (whole(longer) >= recompute_time(pool, tokens_of(upper), tokens_of(top))) top = upper;
  if (top == hits) return false;

  const std::span<const std::uint64_t> held(request.chain.data(), hits);
  const std::int64_t missing =
      tokens_of(top) / pool.spec.block_tokens - static_cast<std::int64_t>(hits) * replica.cache.unit_blocks();
  if (missing > replica.cache.available() - replica.cache.idle_blocks(held)) return false;
  for (const std::uint64_t hash : held) request.units.push_back(replica.cache.hold(hash));
  take_blocks(replica, missing);
  request.blocks += missing;
  request.published = hits;
  request.cached += tokens_of(hits);
  replica.cached_tokens += tokens_of(hits);
  request.loaded += tokens_of(top - hits);
  replica.loaded_tokens += tokens_of(top - hits);
  request.load_target = tokens_of(top);
  if (request.admitted < 0) request.admitted = now;
  replica.waiting.pop_front();
  place(request, Request::Where::loading);
  ++replica.loading;
  if (upper > hits) replica.channel_free = host_end;
  request.load_ready = whole(host_end);
  if (top > upper && way != kNoWay) {
    request.flow = transfers.open(way, bits(top - upper) / 8, slot, now);
    return true;
  }
  if (top > upper) {
    replica.store_free = store_end;
    request.load_ready = std::max(request.load_ready, whole(store_end));
  }
  push(request.load_ready, Topic::loaded, slot, request.stamp, request.id);
  return true;
}

void Simulation::State::loaded(Slot slot) {
  Request& request = requests_[slot];
  Replica& replica = replicas_[request.replica];
  request.computed = request.load_target;
  --replica.loading;
  publish(replica, request);
  enqueue(slot, request.replica, true);
}

}  // namespace railyard::serving
