#include "packet/dispatch.hpp"
#include "packet/fabric/lossy.hpp"
#include "packet/transport/ndp.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("ndp", "lossy", run_engine<Engine<LossyFabric, Ndp<LossyFabric>>>);

}  // namespace

}  // namespace railyard::packet
