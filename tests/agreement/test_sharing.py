"""Who gets how much where communications meet: collisions of hashed flows, oversubscription, incast, cuts.

Collisions: N flows hashed onto N links leave (1 - 1/N)^N of them idle, so their aggregate is 63 %; the slowest of 32 on
32 gets 28, 47, 64 or 79 % with 1, 4, 16 or 64 queue pairs (Monte-Carlo means of balls into bins).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, Placement, build
from railyard.cluster.fault import DegradeLink
from railyard.cluster.topology import LeafSpine, MultiSite, RailOptimized
from railyard.collective import CollectivePolicy
from railyard.engine.background import Bursts
from railyard.engine.fluid import doubts
from railyard.engine.packet.engine import PacketEngine
from railyard.graph import CollectiveKind, Job
from railyard.work.training.graphs import build as graph_of
from railyard.work.training.spec import Layout, SoftwareProfile, Training

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


# Flow against packet where fabrics differ: a slower link, other traffic, an incast, at 64 accelerators.

SPINES = LeafSpine(ports_per_leaf=16, spines=8)
SERVERS = np.array([0, 2, 4, 6, 1, 3, 5, 7])
RANKS = (SERVERS[:, None] * 8 + np.arange(8)).ravel()
WORKS = {"ring": (CollectiveKind.ALL_GATHER, 96 << 20), "all-to-all": (CollectiveKind.ALL_TO_ALL, 12 << 20)}
BACKGROUND = {
    "healthy": (),
    "slower link": (),
    "background": (Bursts("permutation", 64, 500_000, 33_000_000),),
    "incast": (Bursts("incast", 12, 400_000, 170_000_000),),
}


def records(fabric, work, situation):
    """What the flow engine and packets find."""
    cluster = yard.machine(64, fabric, SPINES)
    kind, size = WORKS[work]
    wiring = cluster.back_end.wiring
    link = int(np.flatnonzero((wiring.source == 65) & (wiring.target == 68 + 5))[0]) + cluster.back_end.link_offset
    faults = (DegradeLink(factor=0.25, link=link),) if situation == "slower link" else ()
    job = Job(yard.graph(64, [yard.collective(kind, size)], [RANKS]))
    background = BACKGROUND[situation]
    engines = replace(engine.get("flow"), background=background), PacketEngine(samples=0, background=background)
    return [each.simulate([job], cluster, faults=faults) for each in engines]


def makespans(fabric, work, situation):
    """Their seconds."""
    return [record.makespan_ps * 1e-12 for record in records(fabric, work, situation)]


CASES = [
    (fabric, work, situation)
    for fabric in ("infiniband", "uec", "scheduled")
    for work, situation in (("all-to-all", "slower link"), ("ring", "background"), ("all-to-all", "incast"))
]
CASES.remove(("infiniband", "all-to-all", "incast"))  # below: what packets say hangs on when the burst comes


@pytest.mark.parametrize(("fabric", "work", "situation"), CASES)
def test_slowdowns_agree(fabric, work, situation):
    flow, packet = np.array(makespans(fabric, work, situation)) / makespans(fabric, work, "healthy")
    assert flow == pytest.approx(packet, rel=0.06 if situation == "slower link" else 0.13)


def test_where_packets_have_two_answers_flow_is_between_and_says_so():
    """A burst while messages begin blocks them all on `infiniband`, as credits do; a later one takes what NICs leave.

    An all-to-all's NICs wait for busy receivers a fifth of the time. Flow knows one mean of both.
    """
    cluster = yard.machine(64, "infiniband", SPINES)
    kind, size = WORKS["all-to-all"]
    job = Job(yard.graph(64, [yard.collective(kind, size)], [RANKS]))
    healthy_flow, healthy_packet = makespans("infiniband", "all-to-all", "healthy")
    slowdowns = []
    for at_us in (40, 170):
        beside = (Bursts("incast", 12, 400_000, at_us * 10**6),)
        flow = replace(engine.get("flow"), background=beside).simulate([job], cluster)
        assert any("an incast slowdowns on `infiniband`" in warning for warning in flow.meta["warnings"])
        packet = PacketEngine(samples=0, background=beside).simulate([job], cluster)
        slowdowns.append((flow.makespan_ps * 1e-12 / healthy_flow, packet.makespan_ps * 1e-12 / healthy_packet))
    (_, early), (flow_late, late) = slowdowns
    assert late < 1.05 < flow_late < 1.5 < early


def test_where_slowdowns_may_not_agree_the_result_names_the_other_engine():
    """Flow may be off by more than 10 % where other traffic shares links of `uec`, and is not on a slow uplink."""
    warned = {}
    for situation in ("background", "slower link"):
        flow, _ = records("uec", "all-to-all", situation)
        warned[situation] = any("use the engine `packet`" in warning for warning in flow.meta["warnings"])
    assert warned == {"background": True, "slower link": False}


@pytest.mark.parametrize(
    ("fabric", "topology", "told"),
    [
        ("uec", LeafSpine(ports_per_leaf=16, oversubscription=2.0), ""),
        ("spectrum-x", MultiSite(sites=2, distance_m=1e5, inner=LeafSpine()), ""),
        (
            "infiniband",
            MultiSite(sites=2, distance_m=1e5, inner=LeafSpine()),
            "with long distances between sites times on `infiniband`",
        ),
        ("infiniband-static", LeafSpine(ports_per_leaf=16), "with nothing in the way times on `infiniband-static`"),
    ],
)
def test_results_name_packets_where_whole_times_differ(fabric, topology, told):
    found = list(doubts(yard.machine(64, fabric, topology), (), ()))
    assert [one[: len(told)] for one in found] == ([told] if told else [])
    assert all(one.endswith("use the engine `packet`") for one in found)


def test_what_was_not_compared_far_apart_is_said():
    topology = MultiSite(sites=2, distance_m=1e5, inner=LeafSpine(oversubscription=2.0))
    found = " ".join(doubts(yard.machine(64, "roce", topology, overrides=(("load_balancing", "flowlet"),)), (), ()))
    assert "with long distances between sites was not compared" in found
    assert "with oversubscribed links between switches was not compared" in found


@pytest.mark.parametrize(
    ("fabric", "mib", "rel"),
    [("ideal", 32, 0.045), ("ideal", 128, 0.01), ("infiniband", 128, 0.01), ("uec", 128, 0.015)],
)
def test_a_slow_edge_of_a_ring_hides_no_launch_and_not_its_own_step(fabric, mib, rel):
    """16 ranks, one NIC that sends at half its rate: 30 steps behind it, the kernel and one step through it remain."""
    cluster = yard.machine(16, fabric, LeafSpine(ports_per_leaf=16))
    out, _ = cluster.back_end.port_links(int(cluster.back_end.port_of_rank[3, 0]))
    job = Job(yard.graph(16, [yard.collective(CollectiveKind.ALL_REDUCE, mib << 20)], [np.arange(16)]))
    faults, policy = [DegradeLink(0.5, link=int(link)) for link in out], yard.forced(CollectiveKind.ALL_REDUCE, "ring")
    engines = engine.get("flow"), PacketEngine(samples=0)
    flow, packet = (each.simulate([job], cluster, faults=faults, policy=policy).makespan_ps for each in engines)
    assert flow == pytest.approx(packet, rel=rel)


def test_a_slow_nic_is_another_doubt_than_a_slow_uplink():
    """Packets for a slow receiver fill the links before it, which credits then stop: up to 41 % longer than flow."""
    cluster = yard.machine(64, "infiniband", SPINES)
    of_nic, of_uplink = (list(doubts(cluster, (DegradeLink(0.25, tier=tier),), ())) for tier in ("nic", "leaf-spine"))
    assert any(one.startswith("with a slow NIC slowdowns on `infiniband`") for one in of_nic)
    assert not any("a slow NIC" in one for one in of_uplink)


@pytest.mark.parametrize("fabric", ["ideal", "scheduled", "spectrum-x"])
def test_a_nic_slower_than_its_waits_waits_for_nobody_in_an_all_to_all(fabric):
    """At a quarter of its rate, in place of the 0.81 that NICs of 8 servers reach: 3.2 times as long at most, not 4."""
    cluster = yard.machine(64, fabric, SPINES)
    links = np.concatenate(cluster.back_end.port_links(int(cluster.back_end.port_of_rank[3, 0])))
    job = Job(yard.graph(64, [yard.collective(CollectiveKind.ALL_TO_ALL, 32 << 20)], [RANKS]))
    faults = [DegradeLink(0.25, link=int(link)) for link in links]
    engines = engine.get("flow"), PacketEngine(samples=0)
    flow, packet = (
        each.simulate([job], cluster, faults=faults).makespan_ps / each.simulate([job], cluster).makespan_ps
        for each in engines
    )
    assert flow == pytest.approx(packet, rel=0.05)


# Engines `flow` and `packet` where switches hash: the same connections on the same links, the same times on
# the mean.

HASHED_RANKS = 32


def scattered(seed, **fabric):
    network = NetworkSpec(LeafSpine(ports_per_leaf=8), FabricSpec("roce", fabric), seed=seed)
    return build(ClusterSpec(HASHED_RANKS, "hgx-h100", network), yard.known(), Placement("scattered", 0))


def both(cluster, graph, policy=None, budget=3e8):
    packets = PacketEngine(samples=0, budget_hops=budget)
    return [line.simulate([Job(graph)], cluster, policy=policy) for line in (engine.get("flow"), packets)]


def collective(cluster, kind, algorithm, size):
    graph = yard.graph(HASHED_RANKS, [yard.collective(kind, size)], [np.arange(HASHED_RANKS)])
    return both(cluster, graph, yard.forced(kind, algorithm))


@pytest.mark.parametrize("algorithm", ["ring", "tree", "nvls-tree"])
@pytest.mark.parametrize("qps", [1, 3])
def test_both_engines_put_the_same_bytes_on_the_same_links(algorithm, qps):
    cluster = scattered(5, qps=qps)
    flow, packet = collective(cluster, CollectiveKind.ALL_REDUCE, algorithm, 16 * yard.MIB)
    links = cluster.links.of_tier("leaf-spine")
    expected, found = (line.table("links")["bytes"][links] for line in (flow, packet))
    assert np.ptp(expected) > 0.5 * expected.mean()  # hashing has made them unlike
    # Flows count what headers and one flow's ceiling (98.7 %) cost; messages end with short packets.
    assert found / found.mean() == pytest.approx(expected / expected.mean(), abs=0.03)


def test_senders_that_wait_put_no_more_bytes_on_links():
    """An all-to-all of 64 MiB a rank: three quarters of it leave a server, and 4,178 B carry 4,096."""
    cluster = scattered(5)
    _, packet = collective(cluster, CollectiveKind.ALL_TO_ALL, "pairwise", 64 * yard.MIB)
    out = packet.table("links")["bytes"][cluster.links.of_tier("nic")].sum() / 2
    assert out == pytest.approx(HASHED_RANKS * 0.75 * 64 * yard.MIB * 4178 / 4096, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "algorithm", "mib", "seeds"),
    [("ALL_REDUCE", "ring", 64, 6), ("ALL_GATHER", "ring", 256, 6), ("ALL_TO_ALL", "pairwise", 64, 4)],
)
def test_collectives_agree_on_the_mean(kind, algorithm, mib, seeds):
    took = [
        [line.makespan_ps for line in collective(scattered(seed), CollectiveKind[kind], algorithm, mib * yard.MIB)]
        for seed in range(seeds)
    ]
    flow, packet = np.mean(took, axis=0)
    assert packet == pytest.approx(flow, rel=0.035)


@pytest.mark.slow
def test_a_step_agrees_and_the_slice_does_not_move_it():
    """A slice of 8 against the whole step. In one of 25, of shorter messages, DCQCN looks for its rates 4 % longer."""
    cluster = scattered(1)
    layout = Layout(dp=HASHED_RANKS, zero=3, micro_batch=1, global_batch=HASHED_RANKS)
    profile = SoftwareProfile(name="test")
    job = Training(model=yard.known().model("llama-3.2-1b"), layout=layout, seq_len=2048, software=profile)
    graph = graph_of(job, cluster)
    flow, slice_of_8 = (line.makespan_ps for line in both(cluster, graph, budget=6e6))
    whole = both(cluster, graph, budget=6e7)[1]
    assert whole.meta["slice"] == 1
    assert whole.makespan_ps == pytest.approx(flow, rel=0.01)
    assert slice_of_8 == pytest.approx(whole.makespan_ps, rel=0.02)
