#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include "packet/fabric/pfc.hpp"

namespace nb = nanobind;
using namespace railyard::packet;

/// Options of switches with classes and pause frames, and the error of a run that they would hold up for ever.
void bind_packet_pfc(nb::module_& m) {
  nb::class_<MarkingOptions>(m, "PacketMarking", "When queues mark; -1: derived.")
      .def(nb::init<>())
      .def_rw("low_bytes", &MarkingOptions::low_bytes)
      .def_rw("high_bytes", &MarkingOptions::high_bytes)
      .def_rw("most", &MarkingOptions::most)
      .def_rw("at_enqueue", &MarkingOptions::at_enqueue)
      .def_rw("by_rate", &MarkingOptions::by_rate);
  nb::class_<PfcOptions>(m, "PacketPfc", "Priority flow control over a shared buffer; 0: derived.")
      .def(nb::init<>())
      .def_rw("lossless", &PfcOptions::lossless)
      .def_rw("weights", &PfcOptions::weights)
      .def_rw("xoff_bytes", &PfcOptions::xoff_bytes)
      .def_rw("xon_bytes", &PfcOptions::xon_bytes)
      .def_rw("buffer_bytes", &PfcOptions::buffer_bytes)
      .def_rw("alpha", &PfcOptions::alpha)
      .def_rw("lossy_alpha", &PfcOptions::lossy_alpha)
      .def_rw("resume_bytes", &PfcOptions::resume_bytes)
      .def_rw("reserve_bytes", &PfcOptions::reserve_bytes)
      .def_rw("headroom_bytes", &PfcOptions::headroom_bytes)
      .def_rw("frame_bytes", &PfcOptions::frame_bytes)
      .def_rw("response_ps", &PfcOptions::response_ps)
      .def_rw("watch_ps", &PfcOptions::watch_ps)
      .def_rw("stall_ps", &PfcOptions::stall_ps);
  nb::exception<Stuck>(m, "PacketStuck");
}
