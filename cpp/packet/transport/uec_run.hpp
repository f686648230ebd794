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
  const std::string& control = options.congestion_control;
  if (control == "rccc") return go(std::type_identity<RcccControl>());
  if (control == "nscc+rccc") return go(std::type_identity<BothControl>());
  if (control == "constant") return go(std::type_identity<ConstantControl>());
  if (control == "nscc") return go(std::type_identity<NsccControl>());
  throw std::invalid_argument("no congestion control '" + control + "' of Ultra Ethernet");
}

}  // namespace railyard::packet
