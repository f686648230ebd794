#include "packet/transport/rdma_options.hpp"

namespace railyard::packet {

namespace {

const Registration kRdma{Mechanism
    {.family = Family::transport,
     .name = "rdma",
     .summary = "Reliable connections: RoCE and InfiniBand, one queue pair a flow.",
     .sources = {"docs/explanation/packet-rdma.md: constants with their sources"},
     .fields = {
         selection<&RdmaOptions::control>("control", Family::congestion_control,
               "Who decides a queue pair's rate or window."),
         choice<&RdmaOptions::notification>("notification", {"none", "packet", "acknowledgement"},
               "How a receiver tells of marked packets: not at all, by a notification packet (CNP), or by marked "
               "acknowledgements, each of which counts as one."),
         field<&RdmaOptions::qps>("qps", "", between(1, 4096),
               "Queue pairs over which a flow is split, each with a path of its own.").named("qps"),
         flag<&RdmaOptions::out_of_order>("out_of_order",
               "Packets are placed in any order and lost ones sent again alone; else the sender goes back."),
         field<&RdmaOptions::ack_packets>("ack_packets", "packets", between(1, 65535),
               "Packets that an acknowledgement answers.").named("rdma_ack_packets"),
         field<&RdmaOptions::control_bytes>("control_bytes", "bytes", between(1, 65535),
               "Size of acknowledgements and notifications on the wire.").named("rdma_control_bytes"),
         field<&RdmaOptions::control_class>("control_class", "", between(0, 7),
               "Their traffic class.").or_else(std::int64_t{-1}, "that of the flow"),
         field<&RdmaOptions::rto_ps>("rto_ps", "ps", kPositiveTimeRange,
               "Time without progress after which what is out is sent again: 4.096 us x 2^10."),
         field<&RdmaOptions::nack_interval_ps>("nack_interval_ps", "ps", kTimeRange,
               "Time before a gap is reported again; 0: by every packet beyond it."),
         field<&RdmaOptions::cnp_interval_ps>("cnp_interval_ps", "ps", kTimeRange,
               "Least time between two notifications of a flow."),
         field<&RdmaOptions::window_rtts>("window_rtts", "", between(0, 1e6),
               "Most payload out, in unloaded round trips of the flow's own path; 0: any."),
         flag<&RdmaOptions::window_scales>("window_scales", "Whether the window shrinks with the rate.")}}};

}  // namespace

}  // namespace railyard::packet
