#include "packet/dispatch.hpp"
#include "packet/fabric/scheduled.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

Outcome run_rdma_scheduled(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                       const Derived& derived, const Heartbeat& heartbeat) {
  return run_engine<Engine<ScheduledFabric, Rdma<ScheduledFabric>>>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
