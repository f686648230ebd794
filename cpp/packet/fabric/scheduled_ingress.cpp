#include "packet/fabric/scheduled.hpp"

#include <algorithm>
#include <stdexcept>

#include "packet/draws.hpp"

namespace railyard::packet {

namespace {

/// A queue's limit where none is given: what its port sends in 5 ms.
constexpr double kVoqSeconds = 5e-3;
/// Hosts are let go when a queue, or the memory, has come down to this part of its limit.
constexpr double kResume = 0.875;

}  // namespace

// -------------------------------------------------------------------------------------------------------------- hosts

void ScheduledFabric::inject(std::uint32_t host, std::uint32_t index) {
  Packet& packet = context_.slab[index];
  const Nic& nic = context_.nics[host];
  const std::uint32_t link =
      nic.link != kNone ? nic.link : context_.routes.hashed(host, packet.destination, packet.key);
  packet.link = packet.ingress = link;
  packet.next = kNone;
  if (link == kNone || rate_bps_[link] <= 0) {
    drop(index);
    return;
  }
  carried_[link] += packet.size;
  const Ps time = wire_time(packet.size, static_cast<std::uint64_t>(rate_bps_[link]));
  context_.depart(link, index, context_.now + time + context_.network.latency_ps[link]);
}

Ps ScheduledFabric::host_time(std::uint32_t host, std::uint32_t index) const {
  const Packet& packet = context_.slab[index];
  const Nic& nic = context_.nics[host];
  const std::uint32_t link =
      nic.link != kNone ? nic.link : context_.routes.hashed(host, packet.destination, packet.key);
  if (link == kNone) return 0;
  // A dead link takes packets at the rate it had: the host does not know.
  const double rate = rate_bps_[link] > 0 ? rate_bps_[link] : static_cast<double>(context_.network.rate_bps[link]);
  const Ps time = wire_time(packet.size, static_cast<std::uint64_t>(rate));
  return nic.links == 1 ? time : time / nic.links;
}

// ------------------------------------------------------------------------------------------------------------ packets

void ScheduledFabric::enqueue(std::uint32_t leaf, std::uint32_t index) {
  Packet& packet = context_.slab[index];
  const std::uint32_t number = packet.following != kNone ? packet.following : voq_of(leaf, packet);
  packet.following = kNone;
  if (number == kNone) {
    packet.next = kNone;
    drop(index);
    return;
  }
  Voq& voq = voqs_[number];
  packet.next = kNone;
  (voq.first == kNone ? voq.first : context_.slab[voq.last].next) = index;
  voq.last = index;
  voq.bytes += packet.size;
  voq.uncovered += packet.size;
  Leaf& at = leafs_[leaf];
  at.memory += packet.size;
  at.memory_most = std::max(at.memory_most, at.memory);
  context_.outcome.scheduled.voq_bytes = std::max(context_.outcome.scheduled.voq_bytes, voq.bytes);
  hold_back(at, voq, packet);
  if (voq.uncovered > 0) ask(number);
  if (voq.balance > 0 && voq.first == index) spend(number);
}

std::uint32_t ScheduledFabric::voq_of(std::uint32_t leaf, const Packet& packet) {
  const std::uint32_t port = port_of(leaf, packet);
  if (port == kNone) return kNone;
  BigVector<std::uint32_t>& table = table_[packet.klass];
  if (table.empty()) table.assign(std::size_t{topology_.leafs} * ports_.size(), 0);
  std::uint32_t& entry = table[std::size_t{leaf} * ports_.size() + port];
  if (entry == 0) entry = new_voq(leaf, port, packet.klass) + 1;
  return entry - 1;
}

std::uint32_t ScheduledFabric::new_voq(std::uint32_t leaf, std::uint32_t port, std::uint8_t klass) {
  if (voqs_.size() >= (1u << kVoqBits)) throw std::invalid_argument("more than four million virtual output queues");
  Voq voq;
  voq.port = port;
  voq.ingress = leaf;
  voq.egress = ports_[port].leaf;
  voq.klass = klass;
  voqs_.push_back(voq);
  claims_.emplace_back();
  return static_cast<std::uint32_t>(voqs_.size() - 1);
}

/// The egress port to the packet's host; of several that can be reached, one at this leaf, else one for the flow.
std::uint32_t ScheduledFabric::port_of(std::uint32_t leaf, const Packet& packet) const {
  const std::uint32_t begin = first_port_[packet.destination], end = first_port_[packet.destination + 1];
  if (end - begin == 1 && (ports_[port_list_[begin]].leaf == leaf || routes_.reaches(leaf, ports_[port_list_[begin]].leaf)))
    return port_list_[begin];
  std::uint32_t reachable = 0;
  const auto fits = [&](const EgressPort& port) {
    return port.live && (port.leaf == leaf || routes_.reaches(leaf, port.leaf));
  };
  for (std::uint32_t at = begin; at < end; ++at) {
    const EgressPort& port = ports_[port_list_[at]];
    if (fits(port) && port.leaf == leaf) return port_list_[at];
    reachable += fits(port) ? 1 : 0;
  }
  if (reachable == 0) return kNone;
  std::uint32_t chosen = below(draw(stream_key(context_.options.seed, Stream::spray, ~std::uint64_t{0}), packet.flow), reachable);
  for (std::uint32_t at = begin; at < end; ++at)
    if (fits(ports_[port_list_[at]]) && chosen-- == 0) return port_list_[at];
  return kNone;
}

/// Asks for as many credits as what has come beyond the last request needs.
void ScheduledFabric::ask(std::uint32_t number) {
  Voq& voq = voqs_[number];
  const std::int64_t credit = options_.credit_bytes;
  std::int64_t credits = (voq.uncovered + credit - 1) / credit;
  voq.uncovered -= credits * credit;
  while (credits > 0) {
    const auto count = static_cast<std::uint32_t>(std::min<std::int64_t>(credits, kMostCredits));
    credits -= count;
    ++context_.outcome.scheduled.requests;
    const std::uint32_t message = count << kVoqBits | number;
    if (voq.ingress == voq.egress)
      context_.wheel.push(context_.now + options_.request_ps, event(Event::extra, message));
    else
      fabric_.send_control(voq.ingress, voq.egress, message, context_.now);
  }
  sweep_later();
}

double ScheduledFabric::limit_of(const Voq& voq) const {
  return options_.voq_bytes > 0 ? static_cast<double>(options_.voq_bytes) : kVoqSeconds * ports_[voq.port].rate_bps / 8;
}

/// Pauses the host that sent the packet if its queue or the leaf's memory is over the limit.
void ScheduledFabric::hold_back(Leaf& leaf, Voq& voq, const Packet& packet) {
  const bool queue = static_cast<double>(voq.bytes) > limit_of(voq);
  if (!queue && leaf.memory <= options_.memory_bytes) return;
  const auto host = static_cast<std::uint32_t>(context_.network.link_source[packet.ingress]);
  if ((told_[host] >> packet.klass & 1u) != 0) return;
  std::uint32_t& list = queue ? voq.paused : leaf.paused;
  const std::uint32_t entry = host * EgressPort::kClasses + packet.klass;
  next_paused_[entry] = list;
  list = entry;
  pause(host, packet.klass, true);
}

void ScheduledFabric::let_go(std::uint32_t& list) {
  while (list != kNone) {
    const std::uint32_t entry = list;
    list = next_paused_[entry];
    pause(entry / EgressPort::kClasses, static_cast<std::uint8_t>(entry % EgressPort::kClasses), false);
  }
}

/// A pause frame (or one that ends the pause) goes to the host before all that waits for its link.
void ScheduledFabric::pause(std::uint32_t host, std::uint8_t klass, bool on) {
  const std::uint8_t bit = static_cast<std::uint8_t>(1u << klass);
  told_[host] = static_cast<std::uint8_t>(on ? told_[host] | bit : told_[host] & ~bit);
  if (on) ++context_.outcome.scheduled.pauses;
  Ps delay = 0;
  for (std::uint32_t at = first_port_[host]; at < first_port_[host + 1]; ++at) {
    EgressPort& port = ports_[port_list_[at]];
    const Ps time = time_for(kPauseBytes, port.rate_bps);
    delay = std::max(delay, time + port.latency);
    port.busy_until = std::max(port.busy_until, context_.now) + time;
    carried_[port.link] += kPauseBytes;
  }
  told_at_[host] = std::max(told_at_[host] + 1, context_.now + delay);  // in the order in which they were sent
  context_.wheel.push(told_at_[host], event(Event::port, task(Task::pause, host << 4 | std::uint32_t{klass} << 1 | (on ? 1u : 0u))));
}

void ScheduledFabric::on_pause(std::uint32_t index) {
  const std::uint32_t host = index >> 4;
  const std::uint8_t bit = static_cast<std::uint8_t>(1u << (index >> 1 & 7u));
  if ((index & 1u) != 0) {
    if (stopped_[host] == 0) stopped_at_[host] = context_.now;
    stopped_[host] = static_cast<std::uint8_t>(stopped_[host] | bit);
    return;
  }
  stopped_[host] = static_cast<std::uint8_t>(stopped_[host] & ~bit);
  if (stopped_[host] == 0) paused_ps_[host] += context_.now - stopped_at_[host];
  Nic& nic = context_.nics[host];
  if (nic.slot) return;
  nic.slot = true;
  context_.wheel.push(std::max(context_.now, nic.busy_until), event(Event::slot, host));
}

// ------------------------------------------------------------------------------------------------------------ credits

/// Sends what the queue's credit allows; to another leaf only while the fabric links keep up.
void ScheduledFabric::spend(std::uint32_t number) {
  Leaf& leaf = leafs_[voqs_[number].ingress];
  const bool local = voqs_[number].ingress == voqs_[number].egress;
  while (voqs_[number].balance > 0 && voqs_[number].first != kNone) {
    if (!local && (leaf.line_first != kNone || links_busy(leaf))) {
      if (voqs_[number].waiting) return;
      stand_in_line(leaf, number);
      wake_later(voqs_[number].ingress);
      return;
    }
    cut(number);
  }
}

void ScheduledFabric::stand_in_line(Leaf& leaf, std::uint32_t number) {
  voqs_[number].waiting = true;
  voqs_[number].next = kNone;
  (leaf.line_first == kNone ? leaf.line_first : voqs_[leaf.line_last].next) = number;
  leaf.line_last = number;
}

void ScheduledFabric::wake_later(std::uint32_t at) {
  Leaf& leaf = leafs_[at];
  if (leaf.waking || leaf.line_first == kNone) return;
  leaf.waking = true;
  context_.wheel.push(std::max(leaf.work_until - leaf.slack, context_.now), event(Event::port, task(Task::room, at)));
}

/// The fabric links have room again: the queues that wait send a burst each in turn.
void ScheduledFabric::on_room(std::uint32_t at) {
  Leaf& leaf = leafs_[at];
  leaf.waking = false;
  while (leaf.line_first != kNone && !links_busy(leaf)) {
    const std::uint32_t number = leaf.line_first;
    leaf.line_first = voqs_[number].next;
    voqs_[number].waiting = false;
    cut(number);
    if (voqs_[number].balance > 0 && voqs_[number].first != kNone) stand_in_line(leaf, number);
  }
  wake_later(at);
}

/// One burst: packets of a queue up to a credit, back to back. PRE: it has credit and packets.
void ScheduledFabric::cut(std::uint32_t number) {
  const std::uint32_t index = new_burst();
  Voq& voq = voqs_[number];
  Burst& burst = bursts_[index];
  burst = {};
  burst.voq = number;
  take_packets(voq, burst);
  Leaf& leaf = leafs_[voq.ingress];
  leaf.memory -= burst.bytes;
  if (voq.paused != kNone && static_cast<double>(voq.bytes) <= kResume * limit_of(voq)) let_go(voq.paused);
  if (leaf.paused != kNone && static_cast<double>(leaf.memory) <= kResume * static_cast<double>(options_.memory_bytes))
    let_go(leaf.paused);
  if (voq.ingress == voq.egress) {
    leave(index);
    return;
  }
  send_burst(voq, leaf, index);
}

void ScheduledFabric::take_packets(Voq& voq, Burst& burst) {
  burst.first = voq.first;
  std::uint32_t last = kNone;
  while (voq.first != kNone && voq.balance > 0 && burst.bytes < options_.credit_bytes) {
    last = voq.first;
    const Packet& packet = context_.slab[last];
    burst.bytes += packet.size;
    voq.balance -= packet.size;
    voq.first = packet.next;
  }
  context_.slab[last].next = kNone;
  voq.bytes -= burst.bytes;
}

/// As cells, over the fabric.
void ScheduledFabric::send_burst(const Voq& voq, Leaf& leaf, std::uint32_t index) {
  Burst& burst = bursts_[index];
  burst.left = static_cast<std::uint16_t>(fabric_.cells_for(burst.bytes));
  Claim& claim = claims_[burst.voq];
  (claim.first == kNone ? claim.first : bursts_[claim.last].next) = index;
  if (claim.first == index) {
    Leaf& egress = leafs_[voq.egress];
    egress.contexts_most = std::max(egress.contexts_most, ++egress.contexts);
  }
  claim.last = index;
  if (burst.left > 1 && ++sampling_ >= kSampleEvery) begin_sample(burst);
  const std::uint32_t bytes = burst.bytes;
  const std::uint32_t cells = fabric_.send(voq.ingress, voq.egress, index, bytes, context_.now);
  // How far the links are ahead is told by the bytes they have got, as the cells go to them in turn.
  const double sent = static_cast<double>(bytes) + static_cast<double>(cells) * options_.cell_header_bytes;
  if (leaf.up_bps > 0) leaf.work_until = std::max(leaf.work_until, context_.now) + time_for(sent, leaf.up_bps);
  sweep_later();
}

/// The arrivals of this burst's cells will be written down.
void ScheduledFabric::begin_sample(Burst& burst) {
  sampling_ = 0;
  if (free_samples_.empty()) {
    free_samples_.push_back(static_cast<std::uint32_t>(samples_.size()));
    samples_.emplace_back();
  }
  burst.sample = free_samples_.back();
  free_samples_.pop_back();
  samples_[burst.sample].cells = std::min<std::uint32_t>(burst.left, kSampleCells);
}

std::uint32_t ScheduledFabric::new_burst() {
  if (!free_bursts_.empty()) {
    const std::uint32_t index = free_bursts_.back();
    free_bursts_.pop_back();
    return index;
  }
  if (bursts_.size() > Cell::kBurstMask) throw std::invalid_argument("more than 67 million bursts in flight");
  bursts_.emplace_back();
  return static_cast<std::uint32_t>(bursts_.size() - 1);
}

void ScheduledFabric::sweep_later() {
  if (fabric_.due() >= sweep_at_) return;
  sweep_at_ = fabric_.due();
  context_.wheel.push(sweep_at_, event(Event::port, task(Task::sweep, 0)));
}

}  // namespace railyard::packet
