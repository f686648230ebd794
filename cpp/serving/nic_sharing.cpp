// Collectives of the replicas over NICs that transfers use as well: each slows the other down.
//
// Transfers see collectives as a flow of their mean rate: the bytes of an iteration over its time. Collectives come in bursts;
// while one sends, it and the transfers beside it have their fair shares, so that its bytes take longer than alone. An
// iteration takes so much longer, and what is left of it is stretched or shortened whenever the shares change.
#include <algorithm>

#include "serving/state.hpp"

namespace railyard::serving {
namespace {

constexpr int kRounds = 2;  ///< Of demands and rates that follow one another at one time.

/// part x of / by, for parts of up to hours.
Fine scaled(Fine part, Fine of, Fine by) {
  constexpr Fine kMost = Fine{1} << 56;
  while (of >= kMost || by >= kMost) {
    of >>= 1;
    by >>= 1;
  }
  return part * of / by;
}

}  // namespace

/// Up to this rate collectives are as fast as the tables say. WHY by stages: one sends at a time, by its own NICs.
double Simulation::State::usual_rate(ReplicaId id) const {
  const CostSpec& cost = pool_of(id).spec.cost;
  return std::min(cost.scale_out_bps, transfers.own_alone_rate(id) / cost.pipeline_stages);
}

/// What an iteration of so many tokens takes longer now than without transfers.
Fine Simulation::State::slower(ReplicaId id, std::int64_t tokens) const {
  const Replica& replica = replicas_[id];
  const double bytes = pool_of(id).spec.cost.scale_out_bytes_per_token;
  if (replica.own_rate <= 0 || bytes <= 0) return 0;
  const double longer = 1 / replica.own_rate - 1 / usual_rate(id);
  if (longer <= 0) return 0;
  const Fine found = fine_of_seconds(8 * bytes * static_cast<double>(tokens) * longer);
  return std::max<Fine>(0, found - pool_of(id).cost.slack(tokens));
}

/// The replica's demand follows its iterations, of which this one takes `time`. WHY not within a run: that all of it is alike
/// lets it be skipped over. PRE: it has links of its own.
void Simulation::State::ask(ReplicaId id, const Batch& batch, Fine time) {
  Replica& replica = replicas_[id];
  const CostSpec& cost = pool_of(id).spec.cost;
  const bool decodes = batch.load.sequences == batch.load.decodes;
  if (decodes && batch.load.tokens == replica.own_tokens && batch.load.decodes == replica.own_decodes) return;
  replica.own_tokens = decodes ? batch.load.tokens : -1;
  replica.own_decodes = batch.load.decodes;
  const double seconds = std::ldexp(static_cast<double>(time), -kFineBits) / kPsPerSecond * cost.stage_share;
  transfers.demand(id, 8 * cost.scale_out_bytes_per_token * static_cast<double>(batch.load.tokens) / seconds, now);
}

/// Nothing is under way.
void Simulation::State::rest(ReplicaId id) {
  if (!transfers.has_own(id)) return;
  replicas_[id].own_tokens = replicas_[id].own_decodes = -1;
  transfers.demand(id, 0, now);
}

/// Rates have changed: so do the times of iterations under way, and with them the demands.
void Simulation::State::settle_contention() {
  for (int round = 0; round < kRounds && !transfers.disturbed().empty(); ++round) {
    std::vector<std::uint32_t> disturbed = transfers.disturbed();
    transfers.clear_disturbed();
    std::sort(disturbed.begin(), disturbed.end());
    for (const ReplicaId id : disturbed) retime(id);
    transfers.settle(now);
  }
  transfers.clear_disturbed();
}

/// Of the last iteration of a batch, without transfers.
Fine Simulation::State::plain_last(const Replica& replica, const Batch& batch) const {
  const Cost& cost = pools_[replica.pool].cost;
  if (batch.load.decodes == 0) return cost.time(batch.load) + batch.other;
  return cost.run_time(batch.load, batch.repeats) - cost.run_time(batch.load, batch.repeats - 1) + batch.other;
}

void Simulation::State::retime(ReplicaId id) {
  Replica& replica = replicas_[id];
  const double rate = transfers.own_rate(id) / pool_of(id).spec.cost.pipeline_stages, usual = usual_rate(id);
  const double found = rate < usual ? rate : 0;
  if (found == replica.own_rate) return;
  const bool under_way = !replica.flight.empty() && pool_of(id).spec.cost.pipeline_stages == 1;
  if (under_way) {
    Batch& batch = replica.flight.front();
    if (batch.repeats > 1) {
      // The run ends with the iteration that is under way, those that end now included.
      const std::int64_t ended =
          pool_of(id).cost.run_within(batch.load, fine(now + 1) - batch.start, batch.repeats - 1, batch.slower);
      if (ended > batch.applied) advance(id, batch, ended - batch.applied);
      if (batch.applied + 1 < batch.repeats) {
        batch.end = end_of(replica, batch, batch.applied + 1);
        batch.repeats = batch.applied + 1;
      }
    }
  }
  replica.own_rate = found;
  if (!under_way) return;
  Batch& batch = replica.flight.front();
  const Fine plain = plain_last(replica, batch), next = slower(id, batch.load.tokens);
  const Fine left = std::max<Fine>(batch.end - fine(now), 0);
  const Fine end = fine(now) + scaled(left, plain + next, plain + batch.slower_now);
  batch.slower_last += end - batch.end;
  batch.slower_now = next;
  batch.end = replica.clock = replica.last_end = end;
  push(whole(end), Topic::iterated, id, ++replica.stamp);
  replica.own_tokens = -1;
  ask(id, batch, plain + next);
}

}  // namespace railyard::serving
