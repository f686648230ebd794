// A network by hand and hosts that send what they are told, to try fabrics without a transport.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "packet/context.hpp"

namespace driver {

using namespace railyard;
using namespace railyard::packet;

/// Nodes 0 .. hosts - 1 are hosts. Every node reaches every host over the first links of a shortest way, all of them, or
/// over those that `route` names.
struct Net {
  std::uint32_t hosts, nodes;
  std::vector<std::int32_t> source, target;
  std::vector<std::int64_t> rate, latency;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::int32_t>> routes;  ///< (node, host) -> links.
  std::vector<std::int64_t> record_ptr, first;
  std::vector<std::int32_t> lo, hi, width, stride, choices;

  Net(std::uint32_t host_count, std::uint32_t switches) : hosts(host_count), nodes(host_count + switches) {}

  /// A link each way; the number of the one from a to b, the other is the next.
  std::uint32_t join(std::uint32_t a, std::uint32_t b, std::int64_t rate_bps, Ps delay) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      source.push_back(static_cast<std::int32_t>(from));
      target.push_back(static_cast<std::int32_t>(to));
      rate.push_back(rate_bps);
      latency.push_back(delay);
    }
    return static_cast<std::uint32_t>(source.size()) - 2;
  }

  void route(std::uint32_t node, std::uint32_t host, std::uint32_t link) {
    routes[{node, host}] = {static_cast<std::int32_t>(link)};
  }

  NetworkColumns columns() {
    record_ptr.assign(1, 0);
    for (auto* column : {&lo, &hi, &width, &stride, &choices}) column->clear();
    first.clear();
    for (std::uint32_t node = 0; node < nodes; ++node) {
      for (std::uint32_t host = 0; host < hosts; ++host) {
        const std::vector<std::int32_t> links = shortest(node, host);
        if (links.empty()) continue;
        lo.push_back(static_cast<std::int32_t>(host));
        hi.push_back(static_cast<std::int32_t>(host) + 1);
        first.push_back(static_cast<std::int64_t>(choices.size()));
        width.push_back(static_cast<std::int32_t>(links.size()));
        stride.push_back(1);
        choices.insert(choices.end(), links.begin(), links.end());
      }
      record_ptr.push_back(static_cast<std::int64_t>(lo.size()));
    }
    return {hosts, nodes, source, target, rate, latency, record_ptr, lo, hi, first, width, stride, choices};
  }

 private:
  std::vector<std::int32_t> shortest(std::uint32_t node, std::uint32_t host) const {
    if (node == host) return {};
    if (const auto named = routes.find({node, host}); named != routes.end()) return named->second;
    std::vector<std::uint32_t> far(nodes, 1u << 20);
    far[host] = 0;
    for (std::uint32_t round = 0; round < nodes; ++round)
      for (std::size_t link = 0; link < source.size(); ++link) {
        const auto from = static_cast<std::size_t>(source[link]), to = static_cast<std::size_t>(target[link]);
        // Hosts do not forward.
        if (to >= hosts || to == host) far[from] = std::min(far[from], far[to] + 1);
      }
    std::vector<std::int32_t> links;
    for (std::size_t link = 0; link < source.size(); ++link) {
      const auto to = static_cast<std::size_t>(target[link]);
      if (static_cast<std::uint32_t>(source[link]) == node && far[to] + 1 == far[node] && (to >= hosts || to == host))
        links.push_back(static_cast<std::int32_t>(link));
    }
    return links;
  }
};

/// What one host sends to another: so many packets as fast as it may.
struct Send {
  std::uint32_t source, target;
  std::int64_t packets;
  std::uint8_t klass = 0;
  Ps start = 0;
};

struct Got {
  Ps time;
  std::uint32_t flow;
  bool marked;
  std::uint32_t hops;
};

/// Traffic columns of streams.
struct Flows {
  std::vector<std::int32_t> source, target, need, dep_idx;
  std::vector<std::int64_t> size, start, dep_ptr, delay;
  std::vector<std::uint8_t> dep_at, klass;

  explicit Flows(const std::vector<Send>& streams) {
    dep_ptr.push_back(0);
    for (const Send& stream : streams) {
      source.push_back(static_cast<std::int32_t>(stream.source));
      target.push_back(static_cast<std::int32_t>(stream.target));
      size.push_back(stream.packets);
      start.push_back(stream.start);
      klass.push_back(stream.klass);
      delay.push_back(0);
      need.push_back(0);
      dep_ptr.push_back(0);
    }
  }

  TrafficColumns columns() const {
    return {source, target, size, start, dep_ptr, dep_idx, delay, need, dep_at, klass};
  }
};

template <class Fabric>
struct Driver {
  Net& net;
  NetworkColumns network;
  std::vector<Send> streams;
  Flows flows;
  TrafficColumns traffic;
  Options options;
  Derived derived;
  Context context;
  Fabric fabric;
  std::vector<std::int64_t> left;
  std::vector<Got> got;
  std::vector<std::size_t> turn;

  Driver(Net& net_, const std::vector<Send>& streams_, const Options& options_, const Derived& derived_)
      : net(net_), network(net_.columns()), streams(streams_), flows(streams_), traffic(flows.columns()),
        options(options_), derived(derived_), context(network, traffic, options, derived, nullptr), fabric(context),
        turn(network.hosts, 0) {
    for (const Send& stream : streams) left.push_back(stream.packets);
    for (std::size_t flow = 0; flow < streams.size(); ++flow)
      context.wheel.push(streams[flow].start, event(Event::start, static_cast<std::uint32_t>(flow)));
  }

  /// Everything that is due up to `end`; false when nothing is left.
  bool run(Ps end = std::int64_t{1} << 60) {
    Due due;
    while (context.take(fabric, due, end + 1)) dispatch(due);
    if (context.wheel.next_time() == kNever) return false;
    context.now = end;
    return true;
  }

  std::size_t received(std::uint32_t flow) const {
    return static_cast<std::size_t>(std::count_if(got.begin(), got.end(), [=](const Got& one) { return one.flow == flow; }));
  }
  Ps last(std::uint32_t flow) const {
    Ps time = -1;
    for (const Got& one : got)
      if (one.flow == flow) time = std::max(time, one.time);
    return time;
  }

 private:
  void dispatch(const Due& due) {
    context.now = due.time;
    const std::uint32_t index = index_of(due.what);
    switch (kind_of(due.what)) {
      case Event::arrival: arrive(index); break;
      case Event::slot: slot(index); break;
      case Event::start: begin(streams[index].source); break;
      case Event::port: fabric.on_port(index); break;
      case Event::extra: fabric.on_extra(index); break;
      default: break;
    }
  }

  void arrive(std::uint32_t index) {
    if constexpr (requires { fabric.touch(index); }) fabric.touch(index);
    const std::uint32_t host = fabric.arrive(index);
    if (host == kNone) return;
    const Packet& packet = context.slab[index];
    const std::uint32_t hops = options.telemetry ? context.telemetry[index].count : 0;
    got.push_back({context.now, packet.flow, (packet.flags & kMarked) != 0, hops});
    context.slab.release(index);
  }

  void begin(std::uint32_t host) {
    Nic& nic = context.nics[host];
    if (nic.slot) return;
    nic.slot = true;
    context.wheel.push(std::max(context.now, nic.busy_until), event(Event::slot, host));
  }

  /// The streams of a host in turn, those that may send.
  void slot(std::uint32_t host) {
    Nic& nic = context.nics[host];
    nic.slot = false;
    for (std::size_t tried = 0; tried < streams.size(); ++tried) {
      const std::size_t flow = turn[host]++ % streams.size();
      if (streams[flow].source != host || left[flow] == 0 || streams[flow].start > context.now) continue;
      if (!fabric.ready(host, streams[flow].klass)) continue;
      send(nic, host, static_cast<std::uint32_t>(flow));
      return;
    }
  }

  void send(Nic& nic, std::uint32_t host, std::uint32_t flow) {
    const std::uint32_t index = context.slab.acquire();
    Packet& packet = context.slab[index];
    packet = Packet{};
    packet.flow = flow;
    packet.key = flow * 2654435761u;
    packet.destination = streams[flow].target;
    packet.size = static_cast<std::uint16_t>(options.mtu_bytes);
    packet.klass = streams[flow].klass;
    packet.ingress = packet.following = kNone;
    if (options.telemetry) context.telemetry[index].count = 0;
    --left[flow];
    nic.busy_until = context.now + fabric.host_time(host, index);
    fabric.inject(host, index);
    begin(host);
  }
};

}  // namespace driver
