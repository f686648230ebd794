// Replicas come and go: failures, updates, autoscaling.
#include <algorithm>
#include <cmath>

#include "serving/state.hpp"

namespace railyard::serving {

void Simulation::State::set_mode(ReplicaId id, Replica::Mode mode) {
  Replica& replica = replicas_[id];
  if (replica.mode != Replica::Mode::down) replica.up_ps += now - replica.mode_since;
  replica.mode = mode;
  doors_[id].open = mode == Replica::Mode::up;
  replica.mode_since = now;
}

void Simulation::State::outage(std::uint32_t row, bool back) {
  const auto id = static_cast<ReplicaId>(deployment_.outages.replica[row]);
  Replica& replica = replicas_[id];
  const Ps from = deployment_.outages.from_ps[row], to = deployment_.outages.to_ps[row];
  if (back) {
    if (!replica.returns || now < replica.down_until) return;
    replica.load = load_of(row);
    return begin_start(id);
  }
  if (deployment_.outages.drain[row] != 0) {
    if (replica.mode != Replica::Mode::up) return;
    replica.away = to == kNever ? kNever : to - from;
    replica.load = load_of(row);
    set_mode(id, Replica::Mode::draining);
    return if_empty(id);
  }
  replica.down_until = std::max(replica.down_until, to);
  push(replica.down_until, Topic::outage, 2 * row + 1);
  if (replica.mode == Replica::Mode::down) return;
  replica.returns = replica.mode != Replica::Mode::leaving;
  take_down(id);
}

/// It is lost, and what it had starts anew.
void Simulation::State::take_down(ReplicaId id) {
  set_mode(id, Replica::Mode::down);
  ++replicas_[id].stamp;
  scatter(id);
}

void Simulation::State::scatter(ReplicaId id) {
  sync(id);
  Replica& replica = replicas_[id];
  replica.flight.clear();
  rest(id);
  stop_loading(id);
  abandon(id);
  if (replica.write_flow != kNoFlow) transfers.close(replica.write_flow, now);
  replica.write_flow = kNoFlow;
  replica.writing.clear();
  replica.to_write.clear();
  replica.waiting.clear();
  replica.running.clear();
  replica.ended.clear();
  replica.sending = replica.loading = replica.swapped_bytes = 0;
  replica.extra = 0;
  replica.clock = replica.last_end = replica.channel_free = replica.store_free = fine(now);
  std::vector<Slot> lost;
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].replica == id && requests_[slot].where != Request::Where::nowhere) lost.push_back(slot);
  }
  std::erase_if(stranded_, [this, id](Slot slot) { return requests_[slot].replica == id; });
  std::sort(lost.begin(), lost.end(), [this](Slot a, Slot b) { return requests_[a].id < requests_[b].id; });
  for (const Slot slot : lost) {
    release(id, requests_[slot]);
    unqueue(slot);
  }
  replica.cache.clear();
  replica.host.clear();
  for (const Slot slot : lost) restart(slot);
  redirect(id);
}

/// A replica that was to finish what it had, and has.
void Simulation::State::if_empty(ReplicaId id) {
  Replica& replica = replicas_[id];
  const bool draining = replica.mode == Replica::Mode::draining;
  if ((!draining && replica.mode != Replica::Mode::leaving) || doors_[id].requests + replica.readers + replica.coming > 0) {
    return;
  }
  set_mode(id, Replica::Mode::down);
  ++replica.stamp;
  scatter(id);
  if (!draining) return;
  replica.down_until = replica.away == kNever ? kNever : now + replica.away;
  replica.mode = Replica::Mode::starting;  // it comes back by itself, not by the autoscaler
  push(replica.down_until, Topic::started, id, replica.stamp);
}

LoadFrom Simulation::State::load_of(std::size_t outage) const {
  const std::vector<std::uint8_t>& load = deployment_.outages.load;
  return load.empty() ? LoadFrom::none : static_cast<LoadFrom>(load[outage]);
}

void Simulation::State::start(ReplicaId id) {
  if (replicas_[id].load != LoadFrom::none) {
    ++replicas_[id].loads;
    replicas_[id].load_ps += now - replicas_[id].load_since;
    replicas_[id].load = LoadFrom::none;
  }
  set_mode(id, Replica::Mode::up);
  replicas_[id].returns = false;
  replicas_[id].clock = fine(now);
  route_backlog();
  retry_stranded();
  touch(id);
}

/// As the horizontal autoscaler of Kubernetes: wanted = ceil(there x measured / target), and no fewer until the need has
/// been low for `hold_ps`.
void Simulation::State::tick(std::uint32_t index) {
  PoolState& pool = pools_[index];
  const Autoscale& rule = pool.spec.autoscale;
  std::int64_t there = 0, requests = 0, waiting = 0;
  for (ReplicaId id = pool.first; id < pool.end; ++id) {
    const Replica& replica = replicas_[id];
    const bool counts = replica.mode == Replica::Mode::up || replica.mode == Replica::Mode::starting;
    there += counts ? 1 : 0;
    requests += counts ? doors_[id].requests : 0;
    waiting += counts ? static_cast<std::int64_t>(replica.waiting.size()) : 0;
  }
  const auto left = static_cast<std::int64_t>(pool.spec.role == Role::decode ? stranded_.size() : backlog_.size());
  const double full = rule.by_queue ? 1.0 : static_cast<double>(pool.spec.max_sequences);
  const double need = static_cast<double>((rule.by_queue ? waiting : requests) + left) / (full * rule.target);
  std::int64_t wanted = there;
  if (std::abs(need - static_cast<double>(there)) > rule.tolerance * static_cast<double>(there)) {
    wanted = static_cast<std::int64_t>(std::ceil(need));
  }
  wanted = std::clamp<std::int64_t>(wanted, rule.min_replicas, pool.spec.replicas);
  if (wanted >= there) pool.low_since = -1;
  if (wanted > there) scale_up(pool.first, pool.end, wanted - there, rule);
  if (wanted < there && pool.low_since < 0) pool.low_since = now;
  if (wanted < there && now - pool.low_since >= rule.hold_ps) scale_down(pool.first, pool.end, there - wanted);
  if (last_ && next_ >= arrival_.size() && waking_ == 0) return;  // nothing but looks is left
  push(now + rule.interval_ps, Topic::tick, index);
}

void Simulation::State::scale_up(ReplicaId begin, ReplicaId end, std::int64_t count, const Autoscale& rule) {
  bool opened = false;
  for (ReplicaId id = begin; id < end && count > 0; ++id) {
    Replica& replica = replicas_[id];
    if (replica.mode == Replica::Mode::leaving) {
      set_mode(id, Replica::Mode::up);
      opened = true;
      --count;
    } else if (replica.mode == Replica::Mode::down && now >= replica.down_until) {
      set_mode(id, Replica::Mode::starting);
      replica.load = rule.load;
      push(now + rule.cold_start_ps, Topic::started, id, ++replica.stamp);
      --count;
    }
  }
  if (!opened) return;
  route_backlog();
  retry_stranded();
}

/// WHY the last ones: so that the first stay and keep their caches.
void Simulation::State::scale_down(ReplicaId begin, ReplicaId end, std::int64_t count) {
  for (ReplicaId id = end; id-- > begin && count > 0;) {
    if (replicas_[id].mode != Replica::Mode::up) continue;
    set_mode(id, Replica::Mode::leaving);
    --count;
    if_empty(id);
  }
}

}  // namespace railyard::serving
