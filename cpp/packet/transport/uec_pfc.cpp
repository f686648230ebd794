#include "packet/fabric/pfc.hpp"
#include "packet/transport/uec_run.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("uec", "pfc", run_uec<PfcFabric>);

}  // namespace

}  // namespace railyard::packet
