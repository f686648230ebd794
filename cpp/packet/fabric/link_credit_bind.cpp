#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include "packet/fabric/link_credit_options.hpp"

namespace nb = nanobind;
using namespace railyard::packet;

void bind_packet_link_credit(nb::module_& m);

void bind_packet_link_credit(nb::module_& m) {
  nb::class_<LinkCreditOptions>(m, "PacketLinkCreditOptions", "Constants of credit-based flow control of links.")
      .def_rw("buffer_bytes", &LinkCreditOptions::buffer_bytes)
      .def_rw("lanes", &LinkCreditOptions::lanes)
      .def_rw("update_bytes", &LinkCreditOptions::update_bytes)
      .def_rw("update_period_ps", &LinkCreditOptions::update_period_ps)
      .def_rw("packet_bytes", &LinkCreditOptions::packet_bytes)
      .def_rw("cut_through", &LinkCreditOptions::cut_through)
      .def_rw("head_bytes", &LinkCreditOptions::head_bytes)
      .def_rw("fifo", &LinkCreditOptions::fifo)
      .def_rw("high_weight", &LinkCreditOptions::high_weight)
      .def_rw("low_weight", &LinkCreditOptions::low_weight)
      .def_rw("high_limit", &LinkCreditOptions::high_limit)
      .def_rw("mark_bytes", &LinkCreditOptions::mark_bytes)
      .def_rw("watch_ps", &LinkCreditOptions::watch_ps);
}
