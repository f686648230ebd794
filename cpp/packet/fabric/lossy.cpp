#include "packet/options.hpp"

namespace railyard::packet {

namespace {

const Registration kLossy{Mechanism
    {.family = Family::flow_control,
     .name = "lossy",
     .summary = "Queues cut packets or drop them.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05: queues, thresholds"},
     .fields = {
         flag<&Options::trim>("trim", "A full queue cuts packets to their headers; else it drops them."),
         field<&Options::queue_packets>("queue_packets", "packets", between(1, 1e7),
               "Full packets that an egress queue holds.").named("queue_packets").or_else(std::int64_t{0},
               "one bandwidth-delay product with trimming, else five"),
         field<&Options::ecn_low_packets>("ecn_low_packets", "packets", between(0, 1e7),
               "Packets left in the queue above which some departing packets are "
               "marked.").named("ecn_low_packets").or_else(std::int64_t{-1}, "0.2 of the bandwidth-delay product"),
         field<&Options::ecn_high_packets>("ecn_high_packets", "packets", between(0, 1e7),
               "Packets above which all are.").named("ecn_high_packets").or_else(std::int64_t{-1},
               "0.8 of the bandwidth-delay product")},
     .prefix = "-"}};

}  // namespace

}  // namespace railyard::packet
