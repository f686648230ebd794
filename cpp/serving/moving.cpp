// Keys and values travel from prefill to decode; other traffic comes and goes beside them.
#include <algorithm>

#include "serving/state.hpp"

namespace railyard::serving {

double Simulation::State::bytes_of(const Request& request) const {
  return pool_of(request.replica).spec.kv_bytes_per_token * static_cast<double>(request.computed);
}

/// Who decodes, and by which of the ways there.
void Simulation::State::choose_decoder(Request& request) {
  if (request.decoder != kNobody) return;
  request.decoder = choose(request, deployment_.decode_router, back_, 1);
  if (request.decoder == kNobody) return;
  request.turn = replicas_[request.replica].turn++;
  set_aim(request, request.decoder);
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
  request.flow = transfers.open(way_of(request), request.sent, Cargo::request, slot, now);
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
  request.flow = transfers.open(way_of(request), rest, Cargo::request, slot, now);
}

void Simulation::State::flow_ended(std::uint32_t flow) {
  const std::uint32_t slot = transfers.owner(flow);
  if (transfers.cargo(flow) == Cargo::weights) return weights_there(slot);
  if (transfers.cargo(flow) == Cargo::written) return written(slot);
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
  set_aim(request, kNobody);
  request.transfer_end = now;
  request.sent = 0;
  request.arrived = true;
  enqueue(slot, request.decoder, false);
}

void Simulation::State::set_aim(Request& request, ReplicaId target) {
  if (request.aim != kNobody) --replicas_[request.aim].coming;
  if (target != kNobody) ++replicas_[target].coming;
  request.aim = target;
}

/// What was on its way to a lost replica is sent to another one; where the source has let go of it, it starts anew.
void Simulation::State::redirect(ReplicaId lost) {
  std::vector<Slot> moving;
  for (Slot slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].aim == lost) moving.push_back(slot);
  }
  std::sort(moving.begin(), moving.end(), [this](Slot a, Slot b) { return requests_[a].id < requests_[b].id; });
  for (const Slot slot : moving) {
    Request& request = requests_[slot];
    request.sent = 0;
    request.decoder = kNobody;
    set_aim(request, kNobody);
    if (request.where == Request::Where::loading) continue;  // its flow, if it has one, brings what it loads
    if (request.flow != kNoFlow) transfers.close(request.flow, now);
    request.flow = kNoFlow;
    if (request.where != Request::Where::sending) continue;  // its prefill is not over yet
    if (request.replica == kNobody) {
      restart(slot);
    } else {
      close_transfer(slot);
    }
  }
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
  give_back(request);
  request.computed = request.swapped_bytes = 0;
  request.arrived = false;
  request.taking = -1;
  request.in_flight = 0;
  request.sent = 0;
  request.settled = -1;
  request.transfer_start = request.transfer_end = -1;
  const ReplicaId aim = request.aim;
  set_aim(request, kNobody);
  if (aim != kNobody) if_empty(aim);
  request.decoder = kNobody;
  ++request.stamp;
  ++request.requeued;
  place(request, Request::Where::nowhere);
  route(slot);
}

void Simulation::State::background(std::uint32_t row, bool over) {
  if (background_.size() <= row) background_.resize(row + 1, kNoFlow);
  if (over) return transfers.close(background_[row], now);
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  background_[row] = transfers.open(transfers.background(row), kEndless, Cargo::background, row, now);
  push(deployment_.background.to_ps[row], Topic::background, 2 * row + 1);
}

}  // namespace railyard::serving
