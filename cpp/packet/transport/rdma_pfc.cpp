#include "packet/dispatch.hpp"
#include "packet/fabric/pfc.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("rdma", "pfc", run_engine<Engine<PfcFabric, Rdma<PfcFabric>>>);

}  // namespace

}  // namespace railyard::packet
