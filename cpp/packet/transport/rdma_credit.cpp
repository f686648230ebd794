#include "packet/dispatch.hpp"
#include "packet/fabric/link_credit.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

Outcome run_rdma_credit(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                       const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<CreditFabric, Rdma<CreditFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
