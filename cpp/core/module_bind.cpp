#include <nanobind/nanobind.h>

#include "core/ending.hpp"
#include "core/version.hpp"

namespace nb = nanobind;
using namespace nb::literals;

void bind_cluster(nb::module_& m);    // cluster/paths_bind.cpp
void bind_flow(nb::module_& m);       // flow/simulation_bind.cpp
void bind_measure(nb::module_& m);    // measure/decompose_bind.cpp
void bind_packet(nb::module_& m);     // packet/run_bind.cpp
void bind_rounds(nb::module_& m);     // rounds/rounds_bind.cpp
void bind_serving(nb::module_& m);    // serving/simulation_bind.cpp
void bind_synthesis(nb::module_& m);  // synthesis/timing_bind.cpp

NB_MODULE(_core, m) {
  m.doc() = "The C++ core. Private: use the Python modules above it.";
  m.def("interface_version", &railyard::interface_version, "Version of the core's interface towards Python.");
  m.def("end_on_abort", &railyard::end_on_abort, "words"_a, "code"_a,
        "From now on an abort of this process writes `words` to stderr and ends with `code`.");
  bind_cluster(m);
  bind_flow(m);
  bind_measure(m);
  bind_packet(m);
  bind_rounds(m);
  bind_serving(m);
  bind_synthesis(m);
}
