#include "packet_dispatch.hpp"
#include "railyard/packet/lossy.hpp"
#include "railyard/packet/pulled.hpp"
#include "railyard/packet/uec.hpp"

namespace railyard::packet {

Outcome run_eqds_lossy(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                       const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<LossyFabric, Uec<EqdsControl, LossyFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
