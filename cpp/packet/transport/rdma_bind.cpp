#include <nanobind/nanobind.h>

#include "packet/transport/rdma_options.hpp"

namespace nb = nanobind;
using namespace railyard::packet;

void bind_packet_rdma(nb::module_& m);

void bind_packet_rdma(nb::module_& m) {
  nb::enum_<RateControl>(m, "PacketRateControl")
      .value("LINE_RATE", RateControl::line_rate)
      .value("DCQCN", RateControl::dcqcn)
      .value("SPECTRUM", RateControl::spectrum)
      .value("HPCC", RateControl::hpcc)
      .value("SWIFT", RateControl::swift)
      .value("USER", RateControl::user);
  nb::enum_<Notification>(m, "PacketNotification")
      .value("NONE", Notification::none)
      .value("PACKET", Notification::packet)
      .value("ACKNOWLEDGEMENT", Notification::acknowledgement);
  nb::enum_<DcqcnForm>(m, "PacketDcqcnForm").value("PAPER", DcqcnForm::paper).value("PERIODIC", DcqcnForm::periodic);
  nb::class_<RdmaOptions>(m, "PacketRdmaOptions", "Constants of reliable connections.")
      .def_rw("control", &RdmaOptions::control)
      .def_rw("notification", &RdmaOptions::notification)
      .def_rw("out_of_order", &RdmaOptions::out_of_order)
      .def_rw("ack_packets", &RdmaOptions::ack_packets)
      .def_rw("control_bytes", &RdmaOptions::control_bytes)
      .def_rw("control_class", &RdmaOptions::control_class)
      .def_rw("rto_ps", &RdmaOptions::rto_ps)
      .def_rw("nack_interval_ps", &RdmaOptions::nack_interval_ps)
      .def_rw("cnp_interval_ps", &RdmaOptions::cnp_interval_ps)
      .def_rw("window_rtts", &RdmaOptions::window_rtts)
      .def_rw("window_scales", &RdmaOptions::window_scales);
  nb::class_<DcqcnOptions>(m, "PacketDcqcnOptions", "Constants of DCQCN.")
      .def_rw("form", &DcqcnOptions::form)
      .def_rw("g", &DcqcnOptions::g)
      .def_rw("alpha_interval_ps", &DcqcnOptions::alpha_interval_ps)
      .def_rw("decrease_interval_ps", &DcqcnOptions::decrease_interval_ps)
      .def_rw("increase_interval_ps", &DcqcnOptions::increase_interval_ps)
      .def_rw("byte_counter", &DcqcnOptions::byte_counter)
      .def_rw("fast_recovery", &DcqcnOptions::fast_recovery)
      .def_rw("additive_bps", &DcqcnOptions::additive_bps)
      .def_rw("hyper_bps", &DcqcnOptions::hyper_bps)
      .def_rw("min_rate_bps", &DcqcnOptions::min_rate_bps)
      .def_rw("initial_rate", &DcqcnOptions::initial_rate)
      .def_rw("first_cnp_rate", &DcqcnOptions::first_cnp_rate)
      .def_rw("least_kept", &DcqcnOptions::least_kept)
      .def_rw("clamp_target", &DcqcnOptions::clamp_target);
  nb::class_<SpectrumOptions>(m, "PacketSpectrumOptions", "Constants of the control by round-trip times.")
      .def_rw("threshold_ps", &SpectrumOptions::threshold_ps)
      .def_rw("responsiveness", &SpectrumOptions::responsiveness)
      .def_rw("most_decrease", &SpectrumOptions::most_decrease)
      .def_rw("most_increase", &SpectrumOptions::most_increase)
      .def_rw("additive_share", &SpectrumOptions::additive_share)
      .def_rw("hyper_share", &SpectrumOptions::hyper_share)
      .def_rw("hyper_interval_ps", &SpectrumOptions::hyper_interval_ps)
      .def_rw("first_cut", &SpectrumOptions::first_cut)
      .def_rw("notified_kept", &SpectrumOptions::notified_kept)
      .def_rw("gap_kept", &SpectrumOptions::gap_kept)
      .def_rw("least_share", &SpectrumOptions::least_share);
}
