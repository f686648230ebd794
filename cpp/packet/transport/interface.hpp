#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "packet/context.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

/// The hosts' network interfaces under a transport: flows that may send, in turn, and control packets ten to one before
/// them. `Transport` derives from this and offers
///   bool may_send(flow), std::uint32_t emit(flow) (a data packet; PRE: may_send), Place& place(flow),
///   std::uint32_t source(flow)
/// A transport whose messages share connections takes turns between these: "flow" is then a connection, and the transport
/// has a klass(connection) of its own.
template <class Transport, class Fabric>
class Interface {
 public:
  /// A slot event: the interface is free.
  void on_slot(std::uint32_t host) {
    Nic& nic = context_.nics[host];
    nic.slot = false;
    bool flows = nic.first != kNone;
    if (flows && nic.control_first != kNone) {
      if (++nic.turn >= Nic::kTurns) nic.turn = 0;
      flows = nic.turn < 1;
    }
    const bool sent = flows && first_flow(nic, host);
    if (!sent && nic.control_first != kNone) first_control(nic, host);
    keep_going(nic, host);
  }

 protected:
  Interface(Context& context, Fabric& fabric)
      : context_(context), fabric_(fabric), key_seed_(stream_key(context.options.seed, Stream::key, 0)),
        one_path_(context.options.load_balancing == "ecmp" && !context.traffic.path_key.empty()),
        control_class_(context.options.transport == "rdma" ? kClasses : context.options.control_class) {
    if constexpr (Fabric::kBackpressure) waiting_.resize(context.hosts);
  }

  /// A packet with its header alone, for the caller to fill.
  std::uint32_t new_packet(Kind kind, std::uint32_t flow, std::uint32_t destination, std::uint16_t entropy) {
    return new_packet(kind, flow, destination, entropy, key_of(flow, entropy));
  }

  /// The same where the key is known, as in answers to a packet of that entropy.
  std::uint32_t new_packet(Kind kind, std::uint32_t flow, std::uint32_t destination, std::uint16_t entropy,
                           std::uint32_t key) {
    const std::uint32_t index = context_.slab.acquire();
    Packet& packet = context_.slab[index];
    packet.flow = flow;
    packet.key = key;
    packet.destination = destination;
    packet.size = static_cast<std::uint16_t>(context_.options.header_bytes);
    packet.entropy = entropy;
    packet.kind = kind;
    const bool answers = kind != Kind::data && control_class_ < kClasses;
    packet.klass = answers ? control_class_ : context_.traffic.klass[flow];
    packet.flags = 0;
    packet.ingress = kNone;
    packet.following = kNone;
    return index;
  }

  /// The sender of the flow is about to choose a path or to hear of one.
  void prefetch_connection(std::uint32_t flow) const {
    if (!context_.traffic.connection.empty()) __builtin_prefetch(&context_.traffic.connection[flow]);
  }

  /// Sends a control packet, at once or in turn.
  void send_control(std::uint32_t host, std::uint32_t index) {
    Nic& nic = context_.nics[host];
    Slab& slab = context_.slab;
    slab[index].next = kNone;
    (nic.control_last == kNone ? nic.control_first : slab[nic.control_last].next) = index;
    nic.control_last = index;
    if (free(nic) && fabric_.ready(host, slab[nic.control_first].klass)) first_control(nic, host);
    keep_going(nic, host);
  }

  /// Sends if the interface is free, else joins its round. One packet at most leaves at a time, so there is nothing to
  /// repeat.
  void send_while_permitted(std::uint32_t flow) {
    if (self().place(flow).taken || !self().may_send(flow)) return;
    const std::uint32_t host = self().source(flow);
    Nic& nic = context_.nics[host];
    if (free(nic) && fabric_.ready(host, self().klass(flow))) {
      send_data(nic, host, self().emit(flow));
      if (self().may_send(flow)) join(nic, host, flow);
    } else {
      join(nic, host, flow);
    }
    keep_going(nic, host);
  }

  /// The traffic class of a flow.
  std::uint8_t klass(std::uint32_t flow) const { return context_.traffic.klass[flow]; }

  Context& context_;
  Fabric& fabric_;

 private:
  Transport& self() { return static_cast<Transport&>(*this); }
  bool free(const Nic& nic) const { return !nic.slot && context_.now >= nic.busy_until; }

  /// What switches hash: of a connection with a given entropy always the same.
  std::uint32_t key_of(std::uint32_t flow, std::uint16_t entropy) const {
    if (one_path_) return context_.traffic.path_key[flow];
    return static_cast<std::uint32_t>(
        mix(key_seed_ ^ (std::uint64_t{context_.traffic.connection_of(flow)} << 16 | entropy)) >> 32);
  }

  void send(Nic& nic, std::uint32_t host, std::uint32_t index, Ps taken) {
    nic.busy_until = context_.now + taken;
    fabric_.inject(host, index);
  }

  /// Flows with a share of the interface's rate leave the rest to others: what these took comes off the waits between
  /// their packets. WHY at most one round of others: nobody catches up on what was not sent long ago.
  void send_data(Nic& nic, std::uint32_t host, std::uint32_t index) {
    const Ps wire = fabric_.host_time(host, index);
    const Ps waits = context_.traffic.nic_time(context_.slab[index].flow, wire) - wire;
    const Ps skipped = std::min(waits, nic.others);
    nic.others = waits > 0 ? nic.others - skipped : std::min(nic.others + wire, nic.active * wire);
    send(nic, host, index, wire + waits - skipped);
  }

  /// Where backpressure holds the host the fabric sends the slot event itself when it lets go.
  void keep_going(Nic& nic, std::uint32_t host) {
    if (nic.slot || (nic.first & nic.control_first) == kNone) return;
    if constexpr (Fabric::kBackpressure) {
      if (!anything_ready(nic, host)) return;
    }
    nic.slot = true;
    // WHY not `busy_until` alone: it has passed where a held-back control packet used up this turn.
    context_.wheel.push(std::max(context_.now, nic.busy_until), event(Event::slot, host));
  }

  /// Whether the first control packet or a flow of any class could go; asks the fabric, which then knows who waits.
  bool anything_ready(const Nic& nic, std::uint32_t host) {
    if (nic.control_first != kNone && fabric_.ready(host, context_.slab[nic.control_first].klass)) return true;
    for (std::uint8_t klass = 0; klass < kClasses; ++klass)
      if (waiting_[host][klass] != 0 && fabric_.ready(host, klass)) return true;
    return false;
  }

  void first_control(Nic& nic, std::uint32_t host) {
    const std::uint32_t index = nic.control_first;
    if constexpr (Fabric::kBackpressure) {
      if (!fabric_.ready(host, context_.slab[index].klass)) return;
    }
    nic.control_first = context_.slab[index].next;
    if (nic.control_first == kNone) nic.control_last = kNone;
    send(nic, host, index, fabric_.host_time(host, index));
  }

  void join(Nic& nic, std::uint32_t host, std::uint32_t flow) {
    Place& place = self().place(flow);
    place.taken = true;
    place.next = kNone;
    (nic.last == kNone ? nic.first : self().place(nic.last).next) = flow;
    nic.last = flow;
    ++nic.active;
    if constexpr (Fabric::kBackpressure) ++waiting_[host][self().klass(flow)];
  }

  /// Takes the first flow out of the round.
  void leave(Nic& nic, std::uint32_t host) {
    const std::uint32_t flow = nic.first;
    nic.first = self().place(flow).next;
    if (nic.first == kNone) nic.last = kNone;
    --nic.active;
    if constexpr (Fabric::kBackpressure) --waiting_[host][self().klass(flow)];
  }

  /// The first flow of the round that may send does; those before it leave the round, or, where their class is held back,
  /// go to its end. False when none may.
  bool first_flow(Nic& nic, std::uint32_t host) {
    for (std::uint32_t left = nic.active; left != 0; --left) {
      const std::uint32_t flow = nic.first;
      if constexpr (Fabric::kBackpressure) {
        if (!fabric_.ready(host, self().klass(flow))) {
          leave(nic, host);
          join(nic, host, flow);
          continue;
        }
      }
      self().place(flow).taken = false;
      const bool permitted = self().may_send(flow);
      // It counts among the active ones while its packet is made: the pull target depends on that.
      const std::uint32_t index = permitted ? self().emit(flow) : kNone;
      leave(nic, host);
      if (!permitted) continue;
      send_data(nic, host, index);
      if (self().may_send(flow)) join(nic, host, flow);
      return true;
    }
    return false;
  }

  static constexpr std::uint8_t kClasses = 8;
  std::uint64_t key_seed_;
  bool one_path_;  ///< Whether every flow has a path of its own and keeps it.
  std::uint8_t control_class_;  ///< Of what answers data; kClasses: its flow's. RDMA says it by itself.
  std::vector<std::array<std::uint32_t, kClasses>> waiting_;  ///< Flows in the round by class, where there is backpressure.
};

}  // namespace railyard::packet
