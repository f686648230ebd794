#include "packet/fabric/link_credit.hpp"
#include "packet/transport/uec_run.hpp"

namespace railyard::packet {

Outcome run_uec_credit(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                      const Derived& derived, const Heartbeat& heartbeat) {
  return run_uec<CreditFabric>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
