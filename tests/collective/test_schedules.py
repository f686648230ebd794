"""Every algorithm: its schedule does its work, its pattern is its schedule's bytes, no lower bound is broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.collective import (
    ALGORITHMS,
    NETWORK,
    CollectiveMachine,
    CollectivePolicy,
    Schedule,
    Shape,
    lower_collectives,
)
from railyard.collective.constants import MEASURED
from railyard.collective.timing import SHARP_SHARE
from railyard.collective.tree import binary_tree, double_tree
from railyard.graph import CollectiveKind as Kind
from railyard.kit.errors import InputError, SimulationError

ABLE = CollectiveMachine(
    architecture="hopper",
    library="nccl",
    scale_up="switched",
    pcie=False,
    domain=8,
    peers=7,
    scale_up_bps=3.6e12,
    plan_bps=2.9664e12,
    scale_up_latency_ps=1_000_000,
    latency_factor=1.0,
    nvls=True,
    nic_bps=4e11,
    payload_efficiency=1.0,
    path_latency_ps=3_000_000,
    next_latency_ps=3_000_000,
    sharp=True,
)
SHAPES = [
    *(Shape.grid(1, ranks) for ranks in (2, 3, 4, 5, 8)),
    *(Shape.grid(domains, members) for domains in (2, 3, 4, 5) for members in (1, 2, 3, 4)),
    *(Shape.grid(domains, members, scale_up="mesh") for domains in (1, 2, 3) for members in (2, 3, 4, 8)),
    Shape(7, 3, 3, (3, 3, 1), aligned=False),
    Shape(5, 2, 4, (1, 4), aligned=False),
    *(
        Shape(int(np.prod(axes)), 1, int(np.prod(axes)), scale_up="torus", torus=axes)
        for axes in ((4,), (2, 3), (3, 4), (2, 2, 3))
    ),
]
CASES = [
    pytest.param(name, kind, id=f"{name}-{kind.name}")
    for name, algorithm in ALGORITHMS.items()
    for kind in algorithm.kinds
]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=lambda one: getattr(one, "name", one))
def test_contract(name, kind):
    algorithm = ALGORITHMS.get(name)
    tried = [shape for shape in SHAPES if algorithm.refusal(kind, shape, ABLE) is None]
    assert tried
    for shape in tried:
        schedule = algorithm.schedule(kind, shape)
        schedule.run()
        own, sent = algorithm.pattern(kind, shape), schedule.pattern()
        assert np.array_equal(own.source, sent.source), shape
        assert np.array_equal(own.target, sent.target), shape
        assert own.share == pytest.approx(sent.share), shape
        _check_bounds(kind, shape, own)


def _check_bounds(kind, shape, pattern):
    """Bytes that every rank must receive or send, whatever the algorithm."""
    n = shape.ranks
    got = np.bincount(pattern.target[pattern.target >= 0], pattern.share[pattern.target >= 0], minlength=n)
    gone = np.bincount(pattern.source[pattern.source >= 0], pattern.share[pattern.source >= 0], minlength=n)
    rest = (n - 1) / n - 1e-9
    in_switch = (pattern.source < 0).any()
    if kind in (Kind.ALL_GATHER, Kind.ALL_TO_ALL):
        assert (got >= rest).all()
    if kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL):
        assert (gone >= rest).all()
    if kind == Kind.ALL_REDUCE:
        assert (got >= (1 - 1e-9 if in_switch else rest)).all()
        if not in_switch:
            assert gone.sum() >= 2 * (n - 1) - 1e-6
    if kind == Kind.BROADCAST:
        assert (got[1:] >= 1 - 1e-9).all()
    if kind == Kind.REDUCE:
        assert (gone[1:] >= 1 - 1e-9).all()


@pytest.mark.parametrize("name", ["ring", "hierarchical", "torus"])
def test_bandwidth_optimal(name):
    """A ring and its relatives send exactly 2 (n-1)/n of the data from every rank."""
    algorithm = ALGORITHMS.get(name)
    for shape in SHAPES:
        if algorithm.refusal(Kind.ALL_REDUCE, shape, ABLE) is None:
            pattern = algorithm.pattern(Kind.ALL_REDUCE, shape)
            gone = np.bincount(pattern.source, pattern.share, minlength=shape.ranks)
            assert gone == pytest.approx(np.full(shape.ranks, 2 * (shape.ranks - 1) / shape.ranks))


@given(st.integers(2, 70))
def test_binary_tree(nodes):
    parent = binary_tree(nodes)
    assert (parent < 0).sum() == 1
    children = np.bincount(parent[parent >= 0], minlength=nodes)
    assert children.max() <= 2
    depth = np.zeros(nodes, int)
    for node in range(nodes):
        above = node
        while parent[above] >= 0:
            above = parent[above]
            depth[node] += 1
            assert depth[node] <= nodes
    assert depth.max() <= np.ceil(np.log2(nodes)) + 1


@given(st.integers(2, 35).map(lambda half: 2 * half))
def test_inner_nodes_of_one_tree_are_leafs_of_the_other(nodes):
    first, second = double_tree(nodes)
    inner = [set(parent[parent >= 0].tolist()) for parent in (first, second)]
    roots = {int(np.flatnonzero(parent < 0)[0]) for parent in (first, second)}
    assert (inner[0] & inner[1]) <= roots


def test_nics_share_a_rail_aligned_ring():
    """Four servers of eight: every NIC sends the same, and to its own rail only."""
    shape = Shape.grid(4, 8)
    pattern = ALGORITHMS.get("ring").pattern(Kind.ALL_REDUCE, shape)
    out = pattern.scale_out(shape)
    rail = pattern.target[out] % 8
    assert np.bincount(rail) == pytest.approx(np.full(8, 4))
    assert pattern.share[out] == pytest.approx(np.full(32, 2 * 31 / 32 / 8))


def test_a_mesh_ring_uses_every_link_alike():
    shape = Shape.grid(3, 8, scale_up="mesh")
    pattern = ALGORITHMS.get("ring").pattern(Kind.ALL_REDUCE, shape)
    inside = ~pattern.scale_out(shape)
    assert inside.sum() == 3 * 56
    assert pattern.share[inside] == pytest.approx(np.full(168, pattern.share[inside][0]))


@pytest.mark.parametrize("name", ["collnet-direct", "collnet-chain", "nvls-sharp"])
def test_reduction_in_the_network_asks_each_nic_for_its_part_once(name):
    shape = Shape.grid(16, 8)
    pattern = ALGORITHMS.get(name).pattern(Kind.ALL_REDUCE, shape)
    assert pattern.share[pattern.target == NETWORK] == pytest.approx(np.full(128, 1 / 8))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["ring", "tree", "halving-doubling", "pairwise"]))
def test_dropping_any_message_breaks_the_schedule(pick, name):
    algorithm = ALGORITHMS.get(name)
    schedule = algorithm.schedule(algorithm.kinds[0], Shape.grid(2, 3))
    sends = [(step, number) for step, sent in enumerate(schedule.steps) for number in range(len(sent))]
    step, number = sends[pick % len(sends)]
    steps = list(schedule.steps)
    steps[step] = steps[step][:number] + steps[step][number + 1 :]
    broken = Schedule(schedule.kind, schedule.ranks, schedule.chunks, tuple(steps), schedule.owner)
    with pytest.raises(SimulationError):
        broken.run()


# Reduction in the network's switches: log 30 without a constant of its own, who is offered it, what depth
# costs.

LOG_30 = {29: 2984.6, 30: 5808.0, 31: 11163.0, 32: 22181.0, 33: 43980.0}
"""us by log2 of the size: 96 H100 (its busbw is that of 96 ranks) under `NCCL_ALGO=COLLNETCHAIN`, as the manifest of
its repository says."""


def alone_us(cluster, ranks, size, algorithm=None):
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm} if algorithm else {})
    request = (np.zeros(1, int), np.array([Kind.ALL_REDUCE]), np.array([size]), np.ones(1, int))
    table = lower_collectives(cluster, ranks, request, policy=policy)
    return table.alone_ps[0] / 1e6, str(table.algorithm[0])


@pytest.mark.parametrize("power", LOG_30)
def test_log_30_is_bound_by_chains_inside_the_servers(build, group, power):
    cluster = build(96, "hgx-h100", "infiniband", sharp=True)
    found, _ = alone_us(cluster, group(np.arange(96)), 1 << power, "collnet-chain")
    assert found == pytest.approx(LOG_30[power], rel=0.025)


def test_a_chain_s_plateau_by_hand(build, group):
    """Each link carries 7/8 of the data up and as much down, 0.92 of the 370.8 GB/s that NCCL plans with."""
    cluster = build(96, "hgx-h100", "infiniband", sharp=True)
    large, small = (alone_us(cluster, group(np.arange(96)), 1 << power, "collnet-chain")[0] for power in (36, 35))
    assert (1 << 35) / (large - small) / 1e3 == pytest.approx(18 * 20.6 * 0.92 / 1.75, rel=1e-3)


@pytest.mark.parametrize(
    ("server", "power", "names", "gain"),
    [
        # Both fill the stages of their pipelines; SHARP saves five of six passes through NICs
        ("hgx-h100", 16, ("tree", "collnet-chain"), 1.16),
        ("hgx-h100", 22, ("tree", "nvls-sharp"), 1.41),
        ("hgx-h100", 30, ("nvls-tree", "nvls-sharp"), 1.36),
        # A tree of domains sends twice through each of the NICs of 400 Gb/s; SHARP once, at 0.8 of the NIC
        ("hgx-b200", 33, ("nvls-tree", "nvls-sharp"), 1.62),
    ],
)
def test_nccl_takes_sharp_and_is_faster(build, group, server, power, names, gain):  # noqa: PLR0917
    everyone = group(np.arange(64))
    without, before = alone_us(build(64, server, "infiniband"), everyone, 1 << power)
    found, name = alone_us(build(64, server, "infiniband", sharp=True), everyone, 1 << power)
    assert (before, name) == names
    assert without / found == pytest.approx(gain, rel=0.05)


def test_what_nics_bound_gains_twice_less_what_sharp_leaves_of_them(build, group):
    """One rank a server: a ring of 16 sends 15/8 of the data through each NIC, SHARP the data at 0.8 of the NIC."""
    ranks = group(np.arange(16) * 8)
    plain, sharp = build(128, "hgx-h100", "infiniband"), build(128, "hgx-h100", "infiniband", sharp=True)
    ring, _ = alone_us(plain, ranks, 1 << 33, "ring")
    found, _ = alone_us(sharp, ranks, 1 << 33, "collnet-chain")
    assert ring / found == pytest.approx(15 / 8 * SHARP_SHARE / plain.fabric.payload_efficiency, rel=0.01)


def test_a_deeper_tree_takes_longer(build, group):
    """Two more switches up and down: 2 x 0.35 us and their cables, once for the pass."""
    times = [
        alone_us(build(64, "hgx-h100", "infiniband", topology, sharp=True), group(np.arange(64)), 4096, "nvls-sharp")[0]
        for topology in ("leaf-spine", "three-tier")
    ]
    assert 0 < times[1] - times[0] < 2.5


def test_small_sizes_by_hand(build, group):
    """25 us for the scale-up switch, 18 less 3.5 us of path for the network, a path; and 3.2 loops (one, 1.2 stages
    inside and one between domains) of two synchronisations of 8 ranks and posts to 8 heads."""
    found, _ = alone_us(build(64, "hgx-h100", "infiniband", sharp=True), group(np.arange(64)), 8, "nvls-sharp")
    loop_us = 2 * (MEASURED.switch_sync_us + 8 * 0.137) + 8 * MEASURED.peer_us
    assert found == pytest.approx(25 + 14.5 + 3.4 + 3.2 * loop_us, rel=0.01)


def test_collnet_direct_pays_for_every_member_and_head(build, group):
    """Its loops synchronise 2 hops of 3.7 us and 14 peers; a server of 4 ranks and heads has 6, a network of more tiers
    a longer pass."""
    times = {}
    for ranks in (np.arange(64), (np.arange(8)[:, None] * 8 + np.arange(4)).ravel()):
        cluster = build(64, "hgx-h100", "infiniband", sharp=True)
        times[len(ranks)], _ = alone_us(cluster, group(ranks), 4096, "collnet-direct")
    peers = MEASURED.peer_us * (2 * 7 - 2 * 3)
    assert times[64] - times[32] == pytest.approx((1 + 3.2) * peers, rel=0.01)


@pytest.mark.parametrize(
    ("where", "algorithm", "message"),
    [
        (("hgx-h100", "infiniband"), "nvls-sharp", "does not reduce in its switches"),
        (("hgx-h100", "uec"), "collnet-chain", "does not reduce in its switches"),
        (("mi300x-8", "infiniband", True), "collnet-direct", "scale-up switch"),
        (("gb200-nvl72", "infiniband", True), "collnet-chain", "at most 8 ranks"),
    ],
)
def test_only_where_the_fabric_reduces(build, group, where, algorithm, message):
    server, fabric, *sharp = where
    cluster = build(144, server, fabric, **({"sharp": True} if sharp else {}))
    with pytest.raises(InputError, match=message):
        alone_us(cluster, group(np.arange(144)), 1 << 20, algorithm)


def test_ethernet_switches_do_not_reduce(build):
    with pytest.raises(InputError, match="reduce"):
        build(64, "hgx-h100", "roce", sharp=True)
