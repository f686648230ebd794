#include "packet_uec.hpp"
#include "railyard/packet/lossy.hpp"

namespace railyard::packet {

Outcome run_uec_lossy(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                      const Derived& derived, const Heartbeat& heartbeat) {
  return run_uec<LossyFabric>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
