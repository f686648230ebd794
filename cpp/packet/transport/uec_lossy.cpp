#include "packet/fabric/lossy.hpp"
#include "packet/transport/uec_run.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("uec", "lossy", run_uec<LossyFabric>);

}  // namespace

}  // namespace railyard::packet
