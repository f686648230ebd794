#include "packet/dispatch.hpp"
#include "packet/fabric/lossy.hpp"
#include "packet/transport/pulled.hpp"
#include "packet/transport/uec.hpp"

namespace railyard::packet {

Outcome run_eqds_lossy(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                       const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<LossyFabric, Uec<EqdsControl, LossyFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
