#include "core/arrays_bind.hpp"
#include "synthesis/timing.hpp"

using namespace nanobind::literals;
using namespace railyard::bind;
namespace nb = nanobind;

void bind_synthesis(nb::module_& m) {
  using Out = nb::ndarray<double, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "synthesis_starts_us",
      [](const Column<std::int32_t>& link, const Column<double>& takes_us, const Column<double>& late_us,
         const Column<std::int64_t>& after_ptr, const Column<std::int32_t>& after, const Column<double>& planned_us,
         std::int32_t links, const Out& out) {
        if (out.size() != link.size()) throw std::invalid_argument("a column of sends has another length");
        std::vector<double> found;
        {
          nb::gil_scoped_release nogil;
          found = railyard::synthesis::starts_us(
              {view(link), view(takes_us), view(late_us), view(after_ptr), view(after), view(planned_us)}, links);
        }
        std::copy(found.begin(), found.end(), out.data());
      },
      "link"_a, "takes_us"_a, "late_us"_a, "after_ptr"_a, "after"_a, "planned_us"_a, "links"_a, "out"_a.noconvert(),
      "When each send starts, if a free link takes what has the longest chain "
      "behind it.");
}
