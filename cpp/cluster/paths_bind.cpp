#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "cluster/paths.hpp"
#include "core/arrays_bind.hpp"

namespace nb = nanobind;

void bind_cluster(nb::module_& m);

using namespace nb::literals;
using namespace railyard::bind;
using namespace railyard::cluster;

namespace {

using Int32 = Column<std::int32_t>;
using Int64 = Column<std::int64_t>;
using UInt32 = Column<std::uint32_t>;

Paths walked(const Int64& record_ptr, const Int32& lo, const Int32& hi, const Int64& first, const Int32& width,
             const Int32& stride, const Int32& choices, const Int32& target, const Int32& source, const Int32& port,
             const UInt32& key, const UInt32& salt) {
  const RouteTable table{view(record_ptr), view(lo),     view(hi),      view(first),
                         view(width),      view(stride), view(choices), view(target)};
  nb::gil_scoped_release nogil;
  return walk(table, view(source), view(port), view(key), view(salt));
}

using Columns = std::tuple<Int64, Int64, Int32, Column<double>, Column<double>>;

Rows added(std::int64_t rows, const std::vector<Columns>& columns) {
  std::vector<Part> parts;
  for (const auto& [row, ptr, link, share, factor] : columns)
    parts.push_back({view(row), view(ptr), view(link), view(share), view(factor)});
  nb::gil_scoped_release nogil;
  return summed(rows, parts);
}

}  // namespace

void bind_cluster(nb::module_& m) {
  nb::class_<Paths>(m, "Paths", "Links of many flows, in the order in which they are crossed.")
      .def_prop_ro("ptr", column_of<Paths, &Paths::ptr>())
      .def_prop_ro("link", column_of<Paths, &Paths::link>())
      .def_prop_ro("arrived", column_of<Paths, &Paths::arrived>())
      .def_ro("loop", &Paths::loop);
  m.def("walk", &walked, "record_ptr"_a, "lo"_a, "hi"_a, "first"_a, "width"_a, "stride"_a, "choices"_a, "target"_a,
        "source"_a, "port"_a, "key"_a, "salt"_a, "One path a flow; without salts the first link everywhere.");
  nb::class_<Rows>(m, "Rows", "Shares of links by row.")
      .def_prop_ro("ptr", column_of<Rows, &Rows::ptr>())
      .def_prop_ro("link", column_of<Rows, &Rows::link>())
      .def_prop_ro("share", column_of<Rows, &Rows::share>());
  m.def("summed", &added, "rows"_a, "parts"_a,
        "Sums by row and link; a part has the rows of its flows, `ptr`, links, shares (none: 1) and factors.");
}
