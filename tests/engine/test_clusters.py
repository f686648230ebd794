"""Engines on real clusters: lowering, closed forms, agreement of the two engines."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink
from railyard.collective import CollectivePolicy
from railyard.engine.lowering import lower
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, TaskGraph

GIB = 1 << 30
RANKS = 64


@cache
def machine(topology="leaf-spine", fabric="ideal"):
    network = NetworkSpec(topology=cluster.topologies.get(topology)(), fabric=FabricSpec(fabric))
    return cluster.build(ClusterSpec(accelerators=RANKS, server="hgx-h100", back_end=network), catalog.load())


def graph_of(rows, groups=((0,),)):
    """Rows (kind, rank, peer, size, collective kind, stream)."""
    columns = np.array(rows, np.int64).T
    n = len(rows)
    ptr = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return TaskGraph(
        ranks=RANKS,
        kind=columns[0].astype(np.uint8),
        rank=columns[1].astype(np.int32),
        peer=columns[2].astype(np.int32),
        duration_ps=np.zeros(n, np.int64),
        size_bytes=columns[3],
        count=np.ones(n, np.int32),
        collective=columns[4].astype(np.uint8),
        stream=columns[5].astype(np.uint8),
        label=np.zeros(n, np.int32),
        dep_ptr=np.zeros(n + 1, np.int64),
        labels=[Label("gradient", "test", "dp")],
        communicators=Communicators(ptr, np.concatenate(groups).astype(np.int32), ["dp"] * len(groups)),
    )


def collective(kind, size, group=0, stream=2):
    return (Kind.COLLECTIVE, group, -1, size, kind, stream)


def transfer(source, target, size, stream=3):
    return (Kind.TRANSFER, source, target, size, 0, stream)


EVERYBODY = (tuple(range(RANKS)),)
CASES = {
    "ring": (CollectiveKind.ALL_REDUCE, {"all-reduce": "ring"}),
    "tree": (CollectiveKind.ALL_REDUCE, {"all-reduce": "tree"}),
    "all-to-all": (CollectiveKind.ALL_TO_ALL, {"all-to-all": "pairwise"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("topology", cluster.topologies.names())
def test_a_collective_takes_its_latency_and_the_time_of_its_busiest_link(topology, case):
    """From the bytes that every link carried, whatever the algorithm and the topology."""
    kind, algorithm = CASES[case]
    here = machine(topology, "roce")
    policy = CollectivePolicy(algorithm=algorithm)
    graph = graph_of([collective(kind, GIB)], EVERYBODY)
    timeline = engine.get("flow").simulate([Job(graph)], here, policy=policy)
    took, entities = timeline.end_ps[0], lower(graph, here, policy).entities
    busiest = (8e12 * timeline.table("links")["bytes"] / here.links.rate_bps).max()
    own_limit = 8e12 * entities.volume_bytes[0] / entities.rate_cap_bps[0]
    assert took == pytest.approx(timeline.column("latency_ps")[0] + max(busiest, own_limit), rel=1e-9)
    assert timeline.column("alone_ps")[0] <= took + 2  # less where its own hashed flows collide
    assert took == engine.get("analytic").simulate([Job(graph)], here, policy=policy).end_ps[0]


def test_a_ring_carries_what_a_ring_carries():
    """A rank sends 2 (n-1)/n of the buffer (Patarasuk and Yuan 2009); out of a server goes what one rank sends."""
    here = machine()
    graph = graph_of([collective(CollectiveKind.ALL_REDUCE, GIB)], EVERYBODY)
    timeline = engine.get("flow").simulate(
        [Job(graph)], here, policy=CollectivePolicy(algorithm={"all-reduce": "ring"})
    )
    tier = here.links.tiers.index("nic")
    carried = timeline.table("links")["bytes"]
    egress = carried[here.links.tier == tier].sum() / 2  # every byte goes up one NIC and down another
    payload = 2 * (RANKS - 1) / RANKS * GIB * here.servers
    assert egress == pytest.approx(payload / here.fabric.payload_efficiency, rel=0.02)


def test_both_engines_agree_where_nothing_contends():
    rows = [
        collective(CollectiveKind.ALL_GATHER, GIB, stream=0),
        collective(CollectiveKind.REDUCE_SCATTER, GIB, stream=0),
    ]
    rows += [collective(CollectiveKind.ALL_REDUCE, 4 * GIB, stream=0)]
    for server in range(0, RANKS, 16):
        rows.append(transfer(server, server + 8, GIB // 4, stream=0))
    graph = graph_of(rows, EVERYBODY)
    both = [engine.get(name).simulate([Job(graph)], machine()).makespan_ps for name in ("flow", "analytic")]
    assert both[0] == pytest.approx(both[1], rel=0.03)


def test_incast_shares_the_last_link():
    """Seven servers send to one rank: its NIC's link is shared, and the last byte comes when it has carried all."""
    here = machine()
    rows = [transfer(server * 8, 0, GIB) for server in range(1, 8)]
    timeline = engine.get("flow").simulate([Job(graph_of(rows))], here)
    alone = timeline.column("alone_ps").max()
    busiest = (8e12 * timeline.table("links")["bytes"] / here.links.rate_bps).max()
    assert timeline.makespan_ps == pytest.approx(timeline.column("latency_ps").max() + busiest, rel=1e-3)
    assert timeline.makespan_ps > 6 * alone


def test_equal_requests_are_lowered_once():
    rows = [transfer(0, 8, GIB), transfer(0, 8, GIB), transfer(0, 16, GIB), transfer(0, 8, GIB // 2)]
    rows += [collective(CollectiveKind.ALL_REDUCE, GIB)] * 3
    low = lower(graph_of(rows, EVERYBODY), machine())
    assert len(low.entities) == 4
    assert low.entity.tolist() == [1, 1, 2, 3, 0, 0, 0]


def test_what_the_fabric_leaves_out_is_said():
    here = machine("leaf-spine", "roce")
    timeline = engine.get("flow").simulate([Job(graph_of([transfer(0, 8, GIB)]))], here)
    assert set(here.fabric.left_out) <= set(timeline.meta["left_out"])


def test_a_degraded_tier_slows_what_crosses_it():
    here = machine("leaf-spine", "roce")
    graph = graph_of([transfer(0, 8, GIB)])
    fault = DegradeLink(0.5, tier="nic")
    healthy = engine.get("flow").simulate([Job(graph)], here).makespan_ps
    degraded = engine.get("flow").simulate([Job(graph)], here, faults=[fault]).makespan_ps
    assert degraded == pytest.approx(2 * healthy, rel=0.01)
