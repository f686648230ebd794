// Which replica a request goes to.
#include <algorithm>

#include "serving/state.hpp"

namespace railyard::serving {

void Simulation::State::route(Slot slot) {
  Request& request = requests_[slot];
  const ReplicaId id = choose(request, deployment_.router, front_, 0);
  if (id == kNobody) {
    place(request, Request::Where::waiting);
    backlog_.push_back(slot);
    return;
  }
  request.prefiller = id;
  request.decoder = pool_of(id).spec.role == Role::both ? id : kNobody;
  enqueue(slot, id, false);
}

void Simulation::State::route_backlog() {
  std::deque<Slot> waiting;
  waiting.swap(backlog_);
  for (const Slot slot : waiting) route(slot);
}

bool Simulation::State::less_loaded(ReplicaId a, ReplicaId b) const {
  const i128 first = doors_[a].load(), second = doors_[b].load();
  return first != second ? first < second : a < b;
}

/// WHY by one number and without branches: which replica has least is anybody's guess, and guesses cost more than all else.
ReplicaId Simulation::State::least_loaded(std::span<const ReplicaId> some) const {
  ReplicaId best = some.front();
  i128 least = doors_[best].load();
  for (const ReplicaId id : some.subspan(1)) {
    const i128 load = doors_[id].load();
    const bool less = load < least || (load == least && id < best);
    best = less ? id : best;
    least = less ? load : least;
  }
  return best;
}

/// kNobody when no replica that could hold it accepts requests.
ReplicaId Simulation::State::choose(const Request& request, const RouterSpec& router, std::span<const ReplicaId> from,
                                    std::uint64_t stream) {
  open_.clear();
  std::uint32_t pool = kNobody;  // of the replica before: those of a pool follow one another
  bool holds = false;
  for (const ReplicaId id : from) {
    const Door& door = doors_[id];
    if (door.pool != pool) {
      pool = door.pool;
      holds = fits(request, pools_[pool].spec);
    }
    if (holds && door.open) open_.push_back(id);
  }
  if (open_.empty()) return kNobody;
  const std::uint64_t draw = mix(mix(mix(options_.seed) ^ (stream + 1)) ^ static_cast<std::uint64_t>(request.id));
  switch (router.kind) {
    case RouterKind::round_robin: return open_[turn_[stream]++ % open_.size()];
    case RouterKind::random: return open_[draw % open_.size()];
    case RouterKind::two_choices: {
      const ReplicaId a = open_[draw % open_.size()], b = open_[mix(draw) % open_.size()];
      return less_loaded(b, a) ? b : a;
    }
    case RouterKind::prefix: return choose_prefix(request, router, open_);
    case RouterKind::session: {
      if (request.session < 0) return least_loaded(open_);
      // The highest of hashes of (session, replica): when a replica goes, only its own sessions move.
      const auto weight = [&](ReplicaId id) { return mix(mix(static_cast<std::uint64_t>(request.session)) ^ id); };
      return *std::max_element(open_.begin(), open_.end(), [&](ReplicaId a, ReplicaId b) { return weight(a) < weight(b); });
    }
    case RouterKind::least_loaded: break;
  }
  return least_loaded(open_);
}

/// The replica on which prefilling it costs least, queue included, with a price for each request that is there already.
ReplicaId Simulation::State::choose_prefix(const Request& request, const RouterSpec& router,
                                           std::span<const ReplicaId> from) {
  ReplicaId best = kNobody;
  double least = 0;
  if (router.move && transfers.any()) find_holders(request, from);
  for (const ReplicaId id : from) {
    const double cost = price(request, router, id, held_by(id, request));
    if (best == kNobody || cost < least) {
      best = id;
      least = cost;
    }
  }
  return best;
}

/// A prefix that comes from another replica costs as many tokens as could be computed meanwhile.
double Simulation::State::price(const Request& request, const RouterSpec& router, ReplicaId id, std::size_t own) {
  const Door& door = doors_[id];
  auto tokens = static_cast<double>(request.target() - tokens_of(own) + door.pending_tokens);
  if (router.move && transfers.any()) {
    const Giver giver = giver_for(id, own);
    const std::int64_t more = giver.id == kNobody ? 0 : tokens_of(giver.units - own);
    if (more > 0) {
      const double bytes = static_cast<double>(more) * pool_of(id).spec.kv_bytes_per_token;
      const Ps computed = recompute_time(pool_of(id), tokens_of(own), tokens_of(giver.units));
      const Ps moved = transfers.time_to_move(giver.way, bytes, now);
      if (moved < computed) {
        tokens -= static_cast<double>(more) * (1 - static_cast<double>(moved) / static_cast<double>(computed));
      }
    }
  }
  return router.prefix_weight * tokens + router.load_weight * static_cast<double>(door.requests);
}

}  // namespace railyard::serving
