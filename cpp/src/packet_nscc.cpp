#include "packet_dispatch.hpp"

namespace railyard::packet {

template Outcome run_with<NsccControl>(const NetworkColumns&, const TrafficColumns&, const Options&, const Derived&,
                                       const Heartbeat&);

}  // namespace railyard::packet
