#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include "packet/balance/path_choice.hpp"
#include "packet/context.hpp"
#include "packet/control/rate_controls.hpp"
#include "packet/transport/interface.hpp"
#include "packet/transport/queue_pair.hpp"
#include "packet/transport/rdma_options.hpp"

namespace railyard::packet {

/// RDMA over a reliable connection, one queue pair a flow, as RoCE v2 and InfiniBand interfaces do it.
///
/// Packets carry sequence numbers; the receiver answers every `ack_packets`-th, the last and every duplicate with an
/// acknowledgement of all that came in order. Recovery is one of two:
///   go back  - a packet beyond the expected one is thrown away and reported once (again after `nack_interval`); the
///              sender goes back to the gap and sends everything from there once more.
///   selective (`out_of_order`) - packets are placed in whatever order they come, acknowledgements tell which have; a
///              gap is no loss, since paths differ. What switches trimmed is reported at once and sent again alone; what
///              vanished is sent again when nothing has moved for `rto`.
/// Each queue pair is paced by its own rate: a packet leaves no earlier than size / rate after the one before it. A flow
/// whose time has not come waits in the event wheel, not in the round of its interface.
template <class Fabric>
class Rdma : public Interface<Rdma<Fabric>, Fabric> {
 public:
  static constexpr bool kParts = true;

  Rdma(Context& context, Fabric& fabric);

  void start(std::uint32_t flow);
  void deliver(std::uint32_t host, const Packet& packet, std::uint32_t index);
  void on_timer(std::uint32_t flow);
  void on_pacer(std::uint32_t flow);
  /// The host that a timer or pacer event is of.
  std::uint32_t host_of(Event, std::uint32_t flow) const { return pairs_[flow].source; }

  /// Other constants of the rate control.
  void retune(const Options& options) { controls_->retune(options); }

  std::int64_t window(std::uint32_t flow) const { return pairs_[flow].window; }
  double rate(std::uint32_t flow) const {
    return pairs_[flow].ps_per_byte > 0 ? 8e12 / pairs_[flow].ps_per_byte : line_bps_[pairs_[flow].source];
  }

  /// Of the flow's payload, what the sender knows to have arrived.
  std::int64_t acknowledged_bytes(std::uint32_t flow) const {
    const QueuePair& pair = pairs_[flow];
    const std::uint32_t beyond = rule_.out_of_order && pair.started ? pair.got.count() : 0;
    return std::min((std::int64_t{pair.acked} + beyond) * mss_, context_.traffic.size_bytes[flow]);
  }

  void look_ahead_sender(std::uint32_t flow) const;
  void look_ahead_middle(std::uint32_t host, const Packet& packet) const;
  void look_ahead_near(std::uint32_t) const {}
  void look_ahead_near(std::uint32_t host, const Packet&) const {
    const Nic& nic = context_.nics[host];
    if (nic.link != kNone) fabric_.prefetch(nic.link);
  }

 private:
  using Base = Interface<Rdma<Fabric>, Fabric>;
  friend Base;
  using Base::context_;
  using Base::fabric_;

  // What the interface asks for.
  bool may_send(std::uint32_t flow) const;
  std::uint32_t emit(std::uint32_t flow);
  Place& place(std::uint32_t flow) { return pairs_[flow].place; }
  std::uint32_t source(std::uint32_t flow) const { return pairs_[flow].source; }

  // The sender.
  std::uint32_t out(const QueuePair& pair) const;
  std::int64_t in_flight(const QueuePair& pair) const;
  std::uint32_t size_of(const QueuePair& pair, std::uint32_t sequence) const {
    return sequence + 1 == pair.packets ? pair.last_size : options_.mtu_bytes;
  }
  void pace(QueuePair& pair, std::uint32_t flow, std::uint32_t index);
  void take_ruling(QueuePair& pair, std::uint32_t flow, const RateControls::Ruling& ruling);
  void arm(QueuePair& pair, std::uint32_t flow);
  void on_ack(const Packet& ack, std::uint32_t index);
  void acknowledge_beyond(QueuePair& pair, const Packet& ack);
  void on_nack(const Packet& nack);
  void on_cnp(std::uint32_t flow);
  void expire(QueuePair& pair, std::uint32_t flow);
  void finish(QueuePair& pair, std::uint32_t flow);
  std::int64_t path_window(const QueuePair& pair, std::uint32_t flow) const;

  // The receiver.
  void on_data(std::uint32_t host, const Packet& packet, std::uint32_t index);
  bool take(ResponderEnd& end, std::uint32_t sequence);
  void complete_flow(ResponderEnd& end, std::uint32_t flow);
  void notify(ResponderEnd& end, std::uint32_t host, const Packet& packet);
  void acknowledge(ResponderEnd& end, std::uint32_t host, const Packet& packet, std::uint32_t index);
  void report_gap(ResponderEnd& end, std::uint32_t host, const Packet& packet);
  std::uint32_t answer(Kind kind, const Packet& packet);

  const Options& options_;
  const RdmaOptions& rule_;
  std::int64_t mss_;
  Balancer balancer_;
  std::unique_ptr<RateControls> controls_;
  WordArena bits_;
  BigVector<QueuePair> pairs_;
  BigVector<ResponderEnd> ends_;
  std::vector<double> line_bps_;  ///< By host, all its links together.
};

template <class Fabric>
Rdma<Fabric>::Rdma(Context& context, Fabric& fabric)
    : Base(context, fabric), options_(context.options), rule_(context.options.of<RdmaOptions>()),
      mss_(std::int64_t{options_.mtu_bytes} - options_.header_bytes),
      balancer_(context.traffic, options_),
      controls_(RateControls::of(options_, context.derived, context.traffic.source.size())), line_bps_(context.hosts, 0) {
  const std::size_t flows = context.traffic.source.size();
  pairs_.resize(flows);
  ends_.resize(flows);
  for (std::size_t flow = 0; flow < flows; ++flow) {
    QueuePair& pair = pairs_[flow];
    pair.source = static_cast<std::uint32_t>(context.traffic.source[flow]);
    pair.target = static_cast<std::uint32_t>(context.traffic.target[flow]);
    const std::int64_t size = context.traffic.size_bytes[flow];
    const std::int64_t packets = std::max<std::int64_t>((size + mss_ - 1) / mss_, 1);
    pair.packets = static_cast<std::uint32_t>(packets);
    pair.last_size = static_cast<std::uint16_t>(size - (packets - 1) * mss_ + options_.header_bytes);
  }
  for (std::size_t link = 0; link < context.network.link_source.size(); ++link) {
    const auto node = static_cast<std::uint32_t>(context.network.link_source[link]);
    if (node < context.hosts) line_bps_[node] += static_cast<double>(context.network.rate_bps[link]);
  }
}

template <class Fabric>
void Rdma<Fabric>::deliver(std::uint32_t host, const Packet& packet, std::uint32_t index) {
  switch (packet.kind) {
    case Kind::data: on_data(host, packet, index); break;
    case Kind::ack: on_ack(packet, index); break;
    case Kind::nack: on_nack(packet); break;
    case Kind::cnp: on_cnp(packet.flow); break;
    default: break;
  }
}

template <class Fabric>
void Rdma<Fabric>::look_ahead_sender(std::uint32_t flow) const {
  const char* const bytes = reinterpret_cast<const char*>(&pairs_[flow]);
  for (std::size_t at = 0; at < sizeof(QueuePair); at += 64) __builtin_prefetch(bytes + at, 1);
}

template <class Fabric>
void Rdma<Fabric>::look_ahead_middle(std::uint32_t host, const Packet& packet) const {
  __builtin_prefetch(&context_.nics[host], 1);
  if (packet.kind != Kind::data) {
    look_ahead_sender(packet.flow);
    return;
  }
  __builtin_prefetch(&ends_[packet.flow], 1);
  __builtin_prefetch(&pairs_[packet.flow]);
}

}  // namespace railyard::packet

#include "packet/transport/rdma_receiver.hpp"  // IWYU pragma: export
#include "packet/transport/rdma_sender.hpp"    // IWYU pragma: export
