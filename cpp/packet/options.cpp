#include "packet/options.hpp"

#include <bit>
#include <stdexcept>

namespace railyard::packet {

namespace {

const Registration kEngine{Mechanism
    {.family = Family::engine,
     .name = "packet",
     .summary = "What every run of the packet engine has.",
     .sources = {"ultraethernet/uet-htsim, commit 40ccb05: defaults"},
     .fields = {
         selection<&Options::transport>("transport", Family::transport, "What hosts speak."),
         selection<&Options::switching>("switching", Family::flow_control,
               "What happens where more comes to an egress than leaves it."),
         selection<&Options::congestion_control>("congestion_control", Family::congestion_control,
               "Of Ultra Ethernet: who decides how much a flow may send."),
         selection<&Options::load_balancing>("load_balancing", Family::load_balancing,
               "Who chooses among equal-cost paths, and how."),
         field<&Options::paths>("paths", "", between(1, 32768), "Entropies of a flow; a power of two."),
         field<&Options::mtu_bytes>("mtu_bytes", "bytes", between(2, 65535),
               "A full packet, header included.").named("mtu_bytes"),
         field<&Options::header_bytes>("header_bytes", "bytes", between(1, 65534),
               "Header, acknowledgement, trimmed packet.").named("header_bytes"),
         field<&Options::base_rtt_ps>("base_rtt_ps", "ps", kTimeRange,
               "Unloaded round trip of the longest path.").named("-").or_else(std::int64_t{0}, "from the network"),
         field<&Options::control_class>("control_class", "", between(0, 7),
               "Traffic class of acknowledgements, notifications and grants.").or_else(std::int64_t{255},
               "that of their flow", "same"),
         field<&Options::failed_fraction>("failed_fraction", "share", kShareRange,
               "What failed links keep of their rate, queue and thresholds.").named("-"),
         field<&Options::reroute_ps>("reroute_ps", "ps", kTimeRange,
               "From the end or return of a link to routes that know of it.").or_else(std::int64_t{-1}, "never", "never"),
         flag<&Options::link_retry>("link_retry", "Links send again what arrives wrong; else it is lost."),
         field<&Options::end_ps>("end_ps", "ps", kTimeRange,
               "Simulated time at which the run ends whatever has finished.").or_else(std::int64_t{0}, "never"),
         field<&Options::sample_ps>("sample_ps", "ps", kTimeRange,
               "Time between samples of queues and flows.").named("-").or_else(std::int64_t{0}, "none are taken")},
     .prefix = "-",
     .check = [](const Options& options) {
       if (options.mtu_bytes <= options.header_bytes) throw std::invalid_argument("mtu_bytes must exceed header_bytes");
       if (!std::has_single_bit(options.paths)) throw std::invalid_argument("paths must be a power of two");
     }}};
const Registration kGoBack{Mechanism
    {.family = Family::loss_recovery,
     .name = "go-back",
     .summary = "The sender goes back to the first packet that is missing.",
     .sources = {"InfiniBand Architecture Specification, volume 1, section 9.7: reliable connections"},
     .transport = "rdma"}};
const Registration kSelective{Mechanism
    {.family = Family::loss_recovery,
     .name = "selective",
     .summary = "Packets are placed in any order and lost ones sent again alone.",
     .sources = {"Mittal et al., Revisiting Network Support for RDMA, SIGCOMM 2018"},
     .transport = "rdma"}};

}  // namespace

}  // namespace railyard::packet
