#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/invariant.hpp"
#include "packet/context.hpp"
#include "packet/event.hpp"
#include "packet/fabric/destination_routes.hpp"
#include "packet/fabric/lane_arbiter.hpp"
#include "packet/fabric/pause_graph.hpp"
#include "packet/wire.hpp"

namespace railyard::packet {

/// What links of one kind have in common.
struct CreditLinkClass {
  std::uint64_t rate_bps;
  Ps latency;
  Ps mtu_time, header_time;
  Ps head_time;    ///< From a packet's beginning until what a switch needs of it is sent; never for hosts: they want all.
  Ps credit_time;  ///< A credit packet on the wire.
};

/// A lane of a link as its sender has it.
struct CreditLane {
  std::int32_t credit = 0;                    ///< Blocks that the far end has room for.
  std::uint32_t first = kNone, last = kNone;  ///< The round: the heads of the queues that hold a packet for it.
  std::int32_t queued = 0;                    ///< Bytes in those.
};

/// The egress of a link: one cache line, with its first two lanes.
struct alignas(64) CreditPort {
  Ps busy_until = 0;
  std::int64_t carried = 0;
  std::uint32_t queues = 0;    ///< Its first queue: one for each input and lane.
  std::uint32_t debt = 0;      ///< Picoseconds of credit packets that go before the next packet.
  std::uint16_t kind = 0;      ///< Class.
  std::uint8_t waiting = 0;    ///< Lanes that hold packets.
  std::uint8_t stuck = 0;      ///< Those that were found without credit.
  std::uint8_t wanted = 0;     ///< Lanes that the host has asked for in vain.
  bool armed = false;          ///< Its event is pending.
  bool down = false;
  std::array<CreditLane, 2> lanes;
};
static_assert(sizeof(CreditPort) == 64);

/// The input buffer of a lane at the far end of a link, in blocks: buffer = granted + freed + later + what it holds.
struct CreditInput {
  std::int32_t granted = 0;  ///< The sender has been told of them and no packet has come for them.
  std::int32_t freed = 0;    ///< Empty by `at`, to be told of.
  std::int32_t later = 0;    ///< Empty by `later_at`, after the credit packet that is being waited for.
  bool pending = false;      ///< A credit packet is due at `at`.
  bool timer = false;        ///< The period is running.
  Ps at = 0, later_at = 0;
};
static_assert(sizeof(CreditInput) == 32);

/// Lossless switches with input buffers and credits per virtual lane (InfiniBand).
///
/// A packet begins on a link only when the buffer of its lane at the far end has room for all of it. It lies there until
/// it leaves by its egress (virtual output queues; or FIFOs); the space is told of in credit packets on the link back.
/// Egresses serve their inputs in turn, their lanes by InfiniBand's two tables. Credit is counted in blocks of 64 bytes.
///
/// Events: a packet's arrival; an egress's end of a packet where more waits; a credit packet's departure and arrival.
class CreditFabric {
 public:
  static constexpr bool kBackpressure = true;
  static constexpr bool kParts = true;
  static constexpr std::int32_t kBlock = 64;

  explicit CreditFabric(Context& context);

  /// The packet has come to the end of its link, whether it arrives or not.
  void touch(std::uint32_t index) {
    const Packet& packet = context_.slab[index];
    if (packet.kind == Kind::credit || (packet.flags & (kHeld | kStored)) != 0) return;
    take(packet.link, lane_of(packet.klass), blocks(packet.size));
  }

  /// The packet, or as much of it as a switch needs to send it on, is at the end of its link.
  std::uint32_t arrive(std::uint32_t index) {
    const Packet& packet = context_.slab[index];
    if (packet.kind == Kind::credit) {
      take_credit(index);
      return kNone;
    }
    const std::uint32_t link = packet.link;
    const unsigned lane = lane_of(packet.klass);
    const std::uint32_t node = ends_[link].target;
    if (node < context_.hosts) {
      release(link, lane, blocks(packet.size), context_.now);
      return node;
    }
    forward(node, link, lane, index);
    return kNone;
  }

  /// A link has lost a packet (a copy of it).
  void lost(const Packet& packet);

  /// PRE: ready(host, its class), or the host has several links: what finds no credit then waits.
  void inject(std::uint32_t host, std::uint32_t index) {
    Packet& packet = context_.slab[index];
    const std::uint32_t link = uplink(host, index);
    if (link == kNone) return drop(index);
    const unsigned lane = lane_of(packet.klass);
    CreditPort& port = ports_[link];
    packet.ingress = kNone;
    if (!port.down && (port.waiting >> lane & 1) == 0 && lane_at(port, link, lane).credit >= blocks(packet.size)) {
      begin(port, link, lane, index);
    } else {
      wait(port, link, lane, index);
    }
  }

  /// Whether the host may begin a packet of any size in this class. What it is refused it is told of by a slot event.
  bool ready(std::uint32_t host, std::uint8_t klass) {
    const unsigned lane = lane_of(klass);
    const Nic& nic = context_.nics[host];
    if (nic.link != kNone) return lane_ready(nic.link, lane);
    bool all = true;
    for (std::uint32_t at = leaving_ptr_[host]; at < leaving_ptr_[host + 1]; ++at)
      all = lane_ready(leaving_[at], lane) && all;
    return all;
  }

  /// Time on the host's wire, credit packets that go first included.
  Ps host_time(std::uint32_t host, std::uint32_t index) const {
    const Nic& nic = context_.nics[host];
    const std::uint32_t link = uplink(host, index);
    if (link == kNone) return 0;
    const CreditPort& port = ports_[link];
    const Ps time = time_of(classes_[port.kind], context_.slab[index].size);
    if (nic.links != 1) return time / nic.links;
    return time + std::max<Ps>(port.busy_until + port.debt - context_.now, 0);
  }

  void on_port(std::uint32_t link);
  void on_extra(std::uint32_t index);

  void prefetch(std::uint32_t link) const { __builtin_prefetch(ports_.data() + link, 1); }
  std::uint32_t look_ahead_middle(std::uint32_t index);
  std::uint32_t look_ahead_near(std::uint32_t index);

  /// Of the event of a link that is served: the link, the packet that goes next, those that come after it.
  void look_ahead(Event kind, std::uint32_t link, int step) const {
    if (kind != Event::port) return;
    if (step == 0) {
      prefetch(link);
      return;
    }
    const CreditPort& port = ports_[link];
    if ((port.waiting & 1) == 0) return;
    if (step == 1) {
      context_.slab.prefetch(port.lanes[0].first);
      return;
    }
    const Packet& packet = context_.slab[port.lanes[0].first];
    if (packet.following != kNone) context_.slab.prefetch(packet.following);
    if (packet.next != kNone) context_.slab.prefetch(packet.next);
    if (packet.ingress != kNone) __builtin_prefetch(inputs_.data() + input(packet.ingress, lane_of(packet.klass)), 1);
  }

  void settle(Ps) {}
  /// Puts into the outcome how long links were held back; the last thing that is called.
  void conclude();
  /// Bytes waiting for a link, in all inputs and lanes.
  std::int64_t depth(std::uint32_t link) const;
  std::int64_t carried(std::uint32_t link) const { return ports_[link].carried; }
  std::int64_t marks(std::uint32_t link) const { return marks_[link]; }
  /// Time that packets have waited for credit alone, summed over lanes (InfiniBand's PortXmitWait).
  Ps paused_ps(std::uint32_t link) const;
  /// Whether packets wait for a link and none has credit.
  bool paused(std::uint32_t link) const {
    const unsigned waiting = ports_[link].waiting | ports_[link].wanted;
    return waiting != 0 && (ports_[link].stuck & waiting) == waiting;
  }
  /// Makes a link run at a part of its rate. At 0 a switch drops what it has for it, a host keeps it.
  void set_rate(std::uint32_t link, double factor);

  /// Blocks: of the buffer, that the sender may still use, that the far end has granted, that it holds (tests).
  std::int32_t buffer(std::uint32_t link) const { return buffer_[link]; }
  std::int32_t credit(std::uint32_t link, unsigned lane) const { return lane_at(ports_[link], link, lane).credit; }
  std::int32_t granted(std::uint32_t link, unsigned lane) const { return inputs_[input(link, lane)].granted; }
  std::int32_t held(std::uint32_t link, unsigned lane) const {
    const CreditInput& in = inputs_[input(link, lane)];
    return buffer_[link] - in.granted - in.freed - in.later;
  }

 private:
  static constexpr std::uint16_t kAdaptiveLeast = 100;
  static constexpr unsigned kStill = 10;
  static constexpr Ps kLong = 1'000'000;  ///< Only of waits so long is it asked who is the cause.
  static constexpr Ps kLately = 10'000'000;
  static constexpr std::uint32_t kReading = kNone - 1;  ///< Of a FIFO that is empty but for what leaves it.

  /// Where a link ends, and as which of the links that end there.
  struct End {
    std::uint32_t target;
    std::uint16_t rank;
    std::uint16_t kind;  ///< Class at full rate.
  };

  // Set-up.
  void lay_out_queues();
  void pair_links();
  std::int32_t flying_blocks(std::size_t link) const;
  std::uint16_t class_of(std::uint64_t rate_bps, Ps latency, bool to_host);

  static std::int32_t blocks(std::uint32_t bytes) { return static_cast<std::int32_t>((bytes + kBlock - 1) / kBlock); }
  unsigned lane_of(std::uint8_t klass) const { return lanes_ == 1 ? 0 : klass % lanes_; }
  std::uint32_t input(std::uint32_t link, unsigned lane) const { return link * lanes_ + lane; }
  CreditLane& lane_at(CreditPort& port, std::uint32_t link, unsigned lane) {
    return lane < 2 ? port.lanes[lane] : more_[std::size_t{link} * (lanes_ - 2) + lane - 2];
  }
  const CreditLane& lane_at(const CreditPort& port, std::uint32_t link, unsigned lane) const {
    return lane < 2 ? port.lanes[lane] : more_[std::size_t{link} * (lanes_ - 2) + lane - 2];
  }
  Ps time_of(const CreditLinkClass& klass, std::uint32_t size) const {
    if (size == mtu_) return klass.mtu_time;
    if (size == header_) return klass.header_time;
    return wire_time(size, klass.rate_bps);
  }
  /// But for credit packets that go first.
  bool wire_free(const CreditPort& port) const { return port.busy_until <= context_.now; }

  /// Whether what goes next may be settled now. WHY before the wire is free: with one lane it is the first of the round,
  /// whatever comes until then; settled ahead, it costs no event of its own.
  bool soon_free(const CreditPort& port) const {
    return port.busy_until <= context_.now + (ahead_ == 0 ? 0 : classes_[port.kind].mtu_time);
  }

  std::uint32_t uplink(std::uint32_t host, std::uint32_t index) const {
    const Nic& nic = context_.nics[host];
    return nic.link != kNone ? nic.link : by_table(host, context_.slab[index]);
  }

  /// The link that is given by tables or by a hash: what does not depend on the moment.
  std::uint32_t by_table(std::uint32_t node, const Packet& packet) const {
    const Choice choice = context_.routes.find(node, packet.destination);
    if (choice.width <= 1) return choice.width == 1 ? *choice.links : kNone;
    return choice.links[hashed_ ? context_.routes.pick(node, packet.key, choice.width)
                                : tables_.pick(node, packet.destination, choice.width)];
  }

  std::uint32_t least_loaded(std::uint32_t node, const Choice& choice);
  bool must_wait_for_all(std::uint32_t link, std::uint32_t index, const CreditPort& port);

  void forward(std::uint32_t node, std::uint32_t link, unsigned lane, std::uint32_t index) {
    Packet& packet = context_.slab[index];
    std::uint32_t egress = packet.following;
    packet.following = kNone;
    if (egress == kNone) {
      const Choice choice = context_.routes.find(node, packet.destination);
      if (adaptive_ && choice.width > 1 && packet.size >= kAdaptiveLeast) egress = least_loaded(node, choice);
      else egress = by_table(node, packet);
      // A switch that chooses knows its own ports.
      if (adaptive_ && egress != kNone && ports_[egress].down) egress = least_loaded(node, choice);
    }
    packet.ingress = link;
    if (egress == kNone) return drop(index);
    CreditPort& port = ports_[egress];
    if (!uniform_ && must_wait_for_all(link, index, port)) {
      packet.following = egress;
      return;
    }
    const bool first = !fifo_ || tails_[input(link, lane)] == kNone;
    if (first && !port.armed && !port.down && (port.waiting >> lane & 1) == 0 && soon_free(port) &&
        lane_at(port, egress, lane).credit >= blocks(packet.size)) {
      packet.next = kNone;
      begin(port, egress, lane, index);
      if (fifo_) read(port, egress, input(link, lane), kNone);
    } else {
      wait(port, egress, lane, index);
    }
  }

  /// A packet begins on the wire, now or behind what is on it. PRE: credit; nothing of its lane waits before it.
  void begin(CreditPort& port, std::uint32_t link, unsigned lane, std::uint32_t index) {
    Packet& packet = context_.slab[index];
    const CreditLinkClass& klass = classes_[port.kind];
    const Ps start = std::max(context_.now, port.busy_until + port.debt);
    const Ps time = time_of(klass, packet.size);
    const std::int32_t taken = blocks(packet.size);
    port.debt = 0;
    port.busy_until = start + time;
    port.carried += packet.size;
    ++begun_;
    lane_at(port, link, lane).credit -= taken;
    if (adaptive_) loads_[link] += taken;
    if ((port.stuck >> lane & 1) != 0) unstick(port, link, lane);
    packet.link = link;
    packet.flags &= static_cast<std::uint16_t>(~(kHeld | kStored));
    if (packet.ingress != kNone) release(packet.ingress, lane, taken, port.busy_until);
    context_.depart(link, index, start + std::min(time, klass.head_time) + klass.latency);
  }

  /// The queue in which a packet waits for a link: of its input (and, unless inputs are FIFOs, of the link) and its lane.
  std::uint32_t queue_of(const CreditPort& port, const Packet& packet, unsigned lane) const {
    if (packet.ingress == kNone) return port.queues + lane;
    return fifo_ ? input(packet.ingress, lane) : port.queues + ends_[packet.ingress].rank * lanes_ + lane;
  }
  void wait(CreditPort& port, std::uint32_t link, unsigned lane, std::uint32_t index);
  void join(CreditPort& port, std::uint32_t link, unsigned lane, std::uint32_t index);
  void arm(CreditPort& port, std::uint32_t link, Ps at);
  void serve(CreditPort& port, std::uint32_t link);
  void send_first(CreditPort& port, std::uint32_t link, unsigned lane);
  unsigned choose(CreditPort& port, std::uint32_t link);
  bool has_credit(CreditPort& port, std::uint32_t link, unsigned lane);
  void read(CreditPort& port, std::uint32_t link, std::uint32_t queue, std::uint32_t next);
  void expose(std::uint32_t link);
  void enter(std::uint32_t queue, std::uint32_t head);
  void stick(CreditPort& port, std::uint32_t link, unsigned lane);
  void unstick(CreditPort& port, std::uint32_t link, unsigned lane);
  bool lately_stuck(std::uint32_t link) const;
  std::uint32_t root_of(std::uint32_t link) const;
  void offer(CreditPort& port, std::uint32_t link);

  bool lane_ready(std::uint32_t link, unsigned lane) {
    CreditPort& port = ports_[link];
    if (!port.down && (port.waiting >> lane & 1) == 0 && lane_at(port, link, lane).credit >= mtu_blocks_) return true;
    if (lane_at(port, link, lane).credit < mtu_blocks_) stick(port, link, lane);
    port.wanted |= static_cast<std::uint8_t>(1u << lane);
    return false;
  }
  void tell_host(CreditPort& port, std::uint32_t link);
  void drop(std::uint32_t index);
  void drop_waiting(CreditPort& port, std::uint32_t link);
  bool of_host(std::uint32_t link) const { return ends_[reverse_[link]].target < context_.hosts; }

  // Credit.
  void take(std::uint32_t link, unsigned lane, std::int32_t count) {
    CreditInput& in = inputs_[input(link, lane)];
    in.granted -= count;
    RAILYARD_INVARIANT(in.granted >= 0);  // a packet begins only with credit for all of it
    check_buffer(in, input(link, lane));
    if (in.granted < mtu_blocks_ && in.freed > 0 && !in.pending) promise(in, input(link, lane));
  }
  void release(std::uint32_t link, unsigned lane, std::int32_t count, Ps at) {
    CreditInput& in = inputs_[input(link, lane)];
    if (in.pending && at > in.at) {
      in.later += count;
      in.later_at = std::max(in.later_at, at);
      return;
    }
    in.freed += count;
    if (in.pending) return;
    in.at = std::max(in.at, at);
    if (in.freed >= update_blocks_ || in.granted < mtu_blocks_) promise(in, input(link, lane));
  }
  void promise(CreditInput& in, std::uint32_t index);
  void send_credit(std::uint32_t link, unsigned lane, std::int32_t count);
  /// What is empty and what has been promised never exceeds the buffer.
  void check_buffer(const CreditInput& in, std::uint32_t at) const {
    RAILYARD_INVARIANT(in.freed >= 0 && in.later >= 0 && in.granted + in.freed + in.later <= buffer_[at / lanes_]);
    static_cast<void>(in), static_cast<void>(at);
  }
  void take_credit(std::uint32_t index);

  // Circles of lanes that wait for each other.
  void watch();
  void look_for_circle() const;

  Context& context_;
  const LinkCreditOptions& options_;
  bool adaptive_, hashed_, fifo_, uniform_ = true, watching_ = false;
  std::uint32_t lanes_, mtu_, header_;
  unsigned ahead_;  ///< Packets settled beyond the one whose turn it is.
  std::vector<std::int32_t> buffer_;  ///< Of a lane in blocks, by link.
  std::int32_t update_blocks_, mtu_blocks_;
  std::uint64_t begun_ = 0, begun_before_ = 0;  ///< Packets; the same when lanes were last watched.
  unsigned still_ = 0;                          ///< How often since then nothing had moved.
  DestinationRoutes tables_;
  std::vector<CreditLinkClass> classes_;
  std::vector<End> ends_;
  std::vector<std::uint32_t> reverse_;  ///< The link back.
  BigVector<CreditPort> ports_;
  std::vector<CreditLane> more_;        ///< Lanes beyond the second.
  BigVector<CreditInput> inputs_;
  BigVector<std::uint32_t> tails_;      ///< The last packet of every queue; kNone: it is empty and nothing of it leaves.
  std::vector<std::int32_t> loads_;     ///< Adaptive routing: blocks waiting for a link and out on it.
  std::vector<std::uint32_t> draws_;
  std::vector<LaneArbiter> arbiters_;
  struct Reading {
    std::uint32_t queue = kNone, next = kNone;
  };
  std::vector<Reading> reading_;        ///< FIFOs: the queue from which a link is being fed, its packet after that.
  std::vector<std::uint32_t> heads_;    ///< FIFOs: the first packet that has come while the last one leaves.
  std::vector<Ps> stuck_since_, waited_;
  std::vector<std::int64_t> marks_;
  std::vector<std::uint32_t> leaving_ptr_, leaving_;  ///< Links that leave a node.
  std::vector<Ps> longest_;
  std::vector<std::int32_t> times_;
  std::vector<Majority> blame_;
};

}  // namespace railyard::packet
