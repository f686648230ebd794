#include "packet/fabric/lossy.hpp"
#include "packet/transport/uec_run.hpp"

namespace railyard::packet {

Outcome run_uec_lossy(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                      const Derived& derived, const Heartbeat& heartbeat) {
  return run_uec<LossyFabric>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
