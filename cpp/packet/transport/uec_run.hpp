#pragma once

#include "packet/dispatch.hpp"
#include "packet/transport/uec.hpp"

namespace railyard::packet {

/// The Ultra Ethernet transport over a fabric; chooses its congestion control.
template <class Fabric>
Outcome run_uec(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                const Derived& derived, const Heartbeat& heartbeat) {
  const auto go = [&]<class Control>(std::type_identity<Control>) {
    return run_engine<Engine<Fabric, Uec<Control, Fabric>>>(network, traffic, options, derived, heartbeat);
  };
  switch (options.congestion) {
    case Congestion::rccc: return go(std::type_identity<RcccControl>());
    case Congestion::both: return go(std::type_identity<BothControl>());
    case Congestion::constant: return go(std::type_identity<ConstantControl>());
    default: return go(std::type_identity<NsccControl>());
  }
}

}  // namespace railyard::packet
