"""Bytes are conserved, nothing beats physics, a run is a function of its input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agreement import traffic, yard

from railyard import engine
from railyard.cluster.topology import LeafSpine, RailOptimized, ThreeTier
from railyard.collective import CollectivePolicy
from railyard.graph import CollectiveKind, Job

KIND = {name: CollectiveKind[name.upper().replace("-", "_")] for name, _ in traffic.BETWEEN}


def nic_bytes(cluster, line):
    """Payload that left and that reached each NIC."""
    physical = cluster.links.to_physical(line.table("links")["bytes"])
    out, into = [], []
    for port in cluster.back_end.port_of_rank[:, 0]:
        leaving, arriving = cluster.back_end.port_links(int(port))
        out.append(physical[leaving].sum())
        into.append(physical[arriving].sum())
    return np.array(out) * cluster.fabric.payload_efficiency, np.array(into) * cluster.fabric.payload_efficiency


@pytest.mark.parametrize("fabric", ["ideal", "roce", "infiniband"])
@pytest.mark.parametrize(("kind", "algorithm"), traffic.BETWEEN)
def test_every_nic_carries_what_the_literature_says(kind, algorithm, fabric):
    overrides = {} if fabric == "ideal" else {"incast_efficiency": 1.0}
    cluster = yard.machine(64, fabric, RailOptimized(servers_per_leaf=2), overrides=overrides)
    out, into = nic_bytes(cluster, yard.one(cluster, KIND[kind], algorithm))
    between = traffic.BETWEEN[kind, algorithm]
    assert out == pytest.approx(np.repeat(between.sum(axis=1), 8) * yard.GIB, rel=1e-9)
    assert into == pytest.approx(np.repeat(between.sum(axis=0), 8) * yard.GIB, rel=1e-9)


@pytest.mark.parametrize("shape", [LeafSpine(ports_per_leaf=8), ThreeTier(ports_per_leaf=8, leafs_per_pod=2)])
@pytest.mark.parametrize("fabric", ["roce", "spectrum-x", "scheduled"])
def test_what_goes_up_comes_down(shape, fabric):
    """Between two tiers of switches as many bytes go one way as the other, and all that left a leaf's NICs went up."""
    cluster = yard.machine(64, fabric, shape, overrides={"incast_efficiency": 1.0})
    line = yard.one(cluster, CollectiveKind.ALL_TO_ALL, "pairwise")
    out, into = nic_bytes(cluster, line)
    physical = cluster.links.to_physical(line.table("links")["bytes"]) * cluster.fabric.payload_efficiency
    link = cluster.links.of_tier("leaf-spine")
    up = cluster.links.source[link] < cluster.links.target[link]
    assert physical[link][up].sum() == pytest.approx(out.sum(), rel=1e-9)
    assert physical[link][~up].sum() == pytest.approx(into.sum(), rel=1e-9)


SHAPES = {
    "one server": range(8),
    "half a server": range(4),
    "eight servers": range(64),
    "a rail": range(0, 64, 8),
    "four of each": [rank for rank in range(64) if rank % 8 < 4],
}
SIZES = [1 << power for power in range(8, 34, 3)]


ONCE = (CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST, CollectiveKind.REDUCE)


def least_us(kind, size, ranks, cluster):
    """No algorithm is faster: bytes that must cross a rank's links and a server's NICs, and one message's latency.

    Switches may reduce and multicast, so every rank of an all-reduce moves the data only once.
    """
    servers, most = len({rank // 8 for rank in ranks}), max(np.bincount(np.asarray(ranks) // 8))
    n = len(ranks)
    own = size if kind in ONCE else size * (n - 1) / n
    inside_us = 8e6 * own / (cluster.scale_up.rate_bps + 400e9)
    if servers == 1:
        return inside_us
    other = size * most if kind is CollectiveKind.ALL_TO_ALL else size
    leaves = size if kind in ONCE else other * (n - most) / n
    return max(inside_us, 8e6 * leaves / (400e9 * most), cluster.fabric.nic_latency_ps * 1e-6)


@pytest.mark.parametrize("fabric", ["ideal", "infiniband", "roce"])
@pytest.mark.parametrize("where", SHAPES)
@pytest.mark.parametrize("kind", yard.KINDS, ids=yard.word)
@pytest.mark.parametrize("selector", ["library", "best"])
def test_nothing_is_faster_than_physics(fabric, where, kind, selector):
    cluster = yard.machine(64, fabric, RailOptimized())
    ranks = list(SHAPES[where])
    found = yard.table(cluster, kind, SIZES, ranks, CollectivePolicy(selector=selector)).alone_ps * 1e-6
    least = [least_us(kind, size, ranks, cluster) for size in SIZES]
    assert (found >= least).all()


FASTER = (
    {"nic": 2.0},
    {"nic": 1.1},
    {"scale_up": 2.0},
    {"scale_up": 1.1},
    {"nic": 4.0, "scale_up": 4.0},
    {"latency": 0.5},
)


@pytest.mark.parametrize("server", ["hgx-h100", "hgx-a100", "hgx-b200", "mi300x-8"])
@pytest.mark.parametrize("kind", yard.KINDS, ids=yard.word)
def test_more_bandwidth_never_slows_a_single_collective_on_ideal(server, kind):
    policy = CollectivePolicy(selector="best")
    slow = yard.machine(64, "ideal", RailOptimized(), server)
    for more in FASTER:
        fast = slow.scaled(**more)
        for where, ranks in SHAPES.items():
            before = yard.table(slow, kind, SIZES, list(ranks), policy).alone_ps
            after = yard.table(fast, kind, SIZES, list(ranks), policy).alone_ps
            assert (after <= before).all(), (more, where)


def some_collectives(cluster, order):
    """Collectives of every kind on groups that overlap on links and not on ranks; index order is a permutation."""
    groups = [np.arange(8 * server + first, 8 * server + first + 4) for server in range(8) for first in (0, 4)]
    groups += [np.arange(64)]
    plain = [KIND[kind] for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")]
    rows = [yard.collective(plain[group % 4], (1 + group) * yard.MIB, group) for group in range(16)]
    shuffled = [rows[index] for index in order]
    return yard.graph(64, [*shuffled, yard.collective(CollectiveKind.ALL_REDUCE, yard.GIB, 16)], groups)


@given(st.permutations(range(16)), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_a_run_is_a_function_of_its_input(order, seed):
    cluster = yard.machine(64, "roce", LeafSpine(ports_per_leaf=16, oversubscription=2.0))
    straight = engine.get("flow").simulate([Job(some_collectives(cluster, range(16)))], cluster, seed=seed)
    again = engine.get("flow").simulate([Job(some_collectives(cluster, range(16)))], cluster, seed=seed)
    assert straight.meta["digest"] == again.meta["digest"]
    mixed = engine.get("flow").simulate([Job(some_collectives(cluster, order))], cluster, seed=seed)
    assert mixed.end_ps[np.argsort(order)] == pytest.approx(straight.end_ps[:16], rel=1e-9)
    assert mixed.makespan_ps == pytest.approx(straight.makespan_ps, rel=1e-9)
