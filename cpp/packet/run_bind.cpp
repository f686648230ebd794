#include <optional>
#include <string>

#include "core/arrays_bind.hpp"
#include "packet/options.hpp"
#include "packet/stuck.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace railyard::packet;
using namespace railyard::bind;

void bind_mechanisms(nb::module_& m);  // mechanism_bind.cpp

namespace {

struct PacketNodes {
  std::uint32_t hosts, nodes;
  Column<std::int32_t> link_source, link_target;
  Column<std::int64_t> rate_bps, latency_ps, record_ptr;
  Column<std::int32_t> lo, hi;
  Column<std::int64_t> first;
  Column<std::int32_t> width, stride, choices;
  Column<std::uint32_t> salt;

  NetworkColumns columns() const {
    return {hosts,          nodes,    view(link_source), view(link_target), view(rate_bps), view(latency_ps),
            view(record_ptr), view(lo), view(hi),          view(first),       view(width),    view(stride),
            view(choices),  view(salt)};
  }
};

struct PacketFlows {
  Column<std::int32_t> source, target;
  Column<std::int64_t> size_bytes, start_ps, dep_ptr;
  Column<std::int32_t> dep_idx;
  Column<std::int64_t> delay_ps;
  Column<std::int32_t> need;
  Column<std::uint8_t> dep_at, klass;
  Column<std::uint32_t> path_key;
  Column<std::uint8_t> deaf;
  Column<std::uint32_t> connection;
  Column<double> nic_share;

  TrafficColumns columns() const {
    return {view(source),  view(target),   view(size_bytes), view(start_ps), view(dep_ptr),
            view(dep_idx), view(delay_ps), view(need),       view(dep_at),   view(klass),
            view(path_key), view(deaf),    view(connection), view(nic_share)};
  }
};

struct LinkFaults {
  Column<std::int64_t> at_ps;
  Column<std::int32_t> link;
  Column<std::uint8_t> kind;
  Column<double> value;

  FaultColumns columns() const { return {view(at_ps), view(link), view(kind), view(value)}; }
};

PyObject* packet_stuck = nullptr;  // lives as long as the module

Outcome run_packets(const PacketNodes& network, const PacketFlows& traffic, Options options,
                    const Column<std::int32_t>& failed_links, const LinkFaults& faults,
                    const Column<std::int32_t>& sample_links, const Column<std::int32_t>& sample_flows,
                    const std::optional<Progress>& progress, std::int64_t retune_ps,
                    const std::optional<nb::typed<nb::callable, bool(Reading, Options)>>& retune) {
  options.failed_links = view(failed_links);
  options.faults = faults.columns();
  options.sample_links = view(sample_links);
  options.sample_flows = view(sample_flows);
  if (retune) {
    options.retune_ps = retune_ps;
    options.retune = [&retune](const Reading& reading, Options& next) {
      nb::gil_scoped_acquire gil;
      return nb::cast<bool>((*retune)(reading, nb::cast(next, nb::rv_policy::reference)));
    };
  }
  Beat beat(progress);
  const Heartbeat heartbeat = [&beat](std::uint64_t events, railyard::Ps now) { beat(events, now); };
  try {
    nb::gil_scoped_release nogil;
    return run(network.columns(), traffic.columns(), options, heartbeat);
  } catch (const Stuck& error) {
    PyErr_SetString(packet_stuck, error.what());
    throw nb::python_error();
  }
}

void bind_columns(nb::module_& m) {
  nb::class_<PacketNodes>(m, "PacketNetwork", "Links and routes; holds the arrays, copies nothing.")
      .def(nb::init<std::uint32_t, std::uint32_t, Column<std::int32_t>, Column<std::int32_t>, Column<std::int64_t>,
                    Column<std::int64_t>, Column<std::int64_t>, Column<std::int32_t>, Column<std::int32_t>,
                    Column<std::int64_t>, Column<std::int32_t>, Column<std::int32_t>, Column<std::int32_t>,
                    Column<std::uint32_t>>(),
           nb::kw_only(), "hosts"_a, "nodes"_a, "link_source"_a, "link_target"_a, "rate_bps"_a, "latency_ps"_a,
           "record_ptr"_a, "lo"_a, "hi"_a, "first"_a, "width"_a, "stride"_a, "choices"_a,
           "salt"_a);
  nb::class_<PacketFlows>(m, "PacketTraffic", "Flows; holds the arrays, copies nothing.")
      .def(nb::init<Column<std::int32_t>, Column<std::int32_t>, Column<std::int64_t>, Column<std::int64_t>,
                    Column<std::int64_t>, Column<std::int32_t>, Column<std::int64_t>, Column<std::int32_t>,
                    Column<std::uint8_t>, Column<std::uint8_t>, Column<std::uint32_t>, Column<std::uint8_t>,
                    Column<std::uint32_t>, Column<double>>(),
           nb::kw_only(), "source"_a, "target"_a, "size_bytes"_a, "start_ps"_a, "dep_ptr"_a, "dep_idx"_a,
           "delay_ps"_a, "need"_a, "dep_at"_a, "klass"_a, "path_key"_a, "deaf"_a,
           "connection"_a, "nic_share"_a);
  nb::class_<LinkFaults>(m, "PacketFaults", "What happens to links in time; holds the arrays, copies nothing.")
      .def(nb::init<Column<std::int64_t>, Column<std::int32_t>, Column<std::uint8_t>, Column<double>>(), nb::kw_only(),
           "at_ps"_a, "link"_a, "kind"_a, "value"_a);
}

void bind_scheduled_counters(nb::module_& m) {
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

template <std::uint64_t Counters::*Member>
std::uint64_t count(const Outcome& outcome) {
  return outcome.counters.*Member;
}

template <auto Member>
std::int64_t constant(const Outcome& outcome) {
  return outcome.derived.*Member;
}

template <std::uint64_t Counters::*Member>
std::uint64_t read(const Reading& reading) {
  return reading.counters.*Member;
}

void bind_reading(nb::module_& m) {
  nb::class_<Reading>(m, "PacketReading", "What a run has counted up to a time.")
      .def_ro("now_ps", &Reading::now_ps)
      .def_ro("delivered_bytes", &Reading::delivered_bytes)
      .def_ro("paused_ps", &Reading::paused_ps)
      .def_prop_ro("sent", &read<&Counters::sent>)
      .def_prop_ro("retransmitted", &read<&Counters::retransmitted>)
      .def_prop_ro("dropped", &read<&Counters::dropped>)
      .def_prop_ro("marked", &read<&Counters::marked>)
      .def_prop_ro("pauses", &read<&Counters::pauses>)
      .def_prop_ro("cnps", &read<&Counters::cnps>);
}

void bind_outcome(nb::module_& m) {
  bind_scheduled_counters(m);
  nb::class_<Repeats>(m, "PacketRepeats", "What of a run repeated something before it and was not simulated.")
      .def_ro("episodes", &Repeats::episodes)
      .def_ro("repeated", &Repeats::repeated)
      .def_ro("checked", &Repeats::checked)
      .def_ro("replayed", &Repeats::replayed)
      .def_ro("hops", &Repeats::hops)
      .def_ro("worst_ps", &Repeats::worst_ps);
  nb::class_<Outcome>(m, "PacketOutcome", "Columns, one row a flow; the arrays are read-only views.")
      .def_prop_ro("start_ps", column_of<Outcome, &Outcome::start_ps>())
      .def_prop_ro("finish_ps", column_of<Outcome, &Outcome::finish_ps>())
      .def_prop_ro("receiver_finish_ps", column_of<Outcome, &Outcome::receiver_finish_ps>())
      .def_prop_ro("link_bytes", column_of<Outcome, &Outcome::link_bytes>())
      .def_prop_ro("link_paused_ps", column_of<Outcome, &Outcome::pauses, &PauseColumns::paused_ps>())
      .def_prop_ro("link_longest_pause_ps", column_of<Outcome, &Outcome::pauses, &PauseColumns::longest_ps>())
      .def_prop_ro("link_pauses", column_of<Outcome, &Outcome::pauses, &PauseColumns::pauses>())
      .def_prop_ro("link_pause_origin", column_of<Outcome, &Outcome::pauses, &PauseColumns::origin>())
      .def_prop_ro("flow_paused_ps", column_of<Outcome, &Outcome::pauses, &PauseColumns::flow_paused_ps>())
      .def_prop_ro("flow_victim_ps", column_of<Outcome, &Outcome::pauses, &PauseColumns::flow_victim_ps>())
      .def_prop_ro("flow_victim_origin", column_of<Outcome, &Outcome::pauses, &PauseColumns::flow_origin>())
      .def_ro("scheduled", &Outcome::scheduled)
      .def_ro("repeats", &Outcome::repeats)
      .def_ro("events", &Outcome::events)
      .def_ro("now_ps", &Outcome::now_ps)
      .def_ro("packets_peak", &Outcome::packets_peak)
      .def_ro("threads", &Outcome::threads)
      .def_prop_ro("sent", &count<&Counters::sent>)
      .def_prop_ro("retransmitted", &count<&Counters::retransmitted>)
      .def_prop_ro("requests", &count<&Counters::requests>)
      .def_prop_ro("acks", &count<&Counters::acks>)
      .def_prop_ro("nacks", &count<&Counters::nacks>)
      .def_prop_ro("pulls", &count<&Counters::pulls>)
      .def_prop_ro("trimmed", &count<&Counters::trimmed>)
      .def_prop_ro("dropped", &count<&Counters::dropped>)
      .def_prop_ro("marked", &count<&Counters::marked>)
      .def_prop_ro("hops", &count<&Counters::hops>)
      .def_prop_ro("timeouts", &count<&Counters::timeouts>)
      .def_prop_ro("duplicates", &count<&Counters::duplicates>)
      .def_prop_ro("pauses", &count<&Counters::pauses>)
      .def_prop_ro("cnps", &count<&Counters::cnps>)
      .def_prop_ro("lost", &count<&Counters::lost>)
      .def_prop_ro("link_retries", &count<&Counters::link_retries>)
      .def_prop_ro("credits", &count<&Counters::credits>)
      .def_prop_ro("sample_time_ps", column_of<Outcome, &Outcome::samples, &Samples::time_ps>())
      .def_prop_ro("sample_depth_bytes", column_of<Outcome, &Outcome::samples, &Samples::depth_bytes>())
      .def_prop_ro("sample_carried_bytes", column_of<Outcome, &Outcome::samples, &Samples::carried_bytes>())
      .def_prop_ro("sample_marks", column_of<Outcome, &Outcome::samples, &Samples::marks>())
      .def_prop_ro("sample_paused_ps", column_of<Outcome, &Outcome::samples, &Samples::paused_ps>())
      .def_prop_ro("sample_window_bytes", column_of<Outcome, &Outcome::samples, &Samples::window_bytes>())
      .def_prop_ro("sample_rate_bps", column_of<Outcome, &Outcome::samples, &Samples::rate_bps>())
      .def_prop_ro("base_rtt_ps", &constant<&Derived::base_rtt_ps>)
      .def_prop_ro("queue_bytes", &constant<&Derived::queue_bytes>)
      .def_prop_ro("ecn_low_bytes", &constant<&Derived::ecn_low_bytes>)
      .def_prop_ro("ecn_high_bytes", &constant<&Derived::ecn_high_bytes>)
      .def_prop_ro("window_bytes", &constant<&Derived::window_bytes>)
      .def_prop_ro("min_rto_ps", &constant<&Derived::min_rto_ps>);
}

}  // namespace

void bind_packet(nb::module_& m) {
  bind_mechanisms(m);
  bind_columns(m);
  bind_reading(m);
  bind_outcome(m);
  // Under the module's own name: the stub generator imports it as `_core`, and leaves out what other modules define.
  const std::string stuck = std::string(nb::str(m.attr("__name__")).c_str()) + ".PacketStuck";
  packet_stuck = PyErr_NewException(stuck.c_str(), nullptr, nullptr);
  m.attr("PacketStuck") = nb::borrow(packet_stuck);
  m.def("run_packets", &run_packets, "network"_a, "traffic"_a, "options"_a, nb::kw_only(), "failed_links"_a,
        "faults"_a, "sample_links"_a, "sample_flows"_a, "progress"_a = nb::none(),
        "retune_ps"_a = 0, "retune"_a = nb::none(),
        "Runs the traffic to its end with the GIL released; progress is called with (events, simulated time in ps), "
        "retune every retune_ps of simulated time with a reading and the options, which it may change; returns whether.");
}
