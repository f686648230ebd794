#include "packet/dispatch.hpp"
#include "packet/fabric/lossy.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

Outcome run_rdma_lossy(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                       const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<LossyFabric, Rdma<LossyFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
