"""The law by which a tax is divided, on steps whose causes are given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from railyard import catalog, cluster, engine
from railyard.cluster.fault import DegradeLink, Late, SlowAccelerator
from railyard.collective import CollectivePolicy
from railyard.graph import Communicators, Job, Kind, Label, TaskGraph
from railyard.measure.decompose import Cause, decompose, lockstep
from railyard.measure.network import network_use
from railyard.measure.result.step import EXPOSED, TaxFigures
from railyard.measure.utilization import tax_of
from railyard.work.training import profiles
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, Training


def test_direct_causes_share_the_loss_in_proportion_to_their_growth():
    """10 s, 6 s without a scale-out network: bandwidth grew by 2, kernels by 1, and a bubble behind them by 1."""
    found = tax_of(
        {"compute": 6.0, "bandwidth": 2.5, "bubble": 1.5},
        {"compute": 5.0, "bandwidth": 0.5, "bubble": 0.5},
        {"compute": 4.5, "bubble": 0.5},
        "flow",
    )
    assert found.tokens_lost == pytest.approx(0.4)
    assert found.exposed == pytest.approx({"bandwidth": 0.4 * 2 / 3, "latency": 0, "contention": 0, "straggler": 0})
    assert found.slowed_kernels == pytest.approx(0.4 / 3)
    assert found.scale_up.tokens_lost == pytest.approx(0.1)
    assert found.scale_up.exposed["bandwidth"] == pytest.approx(0.05)
    assert found.scale_up.slowed_kernels == pytest.approx(0.05)
    assert found.rest == pytest.approx({"compute": 0.45, "bubble": 0.05})
    assert (found.step_without_scale_out_s, found.step_without_networks_s, found.engine) == (6.0, 5.0, "flow")


def test_an_outage_of_the_network_is_no_bandwidth():
    """10 s of a mean step, of which 4 are until the job goes on after a fault of the network, and 1 is bandwidth."""
    found = tax_of(
        {"compute": 5.0, "bandwidth": 1.0, "outage": 4.0}, {"compute": 5.0}, {"compute": 5.0}, "flow", slows=False
    )
    assert found.exposed["outage"] == pytest.approx(0.4)
    assert found.exposed["bandwidth"] == pytest.approx(found.of_collectives) == pytest.approx(0.1)


def test_an_outage_counts_in_full_where_a_wait_hides_behind_the_network():
    """3 s of bandwidth hid 2 s of the host, and nothing hides behind an outage: 3 s of 10 are outage, 1 s bandwidth."""
    spent = {"compute": 4.0, "bandwidth": 3.0, "outage": 3.0}
    without = {"compute": 4.0, "host": 2.0}
    found = tax_of(spent, without, without, "flow")
    assert found.tokens_lost == pytest.approx(0.4)
    assert found.exposed["outage"] == pytest.approx(0.3)
    assert found.exposed["bandwidth"] == pytest.approx(0.1)


def test_a_wait_that_the_network_hid_is_no_tax():
    """4 s of contention hid 3 s of loading: without the network 1 s is won."""
    with_it = {"compute": 6.0, "contention": 4.0}
    without = {"compute": 6.0, "data": 3.0}
    found = tax_of(with_it, without, without, "flow")
    assert found.tokens_lost == pytest.approx(0.1)
    assert found.exposed["contention"] == pytest.approx(0.1)
    assert found.rest["data"] == pytest.approx(0.3)


@pytest.mark.parametrize("cause", ["data", "checkpoint", "outer update"])
def test_what_storage_and_meetings_wait_for_the_network_is_bandwidth(cause):
    found = tax_of({"compute": 3.0, cause: 2.0}, {"compute": 3.0, cause: 1.0}, {"compute": 3.0, cause: 1.0}, "flow")
    assert found.exposed["bandwidth"] == pytest.approx(found.tokens_lost) == pytest.approx(0.2)


def test_computation_that_nothing_slows_is_a_consequence():
    """In a trace without slowed kernels, computations of a rank that no longer overlap make its computation longer."""
    steps = ({"compute": 5.0, "latency": 1.0}, {"compute": 4.0, "latency": 0.5}, {"compute": 4.0, "latency": 0.5})
    assert tax_of(*steps, "flow", slows=False).exposed["latency"] == pytest.approx(0.25)
    assert tax_of(*steps, "flow").slowed_kernels == pytest.approx(0.25 * 2 / 3)


def test_a_network_without_limit_is_not_slower():
    found = tax_of({"compute": 4.0}, {"compute": 4.0, "straggler": 0.1}, {"compute": 4.0, "straggler": 0.2}, "flow")
    assert (found.tokens_lost, found.scale_up.tokens_lost) == (0.0, 0.0)
    assert math.fsum(found.rest.values()) == pytest.approx(1.0)
    assert found.step_without_scale_out_s == pytest.approx(4.1)


def test_a_cause_that_hardly_grew_has_no_more_than_all_of_the_loss():
    """The smallest number above zero, times a share, is rounded to itself or to zero."""
    found = tax_of({"compute": 1.001, "bandwidth": 5e-324}, {"compute": 0.001}, {"compute": 0.001}, "flow", slows=False)
    assert found.exposed["bandwidth"] == pytest.approx(found.tokens_lost) == pytest.approx(1.0 / 1.001)


CAUSES = ("compute", *EXPOSED, "bubble", "data", "checkpoint", "outer update", "dependency", "host")
SPENT = st.dictionaries(st.sampled_from(CAUSES), st.floats(0.0, 1e3), max_size=len(CAUSES)).map(
    lambda spent: {**spent, "compute": spent.get("compute", 0.0) + 1e-3}
)


@given(SPENT, SPENT, SPENT, st.booleans())
def test_two_taxes_and_the_rest_are_the_step_whatever_the_causes(spent, without_scale_out, without_networks, slows):
    found = tax_of(spent, without_scale_out, without_networks, "flow", slows=slows)
    for shares in (found, found.scale_up):
        parts = [*shares.exposed.values(), shares.slowed_kernels]
        assert min(parts) >= 0
        assert math.fsum(parts) == pytest.approx(shares.tokens_lost, abs=1e-12)
    assert min(found.rest.values()) >= 0
    total = found.tokens_lost + found.scale_up.tokens_lost + math.fsum(found.rest.values())
    assert total == pytest.approx(1.0)
    won = sum(spent.values()) - sum(without_scale_out.values())
    assert found.tokens_lost == pytest.approx(max(won, 0.0) / sum(spent.values()), abs=1e-9)


def test_figures_that_do_not_add_up_are_refused():
    found = tax_of({"compute": 3.0, "latency": 1.0}, {"compute": 3.0}, {"compute": 3.0}, "flow").model_dump()
    with pytest.raises(ValidationError, match="are not the tokens lost"):
        TaxFigures.model_validate({**found, "slowed_kernels": 0.1})
    with pytest.raises(ValidationError, match="are not the step"):
        TaxFigures.model_validate({**found, "rest": {"compute": 0.5}})


# The decomposition of steps that an engine simulated: real graphs, contention, jitter and faults.

US = 1_000_000


@pytest.fixture(scope="module")
def facts():
    return catalog.load()


@pytest.fixture(scope="module")
def machine(facts):
    from railyard.cluster.topology.leaf_spine import LeafSpine

    network = cluster.NetworkSpec(topology=LeafSpine(oversubscription=3.0, ports_per_leaf=16))
    return cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100", back_end=network), facts)


@pytest.fixture(scope="module")
def graph(facts, machine):
    layout = Layout(global_batch=64, tp=2, pp=4, dp=8)
    software = profiles.default(machine.accelerator)
    job = Training(model=facts.model("llama-3-8b"), layout=layout, seq_len=4096, software=software)
    return build(job, machine)


def play(graph, machine, **more):
    return engine.get("flow").simulate([Job(graph)], machine, seed=3, **more)


DISTURBED = {
    "quiet": {},
    "jitter": {"jitter": engine.Jitter(sigma=0.05, rank_sigma=0.02)},
    "late": {"faults": (Late(rank=5, by_ps=300 * US, at_ps=0),)},
    "slow": {"faults": (SlowAccelerator(rank=9, factor=0.8),)},
    "degraded": {"faults": (DegradeLink(tier="leaf-spine", factor=0.3),)},
}


@pytest.mark.parametrize("kind", DISTURBED)
def test_every_rank_adds_up_whatever_goes_wrong(graph, machine, kind):
    line = play(graph, machine, **DISTURBED[kind])
    found = decompose(line)
    assert (found.by_rank_ps.sum(axis=1) == line.makespan_ps).all()
    assert found.seconds(Cause.DEPENDENCY) == 0
    assert sum(row.share for row in found.rows) == pytest.approx(1, abs=1e-9)


def test_a_quiet_step_has_no_stragglers_and_its_bubble_is_that_of_1f1b(graph, machine):
    """(p - 1) / (m + p - 1) of the pipelined part: 3 of 11, less what is communication in the bubble."""
    found = decompose(play(graph, machine))
    assert found.seconds(Cause.STRAGGLER) < 1e-6  # what runs beside a computation does not run beside all at once
    pipelined = found.seconds(Cause.COMPUTE, Cause.BUBBLE)
    assert found.seconds(Cause.BUBBLE) / pipelined == pytest.approx(3 / 11, abs=0.07)  # gathers slow the fill


def test_a_slow_gpu_is_named_and_its_neighbours_are_not(graph, machine):
    found = lockstep(decompose(play(graph, machine, **DISTURBED["slow"])))
    assert found.gpu_seconds_lost_to_stragglers > 0
    assert found.worst_ranks[0].rank == 9
    assert found.worst_ranks[0].gpu_seconds > 0.9 * found.gpu_seconds_lost_to_stragglers


def test_slower_uplinks_are_charged_to_the_network_and_to_nobody_else(graph, machine):
    quiet, degraded = (decompose(play(graph, machine, **DISTURBED[kind])) for kind in ("quiet", "degraded"))
    longer = degraded.step_s - quiet.step_s
    assert longer > 0
    # Slower reductions reach beyond the computation that they slow: a little less of it is slowed.
    assert degraded.seconds(Cause.COMPUTE) == pytest.approx(quiet.seconds(Cause.COMPUTE), rel=1e-3)
    assert degraded.network_s() - quiet.network_s() > 0.5 * longer


def test_what_is_waited_for_inside_and_outside_the_scale_up_domain(graph, machine):
    line = play(graph, machine)
    found = decompose(line)
    waited = network_use(line, machine, found).figures.waited
    assert waited.scale_up + waited.scale_out == pytest.approx(found.network_s() / found.step_s)
    assert waited.scale_up > 0


def test_one_gpu_of_ten_thousand_in_the_engine(facts):
    """20 us late once: 0.2 GPU-seconds, and the result says who it was."""
    from railyard.cluster.topology.rail_optimized import RailOptimized

    ranks, tasks = 10_000, 10_001
    network = cluster.NetworkSpec(topology=RailOptimized())
    machine = cluster.build(cluster.ClusterSpec(accelerators=ranks, server="hgx-h100", back_end=network), facts)
    last = np.arange(tasks) == ranks
    graph = TaskGraph.of(
        ranks,
        kind=np.where(last, Kind.COLLECTIVE, Kind.COMPUTE),
        rank=np.where(last, 0, np.arange(tasks)),
        duration_ps=np.where(last, 0, 100 * US),
        size_bytes=np.where(last, 1 << 20, 0),
        label=last,
        labels=[Label("backward", "layer"), Label("gradient", "all-reduce", "dp")],
        communicators=Communicators.of([range(ranks)], "dp"),
    )
    late = Late(rank=17, by_ps=20 * US, at_ps=0)
    line = play(graph, machine, faults=(late,), policy=CollectivePolicy(algorithm={"dp": "tree"}))
    found = lockstep(decompose(line))
    assert found.gpu_seconds_lost_to_stragglers == pytest.approx(0.2, rel=2e-4)
    assert [(one.rank, one.gpu_seconds) for one in found.worst_ranks] == [(17, pytest.approx(9_999 * 20e-6))]
    assert found.events == 1
