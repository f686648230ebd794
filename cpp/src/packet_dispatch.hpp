#pragma once

#include <utility>

#include "railyard/packet/balance_bitmap.hpp"
#include "railyard/packet/balance_mixed.hpp"
#include "railyard/packet/balance_oblivious.hpp"
#include "railyard/packet/balance_reps.hpp"
#include "railyard/packet/balance_single.hpp"
#include "railyard/packet/engine_impl.hpp"

namespace railyard::packet {

/// Runs with a congestion control chosen; chooses the load balancer. One source file instantiates it for each control.
template <class Control>
Outcome run_with(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                 const Derived& derived, const Heartbeat& heartbeat) {
  const auto go = [&]<class Balancer>(std::type_identity<Balancer>) {
    return Engine<Control, Balancer>(network, traffic, options, derived).run(heartbeat);
  };
  switch (options.balance) {
    case Balance::mixed: return go(std::type_identity<Mixed>());
    case Balance::reps: return go(std::type_identity<Reps>());
    case Balance::bitmap: return go(std::type_identity<Bitmap>());
    case Balance::oblivious: return go(std::type_identity<Oblivious>());
    case Balance::single_path: return go(std::type_identity<SinglePath>());
    case Balance::adaptive: return go(std::type_identity<Adaptive>());
  }
  return {};
}

extern template Outcome run_with<NsccControl>(const NetworkColumns&, const TrafficColumns&, const Options&,
                                              const Derived&, const Heartbeat&);
extern template Outcome run_with<RcccControl>(const NetworkColumns&, const TrafficColumns&, const Options&,
                                              const Derived&, const Heartbeat&);
extern template Outcome run_with<BothControl>(const NetworkColumns&, const TrafficColumns&, const Options&,
                                              const Derived&, const Heartbeat&);
extern template Outcome run_with<ConstantControl>(const NetworkColumns&, const TrafficColumns&, const Options&,
                                                  const Derived&, const Heartbeat&);

}  // namespace railyard::packet
