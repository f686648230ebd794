"""The decomposition of steps that an engine simulated: real graphs, contention, jitter and faults."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster.fault import DegradeLink, Late, SlowAccelerator
from railyard.collective import CollectivePolicy
from railyard.graph import Communicators, Job, Kind, Label, TaskGraph
from railyard.measure.causes import Cause
from railyard.measure.decompose import decompose
from railyard.measure.lockstep import lockstep
from railyard.measure.network import network_use
from railyard.work.training import profiles
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, Training

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
    assert found.gpu_seconds_lost > 0
    assert found.worst[0][0] == 9
    assert found.worst[0][1] > 0.9 * found.gpu_seconds_lost


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
    use = network_use(line, machine, found)
    assert use.waited_scale_up + use.waited_scale_out == pytest.approx(found.network_s() / found.step_s)
    assert use.waited_scale_up > 0
    assert use.section().waited.scale_out == use.waited_scale_out


def test_one_gpu_of_ten_thousand_in_the_engine(facts):
    """20 us late once: 0.2 GPU-seconds, and the result says who it was."""
    from railyard.cluster.topology.rail_optimized import RailOptimized

    ranks, tasks = 10_000, 10_001
    network = cluster.NetworkSpec(topology=RailOptimized())
    machine = cluster.build(cluster.ClusterSpec(accelerators=ranks, server="hgx-h100", back_end=network), facts)
    last = np.arange(tasks) == ranks
    graph = TaskGraph(
        ranks=ranks,
        kind=np.where(last, Kind.COLLECTIVE, Kind.COMPUTE).astype(np.uint8),
        rank=np.where(last, 0, np.arange(tasks)).astype(np.int32),
        peer=np.full(tasks, -1, np.int32),
        duration_ps=np.where(last, 0, 100 * US),
        size_bytes=np.where(last, 1 << 20, 0),
        count=np.ones(tasks, np.int32),
        collective=np.zeros(tasks, np.uint8),
        stream=np.zeros(tasks, np.uint8),
        label=last.astype(np.int32),
        dep_ptr=np.zeros(tasks + 1, np.int64),
        labels=[Label("backward", "layer"), Label("gradient", "all-reduce", "dp")],
        communicators=Communicators(np.array([0, ranks]), np.arange(ranks, dtype=np.int32), ["dp"]),
    )
    late = Late(rank=17, by_ps=20 * US, at_ps=0)
    line = play(graph, machine, faults=(late,), policy=CollectivePolicy(algorithm={"dp": "tree"}))
    found = lockstep(decompose(line))
    assert found.gpu_seconds_lost == pytest.approx(0.2, rel=2e-4)
    assert found.worst == ((17, pytest.approx(9_999 * 20e-6)),)
    assert found.events == 1
