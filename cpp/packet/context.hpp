#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

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
  /// `part` is null where the network is not cut into parts. `windows`: the run goes from window to window of the wheel.
  Context(const NetworkColumns& network_columns, const TrafficColumns& traffic_columns, const Options& chosen,
          const Derived& made, Exchange* part, bool windows = false)
      : network(network_columns), traffic(traffic_columns), options(chosen), derived(made), hosts(network.hosts),
        wheel(windows ? window_span(network.latency_ps) : wheel_span(network.link_source.size())), routes(network, options.seed), nics(hosts),
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

  /// Length of the event wheel's windows where they are only sorted: a few hundred events each at full load.
  static Ps wheel_span(std::size_t links) {
    return Ps{1} << std::clamp(24 - static_cast<int>(std::bit_width(links / 4 + 1)), 11, 17);
  }
  /// Where the run goes by them: no longer than the least delay of a link, so that what happens in a window arrives after
  /// it. Delays below 16 ns do not count; beyond a microsecond windows outgrow the cache.
  static Ps window_span(std::span<const std::int64_t> latency_ps) {
    const Ps least = latency_ps.empty() ? 0 : *std::min_element(latency_ps.begin(), latency_ps.end());
    return std::clamp<Ps>(least, 1 << 14, 1 << 20);
  }

  /// Whether a run over the fabric goes from window to window of the wheel.
  template <class Fabric>
  static constexpr bool kWindows = requires(Fabric& fabric) { fabric.sweep(Ps{0}); };

  /// The next event, if it is due before `until`; the fabric hears where windows end. `owners`, `owner`: see `Wheel::open`.
  template <class Fabric, class Owner>
  bool take(Fabric& fabric, Due& due, Ps until, std::uint32_t owners, Owner&& owner) {
    if constexpr (kWindows<Fabric>) {
      while (!wheel.take(due, until)) {
        fabric.sweep(std::min(wheel.end(), until) - 1);
        if (!wheel.exhausted() || !wheel.open(until, fabric.next_departure(), owners, owner)) return false;
      }
      return true;
    } else {
      return wheel.pop(due, until);
    }
  }
  template <class Fabric>
  bool take(Fabric& fabric, Due& due, Ps until = kNever) {
    return take(fabric, due, until, Wheel::kNobody, [](const Due&) { return Wheel::kNobody; });
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
