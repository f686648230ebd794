#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "packet/fabric/scheduled_options.hpp"

namespace nb = nanobind;
using namespace railyard::packet;

void bind_packet_scheduled(nb::module_& m) {
  nb::class_<ScheduledOptions>(m, "PacketScheduledOptions", "Constants of a scheduled fabric; 0: derived where it may be.")
      .def_rw("cell_bytes", &ScheduledOptions::cell_bytes)
      .def_rw("cell_header_bytes", &ScheduledOptions::cell_header_bytes)
      .def_rw("control_cell_bytes", &ScheduledOptions::control_cell_bytes)
      .def_rw("credit_bytes", &ScheduledOptions::credit_bytes)
      .def_rw("credit_rate", &ScheduledOptions::credit_rate)
      .def_rw("fabric_speedup", &ScheduledOptions::fabric_speedup)
      .def_rw("request_ps", &ScheduledOptions::request_ps)
      .def_rw("grant_ps", &ScheduledOptions::grant_ps)
      .def_rw("egress_bytes", &ScheduledOptions::egress_bytes)
      .def_rw("voq_bytes", &ScheduledOptions::voq_bytes)
      .def_rw("memory_bytes", &ScheduledOptions::memory_bytes)
      .def_rw("reachability_ps", &ScheduledOptions::reachability_ps);
  nb::class_<ScheduledCounters>(m, "PacketScheduledCounters", "What a scheduled fabric counted.")
      .def_ro("cells", &ScheduledCounters::cells)
      .def_ro("cells_lost", &ScheduledCounters::cells_lost)
      .def_ro("requests", &ScheduledCounters::requests)
      .def_ro("grants", &ScheduledCounters::grants)
      .def_ro("pauses", &ScheduledCounters::pauses)
      .def_ro("voq_bytes", &ScheduledCounters::voq_bytes)
      .def_ro("memory_bytes", &ScheduledCounters::memory_bytes)
      .def_ro("egress_bytes", &ScheduledCounters::egress_bytes)
      .def_ro("element_bytes", &ScheduledCounters::element_bytes)
      .def_ro("uplink_bytes", &ScheduledCounters::uplink_bytes)
      .def_ro("cell_wait_ps", &ScheduledCounters::cell_wait_ps)
      .def_ro("contexts", &ScheduledCounters::contexts)
      .def_ro("bursts_held", &ScheduledCounters::bursts_held)
      .def_prop_ro("reorder", [](nb::handle self) {
        const auto& counts = nb::cast<const ScheduledCounters&>(self).reorder;
        return nb::ndarray<nb::numpy, const std::uint64_t, nb::ndim<1>>(counts.data(), {counts.size()}, self);
      });
}
