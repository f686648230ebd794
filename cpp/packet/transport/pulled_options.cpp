#include "packet/transport/pulled_options.hpp"

namespace railyard::packet {

namespace {

const Registration kEqds{Mechanism
    {.family = Family::transport,
     .name = "eqds",
     .summary = "Receivers pull, after a first window of speculation (EQDS).",
     .sources = {"Olteanu et al., An edge-queued datagram service for all datacenter traffic, NSDI 2022",
                 "Broadcom/csg-htsim, commit 841d9e7, eqds.cpp, main_eqds.cpp"},
     .fields = {
         field<&EqdsOptions::timeout_ps>("timeout_ps", "ps", kPositiveTimeRange,
               "How long a packet may be out before it is taken for lost; what drains six full queues is added.")}}};

const Registration kNdp{Mechanism
    {.family = Family::transport,
     .name = "ndp",
     .summary = "Receivers pull packet by packet, without credit (NDP).",
     .sources = {"Handley et al., Re-architecting datacenter networks and stacks for low latency and high performance, SIGCOMM 2017",
                 "Broadcom/csg-htsim, commit 841d9e7, ndp.cpp, main_ndp.cpp"},
     .fields = {
         field<&NdpOptions::timeout_ps>("timeout_ps", "ps", kPositiveTimeRange,
               "How long a packet may be out before it is taken for lost.")}}};

}  // namespace

}  // namespace railyard::packet
