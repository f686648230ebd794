#include "packet/fabric/link_credit.hpp"
#include "packet/transport/uec_run.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("uec", "credit", run_uec<CreditFabric>);

}  // namespace

}  // namespace railyard::packet
