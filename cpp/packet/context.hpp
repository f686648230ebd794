#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "packet/lifecycle.hpp"
#include "packet/options.hpp"
#include "packet/partition.hpp"
#include "packet/routing.hpp"
#include "packet/slab.hpp"
#include "packet/telemetry.hpp"
#include "packet/transport/nic.hpp"
#include "packet/wheel.hpp"

namespace railyard::packet {

/// What the parts of an engine share.
struct Context {
  /// `part` is null where the network is not cut into parts.
  Context(const NetworkColumns& network_columns, const TrafficColumns& traffic_columns, const Options& chosen,
          const Derived& made, Exchange* part)
      : network(network_columns), traffic(traffic_columns), options(chosen), derived(made), hosts(network.hosts),
        wheel(wheel_shift(network.link_source.size())), routes(network, options.seed), nics(hosts),
        exchange(part), flows(traffic, outcome, wheel, part) {
    outcome.derived = derived;
    for (std::size_t link = 0; link < network.link_source.size(); ++link) {
      const auto source = static_cast<std::uint32_t>(network.link_source[link]);
      if (source >= hosts) continue;
      nics[source].link = nics[source].links == 0 ? static_cast<std::uint32_t>(link) : kNone;
      ++nics[source].links;
    }
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Windows of the event wheel: a few hundred events each at full load.
  static int wheel_shift(std::size_t links) {
    return std::clamp(24 - static_cast<int>(std::bit_width(links / 4 + 1)), 11, 17);
  }

  /// The packet will be at the end of its link at `time`. Every fabric sends by this.
  /// PRE: where the link leaves the part, `time` is at least the link's delay from now, and nothing will be done to the
  /// packet before it arrives.
  void depart(std::uint32_t link, std::uint32_t index, Ps time) {
    if (!leaves(link)) {
      wheel.push(time, event(Event::arrival, index), link);
      return;
    }
    slab[index].link = link;
    exchange->send(link, time, slab[index], options.telemetry ? &telemetry[index] : nullptr);
    slab.release(index);
  }

  /// Whether the link leads into another part.
  bool leaves(std::uint32_t link) const { return exchange != nullptr && exchange->leaves(link); }
  /// Whether the node is of this part.
  bool owns(std::uint32_t node) const { return exchange == nullptr || exchange->owns(node); }

  const NetworkColumns& network;
  const TrafficColumns& traffic;
  const Options& options;
  const Derived& derived;
  std::uint32_t hosts;
  Ps now = 0;
  Outcome outcome;
  Slab slab;
  Wheel wheel;
  Routes routes;
  BigVector<Nic> nics;
  Exchange* exchange;
  Lifecycle flows;
  TelemetryTable telemetry;
};

}  // namespace railyard::packet
