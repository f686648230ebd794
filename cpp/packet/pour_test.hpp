// A network by hand, and senders that pour: as fast as the interface lets them, without acknowledgement. For tests of fabrics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "packet/context.hpp"
#include "packet/event.hpp"
#include "packet/transport/interface.hpp"

namespace railyard::packet {

/// Nodes 0 .. hosts-1 are hosts; links come in pairs; routes are the shortest ways, or what `route` says.
class HandNetwork {
 public:
  HandNetwork(std::uint32_t hosts, std::uint32_t nodes) : hosts_(hosts), nodes_(nodes), ways_(nodes * hosts) {}

  /// Links there and back; the number of the first.
  std::int32_t join(std::int32_t a, std::int32_t b, Ps latency = 450'000, std::int64_t rate_bps = 400'000'000'000) {
    const auto link = static_cast<std::int32_t>(source.size());
    source.insert(source.end(), {a, b});
    target.insert(target.end(), {b, a});
    rate.insert(rate.end(), 2, rate_bps);
    delay.insert(delay.end(), 2, latency);
    return link;
  }
  void route(std::int32_t node, std::int32_t host, std::vector<std::int32_t> links) {
    ways_[static_cast<std::size_t>(node) * hosts_ + static_cast<std::size_t>(host)] = std::move(links);
  }
  NetworkColumns columns() {
    shortest();
    record_ptr_.assign(1, 0);
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      for (std::uint32_t host = 0; host < hosts_; ++host) {
        const auto& links = ways_[std::size_t{node} * hosts_ + host];
        if (node == host || links.empty()) continue;
        lo_.push_back(static_cast<std::int32_t>(host));
        hi_.push_back(static_cast<std::int32_t>(host) + 1);
        first_.push_back(static_cast<std::int64_t>(choices_.size()));
        width_.push_back(static_cast<std::int32_t>(links.size()));
        stride_.push_back(1);
        choices_.insert(choices_.end(), links.begin(), links.end());
      }
      record_ptr_.push_back(static_cast<std::int64_t>(lo_.size()));
    }
    return {hosts_, nodes_, source, target, rate, delay, record_ptr_, lo_, hi_, first_, width_, stride_, choices_};
  }

  std::vector<std::int32_t> source, target;
  std::vector<std::int64_t> rate, delay;

 private:
  void shortest() {
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      std::vector<std::uint32_t> far(nodes_, 0xffff);
      std::deque<std::uint32_t> next{host};
      far[host] = 0;
      while (!next.empty()) {
        const std::uint32_t at = next.front();
        next.pop_front();
        for (std::size_t link = 0; link < source.size(); ++link) {
          const auto from = static_cast<std::uint32_t>(source[link]);
          if (static_cast<std::uint32_t>(target[link]) != at || far[from] <= far[at] + 1) continue;
          far[from] = far[at] + 1;
          next.push_back(from);
        }
      }
      for (std::uint32_t node = 0; node < nodes_; ++node) {
        auto& way = ways_[std::size_t{node} * hosts_ + host];
        if (!way.empty() || node == host) continue;
        for (std::size_t link = 0; link < source.size(); ++link)
          if (static_cast<std::uint32_t>(source[link]) == node && far[static_cast<std::size_t>(target[link])] + 1 == far[node])
            way.push_back(static_cast<std::int32_t>(link));
      }
    }
  }

  std::uint32_t hosts_, nodes_;
  std::vector<std::vector<std::int32_t>> ways_;
  std::vector<std::int64_t> record_ptr_, first_;
  std::vector<std::int32_t> lo_, hi_, width_, stride_, choices_;
};

/// Flows from time 0, or from when they are told.
struct HandTraffic {
  std::vector<std::int32_t> source, target, dep_idx, need;
  std::vector<std::int64_t> size, start, dep_ptr{0}, delay;
  std::vector<std::uint8_t> dep_at, klass;

  void flow(std::int32_t from, std::int32_t to, std::int64_t bytes, std::uint8_t lane = 0, Ps at = 0) {
    source.push_back(from);
    target.push_back(to);
    size.push_back(bytes);
    start.push_back(at);
    dep_ptr.push_back(0);
    delay.push_back(0);
    need.push_back(0);
    klass.push_back(lane);
  }
  TrafficColumns columns() const { return {source, target, size, start, dep_ptr, dep_idx, delay, need, dep_at, klass}; }
};

template <class Fabric>
class Pour : public Interface<Pour<Fabric>, Fabric> {
 public:
  Pour(Context& context, Fabric& fabric) : Interface<Pour<Fabric>, Fabric>(context, fabric), flows_(context.traffic.source.size()) {
    for (std::size_t flow = 0; flow < flows_.size(); ++flow) flows_[flow].left = flows_[flow].missing = context.traffic.size_bytes[flow];
  }
  void start(std::uint32_t flow) { this->send_while_permitted(flow); }
  void deliver(std::uint32_t, const Packet& packet) {
    Flow& flow = flows_[packet.flow];
    flow.missing -= packet.size;
    flow.in_order = flow.in_order && packet.sequence == flow.expected;
    ++flow.expected;
    if (flow.missing > 0) return;
    this->context_.flows.received(packet.flow, this->context_.now);
    this->context_.flows.sent(packet.flow, this->context_.now);
  }
  std::int64_t missing(std::uint32_t flow) const { return flows_[flow].missing; }
  bool in_order(std::uint32_t flow) const { return flows_[flow].in_order; }

  bool may_send(std::uint32_t flow) const { return flows_[flow].left > 0; }
  std::uint32_t emit(std::uint32_t flow) {
    Flow& at = flows_[flow];
    const auto size = static_cast<std::uint16_t>(std::min<std::int64_t>(at.left, this->context_.options.mtu_bytes));
    const auto target = static_cast<std::uint32_t>(this->context_.traffic.target[flow]);
    const std::uint32_t index = this->new_packet(railyard::packet::Kind::data, flow, target, 0);
    this->context_.slab[index].size = size;
    this->context_.slab[index].sequence = at.sent++;
    at.left -= size;
    return index;
  }
  Place& place(std::uint32_t flow) { return flows_[flow].place; }
  std::uint32_t source(std::uint32_t flow) const { return static_cast<std::uint32_t>(this->context_.traffic.source[flow]); }

 private:
  struct Flow {
    std::int64_t left = 0, missing = 0;
    std::uint32_t sent = 0, expected = 0;
    bool in_order = true;
    Place place;
  };
  std::vector<Flow> flows_;
};

/// A run of flows that pour over a fabric, one event at a time.
template <class Fabric>
struct Pouring {
  NetworkColumns network;
  TrafficColumns traffic;
  Options options;
  Derived derived;
  Context context;
  Fabric fabric;
  Pour<Fabric> senders;

  Pouring(HandNetwork& hand, const HandTraffic& flows, const Options& chosen)
      : network(hand.columns()), traffic(flows.columns()), options(chosen), context(network, traffic, options, derived, nullptr),
        fabric(context), senders(context, fabric) {
    context.flows.begin();
  }

  /// False when nothing is left to happen.
  bool step() {
    Due due;
    if (!context.take(fabric, due)) return false;
    context.now = due.time;
    const std::uint32_t index = index_of(due.what);
    switch (kind_of(due.what)) {
      case Event::arrival: arrive(index); break;
      case Event::slot: senders.on_slot(index); break;
      case Event::start:
        if (context.flows.start(index, context.now)) senders.start(index);
        break;
      case Event::port: fabric.on_port(index); break;
      case Event::extra: fabric.on_extra(index); break;
      default: break;
    }
    return true;
  }
  /// Until every flow has ended; the time.
  Ps run() {
    while (context.flows.unfinished() != 0 && step()) {}
    return context.now;
  }
  Ps finish(std::size_t flow) const { return context.outcome.finish_ps[flow]; }

 private:
  void arrive(std::uint32_t index) {
    if constexpr (requires { fabric.touch(index); }) fabric.touch(index);
    const std::uint32_t host = fabric.arrive(index);
    if (host == kNone) return;
    const Packet packet = context.slab[index];
    context.slab.release(index);
    senders.deliver(host, packet);
  }
};

}  // namespace railyard::packet
