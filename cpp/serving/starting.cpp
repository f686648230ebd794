// Replicas that start load their weights, over links that transfers use as well.
#include "serving/state.hpp"

namespace railyard::serving {

/// The machine is there; its weights follow.
void Simulation::State::begin_start(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.load == LoadFrom::none) return start(id);
  if (replica.mode != Replica::Mode::starting) set_mode(id, Replica::Mode::starting);
  replica.returns = false;
  replica.load_since = now;
  load_weights(id);
}

/// WHY of the peers the one that the fewest read from: their links are those that the others leave.
void Simulation::State::load_weights(ReplicaId id) {
  Replica& replica = replicas_[id];
  const PoolState& pool = pool_of(id);
  std::uint32_t way = kNoWay;
  for (ReplicaId peer = pool.first; replica.load == LoadFrom::peer && peer < pool.end; ++peer) {
    if (replicas_[peer].mode != Replica::Mode::up) continue;
    const std::uint32_t found = transfers.way(static_cast<std::int32_t>(peer), static_cast<std::int32_t>(id));
    if (found == kNoWay) continue;
    if (replica.source != kNobody && replicas_[peer].readers >= replicas_[replica.source].readers) continue;
    replica.source = peer;
    way = found;
  }
  if (way == kNoWay) way = transfers.way(-2, static_cast<std::int32_t>(id));
  if (way == kNoWay) {
    push(now + whole(fine_of_seconds(pool.spec.load_s)), Topic::ready, id, replica.stamp);
    return;
  }
  if (replica.source != kNobody) ++replicas_[replica.source].readers;
  replica.weights = transfers.open(way, pool.spec.weight_bytes, Cargo::weights, id, now);
}

void Simulation::State::weights_there(ReplicaId id) {
  Replica& replica = replicas_[id];
  const Ps latency = transfers.latency(transfers.way_of(replica.weights));
  stop_loading(id);
  push(now + latency, Topic::ready, id, replica.stamp);
}

void Simulation::State::stop_loading(ReplicaId id) {
  Replica& replica = replicas_[id];
  if (replica.weights != kNoFlow) transfers.close(replica.weights, now);
  replica.weights = kNoFlow;
  leave_source(id);
}

void Simulation::State::leave_source(ReplicaId id) {
  const ReplicaId source = replicas_[id].source;
  if (source == kNobody) return;
  replicas_[id].source = kNobody;
  --replicas_[source].readers;
  if_empty(source);
}

}  // namespace railyard::serving
