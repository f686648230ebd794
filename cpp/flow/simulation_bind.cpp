#include <optional>
#include <vector>

#include "core/arrays_bind.hpp"
#include "flow/contended_links.hpp"
#include "flow/simulation.hpp"
#include "flow/stretches.hpp"
#include "flow/unique_requests.hpp"

namespace nb = nanobind;

void bind_flow(nb::module_& m);

using namespace nb::literals;
using namespace railyard;
using namespace railyard::bind;

namespace {

/// The core's columns over the caller's arrays, which stay alive as long as this does.
struct Entities {
  Column<std::int64_t> link_ptr;
  Column<std::int32_t> link_idx;
  Column<double> link_share, volume_bytes;
  Column<std::int64_t> latency_ps;
  Column<double> rate_cap_bps, fair_weight;
  std::optional<Column<double>> alone_bps;

  EntityColumns columns() const {
    EntityColumns found{view(link_ptr),   view(link_idx),     view(link_share), view(volume_bytes),
                        view(latency_ps), view(rate_cap_bps), view(fair_weight)};
    if (alone_bps) found.alone_bps = view(*alone_bps);
    return found;
  }
};

struct Graph {
  std::int32_t ranks;
  Column<std::uint8_t> kind;
  Column<std::int32_t> rank;
  Column<std::int64_t> duration_ps;
  Column<std::uint8_t> stream;
  Column<std::int64_t> dep_ptr;
  Column<std::int32_t> dep_idx;
  Column<std::int64_t> comm_ptr;
  Column<std::int32_t> comm_ranks, entity;
  std::optional<Column<std::int32_t>> loss_index;
  std::optional<Column<double>> loss;
  std::size_t contenders;
  std::optional<Column<std::int64_t>> release_ps, delay_ps;
  std::optional<Column<std::int32_t>> need;
  std::optional<Column<std::int64_t>> task_key, rank_key;

  GraphColumns columns() const {
    GraphColumns found{ranks,         view(kind),    view(rank),     view(duration_ps), view(stream),
                       view(dep_ptr), view(dep_idx), view(comm_ptr), view(comm_ranks),  view(entity)};
    if (loss_index) found.loss_index = view(*loss_index);
    if (loss) found.loss = view(*loss);
    found.contenders = contenders;
    if (release_ps) found.release_ps = view(*release_ps);
    if (delay_ps) found.delay_ps = view(*delay_ps);
    if (need) found.need = view(*need);
    if (task_key) found.task_key = view(*task_key);
    if (rank_key) found.rank_key = view(*rank_key);
    return found;
  }
};

struct Faults {
  Column<std::int64_t> at_ps;
  Column<std::uint8_t> kind;
  Column<std::int32_t> target;
  Column<double> value;

  FaultColumns columns() const { return {view(at_ps), view(kind), view(target), view(value)}; }
};

Result run(const Graph& graph, const Entities& entities, const Column<double>& capacity_bps, const Faults& faults,
           std::uint64_t seed, double task_sigma, double rank_sigma, bool contention,
           const Column<std::int32_t>& probe_links, std::uint32_t probe_samples, bool count_full,
           const std::optional<Progress>& progress) {
  const Options options{.jitter = {.seed = seed, .task_sigma = task_sigma, .rank_sigma = rank_sigma},
                        .contention = contention,
                        .probe_links = view(probe_links),
                        .probe_samples = probe_samples,
                        .count_full = count_full};
  Beat beat(progress);
  const Poll poll = [&beat](std::uint64_t done, Ps now) { beat(done, now); };
  nb::gil_scoped_release nogil;
  return simulate(graph.columns(), entities.columns(), view(capacity_bps), faults.columns(), options, poll);
}

struct Crowded {
  std::vector<std::uint8_t> flag;
};

struct Rates {
  std::vector<double> rate_bps;
};

struct Stretches {
  std::vector<double> stretch;
};

void bind_inputs(nb::module_& m) {
  nb::class_<Entities>(m, "Entities", "Columns of fluid entities; holds the arrays, copies nothing.")
      .def(nb::init<Column<std::int64_t>, Column<std::int32_t>, Column<double>, Column<double>, Column<std::int64_t>,
                    Column<double>, Column<double>, std::optional<Column<double>>>(),
           nb::kw_only(), "link_ptr"_a, "link_idx"_a, "link_share"_a, "volume_bytes"_a, "latency_ps"_a,
           "rate_cap_bps"_a, "fair_weight"_a, "alone_bps"_a = nb::none());
  nb::class_<Graph>(m, "Graph", "Columns of tasks; holds the arrays, copies nothing.")
      .def(nb::init<std::int32_t, Column<std::uint8_t>, Column<std::int32_t>, Column<std::int64_t>,
                    Column<std::uint8_t>, Column<std::int64_t>, Column<std::int32_t>, Column<std::int64_t>,
                    Column<std::int32_t>, Column<std::int32_t>, std::optional<Column<std::int32_t>>,
                    std::optional<Column<double>>, std::size_t, std::optional<Column<std::int64_t>>,
                    std::optional<Column<std::int64_t>>, std::optional<Column<std::int32_t>>,
                    std::optional<Column<std::int64_t>>, std::optional<Column<std::int64_t>>>(),
           nb::kw_only(), "ranks"_a, "kind"_a, "rank"_a, "duration_ps"_a, "stream"_a, "dep_ptr"_a, "dep_idx"_a,
           "comm_ptr"_a, "comm_ranks"_a, "entity"_a, "loss_index"_a = nb::none(), "loss"_a = nb::none(),
           "contenders"_a = 0, "release_ps"_a = nb::none(), "delay_ps"_a = nb::none(), "need"_a = nb::none(),
           "task_key"_a = nb::none(), "rank_key"_a = nb::none());
  nb::class_<Faults>(m, "Faults", "Columns of faults: kind 0 link factor, 1 rank speed, 2 rank late, 3 rerouted.")
      .def(nb::init<Column<std::int64_t>, Column<std::uint8_t>, Column<std::int32_t>, Column<double>>(),
           nb::kw_only(), "at_ps"_a, "kind"_a, "target"_a, "value"_a);
}

void bind_results(nb::module_& m) {
  nb::class_<Result>(m, "Result", "Columns, one row a task; the arrays are read-only views.")
      .def_prop_ro("start_ps", column_of<Result, &Result::start_ps>())
      .def_prop_ro("end_ps", column_of<Result, &Result::end_ps>())
      .def_prop_ro("blocker", column_of<Result, &Result::blocker>())
      .def_prop_ro("contention_ps", column_of<Result, &Result::contention_ps>())
      .def_prop_ro("link_bytes", column_of<Result, &Result::link_bytes>())
      .def_prop_ro("link_full_ps", column_of<Result, &Result::link_full_ps>())
      .def_prop_ro("stuck", column_of<Result, &Result::stuck>())
      .def_prop_ro("stuck_since_ps", column_of<Result, &Result::stuck_since_ps>())
      .def_prop_ro("idle_faults", column_of<Result, &Result::idle_faults>())
      .def_prop_ro("probe_bytes", column_of<Result, &Result::probe_bytes>())
      .def_ro("probe_interval_ps", &Result::probe_interval_ps)
      .def_ro("events", &Result::events)
      .def_prop_ro("cycle", [](const Result& r) { return r.outcome == Result::Outcome::cycle; })
      .def_prop_ro("stalled", [](const Result& r) { return r.outcome == Result::Outcome::stalled; })
      .def_prop_ro("groups", [](const Result& r) { return r.effort.groups; })
      .def_prop_ro("rounds", [](const Result& r) { return r.effort.rounds; })
      .def_prop_ro("pairs", [](const Result& r) { return r.effort.pairs; });
  nb::class_<Requests>(m, "Requests", "Which communications are the same.")
      .def_prop_ro("request", column_of<Requests, &Requests::request>())
      .def_prop_ro("first", column_of<Requests, &Requests::first>());
  nb::class_<Crowded>(m, "Crowded", "Links on which communications could meet.")
      .def_prop_ro("flag", column_of<Crowded, &Crowded::flag>());
  nb::class_<Rates>(m, "Rates", "Rates of entities that all flow at once.")
      .def_prop_ro("rate_bps", column_of<Rates, &Rates::rate_bps>());
  nb::class_<Stretches>(m, "Stretches", "How many times longer entities take than with the network to themselves.")
      .def_prop_ro("stretch", column_of<Stretches, &Stretches::stretch>());
}

}  // namespace

void bind_flow(nb::module_& m) {
  bind_inputs(m);
  bind_results(m);
  m.def("simulate", &run, "graph"_a, "entities"_a, "capacity_bps"_a, nb::kw_only(), "faults"_a, "seed"_a,
        "task_sigma"_a, "rank_sigma"_a, "contention"_a, "probe_links"_a, "probe_samples"_a, "count_full"_a = false,
        "progress"_a = nb::none(),
        "Runs a graph to its end with the GIL released; progress is called with (tasks ended, simulated time in ps).");
  m.def(
      "crowded_links",
      [](const Graph& graph, const Entities& entities, const Column<double>& capacity_bps) {
        check_entities(entities.columns(), view(capacity_bps));
        nb::gil_scoped_release nogil;
        return Crowded{crowded_links(graph.columns(), entities.columns(), view(capacity_bps), {})};
      },
      "graph"_a, "entities"_a, "capacity_bps"_a, "1 for every link on which communications could slow one another.");
  m.def(
      "max_min",
      [](const Entities& entities, const Column<double>& capacity_bps) {
        return Rates{max_min(entities.columns(), view(capacity_bps))};
      },
      "entities"_a, "capacity_bps"_a, "Max-min fair rates of all entities flowing at once, in bit/s of volume.");
  m.def(
      "stretches",
      [](const Column<std::int64_t>& link, const Column<std::int64_t>& entity, const Column<double>& demand,
         const Column<double>& weight, const Column<std::int64_t>& ptr, const Column<std::int64_t>& start_ps,
         const Column<std::int64_t>& end_ps, bool slowed, double least, double rounding) {
        const UseColumns uses{view(link), view(entity), view(demand), view(weight)};
        const SpanColumns spans{view(ptr), view(start_ps), view(end_ps)};
        nb::gil_scoped_release nogil;
        return Stretches{stretches(uses, spans, slowed, {.least = least, .rounding = rounding})};
      },
      nb::kw_only(), "link"_a, "entity"_a, "demand"_a, "weight"_a, "ptr"_a, "start_ps"_a, "end_ps"_a, "slowed"_a,
      "least"_a, "rounding"_a, "The mean slowdown of each entity by those that it shares links with.");
  m.def(
      "unique_requests",
      [](const Column<std::uint8_t>& kind, const Column<std::int32_t>& rank, const Column<std::int32_t>& peer,
         const Column<std::int64_t>& size_bytes, const Column<std::int32_t>& count,
         const Column<std::uint8_t>& collective) {
        const RequestColumns columns{view(kind), view(rank), view(peer), view(size_bytes), view(count),
                                     view(collective)};
        nb::gil_scoped_release nogil;
        return unique_requests(columns);
      },
      nb::kw_only(), "kind"_a, "rank"_a, "peer"_a, "size_bytes"_a, "count"_a, "collective"_a,
      "Numbers equal communications in the order of their first appearance.");
}
