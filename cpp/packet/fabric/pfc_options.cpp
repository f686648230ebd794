#include "packet/fabric/pfc_options.hpp"

#include <stdexcept>

namespace railyard::packet {

namespace {

const Registration kMarking{Mechanism
    {.family = Family::marking,
     .name = "marking",
     .summary = "When and how probably a queue of switches with classes marks.",
     .sources = {"Floyd and Jacobson, Random Early Detection, 1993: the ramp",
                 "RFC 3168: the mark"},
     .fields = {
         field<&MarkingOptions::low_bytes>("low_bytes", "bytes", kBytesRange,
               "Queue of a class up to which nothing is marked.").or_else(std::int64_t{-1}, "as ecn_low_packets"),
         field<&MarkingOptions::high_bytes>("high_bytes", "bytes", kBytesRange,
               "Queue beyond which everything is; the same as the lower: a step.").or_else(std::int64_t{-1},
               "as ecn_high_packets"),
         field<&MarkingOptions::most>("most", "share", between(0, 1),
               "Probability just below the upper threshold, rising from 0 at the lower. HPCC's ns-3: 0.2."),
         flag<&MarkingOptions::at_enqueue>("at_enqueue",
               "Marked by what a packet finds as it comes, else by what it leaves behind."),
         flag<&MarkingOptions::by_rate>("by_rate",
               "Thresholds hold for the rate of the hosts; those of other links are scaled by their rate.")},
     .check = [](const Options& options) {
       const MarkingOptions& rule = options.of<MarkingOptions>();
       if (rule.low_bytes >= 0 && rule.high_bytes >= 0 && rule.low_bytes > rule.high_bytes)
         throw std::invalid_argument("marking_low lies above marking_high");
     }}};

const Registration kPfc{Mechanism
    {.family = Family::flow_control,
     .name = "pfc",
     .summary = "Lossless Ethernet: pause frames over a shared buffer (IEEE 802.1Qbb).",
     .sources = {"IEEE 802.1Qbb: priority flow control",
                 "SONiC, Tomahawk 5: buffer, thresholds",
                 "Broadcom/csg-htsim, HPCC's ns-3: other constants, named with their fields"},
     .fields = {
         bits<&PfcOptions::lossless>("lossless", "Classes that are paused; the others are dropped at the tail."),
         numbers<&PfcOptions::weights>("weights", between(0, 255),
               "One a class: 0 for strict priority (higher classes first, before all others), else its share of deficit "
               "round robin.").complete(),
         field<&PfcOptions::xoff_bytes>("xoff_bytes", "bytes", kBytesRange,
               "An ingress that holds more pauses its neighbour.").or_else(std::int64_t{0}, "by the dynamic threshold"),
         field<&PfcOptions::xon_bytes>("xon_bytes", "bytes", kBytesRange,
               "Below this it lets go.").or_else(std::int64_t{0}, "four fifths of xoff"),
         field<&PfcOptions::xoff_packets>("xoff_packets", "packets", between(1, 1e7),
               "xoff in full packets; what is given in bytes goes first. htsim: "
               "15.").named("pfc_xoff_packets").or_else(std::int64_t{0}, "none"),
         field<&PfcOptions::xon_packets>("xon_packets", "packets", between(1, 1e7),
               "xon in full packets. htsim: 12.").named("pfc_xon_packets").or_else(std::int64_t{0}, "none"),
         field<&PfcOptions::buffer_bytes>("buffer_bytes", "bytes", kBytesRange,
               "Of a switch, headroom included.").or_else(std::int64_t{0}, "3.2 MB for each Tb/s, as Tomahawk 5 has"),
         field<&PfcOptions::alpha>("alpha", "", above(0, 1e6),
               "Dynamic threshold, of the free shared buffer. SONiC on Tomahawk 5: 1 to 2; HPCC's ns-3: 1/8."),
         field<&PfcOptions::lossy_alpha>("lossy_alpha", "", above(0, 1e6), "The same for the queue of a lossy class."),
         field<&PfcOptions::resume_bytes>("resume_bytes", "bytes", kBytesRange,
               "So far below the dynamic threshold it lets go. SONiC on Tomahawk 5: 3,556; HPCC's ns-3: 3,072."),
         field<&PfcOptions::reserve_bytes>("reserve_bytes", "bytes", kBytesRange,
               "Guaranteed beside the shared buffer. HPCC's ns-3: 4,096."),
         field<&PfcOptions::headroom_bytes>("headroom_bytes", "bytes", kBytesRange,
               "For what comes after the pause was sent.").or_else(std::int64_t{0}, "2 delay rate + 3 MTU + frame"),
         field<&PfcOptions::headroom_most_bytes>("headroom_most_bytes", "bytes", kBytesRange,
               "The most that an ingress gets of it, whatever its link needs: packets beyond are "
               "lost.").or_else(std::int64_t{0}, "no bound"),
         field<&PfcOptions::frame_bytes>("frame_bytes", "bytes", between(1, 65535), "A pause frame."),
         field<&PfcOptions::response_ps>("response_ps", "ps", kTimeRange, "From the arrival of a pause to its effect."),
         field<&PfcOptions::watch_ps>("watch_ps", "ps", kPositiveTimeRange,
               "How often to look for a deadlock while links are paused."),
         field<&PfcOptions::stall_ps>("stall_ps", "ps", kPositiveTimeRange,
               "The run ends with an error when nothing has moved for so long while links are paused.")},
     .check = [](const Options& options) {
       const PfcOptions rule = options.of<PfcOptions>().in_bytes(options.mtu_bytes);
       if (rule.xon_bytes > rule.xoff_bytes) throw std::invalid_argument("pfc_xon must not exceed pfc_xoff");
     }}};

}  // namespace

}  // namespace railyard::packet
