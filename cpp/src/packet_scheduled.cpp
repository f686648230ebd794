#include "railyard/packet/scheduled.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "railyard/packet/draws.hpp"

namespace railyard::packet {

namespace {

/// What the links into a leaf are taken to bring, of their rate: the rest is for messages and cells that are not full.
constexpr double kFabricShare = 0.97;
/// Cells that a leaf's fabric links hold on average before queues with credit have to wait.
constexpr std::uint32_t kLinkCells = 32;
/// A queue's limit where none is given: what its port sends in 5 ms.
constexpr double kVoqSeconds = 5e-3;
constexpr double kResume = 0.875;

void need(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

const ScheduledOptions& checked(const ScheduledOptions& options) {
  need(options.cell_bytes >= 16 && options.cell_bytes <= 8192 && options.cell_header_bytes <= 1024,
       "a cell carries 16 to 8192 bytes behind a header of at most 1024");
  need(options.control_cell_bytes >= 1 && options.control_cell_bytes <= 1024, "control_cell_bytes must be in [1, 1024]");
  need(options.credit_bytes >= 64 && options.credit_bytes <= (1u << 20), "credit_bytes must be in [64, 1 MiB]");
  need(options.credit_rate > 0 && options.credit_rate <= 4, "credit_rate must be in (0, 4]");
  need(options.fabric_speedup > 0 && options.fabric_speedup <= 64, "fabric_speedup must be in (0, 64]");
  need(options.request_ps >= 0 && options.grant_ps >= 0 && options.reachability_ps >= 0 && options.egress_bytes >= 0 &&
           options.voq_bytes >= 0 && options.memory_bytes > 0,
       "an option of the scheduled fabric is negative");
  return options;
}

Ps time_for(double bytes, double rate_bps) { return static_cast<Ps>(bytes * 8e12 / rate_bps); }

}  // namespace

ScheduledFabric::ScheduledFabric(Context& context)
    : context_(context), options_(checked(context.options.scheduled)),
      target_(context.network.link_target.begin(), context.network.link_target.end()), topology_(context.network),
      routes_(topology_, context.network, context.options.seed),
      fabric_(context.network, topology_, routes_,
              {options_.cell_bytes, options_.cell_header_bytes, options_.control_cell_bytes, options_.fabric_speedup},
              *this),
      leafs_(topology_.leafs), stopped_(context.hosts, 0), told_(context.hosts, 0),
      stopped_at_(context.hosts, 0), paused_ps_(context.hosts, 0), told_at_(context.hosts, 0),
      next_paused_(std::size_t{context.hosts} * EgressPort::kClasses, kNone),
      rate_bps_(context.network.rate_bps.begin(), context.network.rate_bps.end()),
      carried_(context.network.link_source.size(), 0) {
  need(context.hosts < (1u << (kTaskShift - 4)), "a scheduled fabric of more than four million hosts");
  number_ports();
  for (const std::int32_t failed : context.options.failed_links) {
    const auto link = static_cast<std::uint32_t>(failed);
    rate_bps_[link] *= context.options.failed_fraction;
    if (topology_.link_of[link] != CellTopology::kNoSwitch)
      fabric_.set_rate(topology_.link_of[link], fabric_.rate(topology_.link_of[link]) * context.options.failed_fraction);
    else if (port_of_link_[link] != kNone)
      ports_[port_of_link_[link]].rate_bps = rate_bps_[link];
  }
  if (!context.options.failed_links.empty()) fabric_.reroute();
  share_links();
  const double loop = static_cast<double>(2 * one_way() + options_.request_ps + options_.grant_ps);
  for (EgressPort& port : ports_) {
    port.credit_time = time_for(options_.credit_bytes / options_.credit_rate, port.rate_bps);
    const double waiting = static_cast<double>(options_.egress_bytes);
    port.most_waiting = options_.egress_bytes > 0 ? time_for(waiting, port.rate_bps) : static_cast<Ps>(loop);
  }
}

void ScheduledFabric::number_ports() {
  const NetworkColumns& network = context_.network;
  port_of_link_.assign(network.link_source.size(), kNone);
  first_port_.assign(std::size_t{context_.hosts} + 1, 0);
  for (const std::uint32_t host : target_)
    if (host < context_.hosts) ++first_port_[host + 1];
  for (std::uint32_t host = 0; host < context_.hosts; ++host) first_port_[host + 1] += first_port_[host];
  port_list_.resize(first_port_.back());
  std::vector<std::uint32_t> at(first_port_.begin(), first_port_.end() - 1);
  for (std::uint32_t link = 0; link < target_.size(); ++link) {
    if (target_[link] >= context_.hosts) continue;
    EgressPort port;
    port.link = link;
    port.host = target_[link];
    port.leaf = topology_.switch_of[static_cast<std::uint32_t>(network.link_source[link])];
    port.rate_bps = rate_bps_[link];
    port.latency = network.latency_ps[link];
    port_of_link_[link] = static_cast<std::uint32_t>(ports_.size());
    port_list_[at[port.host]++] = static_cast<std::uint32_t>(ports_.size());
    ports_.push_back(port);
  }
}

/// What leafs know of their own fabric links: how fast they empty, how much credit they can answer for.
void ScheduledFabric::share_links() {
  const double cell = options_.cell_bytes;
  const double useful = kFabricShare * cell / (cell + options_.cell_header_bytes);
  std::vector<double> in(topology_.leafs, 0), out(topology_.leafs, 0), links(topology_.leafs, 0);
  for (std::uint32_t link = 0; link < topology_.links.size(); ++link) {
    const auto [number, source, target] = topology_.links[link];
    if (topology_.is_leaf(target)) in[target] += fabric_.rate(link);
    if (!topology_.is_leaf(source)) continue;
    out[source] += fabric_.rate(link);
    links[source] += 1;
  }
  for (std::uint32_t at = 0; at < topology_.leafs; ++at) {
    leafs_[at].up_bps = out[at];
    leafs_[at].slack = out[at] > 0 ? time_for(kLinkCells * links[at] * (cell + options_.cell_header_bytes), out[at]) : 0;
    leafs_[at].credit_time = in[at] > 0 ? time_for(options_.credit_bytes, in[at] * useful) : 0;
  }
}

/// From leaf to leaf through the empty fabric, a full cell, the longest of a few.
Ps ScheduledFabric::one_way() const {
  Ps longest = 0;
  const std::uint32_t step = std::max(1u, topology_.leafs / 4);
  for (std::uint32_t from = 0; from < topology_.leafs; from += step)
    for (std::uint32_t to = 0; to < topology_.leafs; ++to) longest = std::max(longest, fabric_.crossing(from, to));
  return longest;
}

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

// ------------------------------------------------------------------------------------------------------------ ingress

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
  need(voqs_.size() < (1u << kVoqBits), "more than four million virtual output queues");
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

/// Pauses the host that sent the packet if its queue or the leaf's memory is over the limit.
void ScheduledFabric::hold_back(Leaf& leaf, Voq& voq, const Packet& packet) {
  const EgressPort& port = ports_[voq.port];
  const std::int64_t limit =
      options_.voq_bytes > 0 ? options_.voq_bytes : static_cast<std::int64_t>(kVoqSeconds * port.rate_bps / 8);
  const bool queue = voq.bytes > limit;
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
  context_.wheel.push(told_at_[host], event(Event::port, task(Task::pause, host << 4 | klass << 1u | (on ? 1u : 0u))));
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

/// Fetches what an event will touch: first what it names, then what that names.
void ScheduledFabric::look_ahead(Event kind, std::uint32_t index, int step) const {
  if (kind == Event::extra) {
    const std::uint32_t number = index & ((1u << kVoqBits) - 1);
    if ((index & kGrant) == 0) {
      if (step == 0) __builtin_prefetch(&claims_[number], 1);
      else if (step == 1) __builtin_prefetch(&ports_[voqs_[number].port], 1);
    } else if (step == 0) {
      __builtin_prefetch(&voqs_[number], 1);
    } else if (step == 1 && voqs_[number].first != kNone) {
      context_.slab.prefetch(voqs_[number].first);
    }
    return;
  }
  const std::uint32_t what = index & ((1u << kTaskShift) - 1);
  if (static_cast<Task>(index >> kTaskShift) == Task::tick) {
    if (step == 0) __builtin_prefetch(&ports_[what], 1);
  } else if (static_cast<Task>(index >> kTaskShift) == Task::burst) {
    if (step == 0) __builtin_prefetch(&bursts_[what], 1);
    else if (step == 1) context_.slab.prefetch(bursts_[what].first);
    else __builtin_prefetch(&ports_[voqs_[bursts_[what].voq].port], 1);
  }
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
  Leaf& leaf = leafs_[voq.ingress];
  leaf.memory -= burst.bytes;
  if (voq.paused != kNone) {
    const double limit = options_.voq_bytes > 0 ? static_cast<double>(options_.voq_bytes)
                                                : kVoqSeconds * ports_[voq.port].rate_bps / 8;
    if (static_cast<double>(voq.bytes) <= kResume * limit) let_go(voq.paused);
  }
  if (leaf.paused != kNone && static_cast<double>(leaf.memory) <= kResume * static_cast<double>(options_.memory_bytes))
    let_go(leaf.paused);
  if (voq.ingress == voq.egress) {
    leave(index);
    return;
  }
  burst.left = static_cast<std::uint16_t>(fabric_.cells_for(burst.bytes));
  Claim& claim = claims_[number];
  (claim.first == kNone ? claim.first : bursts_[claim.last].next) = index;
  if (claim.first == index) {
    Leaf& egress = leafs_[voq.egress];
    egress.contexts_most = std::max(egress.contexts_most, ++egress.contexts);
  }
  claim.last = index;
  if (burst.left > 1 && ++sampling_ >= kSampleEvery) {
    sampling_ = 0;
    if (free_samples_.empty()) {
      free_samples_.push_back(static_cast<std::uint32_t>(samples_.size()));
      samples_.emplace_back();
    }
    burst.sample = free_samples_.back();
    free_samples_.pop_back();
    samples_[burst.sample].cells = std::min<std::uint32_t>(burst.left, kSampleCells);
  }
  const std::uint32_t bytes = burst.bytes;
  const std::uint32_t cells = fabric_.send(voq.ingress, voq.egress, index, bytes, context_.now);
  // How far the links are ahead is told by the bytes they have got, as the cells go to them in turn.
  const double sent = static_cast<double>(bytes) + static_cast<double>(cells) * options_.cell_header_bytes;
  if (leaf.up_bps > 0) leaf.work_until = std::max(leaf.work_until, context_.now) + time_for(sent, leaf.up_bps);
  sweep_later();
}

std::uint32_t ScheduledFabric::new_burst() {
  if (!free_bursts_.empty()) {
    const std::uint32_t index = free_bursts_.back();
    free_bursts_.pop_back();
    return index;
  }
  need(bursts_.size() <= Cell::kBurstMask, "more than 67 million bursts in flight");
  bursts_.emplace_back();
  return static_cast<std::uint32_t>(bursts_.size() - 1);
}

void ScheduledFabric::sweep_later() {
  if (fabric_.due() >= sweep_at_) return;
  sweep_at_ = fabric_.due();
  context_.wheel.push(sweep_at_, event(Event::port, task(Task::sweep, 0)));
}

// ------------------------------------------------------------------------------------------------------------- egress

void ScheduledFabric::on_port(std::uint32_t index) {
  const std::uint32_t what = index & ((1u << kTaskShift) - 1);
  switch (static_cast<Task>(index >> kTaskShift)) {
    case Task::tick:
      ports_[what].ticking = false;
      tick(what);
      break;
    case Task::room: on_room(what); break;
    case Task::sweep:
      if (context_.now != fabric_.due()) break;  // an earlier one has been here
      sweep_at_ = kNever;
      fabric_.sweep(context_.now);
      sweep_later();
      break;
    case Task::pause: on_pause(what); break;
    case Task::reroute:
      fabric_.reroute();
      share_links();
      break;
    case Task::burst: leave(what); break;
  }
}

void ScheduledFabric::on_extra(std::uint32_t index) {
  const std::uint32_t number = index & ((1u << kVoqBits) - 1);
  const std::uint32_t credits = index >> kVoqBits & kMostCredits;
  if ((index & kGrant) == 0) {
    on_request(number, credits);
    return;
  }
  voqs_[number].balance += std::int64_t{credits} * options_.credit_bytes;
  spend(number);
}

void ScheduledFabric::on_request(std::uint32_t number, std::uint32_t credits) {
  Claim& claim = claims_[number];
  const bool fresh = claim.wanted == 0;
  claim.wanted += credits;
  if (!fresh) return;
  const std::uint32_t at = voqs_[number].port;
  EgressPort& port = ports_[at];
  port.join(claims_, number, voqs_[number].klass);
  if (!port.ticking) tick(at);
}

void ScheduledFabric::tick_at(EgressPort& port, Ps time) {
  port.ticking = true;
  context_.wheel.push(time, event(Event::port, task(Task::tick, static_cast<std::uint32_t>(&port - ports_.data()))));
}

/// The scheduler of a port grants one credit, if it is time.
void ScheduledFabric::tick(std::uint32_t at) {
  EgressPort& port = ports_[at];
  if (port.classes == 0 || !port.live) return;
  const Ps now = context_.now;
  const Ps free = std::max(port.next_grant, port.busy_until - port.most_waiting);
  if (free > now) {
    tick_at(port, free);
    return;
  }
  std::uint8_t klass = 0;
  const std::uint32_t number = port.turn(claims_, klass);
  const bool local = voqs_[number].ingress == port.leaf;
  Leaf& leaf = leafs_[port.leaf];
  if (!local && !port.reserved && leaf.granted_until > now) {
    // WHY reserved: the ports of a leaf that the fabric cannot serve all at once come one after the other.
    port.reserved = true;
    tick_at(port, leaf.granted_until);
    leaf.granted_until += leaf.credit_time;
    return;
  }
  if (!local && !port.reserved) leaf.granted_until = std::max(leaf.granted_until, now - 2 * leaf.credit_time) + leaf.credit_time;
  port.reserved = false;
  port.granted(claims_, number, klass);
  port.next_grant = now + port.credit_time;
  grant(number, local);
  if (port.classes != 0) tick_at(port, port.next_grant);
}

void ScheduledFabric::grant(std::uint32_t number, bool local) {
  ++context_.outcome.scheduled.grants;
  const std::uint32_t message = kGrant | 1u << kVoqBits | number;
  if (local) {
    context_.wheel.push(context_.now + options_.grant_ps, event(Event::extra, message));
    return;
  }
  fabric_.send_control(voqs_[number].egress, voqs_[number].ingress, message, context_.now);
  sweep_later();
}

void ScheduledFabric::control_cell(const Cell& cell) {
  const Ps delay = (cell.what & kGrant) != 0 ? options_.grant_ps : options_.request_ps;
  context_.wheel.push(cell.time + delay, event(Event::extra, cell.what));
}

void ScheduledFabric::data_cell(const Cell& cell) {
  Burst& burst = bursts_[cell.burst()];
  burst.latest = std::max(burst.latest, cell.time);
  if (burst.sample != kNone && cell.number() < kSampleCells) samples_[burst.sample].arrival[cell.number()] = cell.time;
  if (--burst.left == 0) complete(burst.voq);
}

/// Control messages that a dead link swallows are sent again once routes keep off it: the sender sees to that.
void ScheduledFabric::lost(const Cell& cell) {
  if (cell.control()) {
    context_.wheel.push(cell.time + options_.reachability_ps, event(Event::extra, cell.what));
    return;
  }
  Burst& burst = bursts_[cell.burst()];
  burst.lost = true;
  burst.latest = std::max(burst.latest, cell.time);
  if (--burst.left == 0) complete(burst.voq);
}

/// Of a queue's bursts those leave that are whole and before which all are.
void ScheduledFabric::complete(std::uint32_t number) {
  Claim& claim = claims_[number];
  std::uint32_t depth = 0;
  while (claim.first != kNone && bursts_[claim.first].left == 0) {
    const std::uint32_t index = claim.first;
    Burst& burst = bursts_[index];
    // A picosecond apart, so that they leave in this order.
    claim.delivered = std::max({claim.delivered + 1, burst.latest, context_.now});
    if (burst.sample != kNone) measure(burst);
    claim.first = burst.next;
    ++depth;
    context_.wheel.push(claim.delivered, event(Event::port, task(Task::burst, index)));
  }
  if (claim.first == kNone) --leafs_[voqs_[number].egress].contexts;
  if (depth > 1)
    context_.outcome.scheduled.bursts_held = std::max<std::int64_t>(context_.outcome.scheduled.bursts_held, depth - 1);
}

/// Reorder depth: how many cells sent later have come before one, the most of a burst.
void ScheduledFabric::measure(Burst& burst) {
  const Sample& sample = samples_[burst.sample];
  std::uint32_t most = 0;
  for (std::uint32_t at = 0; at < sample.cells && !burst.lost; ++at) {
    std::uint32_t before = 0;
    for (std::uint32_t later = at + 1; later < sample.cells; ++later)
      before += sample.arrival[later] < sample.arrival[at] ? 1 : 0;
    most = std::max(most, before);
  }
  if (!burst.lost) ++context_.outcome.scheduled.reorder[most];
  free_samples_.push_back(burst.sample);
  burst.sample = kNone;
}

/// A burst's packets go out by the egress port, one after the other.
void ScheduledFabric::leave(std::uint32_t index) {
  const Burst burst = bursts_[index];
  free_bursts_.push_back(index);
  EgressPort& port = ports_[voqs_[burst.voq].port];
  if (burst.lost || !port.live) {
    drop(burst.first);
    return;
  }
  port.busy_until = std::max(port.busy_until, context_.now);
  for (std::uint32_t at = burst.first; at != kNone;) {
    Packet& packet = context_.slab[at];
    port.busy_until += wire_time(packet.size, static_cast<std::uint64_t>(port.rate_bps));
    carried_[port.link] += packet.size;
    packet.link = port.link;
    if (context_.options.telemetry && packet.kind == Kind::data)
      context_.telemetry[at].add({.tx_bytes = static_cast<std::uint64_t>(carried_[port.link]),
                                  .time = port.busy_until,
                                  .queue_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(depth(port.link) - packet.size, 0)),
                                  .rate_mbps = static_cast<std::uint32_t>(port.rate_bps / 1e6)});
    const std::uint32_t next = packet.next;
    context_.depart(port.link, at, port.busy_until + port.latency);
    at = next;
  }
  port.longest_queue = std::max(port.longest_queue, port.busy_until - context_.now);
}

void ScheduledFabric::drop(std::uint32_t first) {
  while (first != kNone) {
    const std::uint32_t next = context_.slab[first].next;
    ++context_.outcome.counters.lost;
    context_.slab.release(first);
    first = next;
  }
}

// ------------------------------------------------------------------------------------------------- probes and failures

std::int64_t ScheduledFabric::depth(std::uint32_t link) const {
  const std::uint32_t inner = topology_.link_of[link];
  if (inner != CellTopology::kNoSwitch) return fabric_.depth(inner, context_.now);
  if (port_of_link_[link] == kNone) return 0;
  const EgressPort& port = ports_[port_of_link_[link]];
  const double wait = static_cast<double>(std::max<Ps>(port.busy_until - context_.now, 0));
  return static_cast<std::int64_t>(wait * port.rate_bps / 8e12);
}

std::int64_t ScheduledFabric::carried(std::uint32_t link) const {
  const std::uint32_t inner = topology_.link_of[link];
  return inner == CellTopology::kNoSwitch ? carried_[link] : fabric_.carried(inner);
}

Ps ScheduledFabric::paused_ps(std::uint32_t link) const {
  const auto host = static_cast<std::uint32_t>(context_.network.link_source[link]);
  if (host >= context_.hosts) return 0;
  return paused_ps_[host] + (stopped_[host] != 0 ? context_.now - stopped_at_[host] : 0);
}

void ScheduledFabric::set_rate(std::uint32_t link, double factor) {
  const double rate = static_cast<double>(context_.network.rate_bps[link]) * factor;
  rate_bps_[link] = rate;
  const std::uint32_t inner = topology_.link_of[link];
  if (inner != CellTopology::kNoSwitch) {
    fabric_.set_rate(inner, rate * options_.fabric_speedup);
    context_.wheel.push(context_.now + options_.reachability_ps, event(Event::port, task(Task::reroute, 0)));
    return;
  }
  if (port_of_link_[link] == kNone) return;
  EgressPort& port = ports_[port_of_link_[link]];
  port.live = factor > 0;
  if (!port.live) return;
  port.rate_bps = rate;
  port.credit_time = time_for(options_.credit_bytes / options_.credit_rate, rate);
  if (!port.ticking) tick(port_of_link_[link]);
}

void ScheduledFabric::finish() {
  ScheduledCounters& counters = context_.outcome.scheduled;
  counters.cells = fabric_.cells();
  counters.cells_lost = fabric_.lost();
  Ps waited = 0;
  for (std::uint32_t link = 0; link < topology_.links.size(); ++link) {
    const bool uplink = topology_.is_leaf(topology_.links[link].source);
    const double wait = static_cast<double>(fabric_.longest_wait(link));
    const auto bytes = static_cast<std::int64_t>(wait * fabric_.rate(link) / 8e12);
    std::int64_t& most = uplink ? counters.uplink_bytes : counters.element_bytes;
    most = std::max(most, bytes);
    waited += fabric_.waited(link);
  }
  counters.cell_wait_ps = counters.cells == 0 ? 0 : waited / static_cast<Ps>(counters.cells);
  for (const Leaf& leaf : leafs_) {
    counters.memory_bytes = std::max(counters.memory_bytes, leaf.memory_most);
    counters.contexts = std::max<std::int64_t>(counters.contexts, leaf.contexts_most);
  }
  for (const EgressPort& port : ports_) {
    const double queue = static_cast<double>(port.longest_queue);
    counters.egress_bytes = std::max(counters.egress_bytes, static_cast<std::int64_t>(queue * port.rate_bps / 8e12));
  }
}

}  // namespace railyard::packet
