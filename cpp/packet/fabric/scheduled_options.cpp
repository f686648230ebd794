#include "packet/fabric/scheduled_options.hpp"

namespace railyard::packet {

namespace {

const Registration kScheduled{Mechanism
    {.family = Family::flow_control,
     .name = "scheduled",
     .summary = "The egress grants what ingresses may send, in cells over all links.",
     .sources = {"docs/explanation/packet-scheduled.md: constants with their sources"},
     .fields = {
         field<&ScheduledOptions::cell_bytes>("cell_bytes", "bytes", between(16, 8192),
               "Payload of a full cell.").named("scheduled_cell_bytes"),
         field<&ScheduledOptions::cell_header_bytes>("cell_header_bytes", "bytes", between(0, 1024),
               "Header of a cell.").named("scheduled_cell_header_bytes"),
         field<&ScheduledOptions::control_cell_bytes>("control_cell_bytes", "bytes", between(1, 1024),
               "A request or grant of credit, all told.").named("scheduled_control_cell_bytes"),
         field<&ScheduledOptions::credit_bytes>("credit_bytes", "bytes", between(64, 1 << 20),
               "What one credit lets go.").named("scheduled_credit_bytes"),
         field<&ScheduledOptions::credit_rate>("credit_rate", "", between(0.01, 4),
               "Credit granted, of the egress port's rate."),
         field<&ScheduledOptions::fabric_speedup>("fabric_speedup", "", between(0.01, 64),
               "Rate of the links between switches, over what the network says."),
         field<&ScheduledOptions::request_ps>("request_ps", "ps", kTimeRange,
               "From a request's arrival to its place in the scheduler."),
         field<&ScheduledOptions::grant_ps>("grant_ps", "ps", kTimeRange,
               "From a grant's arrival to the packets' departure."),
         field<&ScheduledOptions::egress_bytes>("egress_bytes", "bytes", kBytesRange,
               "Queue of a port above which it grants nothing.").named("scheduled_egress_bytes").or_else(std::int64_t{0},
               "a credit loop of its rate"),
         field<&ScheduledOptions::voq_bytes>("voq_bytes", "bytes", kBytesRange,
               "Virtual output queue above which hosts are paused.").named("scheduled_voq_bytes").or_else(std::int64_t{0},
               "5 ms of its port's rate"),
         field<&ScheduledOptions::memory_bytes>("memory_bytes", "bytes", between(1, 1e15),
               "Bytes in a leaf's queues above which hosts are paused.").named("scheduled_memory_bytes"),
         field<&ScheduledOptions::reachability_ps>("reachability_ps", "ps", kTimeRange,
               "From a fabric link's failure to cells that keep off it.")}}};

}  // namespace

}  // namespace railyard::packet
