#include "packet_dispatch.hpp"
#include "railyard/packet/lossy.hpp"
#include "railyard/packet/ndp.hpp"

namespace railyard::packet {

Outcome run_ndp_lossy(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                      const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<LossyFabric, Ndp<LossyFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
