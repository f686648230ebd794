#include "packet/dispatch.hpp"
#include "packet/fabric/lossy.hpp"
#include "packet/transport/rdma.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("rdma", "lossy", run_engine<Engine<LossyFabric, Rdma<LossyFabric>>>);

}  // namespace

}  // namespace railyard::packet
