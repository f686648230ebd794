#include "packet/dispatch.hpp"
#include "packet/fabric/pfc.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

Outcome run_rdma_pfc(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                     const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<PfcFabric, Rdma<PfcFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
