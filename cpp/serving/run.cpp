// The loop: requests come, events happen, requests leave.
#include <algorithm>
#include <stdexcept>

#include "serving/state.hpp"

namespace railyard::serving {
namespace {

constexpr std::int64_t kWatched = 512;  ///< Arrivals between two looks for overload, at least ...
constexpr int kGrown = 10;              ///< ... and looks in a row that must find the queue grown.

std::vector<std::uint64_t> acceptance_thresholds(const PoolSpec& spec) {
  std::vector<std::uint64_t> below;
  double chance = 1;
  for (std::int32_t k = 0; k < spec.draft_tokens; ++k) {
    chance *= spec.acceptance;
    below.push_back(chance >= 1 ? UINT64_MAX : static_cast<std::uint64_t>(std::ldexp(chance, 64)));
  }
  return below;
}

std::int64_t tier_capacity(double bytes, const PoolSpec& spec, std::int64_t hash_tokens) {
  const double unit = spec.kv_bytes_per_token * static_cast<double>(hash_tokens);
  return spec.prefix_cache && unit > 0 ? static_cast<std::int64_t>(std::min(bytes / unit, 4e18)) : 0;
}

}  // namespace

Simulation::State::State(const Deployment& deployment, const Options& options)
    : transfers(deployment), deployment_(deployment), options_(options), free_users_(options.users) {
  for (const PoolSpec& spec : deployment_.pools) {
    PoolState pool{.spec = spec, .cost = Cost(spec.cost, spec.max_batched_tokens, spec.lockstep), .first = 0, .end = 0,
                   .share_q32 = std::llround(std::ldexp(spec.cost.stage_share, 32)),
                   .draft = fine_of_seconds(spec.draft_s), .accept_below = acceptance_thresholds(spec), .low_since = -1};
    if (spec.role == Role::prefill) pool.spec.draft_tokens = 0;  // nothing to guess for: one token, then it travels
    pool.first = static_cast<ReplicaId>(replicas_.size());
    pool.end = pool.first + static_cast<ReplicaId>(spec.replicas);
    const std::int64_t unit = spec.prefix_cache ? deployment_.hash_tokens / spec.block_tokens : 0;
    for (ReplicaId id = pool.first; id < pool.end; ++id) {
      Replica& replica = replicas_.emplace_back();
      replica.pool = static_cast<std::uint32_t>(pools_.size());
      replica.write_way = transfers.way(static_cast<std::int32_t>(id), -1);
      replica.cache = KvCache(spec.kv_blocks, unit);
      replica.host = LruSet(tier_capacity(spec.host_kv_bytes, spec, deployment_.hash_tokens));
      const auto running = static_cast<ReplicaId>(spec.autoscale.first_replicas);
      if (spec.autoscale.on && id - pool.first >= running) replica.mode = Replica::Mode::down;
      doors_.push_back({.pool = replica.pool, .open = replica.mode == Replica::Mode::up});
      (spec.role == Role::decode ? back_ : front_).push_back(id);
    }
    if (spec.autoscale.on) {
      push(spec.autoscale.interval_ps, Topic::tick, static_cast<std::uint32_t>(pools_.size()));
    }
    const std::int64_t capacity = tier_capacity(deployment_.store.capacity_bytes, spec, deployment_.hash_tokens);
    if (capacity > 0) store_ = LruSet(capacity);
    pools_.push_back(std::move(pool));
  }
  for (const std::int32_t id : options_.logged) replicas_[static_cast<std::size_t>(id)].logged = true;
  for (std::size_t row = 0; row < deployment_.outages.replica.size(); ++row) {
    push(deployment_.outages.from_ps[row], Topic::outage, static_cast<std::uint32_t>(2 * row));
  }
  for (std::size_t row = 0; row < deployment_.background.from_ps.size(); ++row) {
    push(deployment_.background.from_ps[row], Topic::background, static_cast<std::uint32_t>(2 * row));
  }
}

void Simulation::State::push(Ps time, Topic topic, std::uint32_t target, std::uint32_t stamp) {
  push(time, topic, target, stamp, target);
}

void Simulation::State::push(Ps time, Topic topic, std::uint32_t target, std::uint32_t stamp, std::int64_t order) {
  if (time == kNever) return;
  due_.push({time, topic, target, stamp, order});
  if (topic != Topic::tick && topic != Topic::background) ++waking_;
}

void Simulation::State::run(bool last, const Poll& poll) {
  last_ = last;
  while (!overloaded && step(last)) {
    if ((events & 1023) == 0) poll(static_cast<std::uint64_t>(fed_ - active_), now);
  }
  if (last || overloaded) finish_rest();
}

/// All that happens at the next time at which something does; false when nothing will, or not before more is fed.
bool Simulation::State::step(bool last) {
  const bool arrivals = next_ < arrival_.size();
  const bool held = arrivals && options_.users > 0 && free_users_ == 0;  // until a user is free
  if (!arrivals && (!last || active_ == 0)) return false;
  if (!arrivals && waking_ == 0 && due_.empty()) return false;
  const Ps arrival = arrivals && !held ? std::max(now, arrival_[next_]) : kNever;
  const Ps event = due_.empty() ? kNever : due_.top().time;
  if (arrival == kNever && event == kNever) return false;
  // WHY not the last one fed: who is fed next may have arrived at the same time.
  if (!last && arrivals && std::min(arrival, event) >= arrival_.back()) return false;
  now = std::min(arrival, event);
  send();
  while (!due_.empty() && due_.top().time == now) {
    const Due due = due_.top();
    due_.pop();
    if (due.topic != Topic::tick && due.topic != Topic::background) --waking_;
    ++events;
    process(due);
  }
  std::sort(dirty_.begin(), dirty_.end());
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    replicas_[dirty_[i]].dirty = false;
    schedule(dirty_[i]);
  }
  dirty_.clear();
  transfers.settle(now);
  settle_contention();
  for (const Transfers::Arrival& found : transfers.arrivals()) {
    const std::uint32_t owner = transfers.owner(found.flow);
    const bool of_request = transfers.cargo(found.flow) == Cargo::request;
    push(found.due, Topic::flowed, found.flow, found.stamp, of_request ? requests_[owner].id : -1 - static_cast<std::int64_t>(owner));
  }
  transfers.arrivals().clear();
  return true;
}

/// Requests whose time has come; in a closed loop as many as there are free users.
void Simulation::State::send() {
  while (next_ < arrival_.size() && arrival_[next_] <= now && (options_.users == 0 || free_users_ > 0)) {
    if (options_.users > 0) --free_users_;
    arrive(next_++);
  }
}

void Simulation::State::process(const Due& due) {
  switch (due.topic) {
    case Topic::outage: return outage(due.target / 2, due.target % 2 == 1);
    case Topic::tick: return tick(due.target);
    case Topic::started:
      if (replicas_[due.target].stamp == due.stamp) begin_start(due.target);
      return;
    case Topic::ready:
      if (replicas_[due.target].stamp == due.stamp) start(due.target);
      return;
    case Topic::flowed:
      if (transfers.ended(due.target, due.stamp, now)) flow_ended(due.target);
      return;
    case Topic::background: return background(due.target / 2, due.target % 2 == 1);
    case Topic::landed:
      if (requests_[due.target].stamp == due.stamp) landed(due.target);
      return;
    case Topic::loaded:
      if (requests_[due.target].stamp == due.stamp) loaded(due.target);
      return;
    case Topic::iterated:
      if (replicas_[due.target].stamp == due.stamp) end_iteration(due.target);
      return;
    case Topic::entry:
      if (replicas_[due.target].stamp == due.stamp) touch(due.target);
      return;
    case Topic::rested:
      ++free_users_;
      return send();
  }
}

Slot Simulation::State::new_slot() {
  if (free_.empty()) {
    requests_.emplace_back();
    return static_cast<Slot>(requests_.size() - 1);
  }
  const Slot slot = free_.back();
  free_.pop_back();
  return slot;
}

void Simulation::State::arrive(std::size_t row) {
  ++events;
  const Slot slot = new_slot();
  Request& request = requests_[slot];
  // WHY by hand: the vectors keep their memory, and the stamp goes on.
  Request fresh;
  fresh.chain.swap(request.chain);
  fresh.units.swap(request.units);
  fresh.lent.swap(request.lent);
  fresh.stamp = request.stamp + 1;
  fresh.id = fed_ - static_cast<std::int64_t>(arrival_.size() - row);
  fresh.input = input_[row];
  fresh.output = output_[row];
  fresh.session = session_[row];
  fresh.priority = priority_[row];
  fresh.arrival = now;
  fresh.chain.assign(block_hash_.begin() + block_ptr_[row], block_hash_.begin() + block_ptr_[row + 1]);
  fresh.units.clear();
  request = std::move(fresh);
  ++active_;
  if (!fits_somewhere(request)) return leave(slot, Status::dropped);
  watch_overload();
  route(slot);
}

bool Simulation::State::fits(const Request& request, const PoolSpec& pool) const {
  // WHY one less: what the last token would write is never needed.
  const std::int64_t tokens = request.input + request.output - 1;
  if (!pool.chunked && request.input > pool.max_batched_tokens) return false;
  return (tokens + pool.block_tokens - 1) / pool.block_tokens <= pool.kv_blocks;
}

bool Simulation::State::fits_somewhere(const Request& request) const {
  bool prefills = false, decodes = back_.empty();
  for (const PoolState& pool : pools_) {
    const bool held = fits(request, pool.spec);
    (pool.spec.role == Role::decode ? decodes : prefills) |= held;
    if (held && pool.spec.role == Role::both) return true;
  }
  return prefills && decodes;
}

/// A queue that has grown at ten looks in a row, each time by at least a tenth of what arrived, and is by then ten times
/// what is being served, does not drain.
void Simulation::State::watch_overload() {
  if (!deployment_.stop_on_overload || options_.users > 0 || ++watch_arrivals_ < std::max(kWatched, waiting_ / 4)) return;
  watch_grown_ = 10 * (waiting_ - watch_waiting_) >= watch_arrivals_ ? watch_grown_ + 1 : 0;
  watch_waiting_ = waiting_;
  watch_arrivals_ = 0;
  overloaded = watch_grown_ >= kGrown && waiting_ > 10 * (active_ - waiting_);
}

void Simulation::State::place(Request& request, Request::Where where) {
  waiting_ -= request.where == Request::Where::waiting ? 1 : 0;
  waiting_ += where == Request::Where::waiting ? 1 : 0;
  request.where = where;
}

void Simulation::State::set_pending(Request& request, std::int64_t tokens) {
  if (request.replica != kNobody) doors_[request.replica].pending_tokens += tokens - request.pending;
  request.pending = tokens;
}

void Simulation::State::touch(ReplicaId id) {
  if (replicas_[id].dirty) return;
  replicas_[id].dirty = true;
  dirty_.push_back(id);
}

void Simulation::State::enqueue(Slot slot, ReplicaId id, bool front) {
  Request& request = requests_[slot];
  if (request.replica != id) {
    request.replica = id;
    ++doors_[id].requests;
  }
  set_pending(request, request.decodes() ? 0 : request.target() - request.computed);
  place(request, Request::Where::waiting);
  request.joined_queue = now;
  queue_up(id, slot, front);
  interrupt(id);
  touch(id);
}

/// The replica has the request no more; what it holds there has been given back.
void Simulation::State::unqueue(Slot slot) {
  Request& request = requests_[slot];
  if (request.replica == kNobody) return;
  set_pending(request, 0);
  --doors_[request.replica].requests;
  request.replica = kNobody;
}

void Simulation::State::leave(Slot slot, Status status) {
  Request& request = requests_[slot];
  if (request.replica != kNobody) {
    Replica& replica = replicas_[request.replica];
    publish(replica, request);
    release(request.replica, request);
    unqueue(slot);
  }
  place(request, Request::Where::nowhere);
  ++request.stamp;
  const bool done = status == Status::done;
  const auto id_of = [](ReplicaId id) { return id == kNobody ? -1 : static_cast<std::int32_t>(id); };
  finished.request.push_back(request.id);
  finished.replica.push_back(id_of(request.prefiller));
  finished.decode_replica.push_back(id_of(request.decoder));
  finished.sent_ps.push_back(request.arrival);
  finished.admitted_ps.push_back(request.admitted);
  finished.prefill_start_ps.push_back(request.prefill_start);
  finished.first_token_ps.push_back(request.first_token);
  finished.done_ps.push_back(done ? whole(request.last_token) : -1);
  finished.cached_tokens.push_back(request.cached);
  finished.loaded_tokens.push_back(request.loaded);
  finished.moved_tokens.push_back(request.moved);
  finished.preemptions.push_back(request.preemptions);
  finished.requeued.push_back(request.requeued);
  finished.transfer_start_ps.push_back(request.transfer_start);
  finished.transfer_end_ps.push_back(request.transfer_end);
  finished.network_prefill_ps.push_back(whole(request.network_prefill));
  finished.network_ps.push_back(whole(request.network));
  finished.output_tokens.push_back(request.generated);
  finished.status.push_back(static_cast<std::uint8_t>(status));
  --active_;
  free_.push_back(slot);
  if (options_.users > 0 && status != Status::unfinished) push(now + options_.think_ps, Topic::rested, 0);
}

/// Who is still there when the run ends has not been served.
void Simulation::State::finish_rest() {
  if (active_ == 0) return;
  std::vector<Slot> rest;
  std::vector<bool> idle(requests_.size());
  for (const Slot slot : free_) idle[slot] = true;
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    if (!idle[slot]) rest.push_back(slot);
  }
  for (ReplicaId id = 0; id < replicas_.size(); ++id) {
    sync(id);
    replicas_[id].flight.clear();
    replicas_[id].waiting.clear();
    replicas_[id].running.clear();
    ++replicas_[id].stamp;
  }
  std::sort(rest.begin(), rest.end(), [this](Slot a, Slot b) { return requests_[a].id < requests_[b].id; });
  for (const Slot slot : rest) {
    Request& request = requests_[slot];
    if (request.flow != kNoFlow) transfers.close(request.flow, now);
    request.flow = kNoFlow;
    give_back(request);
    leave(slot, Status::unfinished);
  }
  backlog_.clear();
}

}  // namespace railyard::serving
