#include "packet/transport/uec_options.hpp"

namespace railyard::packet {

namespace {

const Registration kUec{Mechanism
    {.family = Family::transport,
     .name = "uec",
     .summary = "Ultra Ethernet: selective acknowledgements, windows or credit.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec.cpp, main_uec.cpp"},
     .fields = {
         field<&UecOptions::sack_bytes>("sack_bytes", "bytes", between(1, 1e9),
               "Bytes that a receiver accepts before it acknowledges unasked.").named("sack_bytes"),
         field<&Options::window_packets>("window_packets", "packets", between(1, 1e7),
               "First window.").or_else(std::int64_t{0}, "1.5 bandwidth-delay products").named("window_packets")},
     .prefix = "-"}};

const Registration kNscc{Mechanism
    {.family = Family::congestion_control,
     .name = "nscc",
     .summary = "Ultra Ethernet's network-signalled control: a window at the sender.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec.cpp"},
     .fields = {
         field<&Options::target_delay_ps>("target_delay_ps", "ps", kPositiveTimeRange,
               "Queueing delay aimed at.").or_else(std::int64_t{0}, "0.75 base round trips with trimming, else 1"),
         field<&NsccOptions::quick_adapt_gate>("quick_adapt_gate", "", between(0, 31),
               "Quick adapt acts below the greatest window divided by two to this power.")},
     .transport = "uec",
     .prefix = "-"}};

const Registration kRccc{Mechanism
    {.family = Family::congestion_control,
     .name = "rccc",
     .summary = "Ultra Ethernet's receiver-credit control: credit granted by the receiver.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec.cpp"},
     .fields = {
         field<&Options::pull_rate>("pull_rate", "share", kShareRange,
               "Share of the line rate that receivers grant; of EQDS and NDP too."),
         field<&RcccOptions::oversubscription>("oversubscription", "", between(1, 1e6),
               "Of the fabric; above 1 receivers slow down by marks and by trims before the last hop.").named("-")},
     .transport = "uec",
     .prefix = "-"}};

const Registration kBoth{Mechanism
    {.family = Family::congestion_control,
     .name = "nscc+rccc",
     .summary = "Both at once: the tighter one rules.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec.cpp"},
     .transport = "uec",
     .prefix = "-"}};

const Registration kConstant{Mechanism
    {.family = Family::congestion_control,
     .name = "constant",
     .summary = "A window that never changes.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05, uec.cpp"},
     .transport = "uec"}};

}  // namespace

}  // namespace railyard::packet
