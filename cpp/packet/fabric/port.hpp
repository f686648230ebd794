#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/invariant.hpp"
#include "packet/context.hpp"
#include "packet/draws.hpp"
#include "packet/fabric/line.hpp"
#include "packet/telemetry.hpp"
#include "packet/wire.hpp"

namespace railyard::packet {

/// What ports have in common: rate, delay, limits of the queue.
struct PortClass {
  std::uint64_t rate_bps;
  Ps latency;
  Ps mtu_time, header_time;
  std::int64_t limit, control_limit;      ///< Bytes of payload packets, of headers and control packets.
  std::int64_t mark_above, mark_surely;   ///< Bytes left behind a departing packet: marked never .. always.
  bool last_hop;                          ///< Leads to a host.
  bool first_hop;                         ///< Leaves a host.
  bool down;
  bool leaves;                            ///< Leads into another part.
  bool prompt;                            ///< Shorter than a window of the wheel: served by events of its own, at once.

  bool operator==(const PortClass&) const = default;
};

/// The egress of a link: one cache line.
struct alignas(64) Port {
  Ps busy_until = 0;
  Line low, high;  ///< What waits: payload packets; headers and control packets.
  std::int32_t low_bytes = 0, high_bytes = 0;  ///< Waiting and in service.
  std::uint32_t serving = kNone;               ///< The packet in service.
  std::uint16_t serving_size = 0;
  std::uint16_t kind = 0;  ///< Four times the class; plus `kPayload`, `kListed`.

  static constexpr std::uint16_t kPayload = 1;  ///< A payload packet is in service.
  static constexpr std::uint16_t kListed = 2;   ///< It is served at the end of the window.

  std::size_t klass() const { return kind >> 2; }
  bool serves_payload() const { return (kind & kPayload) != 0; }
  bool listed() const { return (kind & kListed) != 0; }
  bool waits() const { return (high.count() | low.count()) != 0; }
  void set(std::uint16_t flag, bool on) {
    kind = static_cast<std::uint16_t>(on ? kind | flag : kind & ~unsigned{flag});
  }
};
static_assert(sizeof(Port) == 64);

/// Switch egress queues as Ultra Ethernet's simulator has them: payload packets in one queue, headers and control packets
/// in another that goes first; a full payload queue cuts the arriving packet, or (half of the times) the one that came
/// last, to its header; packets are marked as they leave, by what they leave behind.
///
/// There is one event a packet and port, its arrival at the other end. A port is served when it is touched: everything
/// that began before `now` is then known, because all arrivals before `now` have been. Where packets wait it is also
/// served at the end of every window of the wheel, which is no longer than a link's delay: so a packet's arrival is in the
/// future when its service begins, or ends.
class Ports {
 public:
  explicit Ports(Context& context);

  /// A packet comes to the egress of a link.
  void enqueue(std::uint32_t link, std::uint32_t index, Ps now) {
    Port& port = ports_[link];
    serve(port, link, now);
    Packet& packet = slab_[index];
    packet.link = link;
    const Waiting waiting{index, packet.size};
    const bool high = is_control(packet);
    if (port.serving == kNone) {
      (high ? port.high_bytes : port.low_bytes) += packet.size;
      begin(port, link, waiting, high, now);
      return;
    }
    if (high) {
      queue_control(port, waiting);
    } else if (port.low_bytes + packet.size <= classes_[port.klass()].limit) {
      port.low.push(lines_, waiting);
      port.low_bytes += packet.size;
      RAILYARD_INVARIANT(port.low_bytes <= classes_[port.klass()].limit);
    } else {
      overflow(port, link, waiting);
    }
    if (!port.listed()) list(port, link);
  }

  /// Ends and begins service up to `now`.
  void serve(std::uint32_t link, Ps now) { serve(ports_[link], link, now); }

  /// The window that is open ends behind `last`: whatever begins in it does.
  void sweep(Ps last) {
    departure_ = kNever;
    std::size_t kept = 0;
    for (std::size_t at = 0; at < listed_.size(); ++at) {
      if (at + kAhead < listed_.size()) prefetch(listed_[at + kAhead]);
      const std::uint32_t link = listed_[at];
      Port& port = ports_[link];
      serve(port, link, last);
      port.set(Port::kListed, pending(port));
      if (!port.listed()) continue;
      listed_[kept++] = link;
      departure_ = std::min(departure_, port.busy_until);
    }
    listed_.resize(kept);
  }
  /// Everything that has begun by `now` has, and nothing more does by itself.
  void settle(Ps now) {
    for (std::uint32_t link = 0; link < ports_.size(); ++link) serve(link, now);
    for (const std::uint32_t link : listed_) ports_[link].set(Port::kListed, false);
    listed_.clear();
    departure_ = kNever;
  }
  /// When the next packet leaves of a port at which others wait.
  Ps next_departure() const { return departure_; }

  /// The link keeps this part of its rate from now on; what is in service ends as it began. 0: it is down, and what waits
  /// or comes is dropped.
  void set_rate(std::uint32_t link, double factor, Ps now);

  /// Bytes waiting and in service at a port.
  std::int64_t depth(std::uint32_t link, Ps now) {
    Port& port = ports_[link];
    serve(port, link, now);
    return std::int64_t{port.low_bytes} + port.high_bytes;
  }

  Ps time_of(const PortClass& klass, std::uint32_t size) const {
    if (size == mtu_) return klass.mtu_time;
    if (size == header_) return klass.header_time;
    return wire_time(size, klass.rate_bps);
  }

  std::uint32_t target(std::uint32_t link) const { return targets_[link]; }
  const PortClass& klass(std::uint32_t link) const { return classes_[ports_[link].klass()]; }
  std::int64_t limit(std::uint32_t link) const { return klass(link).limit; }
  bool paused(std::uint32_t) const { return false; }
  bool down(std::uint32_t link) const { return klass(link).down; }
  void prefetch(std::uint32_t link) const { __builtin_prefetch(ports_.data() + link, 1); }
  /// Fetches what waits at a port that has been fetched.
  void prefetch_line(std::uint32_t link) const {
    if (!ports_[link].low.empty()) ports_[link].low.prefetch(lines_);
  }
  std::int64_t carried(std::uint32_t link) const { return carried_[link]; }
  void carry(std::uint32_t link, std::int64_t bytes) { carried_[link] += bytes; }
  std::size_t kind(std::uint32_t link) const { return ports_[link].klass(); }
  /// Random numbers drawn and packets marked so far: where none is, the link has acted without chance.
  std::uint64_t drawn(std::uint32_t link) const { return draws_[link] + static_cast<std::uint64_t>(marks_[link]); }
  std::int64_t marks(std::uint32_t link) const { return marks_[link]; }
  std::size_t size() const { return ports_.size(); }

 private:
  static bool is_control(const Packet& packet) { return packet.kind != Kind::data || (packet.flags & kTrimmed) != 0; }

  void begin(Port& port, std::uint32_t link, Waiting next, bool high, Ps at) {
    const PortClass& klass = classes_[port.klass()];
    port.serving = next.index;
    port.serving_size = static_cast<std::uint16_t>(next.size);
    port.set(Port::kPayload, !high);
    port.busy_until = at + time_of(klass, next.size);
    if (telemetry_ != nullptr) [[unlikely]] write_hop(port, link, at);
    carried_[link] += next.size;
    if (klass.prompt) [[unlikely]] wheel_.push(port.busy_until, event(Event::port, link));
    else if (!klass.leaves) wheel_.push(port.busy_until + klass.latency, next.index, link);
    else if (!port.listed()) list(port, link);
  }

  void write_hop(const Port& port, std::uint32_t link, Ps at) {
    const PortClass& klass = classes_[port.klass()];
    if (klass.first_hop || slab_[port.serving].kind != Kind::data) return;
    const std::int32_t left = port.low_bytes + port.high_bytes - port.serving_size;
    (*telemetry_)[port.serving].add({.tx_bytes = static_cast<std::uint64_t>(carried_[link]),
                                     .time = at,
                                     .queue_bytes = static_cast<std::uint32_t>(left),
                                     .rate_mbps = static_cast<std::uint32_t>(klass.rate_bps / 1'000'000)});
  }

  /// Ends and begins service up to `now`.
  void serve(Port& port, std::uint32_t link, Ps now) {
    while (port.serving != kNone && port.busy_until <= now) {
      finish(port);
      if (!port.high.empty()) {
        begin(port, link, port.high.pop_first(lines_), true, port.busy_until);
      } else if (!port.low.empty()) {
        begin(port, link, port.low.pop_first(lines_), false, port.busy_until);
      }
    }
  }

  void finish(Port& port) {
    if (port.serves_payload()) {
      port.low_bytes -= port.serving_size;
      const PortClass& klass = classes_[port.klass()];
      // With bytes left behind, the packet has not arrived yet: a window ends between its departure and its arrival.
      if (port.low_bytes > klass.mark_above && marks(port, klass)) {
        slab_[port.serving].flags |= kMarked;
        ++counters_.marked;
        ++marks_[static_cast<std::size_t>(&port - ports_.data())];
      }
    } else {
      port.high_bytes -= port.serving_size;
    }
    // Bytes that came = bytes that left, were cut off or dropped, and those that wait.
    RAILYARD_INVARIANT(port.low_bytes >= 0 && port.high_bytes >= 0);
    RAILYARD_INVARIANT(!port.low.empty() || port.low_bytes == 0);
    RAILYARD_INVARIANT(!port.high.empty() || port.high_bytes == 0);
    if (const PortClass& klass = classes_[port.klass()]; klass.prompt || klass.leaves)
      context_.depart(static_cast<std::uint32_t>(&port - ports_.data()), port.serving, port.busy_until + klass.latency);
    port.serving = kNone;
  }

  bool marks(Port& port, const PortClass& klass) {
    if (port.low_bytes > klass.mark_surely) return true;
    const auto above = static_cast<std::uint64_t>(port.low_bytes - klass.mark_above);
    const auto range = static_cast<std::uint64_t>(klass.mark_surely - klass.mark_above);
    return below(random(port), static_cast<std::uint32_t>(range)) < above;
  }

  std::uint64_t random(Port& port) {
    const auto link = static_cast<std::size_t>(&port - ports_.data());
    return draw(stream_key(seed_, Stream::port, link), draws_[link]++);
  }

  /// Whether the end of the window must serve the port.
  bool pending(const Port& port) const {
    return port.waits() || (classes_[port.klass()].leaves && port.serving != kNone);
  }

  /// PRE: not listed.
  void list(Port& port, std::uint32_t link) {
    if (classes_[port.klass()].prompt || !pending(port)) return;
    port.set(Port::kListed, true);
    listed_.push_back(link);
    departure_ = std::min(departure_, port.busy_until);
  }

  void queue_control(Port& port, Waiting waiting) {
    const auto size = static_cast<std::int32_t>(waiting.size);
    if (port.high_bytes + size > classes_[port.klass()].control_limit) {
      drop(waiting.index);
      return;
    }
    port.high.push(lines_, waiting);
    port.high_bytes += size;
    RAILYARD_INVARIANT(port.high_bytes <= classes_[port.klass()].control_limit);
  }

  void drop(std::uint32_t index) {
    ++counters_.dropped;
    slab_.release(index);
  }

  void overflow(Port& port, std::uint32_t link, Waiting newcomer);

  static constexpr std::size_t kAhead = 4;

  Context& context_;
  Slab& slab_;
  Wheel& wheel_;
  Counters& counters_;
  std::uint32_t mtu_, header_;
  bool trim_;
  std::uint64_t seed_;
  TelemetryTable* telemetry_;  ///< Where switches write what they see as data packets leave; null: nowhere.
  BigVector<Port> ports_;
  WordArena lines_;
  std::vector<std::uint32_t> draws_;
  std::vector<PortClass> classes_;
  std::vector<std::uint32_t> targets_;
  std::vector<std::int64_t> carried_, marks_;
  std::vector<std::uint32_t> listed_;  ///< Ports that are served at the end of the window.
  Ps departure_ = kNever;
  std::vector<std::uint16_t> nominal_;  ///< Class of each link before anything happened to it; empty until then.
};

}  // namespace railyard::packet
