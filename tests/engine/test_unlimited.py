"""Networks without limit: the tax of steps whose every picosecond is known by hand, on every engine."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink, LinkDown, SlowAccelerator
from railyard.collective import CollectivePolicy
from railyard.collective.choice import DEFAULT_POLICY
from railyard.engine.flow import FREED, Conditions
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.measure.decompose import decompose
from railyard.measure.utilization import tax_of

US = 10**6
MB = 10**6


@cache
def machine(fabric="ideal", rate_bps=None, accelerators=16):
    network = NetworkSpec(fabric=FabricSpec(fabric), link_rate_bps=rate_bps)
    return cluster.build(ClusterSpec(accelerators=accelerators, server="hgx-h100", back_end=network), catalog.load())


def step(groups, size, *, compute_us=1000, hidden=False, loss=0.0):
    """Every rank computes; each group has an all-reduce, after the computation or beside it."""
    members = [rank for group in groups for rank in group]
    count, computed = len(groups), len(members)
    n = computed + count
    after = [[] for _ in range(computed)] + [[] if hidden else [members.index(rank) for rank in g] for g in groups]
    return TaskGraph(
        ranks=1 + max(members),
        kind=np.array([Kind.COMPUTE] * computed + [Kind.COLLECTIVE] * count, np.uint8),
        rank=np.array([*members, *range(count)], np.int32),
        peer=np.full(n, -1, np.int32),
        duration_ps=np.array([compute_us * US] * computed + [0] * count, np.int64),
        size_bytes=np.array([0] * computed + [size] * count, np.int64),
        count=np.ones(n, np.int32),
        collective=np.full(n, CollectiveKind.ALL_REDUCE, np.uint8),
        stream=np.array([Stream.COMPUTE] * computed + [2] * count, np.uint8),
        label=np.array([0] * computed + [1] * count, np.int32),
        dep_ptr=np.cumsum([0, *map(len, after)]).astype(np.int64),
        dep_idx=np.array([one for row in after for one in row], np.int32),
        labels=[Label("backward", "kernel"), Label("gradient", "all reduce", "dp")],
        communicators=Communicators(
            np.cumsum([0, *map(len, groups)]).astype(np.int64), np.array(members, np.int32), ["dp"] * count
        ),
        loss_index=np.zeros(n, np.int32) if loss else None,
        loss=np.array([[loss]]) if loss else None,
    )


def steps(graph, here, *, name="flow", faults=(), policy=DEFAULT_POLICY):
    """T, T1 and T0 as records."""
    plain = Conditions(engine.get(name), here, policy, tuple(faults))
    return [
        on.engine.simulate([Job(graph)], on.cluster, faults=on.faults, policy=on.policy)
        for on in (plain, *map(plain.unlimited, FREED))
    ]


def tax(graph, here, **more):
    return tax_of(*(decompose(record).by_cause() for record in steps(graph, here, **more)), "flow")


ACROSS = [[rank, rank + 8] for rank in range(8)]
INSIDE = [list(range(8)), list(range(8, 16))]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_an_exposed_all_reduce_is_the_tax(name):
    """Two ranks of a group, 100 MB each way at 400 Gb/s: 2 ms and some latency after 1 ms of computation."""
    here = machine()
    record, free, _ = steps(step(ACROSS, 100 * MB), here, name=name)
    found = tax(step(ACROSS, 100 * MB), here, name=name)
    wire_s = 8 * 100e6 / (here.nic.rate_bps * here.fabric.payload_efficiency)
    assert free.makespan_ps == 1000 * US
    assert found.tokens_lost == pytest.approx(1 - 1000 * US / record.makespan_ps)
    assert found.tokens_lost == pytest.approx(wire_s / (wire_s + 1e-3), rel=0.02)
    assert found.exposed["bandwidth"] * record.makespan_ps * 1e-12 == pytest.approx(wire_s, rel=0.02)
    assert found.slowed_kernels == 0.0
    assert found.scale_up.tokens_lost == 0.0
    assert found.rest == pytest.approx({"compute": 1 - found.tokens_lost})


def test_a_hidden_all_reduce_slows_the_kernels_beside_it():
    """2 ms beside 10 ms of computation at 4/5 of its speed: 0.4 ms are lost, none of them exposed."""
    graph = step(ACROSS, 100 * MB, compute_us=10_000, hidden=True, loss=0.2)
    record, free, none = steps(graph, machine())
    lasted_s = (record.end_ps[-1] - record.start_ps[-1]) * 1e-12
    found = tax(graph, machine())
    assert (free.makespan_ps, none.makespan_ps) == (10_000 * US, 10_000 * US)
    assert record.makespan_ps * 1e-12 == pytest.approx(10e-3 + 0.2 * lasted_s, rel=1e-6)
    assert found.slowed_kernels == pytest.approx(0.2 * lasted_s / (10e-3 + 0.2 * lasted_s), rel=1e-6)
    assert found.tokens_lost == pytest.approx(found.slowed_kernels)
    assert not any(found.exposed.values())


@pytest.mark.parametrize("name", ["flow", "analytic", "packet"])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_job_inside_its_servers_pays_nothing_to_the_scale_out_network(name, hidden):
    graph = step(INSIDE, 1000 * MB, hidden=hidden, loss=0.1)
    found = tax(graph, machine("roce"), name=name)
    assert found.tokens_lost == 0.0
    assert found.slowed_kernels == 0.0
    assert found.scale_up.tokens_lost > 0.05


def test_what_crosses_keeps_the_time_that_it_needs_inside_servers():
    """An all-reduce of two whole servers: on a network without limit it is bound by NVLink, as inside one server."""
    ring = CollectivePolicy(algorithm={"all-reduce": "ring"})
    record, free, none = steps(step([list(range(16))], 1000 * MB), machine("roce"), policy=ring)
    assert record.makespan_ps > free.makespan_ps > none.makespan_ps == 1000 * US
    inside_s = 2 * 15 / 16 * 1000e6 * 8 / machine("roce").accelerator.scale_up_collective_bps
    assert (free.makespan_ps - 1000 * US) * 1e-12 == pytest.approx(inside_s, rel=0.05)


def test_ideal_interfaces_without_limit_leave_no_tax():
    endless = machine("ideal").without_scale_out_limits()
    found = tax(step([list(range(16))], 1000 * MB), endless)
    assert found.exposed == pytest.approx(
        {"bandwidth": 0, "latency": found.tokens_lost, "contention": 0, "straggler": 0}
    )
    assert found.tokens_lost * 5e-3 < 30e-6  # the library's own steps through NICs, a few of some us


def test_without_a_scale_out_network_every_fabric_gives_one_step():
    graph = step([list(range(16))], 400 * MB)
    free = [steps(graph, machine(fabric))[1].makespan_ps for fabric in ("roce", "uec", "scheduled", "ideal")]
    assert max(free) == pytest.approx(min(free), rel=1e-6)


@pytest.mark.parametrize("hidden", [False, True])
def test_more_bandwidth_never_raises_the_tax(hidden):
    graph = step([list(range(16))], 300 * MB, compute_us=5_000, hidden=hidden, loss=0.15)
    shares = [tax(graph, machine("ideal", rate * 1e9)).tokens_lost for rate in (50, 100, 200, 400)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1] > 0


def test_faults_of_the_network_without_limit_are_gone_and_others_stay():
    slow, dead = DegradeLink(factor=0.25, cable="server 0 nic 0 - leaf 0"), LinkDown(cable="server 1 nic 0 - leaf 0")
    late = SlowAccelerator(rank=3, factor=0.5)
    conditions = Conditions(engine.get("flow"), machine("roce"), CollectivePolicy(), (slow, dead, late))
    assert [conditions.unlimited(free).faults for free in FREED] == [(late,), (late,)]
    graph = step(ACROSS, 100 * MB)
    hit, free, none = steps(graph, machine("roce"), faults=[slow, late])
    assert hit.makespan_ps > steps(graph, machine("roce"), faults=[late])[0].makespan_ps
    assert free.makespan_ps == none.makespan_ps == 2000 * US


def test_packets_are_compared_with_the_flow_engine():
    """What is left of communication comes from one cost model: where nothing crosses, both engines agree."""
    conditions = Conditions(engine.get("packet"), machine("roce"), CollectivePolicy(network_overhead_ps=5 * US), ())
    free = conditions.unlimited("scale-out")
    assert free.engine == replace(engine.get("flow"), free="scale-out")
    assert free.policy.network_overhead_ps == 0
    graph = step(INSIDE, 1000 * MB)
    packets, flows, _ = steps(graph, machine("roce"), name="packet")
    assert packets.makespan_ps == pytest.approx(flows.makespan_ps, rel=1e-3)
