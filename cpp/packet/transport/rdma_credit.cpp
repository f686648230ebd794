#include "packet/dispatch.hpp"
#include "packet/fabric/link_credit.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("rdma", "credit", run_engine<Engine<CreditFabric, Rdma<CreditFabric>>>);

}  // namespace

}  // namespace railyard::packet
