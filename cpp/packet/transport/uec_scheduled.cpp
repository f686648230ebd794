#include "packet/fabric/scheduled.hpp"
#include "packet/transport/uec_run.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("uec", "scheduled", run_uec<ScheduledFabric>);

}  // namespace

}  // namespace railyard::packet
