#include <nanobind/nanobind.h>

#include "core/version.hpp"

namespace nb = nanobind;

void bind_flow(nb::module_& m);     // flow/simulation_bind.cpp
void bind_packet(nb::module_& m);   // packet/run_bind.cpp
void bind_serving(nb::module_& m);  // serving/simulation_bind.cpp

NB_MODULE(_core, m) {
  m.doc() = "The C++ core. Private: use the Python modules above it.";
  m.def("interface_version", &railyard::interface_version, "Version of the core's interface towards Python.");
  bind_flow(m);
  bind_packet(m);
  bind_serving(m);
}
