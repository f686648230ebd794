#include "packet/fabric/link_credit_options.hpp"

namespace railyard::packet {

namespace {

const Registration kLinkCredit{Mechanism
    {.family = Family::flow_control,
     .name = "credit",
     .summary = "Links with credits: the upstream neighbour sends only what there is room for (InfiniBand).",
     .sources = {"InfiniBand Architecture Specification, volume 1, section 7.6.9 and 7.9",
                 "docs/explanation/packet-infiniband.md: constants with their sources"},
     .fields = {
         field<&LinkCreditOptions::buffer_bytes>("buffer_bytes", "bytes", between(64, 4294967295.0),
               "Input buffer of a port for each virtual lane."),
         field<&LinkCreditOptions::reach_ps>("reach_ps", "ps", kTimeRange,
               "Boxes at the ends of long links: a lane holds at least what the link carries in its round trip, or in so "
               "much of it."),
         field<&LinkCreditOptions::lanes>("lanes", "", between(1, 8),
               "Virtual lanes; traffic class c travels in lane c modulo their number."),
         field<&LinkCreditOptions::update_bytes>("update_bytes", "bytes", kBytesRange,
               "Space set free before a credit packet tells of it."),
         field<&LinkCreditOptions::update_period_ps>("update_period_ps", "ps", kPositiveTimeRange,
               "Less is told of after so long, where the sender may be out of credit."),
         field<&LinkCreditOptions::packet_bytes>("packet_bytes", "bytes", between(1, 4096),
               "A credit packet on the wire.").named("link_credit_packet_bytes"),
         flag<&LinkCreditOptions::cut_through>("cut_through",
               "A switch sends a packet on when its head is there; else when all of it is."),
         field<&LinkCreditOptions::head_bytes>("head_bytes", "bytes", between(1, 4096),
               "That head.").named("link_credit_head_bytes"),
         flag<&LinkCreditOptions::fifo>("fifo", "Inputs are one queue a lane, in place of one for each egress."),
         numbers<&LinkCreditOptions::high_weight>("high_weight", between(0, 255),
               "Of each lane in the high-priority table, in blocks of 64 bytes; 0: not in it."),
         numbers<&LinkCreditOptions::low_weight>("low_weight", between(0, 255), "The same of the low-priority table."),
         field<&LinkCreditOptions::high_limit>("high_limit", "", between(0, 255),
               "Blocks of 4 KiB of high priority before a low one may go; 0: one packet; 255: no limit."),
         field<&LinkCreditOptions::mark_bytes>("mark_bytes", "bytes", kBytesRange,
               "Bytes waiting for an egress that has credit above which packets are marked; 0: never."),
         field<&LinkCreditOptions::watch_ps>("watch_ps", "ps", kPositiveTimeRange,
               "How long a lane is without credit before a cycle of waiting lanes is looked for.")},
     .prefix = "link_credit"}};

}  // namespace

}  // namespace railyard::packet
