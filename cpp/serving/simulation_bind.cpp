#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/arrays_bind.hpp"
#include "serving/dealing.hpp"
#include "serving/simulation.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace railyard::serving;
using namespace railyard::bind;
using railyard::Ps;

namespace {

/// A choice as a number.
template <class Owner, class Choice>
auto number_of(Choice Owner::* member) {
  return [member](Owner& owner, int value) { owner.*member = static_cast<Choice>(value); };
}
template <class Owner, class Choice>
auto as_number(Choice Owner::* member) {
  return [member](const Owner& owner) { return static_cast<int>(owner.*member); };
}

void bind_pool(nb::module_& m) {
  nb::class_<CostSpec>(m, "ServingCost", "What an iteration of a replica costs.")
      .def(nb::init<>())
      .def_rw("tokens", &CostSpec::tokens)
      .def_rw("compute_s", &CostSpec::compute_s)
      .def_rw("network_s", &CostSpec::network_s)
      .def_rw("host_s", &CostSpec::host_s)
      .def_rw("host_per_seq_s", &CostSpec::host_per_seq_s)
      .def_rw("attention_per_kv_token_s", &CostSpec::attention_per_kv_token_s)
      .def_rw("attention_per_sequence_s", &CostSpec::attention_per_sequence_s)
      .def_rw("attention_floor_s", &CostSpec::attention_floor_s)
      .def_rw("attention_per_pair_s", &CostSpec::attention_per_pair_s)
      .def_rw("overlapped_per_kv_token_s", &CostSpec::overlapped_per_kv_token_s)
      .def_rw("overlapped_s", &CostSpec::overlapped_s)
      .def_rw("scale_out_bytes_per_token", &CostSpec::scale_out_bytes_per_token)
      .def_rw("scale_out_bps", &CostSpec::scale_out_bps)
      .def_rw("scale_out_slack_s", &CostSpec::scale_out_slack_s)
      .def_rw("joint_tokens", &CostSpec::joint_tokens)
      .def_rw("joint_compute_s", &CostSpec::joint_compute_s)
      .def_rw("joint_network_s", &CostSpec::joint_network_s)
      .def_rw("pipeline_stages", &CostSpec::pipeline_stages)
      .def_rw("stage_share", &CostSpec::stage_share);
  nb::class_<Autoscale>(m, "ServingAutoscale", "When replicas are added and taken away.")
      .def(nb::init<>())
      .def_rw("on", &Autoscale::on)
      .def_rw("min_replicas", &Autoscale::min_replicas)
      .def_rw("first_replicas", &Autoscale::first_replicas)
      .def_rw("target", &Autoscale::target)
      .def_rw("by_queue", &Autoscale::by_queue)
      .def_rw("tolerance", &Autoscale::tolerance)
      .def_rw("interval_ps", &Autoscale::interval_ps)
      .def_rw("cold_start_ps", &Autoscale::cold_start_ps)
      .def_rw("hold_ps", &Autoscale::hold_ps)
      .def_prop_rw("load", as_number(&Autoscale::load), number_of(&Autoscale::load));
  nb::class_<PoolSpec>(m, "ServingPool", "Replicas that are alike.")
      .def(nb::init<>())
      .def_rw("cost", &PoolSpec::cost)
      .def_prop_rw("role", as_number(&PoolSpec::role), number_of(&PoolSpec::role))
      .def_rw("replicas", &PoolSpec::replicas)
      .def_rw("block_tokens", &PoolSpec::block_tokens)
      .def_rw("kv_blocks", &PoolSpec::kv_blocks)
      .def_rw("max_sequences", &PoolSpec::max_sequences)
      .def_rw("max_batched_tokens", &PoolSpec::max_batched_tokens)
      .def_rw("prompt_tokens", &PoolSpec::prompt_tokens)
      .def_rw("chunked", &PoolSpec::chunked)
      .def_rw("by_priority", &PoolSpec::by_priority)
      .def_rw("ahead", &PoolSpec::ahead)
      .def_rw("lockstep", &PoolSpec::lockstep)
      .def_rw("prefix_cache", &PoolSpec::prefix_cache)
      .def_prop_rw("policy", as_number(&PoolSpec::policy), number_of(&PoolSpec::policy))
      .def_prop_rw("preemption", as_number(&PoolSpec::preemption), number_of(&PoolSpec::preemption))
      .def_rw("watermark", &PoolSpec::watermark)
      .def_rw("kv_bytes_per_token", &PoolSpec::kv_bytes_per_token)
      .def_rw("swap_bytes", &PoolSpec::swap_bytes)
      .def_rw("host_kv_bytes", &PoolSpec::host_kv_bytes)
      .def_rw("swap_bps", &PoolSpec::swap_bps)
      .def_rw("host_latency_s", &PoolSpec::host_latency_s)
      .def_rw("draft_tokens", &PoolSpec::draft_tokens)
      .def_rw("acceptance", &PoolSpec::acceptance)
      .def_rw("draft_s", &PoolSpec::draft_s)
      .def_rw("autoscale", &PoolSpec::autoscale)
      .def_rw("weight_bytes", &PoolSpec::weight_bytes)
      .def_rw("load_s", &PoolSpec::load_s);
}

void bind_network(nb::module_& m) {
  nb::class_<RouterSpec>(m, "ServingRouter", "Which replica a request goes to.")
      .def(nb::init<>())
      .def_prop_rw("kind", as_number(&RouterSpec::kind), number_of(&RouterSpec::kind))
      .def_rw("prefix_weight", &RouterSpec::prefix_weight)
      .def_rw("load_weight", &RouterSpec::load_weight)
      .def_rw("move", &RouterSpec::move);
  nb::class_<LinkSpec>(m, "ServingLinks", "Links, and ways between replicas.")
      .def(nb::init<>())
      .def_rw("rate_bps", &LinkSpec::rate_bps)
      .def_rw("from_replica", &LinkSpec::from)
      .def_rw("to_replica", &LinkSpec::to)
      .def_rw("ptr", &LinkSpec::ptr)
      .def_rw("link", &LinkSpec::link)
      .def_rw("share", &LinkSpec::share)
      .def_rw("latency_ps", &LinkSpec::latency_ps)
      .def_rw("collective_ptr", &LinkSpec::collective_ptr)
      .def_rw("collective_link", &LinkSpec::collective_link)
      .def_rw("collective_share", &LinkSpec::collective_share);
  nb::class_<BackgroundSpec>(m, "ServingBackground", "Other traffic on the links.")
      .def(nb::init<>())
      .def_rw("from_ps", &BackgroundSpec::from_ps)
      .def_rw("to_ps", &BackgroundSpec::to_ps)
      .def_rw("ptr", &BackgroundSpec::ptr)
      .def_rw("link", &BackgroundSpec::link)
      .def_rw("share", &BackgroundSpec::share)
      .def_rw("cap_bps", &BackgroundSpec::cap_bps)
      .def_rw("weight", &BackgroundSpec::weight);
  nb::class_<StoreSpec>(m, "ServingStore", "KV cache outside the replicas.")
      .def(nb::init<>())
      .def_rw("capacity_bytes", &StoreSpec::capacity_bytes)
      .def_rw("rate_bps", &StoreSpec::rate_bps)
      .def_rw("latency_s", &StoreSpec::latency_s);
  nb::class_<OutageSpec>(m, "ServingOutages", "When replicas are away.")
      .def(nb::init<>())
      .def_rw("replica", &OutageSpec::replica)
      .def_rw("from_ps", &OutageSpec::from_ps)
      .def_rw("to_ps", &OutageSpec::to_ps)
      .def_rw("drain", &OutageSpec::drain)
      .def_rw("load", &OutageSpec::load);
}

void bind_deployment(nb::module_& m) {
  nb::class_<Deployment>(m, "ServingDeployment", "Pools, routers, links, tiers, outages.")
      .def(nb::init<>())
      .def_rw("pools", &Deployment::pools)
      .def_rw("router", &Deployment::router)
      .def_rw("decode_router", &Deployment::decode_router)
      .def_rw("links", &Deployment::links)
      .def_rw("background", &Deployment::background)
      .def_rw("store", &Deployment::store)
      .def_rw("outages", &Deployment::outages)
      .def_rw("hash_tokens", &Deployment::hash_tokens)
      .def_rw("stop_on_overload", &Deployment::stop_on_overload)
      .def_prop_rw(
          "overlap", [](const Deployment& d) { return d.transfer.overlap; },
          [](Deployment& d, double overlap) { d.transfer.overlap = overlap; });
}

void bind_results(nb::module_& m) {
  nb::class_<Finished>(m, "ServingFinished", "Requests that have left; the arrays are read-only views.")
      .def_prop_ro("request", column_of<Finished, &Finished::request>())
      .def_prop_ro("replica", column_of<Finished, &Finished::replica>())
      .def_prop_ro("decode_replica", column_of<Finished, &Finished::decode_replica>())
      .def_prop_ro("sent_ps", column_of<Finished, &Finished::sent_ps>())
      .def_prop_ro("admitted_ps", column_of<Finished, &Finished::admitted_ps>())
      .def_prop_ro("prefill_start_ps", column_of<Finished, &Finished::prefill_start_ps>())
      .def_prop_ro("first_token_ps", column_of<Finished, &Finished::first_token_ps>())
      .def_prop_ro("done_ps", column_of<Finished, &Finished::done_ps>())
      .def_prop_ro("cached_tokens", column_of<Finished, &Finished::cached_tokens>())
      .def_prop_ro("loaded_tokens", column_of<Finished, &Finished::loaded_tokens>())
      .def_prop_ro("moved_tokens", column_of<Finished, &Finished::moved_tokens>())
      .def_prop_ro("preemptions", column_of<Finished, &Finished::preemptions>())
      .def_prop_ro("requeued", column_of<Finished, &Finished::requeued>())
      .def_prop_ro("transfer_start_ps", column_of<Finished, &Finished::transfer_start_ps>())
      .def_prop_ro("transfer_end_ps", column_of<Finished, &Finished::transfer_end_ps>())
      .def_prop_ro("network_prefill_ps", column_of<Finished, &Finished::network_prefill_ps>())
      .def_prop_ro("network_ps", column_of<Finished, &Finished::network_ps>())
      .def_prop_ro("output_tokens", column_of<Finished, &Finished::output_tokens>())
      .def_prop_ro("status", column_of<Finished, &Finished::status>());
  nb::class_<ReplicaTotals>(m, "ServingTotals", "Totals of each replica; the arrays are read-only views.")
      .def_prop_ro("busy_ps", column_of<ReplicaTotals, &ReplicaTotals::busy_ps>())
      .def_prop_ro("loads", column_of<ReplicaTotals, &ReplicaTotals::loads>())
      .def_prop_ro("load_ps", column_of<ReplicaTotals, &ReplicaTotals::load_ps>())
      .def_prop_ro("slowed_ps", column_of<ReplicaTotals, &ReplicaTotals::slowed_ps>())
      .def_prop_ro("up_ps", column_of<ReplicaTotals, &ReplicaTotals::up_ps>())
      .def_prop_ro("iterations", column_of<ReplicaTotals, &ReplicaTotals::iterations>())
      .def_prop_ro("input_tokens", column_of<ReplicaTotals, &ReplicaTotals::input_tokens>())
      .def_prop_ro("output_tokens", column_of<ReplicaTotals, &ReplicaTotals::output_tokens>())
      .def_prop_ro("kv_peak_blocks", column_of<ReplicaTotals, &ReplicaTotals::kv_peak_blocks>())
      .def_prop_ro("kv_used_blocks", column_of<ReplicaTotals, &ReplicaTotals::kv_used_blocks>())
      .def_prop_ro("cached_tokens", column_of<ReplicaTotals, &ReplicaTotals::cached_tokens>())
      .def_prop_ro("loaded_tokens", column_of<ReplicaTotals, &ReplicaTotals::loaded_tokens>())
      .def_prop_ro("moved_tokens", column_of<ReplicaTotals, &ReplicaTotals::moved_tokens>())
      .def_prop_ro("preemptions", column_of<ReplicaTotals, &ReplicaTotals::preemptions>())
      .def_prop_ro("tokens", column_of<ReplicaTotals, &ReplicaTotals::tokens>())
      .def_prop_ro("kv_tokens", column_of<ReplicaTotals, &ReplicaTotals::kv_tokens>())
      .def_prop_ro("pairs", column_of<ReplicaTotals, &ReplicaTotals::pairs>());
  nb::class_<IterationLog>(m, "ServingLog", "Iterations of the logged replicas; the arrays are read-only views.")
      .def_prop_ro("replica", column_of<IterationLog, &IterationLog::replica>())
      .def_prop_ro("start_ps", column_of<IterationLog, &IterationLog::start_ps>())
      .def_prop_ro("end_ps", column_of<IterationLog, &IterationLog::end_ps>())
      .def_prop_ro("count", column_of<IterationLog, &IterationLog::count>())
      .def_prop_ro("tokens", column_of<IterationLog, &IterationLog::tokens>())
      .def_prop_ro("decodes", column_of<IterationLog, &IterationLog::decodes>())
      .def_prop_ro("kv_tokens", column_of<IterationLog, &IterationLog::kv_tokens>())
      .def_prop_ro("item_iteration", column_of<IterationLog, &IterationLog::item_iteration>())
      .def_prop_ro("item_request", column_of<IterationLog, &IterationLog::item_request>())
      .def_prop_ro("item_tokens", column_of<IterationLog, &IterationLog::item_tokens>())
      .def_prop_ro("item_admitted", column_of<IterationLog, &IterationLog::item_admitted>());
}

}  // namespace

void bind_serving(nb::module_& m) {
  bind_pool(m);
  bind_network(m);
  bind_deployment(m);
  bind_results(m);
  m.def(
      "serving_dealt",
      [](const Column<double>& asked_s, const Column<double>& there_s, const Column<double>& end_s, std::int64_t replicas) {
        return dealt(view(asked_s), view(there_s), view(end_s), replicas);
      },
      "asked_s"_a, "there_s"_a, "end_s"_a, "replicas"_a, "The replica of each request, that with the fewest at its time.");
  nb::class_<Simulation>(m, "Serving", "A serving run: feed, run, drain, again and again.")
      .def(
          "__init__",
          [](Simulation* self, const Deployment& deployment, std::uint64_t seed, bool skip_runs,
             std::vector<std::int32_t> logged, std::int64_t users, Ps think_ps) {
            new (self) Simulation(deployment, {.seed = seed, .skip_runs = skip_runs, .logged = std::move(logged),
                                               .users = users, .think_ps = think_ps});
          },
          "deployment"_a, nb::kw_only(), "seed"_a, "skip_runs"_a, "logged"_a, "users"_a, "think_ps"_a)
      .def(
          "feed",
          [](Simulation& self, const Column<std::int64_t>& arrival_ps, const Column<std::int32_t>& input_tokens,
             const Column<std::int32_t>& output_tokens, const Column<std::int64_t>& block_ptr,
             const Column<std::uint64_t>& block_hash, const Column<std::int64_t>& session,
             const Column<std::int32_t>& priority) {
            self.feed({view(arrival_ps), view(input_tokens), view(output_tokens), view(block_ptr), view(block_hash),
                       view(session), view(priority)});
          },
          nb::kw_only(), "arrival_ps"_a, "input_tokens"_a, "output_tokens"_a, "block_ptr"_a, "block_hash"_a,
          "session"_a, "priority"_a, "Copies the columns of more requests.")
      .def(
          "run",
          [](Simulation& self, bool last, const std::optional<Progress>& progress) {
            Beat beat(progress);
            const Poll poll = [&beat](std::uint64_t done, Ps now) { beat(done, now); };
            nb::gil_scoped_release nogil;
            self.run(last, poll);
          },
          "last"_a, "progress"_a = nb::none(), "Up to the last request fed, or to the end, with the GIL released.")
      .def("drain", &Simulation::drain, "The requests that have left since the last drain.")
      .def_prop_ro("overloaded", &Simulation::overloaded)
      .def_prop_ro("now_ps", &Simulation::now)
      .def_prop_ro("events", &Simulation::events)
      .def_prop_ro("totals", &Simulation::totals)
      .def_prop_ro("log", &Simulation::log)
      .def_prop_ro("link_bytes", &Simulation::link_bytes)
      .def_prop_ro("gaps", &Simulation::gaps)
      .def_static("gap_lower_ps", &Simulation::gap_lower_ps);
}
