#pragma once

#include <cstdint>

#include "packet/balance/egress_choice.hpp"
#include "packet/context.hpp"
#include "packet/fabric/port.hpp"

namespace railyard::packet {

/// Switches that cut or drop what their queues cannot hold (see `Ports`). Nothing ever stops a sender, so a packet's way
/// costs one event a hop.
class LossyFabric {
 public:
  static constexpr bool kBackpressure = false;
  static constexpr bool kParts = true;
  static constexpr bool kSeparate = true;  ///< Egresses have nothing in common.

  explicit LossyFabric(Context& context)
      : context_(context), adaptive_(switches_choose(context.options)), ports_(context),
        egress_choice_(context.network, context.options) {}

  /// The open window ends behind `last`: what begins in it does.
  void sweep(Ps last) { ports_.sweep(last); }
  /// When the next thing happens that no event tells of.
  Ps next_departure() const { return ports_.next_departure(); }

  /// The packet is at the end of its link. The host there, if it is one.
  std::uint32_t arrive(std::uint32_t index) {
    const Packet& packet = context_.slab[index];
    const std::uint32_t node = ports_.target(packet.link);
    if (node < context_.hosts) return node;
    forward(node, index);
    return kNone;
  }

  void inject(std::uint32_t host, std::uint32_t index) {
    const std::uint32_t link = uplink(host, index);
    if (link == kNone) lose(index);
    else ports_.enqueue(link, index, context_.now);
  }
  bool ready(std::uint32_t, std::uint8_t) const { return true; }

  /// Time on the host's wire.
  Ps host_time(std::uint32_t host, std::uint32_t index) const {
    const Nic& nic = context_.nics[host];
    const std::uint32_t link = uplink(host, index);
    if (link == kNone) return 0;
    const Ps time = ports_.time_of(ports_.klass(link), context_.slab[index].size);
    return nic.links == 1 ? time : time / nic.links;
  }

  void on_port(std::uint32_t link) { ports_.serve(link, context_.now); }
  void on_extra(std::uint32_t) {}

  void prefetch(std::uint32_t link) const { ports_.prefetch(link); }

  /// A hashed route depends on nothing that could change before the packet arrives, so it is chosen here. The host that
  /// the packet comes to, if it is one.
  std::uint32_t look_ahead_middle(std::uint32_t index) {
    Packet& packet = context_.slab[index];
    if (context_.options.telemetry) context_.telemetry.prefetch(index);
    const std::uint32_t node = ports_.target(packet.link);
    if (node < context_.hosts) return node;
    if (adaptive_ && packet.size >= kAdaptiveLeast) return kNone;
    packet.following = context_.routes.hashed(node, packet.destination, packet.key);
    if (adaptive_ && packet.following != kNone && ports_.down(packet.following)) packet.following = kNone;
    if (packet.following != kNone) ports_.prefetch(packet.following);
    return kNone;
  }

  std::uint32_t look_ahead_near(std::uint32_t index) {
    const Packet& packet = context_.slab[index];
    if (packet.following != kNone) {
      ports_.prefetch_line(packet.following);
      return kNone;
    }
    const std::uint32_t node = ports_.target(packet.link);
    return node < context_.hosts ? node : kNone;
  }

  /// Everything that has begun by `now` is known of.
  void settle(Ps now) { ports_.settle(now); }

  std::int64_t depth(std::uint32_t link) { return ports_.depth(link, context_.now); }
  std::int64_t carried(std::uint32_t link) const { return ports_.carried(link); }
  void carry(std::uint32_t link, std::int64_t bytes) { ports_.carry(link, bytes); }
  std::size_t kind(std::uint32_t link) const { return ports_.kind(link); }
  std::uint64_t drawn(std::uint32_t link) const { return ports_.drawn(link); }
  std::int64_t marks(std::uint32_t link) const { return ports_.marks(link); }
  void set_rate(std::uint32_t link, double factor) { ports_.set_rate(link, factor, context_.now); }
  Ps paused_ps(std::uint32_t) const { return 0; }

 private:
  /// Smaller packets are hashed, as in htsim, unless that link is down: a switch that chooses knows its own ports.
  static constexpr std::uint16_t kAdaptiveLeast = 100;

  std::uint32_t uplink(std::uint32_t host, std::uint32_t index) const {
    const Nic& nic = context_.nics[host];
    if (nic.link != kNone) return nic.link;
    const Packet& packet = context_.slab[index];
    return context_.routes.hashed(host, packet.destination, packet.key);
  }

  void lose(std::uint32_t index) {
    ++context_.outcome.counters.lost;
    context_.slab.release(index);
  }

  void forward(std::uint32_t node, std::uint32_t index) {
    Packet& packet = context_.slab[index];
    std::uint32_t link = packet.following;
    packet.following = kNone;
    if (link == kNone) {
      const Choice choice = context_.routes.find(node, packet.destination);
      if (choice.width == 0) return lose(index);
      link = choice.width == 1 ? *choice.links : choose(node, packet, choice);
    }
    ports_.enqueue(link, index, context_.now);
  }

  std::uint32_t choose(std::uint32_t node, const Packet& packet, const Choice& choice) {
    if (adaptive_ && packet.size >= kAdaptiveLeast) return egress_choice_.choose(ports_, node, choice, context_.now);
    const std::uint32_t hashed = choice.links[context_.routes.pick(node, packet.key, choice.width)];
    return adaptive_ && ports_.down(hashed) ? egress_choice_.choose(ports_, node, choice, context_.now) : hashed;
  }

  Context& context_;
  bool adaptive_;
  Ports ports_;
  EgressChoice egress_choice_;
};

}  // namespace railyard::packet
