#include "core/arrays_bind.hpp"
#include "measure/decompose.hpp"

namespace nb = nanobind;

void bind_measure(nb::module_& m);

using namespace nb::literals;
using namespace railyard::bind;
using namespace railyard::measure;

namespace {

using Int32 = Column<std::int32_t>;
using Int64 = Column<std::int64_t>;
using Flags = Column<std::uint8_t>;

template <class T>
std::span<const T> view_or_none(const std::optional<Column<T>>& column) {
  return column ? view(*column) : std::span<const T>{};
}

Charges charges(const Flags& kind, const Flags& place, const Int32& rank, const Int32& label, const Int32& blocker,
                const Int64& start_ps, const Int64& end_ps, const Int64& duration_ps, const Int64& alone_ps,
                const Int64& latency_ps, const std::optional<Int64>& slowed_ps, const std::optional<Flags>& timed,
                const Int64& comm_ptr, const Int32& comm_ranks, const Int64& stage, const Int64& phase_of,
                const Int64& group_of, const Flags& data, const Flags& checkpoint, std::size_t phases,
                std::size_t groups) {
  const StepColumns step{
      view(kind),     view(place),       view(rank),     view(label),      view(blocker),           view(start_ps),
      view(end_ps),   view(duration_ps), view(alone_ps), view(latency_ps), view_or_none(slowed_ps), view_or_none(timed),
      view(comm_ptr), view(comm_ranks),  view(stage)};
  const LabelColumns labels{view(phase_of), view(group_of), view(data), view(checkpoint), phases, groups};
  nb::gil_scoped_release nogil;
  return decompose(step, labels);
}

}  // namespace

void bind_measure(nb::module_& m) {
  nb::class_<Charges>(m, "Charges", "What the time of every rank went into.")
      .def_prop_ro("cells_ps", column_of<Charges, &Charges::cells_ps>(), "Sums by cause, group and phase.")
      .def_prop_ro("by_rank_ps", column_of<Charges, &Charges::by_rank_ps>(), "By rank and cause.")
      .def_prop_ro("waited_for_ps", column_of<Charges, &Charges::waited_for_ps>())
      .def_prop_ro("overlap", column_of<Charges, &Charges::overlap>(), "Rank, task, and when it could have started.")
      .def_prop_ro("straggled", column_of<Charges, &Charges::straggled>())
      .def_ro("cycle", &Charges::cycle);
  m.def("decompose", &charges, nb::kw_only(), "kind"_a, "place"_a, "rank"_a, "label"_a, "blocker"_a, "start_ps"_a,
        "end_ps"_a, "duration_ps"_a, "alone_ps"_a, "latency_ps"_a, "slowed_ps"_a = nb::none(), "timed"_a = nb::none(),
        "comm_ptr"_a, "comm_ranks"_a, "stage"_a, "phase_of"_a, "group_of"_a, "data"_a, "checkpoint"_a, "phases"_a,
        "groups"_a, "Splits every rank's step into causes that sum to it exactly.");
}
