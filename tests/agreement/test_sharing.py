"""Who gets how much where communications meet: collisions of hashed flows, oversubscription, incast, cuts.

Collisions: N flows hashed onto N links leave (1 - 1/N)^N of them idle, so their aggregate is 63 %; the slowest of 32 on
32 gets 28, 47, 64 or 79 % with 1, 4, 16 or 64 queue pairs (Monte-Carlo means of balls into bins).
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster.fault import DegradeLink
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.collective import CollectivePolicy
from railyard.graph import CollectiveKind, Job

LEAFS, HOSTS = 33, 32
SPRAYING = ("infiniband", "spectrum-x", "uec", "scheduled")


SINGLE = CollectivePolicy(connections=1)


def leafs_of_32(qps, seed=0):
    shape = LeafSpine(ports_per_leaf=HOSTS, spines=32)
    own = {"qps": qps, "congestion_efficiency": 1.0}
    return yard.machine(LEAFS * HOSTS, "roce", shape, overrides=own, seed=seed)


def from_leaf(leaf):
    """32 flows out of one leaf, each to a leaf of its own, so that only uplinks collide."""
    host = np.arange(HOSTS)
    local, server = host % 8, (host // 8 + leaf) % 4
    return zip(leaf * HOSTS + host, (leaf + 1 + host) % LEAFS * HOSTS + 8 * server + local, strict=True)


def one_leaf_after_another(cluster):
    """float64[leafs, 32]: share of its NIC that each flow got, one leaf at a time."""
    rows, before = [], ()
    for leaf in range(LEAFS):
        flows = [yard.transfer(int(a), int(b), yard.GIB, deps=before) for a, b in from_leaf(leaf)]
        first = len(rows)
        rows += [*flows, {"deps": tuple(range(first, first + HOSTS))}]
        before = (len(rows) - 1,)
    line = engine.get("flow").simulate([Job(yard.graph(cluster.ranks, rows))], cluster, policy=SINGLE)
    moved = np.array([row.get("size_bytes", 0) > 0 for row in rows])
    took = yard.moving_s(line)[moved].reshape(LEAFS, HOSTS)
    return 8 * yard.GIB / (400e9 * cluster.fabric.payload_efficiency) / took


@pytest.mark.parametrize(("qps", "slowest"), [(1, 0.28), (4, 0.47), (16, 0.64), (64, 0.79)])
def test_the_slowest_of_32_hashed_flows_follows_the_law(qps, slowest):
    got = np.concatenate([one_leaf_after_another(leafs_of_32(qps, seed)) for seed in range(3 if qps < 16 else 1)])
    assert got.min(axis=1).mean() == pytest.approx(slowest, abs=0.03)


def test_32_single_flows_on_32_uplinks_get_63_percent_together():
    got = np.concatenate([one_leaf_after_another(leafs_of_32(1, seed)) for seed in range(3)])
    assert got.mean() == pytest.approx(1 - (1 - 1 / 32) ** 32, abs=0.03)


def permutation(cluster, seed):
    """Every rank sends once and receives once, over leafs, NIC by NIC of the same index."""
    servers = cluster.servers
    rng = np.random.default_rng(seed)
    ends = []
    for local in range(8):
        order = rng.permutation(servers)
        ends += [(8 * a + local, 8 * b + local) for a, b in zip(order, np.roll(order, 1), strict=True)]
    return [(a, b) for a, b in ends if a // HOSTS != b // HOSTS]


def test_a_permutation_collides_on_the_way_up_and_down():
    """Two stages of 63 %: below one, above both lost independently (40 %); more queue pairs, more of it."""
    mean = []
    for qps in (1, 4, 16, 64):
        cluster = leafs_of_32(qps)
        mean.append(yard.shares(cluster, yard.transfers(cluster, permutation(cluster, 7))).mean())
    assert 0.40 < mean[0] < 0.632
    assert mean == sorted(mean)
    assert mean[-1] > 0.75


@pytest.mark.parametrize("fabric", SPRAYING)
def test_a_sprayed_permutation_loses_nothing_to_collisions(fabric):
    cluster = yard.machine(512, fabric, LeafSpine(ports_per_leaf=HOSTS))
    got = yard.shares(cluster, yard.transfers(cluster, permutation(cluster, 7)))
    assert got.min() >= 0.93
    assert got.max() <= 1 + 1e-9


@pytest.mark.parametrize("fabric", SPRAYING)
@pytest.mark.parametrize("ratio", [2.0, 4.0])
def test_oversubscription_divides_an_all_to_all(fabric, ratio):
    """One server a leaf: all that leaves a NIC leaves its leaf. At 1:1 NICs bind, which wait for one another."""
    took = []
    for oversubscription in (1.0, ratio):
        cluster = yard.machine(64, fabric, LeafSpine(ports_per_leaf=8, oversubscription=oversubscription))
        took.append(yard.moving_s(yard.one(cluster, CollectiveKind.ALL_TO_ALL, "pairwise"))[0])
    wide, narrow = took
    one_way_bps = cluster.links.line_bps[cluster.links.of_tier("leaf-spine")].sum() / 2 / 8
    leaving = 8 * 7 / 8 * yard.GIB * 8 / cluster.fabric.payload_efficiency
    assert narrow == pytest.approx(leaving / (one_way_bps * cluster.fabric.fabric_efficiency), rel=1e-6)
    waiting = 1 - 0.21 * (1 - 0.6234) / (2**0.5 - 1)  # seven other servers; see `test_closed_forms.WAITING`
    assert wide == pytest.approx(leaving / (8 * 400e9 * waiting), rel=1e-6)


@pytest.mark.parametrize("ratio", [2.0, 4.0, 8.0])
def test_a_ring_over_oversubscribed_leafs_gets_what_the_cut_leaves(ratio):
    """Four servers a leaf, in order: 8 NICs' worth leaves a leaf that has 32 / ratio uplinks."""
    shape = LeafSpine(ports_per_leaf=32, oversubscription=ratio)
    cluster = yard.machine(128, "spectrum-x", shape, link_rate_bps=100e9)
    line = yard.one(cluster, CollectiveKind.ALL_REDUCE, "ring")
    each = 2 * 127 / 128 / 8 * yard.GIB * 8 / (100e9 * cluster.fabric.payload_efficiency)
    cut = 8 / (32 / ratio * cluster.fabric.congestion_efficiency)
    assert yard.moving_s(line)[0] == pytest.approx(each * max(1.0, cut), rel=1e-6)


@pytest.mark.parametrize("ratio", [2.0, 4.0])
def test_data_parallel_rings_of_one_rank_a_server_share_the_cut(ratio):
    """Eight rings at once, as after tensor parallelism of 8, whose members lie far apart: every hop leaves its leaf."""
    shape = LeafSpine(ports_per_leaf=32, oversubscription=ratio)
    cluster = yard.machine(128, "spectrum-x", shape, link_rate_bps=100e9)
    servers = np.arange(16).reshape(4, 4)
    pairs = [servers[[0, 1, 2, 3], column] for column in range(4)]  # one server of every leaf
    groups = [np.sort(8 * pair + local) for pair in pairs for local in range(8)]
    rows = [yard.collective(CollectiveKind.ALL_REDUCE, yard.GIB, group) for group in range(len(groups))]
    policy = yard.forced(CollectiveKind.ALL_REDUCE, "ring")
    line = engine.get("flow").simulate([Job(yard.graph(128, rows, groups))], cluster, policy=policy)
    each = 2 * 3 / 4 * yard.GIB * 8 / (100e9 * cluster.fabric.payload_efficiency)
    assert yard.moving_s(line) == pytest.approx(each * ratio / cluster.fabric.congestion_efficiency, rel=1e-4)


@pytest.mark.parametrize("fabric", ["ideal", "roce", *SPRAYING])
@pytest.mark.parametrize("senders", [2, 5, 15])
def test_incast_gives_each_sender_its_part(fabric, senders):
    cluster = yard.machine(128, fabric, RailOptimized())
    got = yard.shares(cluster, yard.transfers(cluster, [(8 * (1 + sender), 0) for sender in range(senders)]))
    assert got == pytest.approx(1 / senders, rel=1e-4)


def test_a_degraded_uplink_slows_only_who_crosses_it():
    cluster = leafs_of_32(1)
    ends = list(from_leaf(0)) + list(from_leaf(5))
    rows = [yard.transfer(int(a), int(b), yard.GIB) for a, b in ends]
    what = yard.graph(cluster.ranks, rows)
    calm = engine.get("flow").simulate([Job(what)], cluster, policy=SINGLE)
    uplinks = cluster.links.of_tier("leaf-spine")
    used = calm.table("links")["bytes"][uplinks]
    from_first = cluster.links.source[uplinks] == cluster.links.target[cluster.back_end.port_links(0)[0][0]]
    hit = uplinks[np.flatnonzero(from_first & (used == used[from_first].max()))[0]]
    broken = [DegradeLink(factor=0.5, link=int(hit))]
    slow = engine.get("flow").simulate([Job(what)], cluster, policy=SINGLE, faults=broken)
    later = slow.end_ps - calm.end_ps
    flows = round(float(calm.table("links")["bytes"][hit]) / (yard.GIB / cluster.fabric.payload_efficiency))
    assert flows >= 2
    assert (later > 1e9).sum() == flows
    assert np.abs(later[later <= 1e9]).max() < 1e6
