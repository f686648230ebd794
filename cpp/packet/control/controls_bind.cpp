#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>

#include "packet/options.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace railyard::packet;

void bind_packet_controls(nb::module_& m);

namespace {

using Bits = nb::ndarray<const std::uint64_t, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// What a flow's own fields begin with. Throws where there are more than slots.
template <class Owner>
void set_slots(Owner& owner, const Bits& bits) {
  if (bits.size() > owner.slots.size()) throw std::invalid_argument("more slots than a flow has");
  owner.slots.fill(0);
  std::copy_n(bits.data(), bits.size(), owner.slots.begin());
}

void bind_user(nb::module_& m) {
  nb::class_<UserControlOptions>(m, "PacketUserControl", "Addresses of a user's functions; 0: none.")
      .def_rw("on_open", &UserControlOptions::on_open)
      .def_rw("on_ack", &UserControlOptions::on_ack)
      .def_rw("on_cnp", &UserControlOptions::on_cnp)
      .def_rw("on_nack", &UserControlOptions::on_nack)
      .def_rw("on_timeout", &UserControlOptions::on_timeout)
      .def_rw("on_sent", &UserControlOptions::on_sent)
      .def_rw("on_timer", &UserControlOptions::on_timer)
      .def("set_slots", &set_slots<UserControlOptions>, "bits"_a);
  nb::class_<UserBalanceOptions>(m, "PacketUserBalance", "Addresses of a user's functions; 0: none.")
      .def_rw("next_entropy", &UserBalanceOptions::next)
      .def_rw("feedback", &UserBalanceOptions::feedback)
      .def_rw("choose", &UserBalanceOptions::choose)
      .def("set_slots", &set_slots<UserBalanceOptions>, "bits"_a);
}

}  // namespace

void bind_packet_controls(nb::module_& m) {
  nb::enum_<HpccReading>(m, "PacketHpccReading").value("PAPER", HpccReading::paper).value("HTSIM", HpccReading::htsim);
  nb::class_<HpccOptions>(m, "PacketHpcc", "Constants of HPCC.")
      .def_rw("reading", &HpccOptions::reading)
      .def_rw("eta", &HpccOptions::eta)
      .def_rw("max_stage", &HpccOptions::max_stage)
      .def_rw("rtt_ps", &HpccOptions::rtt_ps)
      .def_rw("increase_bytes", &HpccOptions::increase_bytes)
      .def_rw("increase_share", &HpccOptions::increase_share)
      .def_rw("min_rate_bps", &HpccOptions::min_rate_bps)
      .def_rw("hops", &HpccOptions::hops);
  nb::class_<SwiftOptions>(m, "PacketSwift", "Constants of Swift.")
      .def_rw("increase", &SwiftOptions::increase)
      .def_rw("decrease", &SwiftOptions::decrease)
      .def_rw("max_decrease", &SwiftOptions::max_decrease)
      .def_rw("base_target_ps", &SwiftOptions::base_target_ps)
      .def_rw("hop_target_ps", &SwiftOptions::hop_target_ps)
      .def_rw("scaling_range_ps", &SwiftOptions::scaling_range_ps)
      .def_rw("scaling_least", &SwiftOptions::scaling_least)
      .def_rw("scaling_most", &SwiftOptions::scaling_most)
      .def_rw("host_target_ps", &SwiftOptions::host_target_ps)
      .def_rw("first_packets", &SwiftOptions::first_packets)
      .def_rw("least_packets", &SwiftOptions::least_packets)
      .def_rw("most_packets", &SwiftOptions::most_packets)
      .def_rw("timeout_reset", &SwiftOptions::timeout_reset);
  bind_user(m);
}
