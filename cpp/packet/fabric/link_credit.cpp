#include "packet/fabric/link_credit.hpp"

#include <bit>
#include <limits>
#include <utility>

namespace railyard::packet {

namespace {

constexpr std::int32_t kDownLoad = 1 << 29;

}  // namespace

void CreditFabric::wait(CreditPort& port, std::uint32_t link, unsigned lane, std::uint32_t index) {
  Packet& packet = context_.slab[index];
  std::uint32_t& tail = tails_[queue_of(port, packet, lane)];
  packet.link = link;
  packet.next = kNone;
  lane_at(port, link, lane).queued += packet.size;
  if (adaptive_) loads_[link] += blocks(packet.size);
  const std::uint32_t before = std::exchange(tail, index);
  if (before == kReading) {
    heads_[queue_of(port, packet, lane)] = index;
    return;
  }
  if (before != kNone) {
    context_.slab[before].next = index;
    return;
  }
  join(port, link, lane, index);
  if (port.down) drop_waiting(port, link);
  else offer(port, link);
}

/// The head of a queue enters the round of its lane.
void CreditFabric::join(CreditPort& port, std::uint32_t link, unsigned lane, std::uint32_t index) {
  CreditLane& at = lane_at(port, link, lane);
  context_.slab[index].following = kNone;
  (at.first == kNone ? at.first : context_.slab[at.last].following) = index;
  at.last = index;
  port.waiting |= static_cast<std::uint8_t>(1u << lane);
}

/// Sees to it that a link is served when it can be.
void CreditFabric::offer(CreditPort& port, std::uint32_t link) {
  if (port.armed || port.down || port.waiting == 0) return;
  if (wire_free(port)) serve(port, link);
  else arm(port, link, port.busy_until);
}

void CreditFabric::arm(CreditPort& port, std::uint32_t link, Ps at) {
  if (port.armed) return;
  port.armed = true;
  context_.wheel.push(at, event(Event::port, link));
}

void CreditFabric::on_port(std::uint32_t link) {
  CreditPort& port = ports_[link];
  port.armed = false;
  if (fifo_) expose(link);
  offer(port, link);
}

/// Sends the next of the packets that wait, if one has credit, and settles which one follows it. PRE: the wire is free.
void CreditFabric::serve(CreditPort& port, std::uint32_t link) {
  const unsigned lane = choose(port, link);
  if (lane == LaneArbiter::kNoLane) return;
  send_first(port, link, lane);
  for (unsigned more = ahead_; more != 0 && port.waiting != 0 && has_credit(port, link, 0); --more)
    send_first(port, link, 0);
  if (port.waiting != 0) arm(port, link, port.busy_until);
  if (port.wanted != 0) tell_host(port, link);
}

/// Sends the first packet of the round of a lane.
void CreditFabric::send_first(CreditPort& port, std::uint32_t link, unsigned lane) {
  CreditLane& at = lane_at(port, link, lane);
  const std::uint32_t index = at.first;
  Packet& packet = context_.slab[index];
  const std::uint32_t next = packet.next, queue = queue_of(port, packet, lane);
  const bool from_fifo = fifo_ && packet.ingress != kNone;
  at.first = std::exchange(packet.following, kNone);
  if (at.first == kNone) port.waiting &= static_cast<std::uint8_t>(~(1u << lane));
  at.queued -= packet.size;
  if (adaptive_) loads_[link] -= blocks(packet.size);
  if (options_.mark_bytes > 0 && at.queued > options_.mark_bytes && packet.kind == Kind::data &&
      (port.stuck >> lane & 1) == 0) {
    packet.flags |= kMarked;
    ++context_.outcome.counters.marked;
    ++marks_[link];
  }
  begin(port, link, lane, index);
  if (from_fifo) read(port, link, queue, next);
  else if (next != kNone) join(port, link, lane, next);
  else tails_[queue] = kNone;
}

/// The lane that goes next; kNoLane when none has credit.
unsigned CreditFabric::choose(CreditPort& port, std::uint32_t link) {
  unsigned could = 0;
  for (unsigned left = port.waiting; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    if (has_credit(port, link, lane)) could |= 1u << lane;
    else stick(port, link, lane);
  }
  if (could == 0) return LaneArbiter::kNoLane;
  if (lanes_ == 1) return 0;
  LaneArbiter& arbiter = arbiters_[link];
  const unsigned lane = arbiter.choose(options_, could);
  const CreditLane& at = lane_at(port, link, lane);
  arbiter.sent(options_, could, lane, context_.slab[at.first].size);
  return lane;
}

/// PRE: something waits. WHY the first of the round alone is asked: were smaller ones let past it, it could wait for ever.
bool CreditFabric::has_credit(CreditPort& port, std::uint32_t link, unsigned lane) {
  const CreditLane& at = lane_at(port, link, lane);
  return at.credit >= mtu_blocks_ || at.credit >= blocks(context_.slab[at.first].size);
}

/// FIFO: the next packet of the queue is seen when this one has left.
void CreditFabric::read(CreditPort& port, std::uint32_t link, std::uint32_t queue, std::uint32_t next) {
  if (next == kNone) tails_[queue] = kReading;
  reading_[link] = {queue, next};
  arm(port, link, port.busy_until);
}

void CreditFabric::expose(std::uint32_t link) {
  const Reading was = std::exchange(reading_[link], Reading());
  if (was.queue != kNone) enter(was.queue, was.next != kNone ? was.next : std::exchange(heads_[was.queue], kNone));
}

/// FIFO: a packet has become the head of its queue.
void CreditFabric::enter(std::uint32_t queue, std::uint32_t head) {
  if (head == kNone) {
    tails_[queue] = kNone;
    return;
  }
  const std::uint32_t egress = context_.slab[head].link;
  join(ports_[egress], egress, queue % lanes_, head);
  if (ports_[egress].down) drop_waiting(ports_[egress], egress);
  else offer(ports_[egress], egress);
}

/// A packet that cannot go on; its place is free again.
void CreditFabric::drop(std::uint32_t index) {
  const Packet packet = context_.slab[index];
  context_.slab.release(index);
  ++context_.outcome.counters.lost;
  if (packet.ingress != kNone) release(packet.ingress, lane_of(packet.klass), blocks(packet.size), context_.now);
}

/// What waits for a link that is down has nowhere to go: a switch drops it, a host keeps it.
void CreditFabric::drop_waiting(CreditPort& port, std::uint32_t link) {
  if (of_host(link)) return;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    CreditLane& at = lane_at(port, link, lane);
    while (at.first != kNone) {
      const std::uint32_t index = at.first;
      Packet& packet = context_.slab[index];
      const std::uint32_t next = packet.next, queue = queue_of(port, packet, lane);
      at.first = std::exchange(packet.following, kNone);
      at.queued -= packet.size;
      if (adaptive_) loads_[link] -= blocks(packet.size);
      drop(index);
      if (next == kNone) tails_[queue] = kNone;
      else if (fifo_ && context_.slab[next].link != link) enter(queue, next);
      else join(port, link, lane, next);
    }
    port.waiting &= static_cast<std::uint8_t>(~(1u << lane));
    if ((port.stuck >> lane & 1) != 0) unstick(port, link, lane);
  }
}

void CreditFabric::stick(CreditPort& port, std::uint32_t link, unsigned lane) {
  if ((port.stuck >> lane & 1) != 0) return;
  port.stuck |= static_cast<std::uint8_t>(1u << lane);
  stuck_since_[input(link, lane)] = context_.now;
  if (watching_) return;
  watching_ = true;
  context_.wheel.push(context_.now + options_.watch_ps, event(Event::extra, static_cast<std::uint32_t>(inputs_.size())));
}

void CreditFabric::unstick(CreditPort& port, std::uint32_t link, unsigned lane) {
  port.stuck &= static_cast<std::uint8_t>(~(1u << lane));
  const Ps time = context_.now - stuck_since_[input(link, lane)];
  waited_[link] += time;
  longest_[link] = std::max(longest_[link], time);
  ++times_[link];
  if (time >= kLong) blame_[link].vote(root_of(link), time);
}

/// Whether a link lacks credit, or did not long ago: just then a packet may be on its way.
bool CreditFabric::lately_stuck(std::uint32_t link) const {
  if (ports_[link].stuck != 0) return true;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    const Ps since = stuck_since_[input(link, lane)];
    if (times_[link] != 0 && since != 0 && context_.now - since < kLately) return true;
  }
  return false;
}

/// Where the tree of full buffers begins that ends at a link: on from switch to switch by the link for which most waits.
std::uint32_t CreditFabric::root_of(std::uint32_t link) const {
  for (unsigned steps = 0; steps < 64; ++steps) {
    const std::uint32_t node = ends_[link].target;
    if (node < context_.hosts || !context_.owns(node)) return link;
    std::uint32_t most = leaving_[leaving_ptr_[node]];
    for (std::uint32_t at = leaving_ptr_[node]; at < leaving_ptr_[node + 1]; ++at)
      if (depth(leaving_[at]) > depth(most)) most = leaving_[at];
    link = most;
    if (!lately_stuck(link)) return link;
  }
  return link;
}

void CreditFabric::conclude() {
  for (std::uint32_t link = 0; link < ports_.size(); ++link)
    for (unsigned lane = 0; lane < lanes_; ++lane)
      if ((ports_[link].stuck >> lane & 1) != 0 && paused(link)) unstick(ports_[link], link, lane);
  PauseColumns& columns = context_.outcome.pauses;
  columns.paused_ps = std::move(waited_);
  columns.longest_ps = std::move(longest_);
  columns.pauses = std::move(times_);
  columns.origin.clear();
  for (const Majority& majority : blame_) columns.origin.push_back(static_cast<std::int32_t>(majority.origin));
}

Ps CreditFabric::paused_ps(std::uint32_t link) const {
  Ps sum = waited_[link];
  for (unsigned lane = 0; lane < lanes_; ++lane)
    if ((ports_[link].stuck >> lane & 1) != 0) sum += context_.now - stuck_since_[input(link, lane)];
  return sum;
}

/// A host that was refused asks again.
void CreditFabric::tell_host(CreditPort& port, std::uint32_t link) {
  bool now_ready = false;
  for (unsigned left = port.wanted; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    now_ready = now_ready || (!port.down && (port.waiting >> lane & 1) == 0 &&
                              lane_at(port, link, lane).credit >= mtu_blocks_);
  }
  if (!now_ready) return;
  port.wanted = 0;
  const std::uint32_t host = ends_[reverse_[link]].target;
  Nic& nic = context_.nics[host];
  if (nic.slot) return;
  nic.slot = true;
  context_.wheel.push(std::max(context_.now, nic.busy_until), event(Event::slot, host));
}

// ------------------------------------------------------------------------------------------------------------- credit

/// Space has been set free: a credit packet is due, at once where it is enough, else after the period.
void CreditFabric::promise(CreditInput& in, std::uint32_t index) {
  if (in.freed >= update_blocks_) {
    if (in.at <= context_.now) {
      on_extra(index);
      return;
    }
    in.pending = true;
    context_.wheel.push(in.at, event(Event::extra, index));
  } else if (!in.timer) {
    // The sender may be out of credit: it is told of less when the period is over.
    in.timer = true;
    context_.wheel.push(std::max(in.at, context_.now) + options_.update_period_ps, event(Event::extra, index));
  }
}

void CreditFabric::on_extra(std::uint32_t index) {
  if (index == inputs_.size()) {
    watch();
    return;
  }
  CreditInput& in = inputs_[index];
  const std::uint32_t link = index / lanes_;
  if (in.pending && context_.now < in.at) {  // the period is over, but more is due soon
    in.timer = false;
    return;
  }
  if (!in.pending) in.timer = false;
  in.pending = false;
  if (in.freed == 0 || ports_[reverse_[link]].down) return;
  if (context_.now < in.at) {
    in.pending = true;
    context_.wheel.push(in.at, event(Event::extra, index));
    return;
  }
  const std::int32_t told = std::exchange(in.freed, std::exchange(in.later, 0));
  in.at = std::exchange(in.later_at, 0);
  in.granted += told;
  send_credit(link, index % lanes_, told);
  if (in.freed >= update_blocks_ || (in.freed > 0 && in.granted < mtu_blocks_)) promise(in, index);
}

/// A credit packet goes over the link back, before any packet that waits for it.
void CreditFabric::send_credit(std::uint32_t link, unsigned lane, std::int32_t count) {
  const std::uint32_t back = reverse_[link];
  CreditPort& port = ports_[back];
  const CreditLinkClass& klass = classes_[port.kind];
  const Ps start = std::max(context_.now, port.busy_until + port.debt);
  if (start == context_.now) {
    port.busy_until = start + klass.credit_time;
    port.debt = 0;
  } else {
    port.debt += static_cast<std::uint32_t>(klass.credit_time);
  }
  port.carried += options_.packet_bytes;
  const std::uint32_t index = context_.slab.acquire();
  Packet& packet = context_.slab[index];
  packet.flow = 0;
  packet.link = back;
  packet.size = static_cast<std::uint16_t>(options_.packet_bytes);
  packet.kind = Kind::credit;
  packet.klass = static_cast<std::uint8_t>(lane);
  packet.flags = 0;
  packet.ingress = packet.following = kNone;
  packet.amount = count;
  ++context_.outcome.counters.credits;
  context_.depart(back, index, start + klass.credit_time + klass.latency);
}

void CreditFabric::take_credit(std::uint32_t index) {
  const Packet& packet = context_.slab[index];
  const std::uint32_t link = reverse_[packet.link];
  const unsigned lane = packet.klass;
  const auto count = static_cast<std::int32_t>(packet.amount);
  context_.slab.release(index);
  CreditPort& port = ports_[link];
  lane_at(port, link, lane).credit += count;
  if (adaptive_) loads_[link] -= count;
  offer(port, link);
  if (port.wanted != 0) tell_host(port, link);
}

/// What a link has lost. WHY nothing is lost for good: credits are absolute counts, in both directions, so that the next
/// credit packet makes up for what the last ones, or the packets, did not bring.
void CreditFabric::lost(const Packet& packet) {
  if (packet.kind != Kind::credit) {
    release(packet.link, lane_of(packet.klass), blocks(packet.size), context_.now);
    return;
  }
  const std::uint32_t index = context_.slab.acquire();
  context_.slab[index] = packet;
  context_.wheel.push(context_.now + options_.update_period_ps, event(Event::arrival, index), packet.link);
}

// -------------------------------------------------------------------------------------------------------------- routes

/// Of the equal-cost links one with the fewest blocks waiting for it and out on it without credit back; by lot among equals.
std::uint32_t CreditFabric::least_loaded(std::uint32_t node, const Choice& choice) {
  std::array<std::uint32_t, 256> best;
  std::uint32_t count = 0;
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  for (std::uint32_t at = 0; at < choice.width; ++at) {
    const std::int32_t load = loads_[choice.links[at]];
    if (load > least) continue;
    if (load < least) count = 0;
    least = load;
    if (count < best.size()) best[count++] = choice.links[at];
  }
  if (count == 1) return best[0];
  return best[below(draw(stream_key(context_.options.seed, Stream::adaptive, node), draws_[node]++), count)];
}

/// Whether a faster link must wait until all of the packet is there, so as not to run dry; its arrival is then repeated.
bool CreditFabric::must_wait_for_all(std::uint32_t link, std::uint32_t index, const CreditPort& port) {
  const CreditLinkClass& in = classes_[ports_[link].kind];
  Packet& packet = context_.slab[index];
  if ((packet.flags & kStored) != 0 || classes_[port.kind].rate_bps <= in.rate_bps) return false;
  const Ps rest = time_of(in, packet.size) - in.head_time;
  if (rest <= 0) return false;
  packet.flags |= kStored | kHeld;  // the link layer has let it pass
  context_.wheel.push(context_.now + rest, event(Event::arrival, index), link);
  return true;
}

void CreditFabric::set_rate(std::uint32_t link, double factor) {
  CreditPort& port = ports_[link];
  const bool down = factor <= 0;
  if (adaptive_ && down != port.down) loads_[link] += down ? kDownLoad : -kDownLoad;
  port.down = down;
  if (down) return drop_waiting(port, link);
  const CreditLinkClass full = classes_[ends_[link].kind];  // a copy: class_of may move them
  const auto rate = static_cast<std::uint64_t>(std::max(1.0, static_cast<double>(full.rate_bps) * factor));
  port.kind = class_of(rate, full.latency, ends_[link].target < context_.hosts);
  uniform_ = uniform_ && rate == full.rate_bps;
  offer(port, link);
  if (port.wanted != 0) tell_host(port, link);
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    CreditInput& in = inputs_[input(reverse_[link], lane)];
    if (in.freed > 0 && !in.pending) {
      in.pending = true;
      context_.wheel.push(std::max(in.at, context_.now), event(Event::extra, input(reverse_[link], lane)));
    }
  }
}

std::int64_t CreditFabric::depth(std::uint32_t link) const {
  std::int64_t sum = 0;
  for (unsigned lane = 0; lane < lanes_; ++lane) sum += lane_at(ports_[link], link, lane).queued;
  return sum;
}

std::uint32_t CreditFabric::look_ahead_middle(std::uint32_t index) {
  Packet& packet = context_.slab[index];
  if (packet.kind == Kind::credit) {
    __builtin_prefetch(ports_.data() + reverse_[packet.link], 1);
    return kNone;
  }
  const std::uint32_t node = ends_[packet.link].target;
  __builtin_prefetch(inputs_.data() + input(packet.link, lane_of(packet.klass)), 1);
  if (node < context_.hosts) return node;
  if (adaptive_ && packet.size >= kAdaptiveLeast) return kNone;
  if (packet.following == kNone) packet.following = by_table(node, packet);
  if (adaptive_ && packet.following != kNone && ports_[packet.following].down) packet.following = kNone;
  if (packet.following != kNone) __builtin_prefetch(ports_.data() + packet.following, 1);
  return kNone;
}

std::uint32_t CreditFabric::look_ahead_near(std::uint32_t index) {
  const Packet& packet = context_.slab[index];
  if (packet.kind == Kind::credit) return kNone;
  const std::uint32_t node = ends_[packet.link].target;
  if (node < context_.hosts) return node;
  if (packet.following != kNone && !fifo_)
    __builtin_prefetch(tails_.data() + ports_[packet.following].queues + ends_[packet.link].rank * lanes_ +
                           lane_of(packet.klass), 1);
  return kNone;
}

}  // namespace railyard::packet
