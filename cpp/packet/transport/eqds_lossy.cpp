#include "packet/dispatch.hpp"
#include "packet/fabric/lossy.hpp"
#include "packet/transport/pulled.hpp"
#include "packet/transport/uec.hpp"

namespace railyard::packet {

namespace {

const RunnerOf kPair("eqds", "lossy", run_engine<Engine<LossyFabric, Uec<EqdsControl, LossyFabric>>>);

}  // namespace

}  // namespace railyard::packet
