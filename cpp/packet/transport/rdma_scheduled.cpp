#include "packet/dispatch.hpp"
#include "packet/fabric/scheduled.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("rdma", "scheduled", run_engine<Engine<ScheduledFabric, Rdma<ScheduledFabric>>>);

}  // namespace

}  // namespace railyard::packet
