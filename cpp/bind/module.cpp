#include <nanobind/nanobind.h>

#include "railyard/version.hpp"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  m.doc() = "The C++ core. Private: use the Python modules above it.";
  m.def("interface_version", &railyard::interface_version, "Version of the core's interface towards Python.");
}
