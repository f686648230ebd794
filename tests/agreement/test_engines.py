"""`analytic` against `flow` where nothing contends, and both against the closed form of a whole step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agreement import traffic, yard

from railyard import engine
from railyard.cluster import notes_of
from railyard.cluster.credits import headroom_bytes
from railyard.cluster.topology import LeafSpine, MultiSite, RailOptimized, ThreeTier
from railyard.collective import CollectivePolicy
from railyard.engine.background import BurstFlows, Bursts, _entities, until
from railyard.engine.packet.engine import PacketEngine
from railyard.graph import CollectiveKind, Job
from railyard.graph import CollectiveKind as Kind
from railyard.model.machine import Machine
from railyard.work.training.designs import estimate
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training


def both(what, cluster, **more):
    return [engine.get(name).simulate([Job(what)], cluster, **more) for name in ("flow", "analytic")]


@pytest.mark.parametrize("size", [4096, yard.MIB, yard.GIB])
@pytest.mark.parametrize(("kind", "algorithm"), traffic.BETWEEN)
@pytest.mark.parametrize("fabric", ["ideal", "roce", "scheduled"])
def test_a_single_collective_is_alone_on_both(kind, algorithm, size, fabric):
    cluster = yard.machine(64, fabric, RailOptimized())
    kind = CollectiveKind[kind.upper().replace("-", "_")]
    flow, analytic = (yard.one(cluster, kind, algorithm, size, name=name) for name in ("flow", "analytic"))
    assert flow.makespan_ps == pytest.approx(analytic.makespan_ps, rel=1e-6)
    assert flow.makespan_ps == pytest.approx(flow.column("alone_ps")[0], rel=1e-6)


@pytest.mark.parametrize("size", [100, 10_000, yard.MIB, yard.GIB])
@pytest.mark.parametrize("target", [1, 7, 8, 9, 63])
def test_a_single_transfer_is_alone_on_both(target, size):
    cluster = yard.machine(64, "roce", LeafSpine(ports_per_leaf=8))
    flow, analytic = (yard.transfers(cluster, [(0, target)], size, name=name) for name in ("flow", "analytic"))
    assert flow.makespan_ps == pytest.approx(analytic.makespan_ps, rel=1e-6)
    rate_bps = 450e9 * 8 if target < 8 else 400e9
    assert flow.makespan_ps * 1e-12 >= 8 * size / rate_bps


def test_transfers_that_share_nothing_do_not_notice_one_another():
    cluster = yard.machine(64, "ideal")
    ends = [(rank, (rank + 8) % 64) for rank in range(64)]
    flow, analytic = (yard.transfers(cluster, ends, name=name) for name in ("flow", "analytic"))
    assert np.allclose(flow.end_ps, analytic.end_ps, rtol=1e-6)


DENSE = {
    "data": ("llama-3-8b", {"tp": 2, "dp": 32, "global_batch": 128}),
    "fsdp": ("llama-3-8b", {"dp": 64, "zero": 3, "global_batch": 128}),
    "pipeline": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "global_batch": 64}),
    "interleaved": (
        "llama-3-70b",
        {"tp": 8, "pp": 4, "dp": 2, "vp": 5, "schedule": "interleaved", "global_batch": 64},
    ),
    "zero-bubble": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "schedule": "zero-bubble", "global_batch": 64}),
    "context": ("llama-3-70b", {"tp": 8, "pp": 2, "dp": 2, "cp": 2, "global_batch": 32}),
}


def job(model, **layout):
    return Training(
        model=yard.known().model(model), layout=Layout(**layout), seq_len=8192, software=SoftwareProfile(name="test")
    )


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("server", ["hgx-h100", "hgx-a100", "mi300x-8"])
def test_dense_steps_on_ideal_agree_within_3_percent(name, server):
    model, layout = DENSE[name]
    cluster = yard.machine(64, "ideal", RailOptimized(), server)
    flow, analytic = both(build(job(model, **layout), cluster), cluster)
    # A communication that ends earlier can meet another at a worse moment.
    assert analytic.makespan_ps <= flow.makespan_ps * (1 + 5e-4)
    assert flow.makespan_ps == pytest.approx(analytic.makespan_ps, rel=0.03)


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("server", ["hgx-h100", "hgx-a100"])
def test_dense_steps_follow_the_closed_form(name, server):
    model, layout = DENSE[name]
    cluster = yard.machine(64, "ideal", RailOptimized(), server)
    found = engine.get("flow").simulate([Job(build(job(model, **layout), cluster))], cluster).makespan_ps * 1e-12
    expected = float(estimate([job(model, **layout)], [Machine.of(cluster)]).step_s[0])
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("server", ["mi300x-8", "gaudi3-8"])
def test_tensor_parallelism_of_two_on_a_mesh_follows_the_closed_form(server):
    cluster = yard.machine(64, "ideal", RailOptimized(), server)
    what = job("llama-3-8b", tp=2, dp=32, global_batch=128)
    found = engine.get("flow").simulate([Job(build(what, cluster))], cluster).makespan_ps * 1e-12
    expected = float(estimate([what], [Machine.of(cluster)]).step_s[0])
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("ctas", [0, 20, 50])
@pytest.mark.parametrize("name", ["data", "fsdp", "interleaved"])
def test_what_collectives_take_from_computation_is_the_same_in_both(name, ctas):
    """Reductions over slow NICs run under most of a pass; the more compute units they hold, the longer the step."""
    model, layout = DENSE[name]
    software = SoftwareProfile(name="test", data_ctas=ctas)
    what = job(model, **layout).replace(software=software)
    cluster = yard.machine(64, "ideal", RailOptimized(), link_rate_bps=2e11)
    free = what.replace(software=SoftwareProfile(name="test", data_ctas=0))
    graphs = [build(each, cluster) for each in (what, free)]
    found, base = (engine.get("flow").simulate([Job(graph)], cluster).makespan_ps * 1e-12 for graph in graphs)
    expected, nothing = (float(step) for step in estimate([what, free], [Machine.of(cluster)] * 2).step_s)
    # The closed form hides half of a step's reductions (`gradient_overlap`), the graph whatever fits under a pass.
    assert found == pytest.approx(expected, rel=0.08 if name == "data" else 0.05)
    # Each stage of a pipeline loses what the closed form counts once.
    assert 0.3 * (expected - nothing) <= found - base <= expected - nothing + 0.03 * base


@pytest.mark.parametrize("shard", [8, 16])
@pytest.mark.parametrize("batch", [64, 256])
def test_hybrid_sharding_follows_the_closed_form(shard, batch):
    """Shards inside a server or over two, their sums over the others behind each scatter, one micro-batch or four."""
    cluster = yard.machine(64, "ideal", RailOptimized())
    what = job("llama-3-8b", dp=64, zero=3, fsdp_shard=shard, global_batch=batch)
    found = engine.get("flow").simulate([Job(build(what, cluster))], cluster).makespan_ps * 1e-12
    assert found == pytest.approx(float(estimate([what], [Machine.of(cluster)]).step_s[0]), rel=0.03)


def test_dualpipe_follows_the_closed_form():
    cluster = yard.machine(512, "ideal", RailOptimized(), "hgx-h800")
    what = job(
        "deepseek-v3", pp=16, dp=32, ep=32, global_batch=32 * 60, schedule="dualpipe", overlap_expert=True
    ).replace(seq_len=4096)
    found = engine.get("flow").simulate([Job(build(what, cluster))], cluster).makespan_ps * 1e-12
    assert found == pytest.approx(float(estimate([what], [Machine.of(cluster)]).step_s[0]), rel=0.05)


# Bytes are conserved, nothing beats physics, a run is a function of its input.

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


# Two sites from 1 to 1,000 km apart: flow and packet engine within 10 %, and what credits, slots and pauses
# leave.

PACKETS = PacketEngine(samples=0)
ALL = tuple(range(16))
KM = (1, 10, 80, 1000)


def sites(fabric, km, *, links=None, overrides=(), **network):
    topology = MultiSite(sites=2, distance_m=1e3 * km, links=links, oversubscription=1.0, inner=LeafSpine())
    return yard.machine(16, fabric, topology, overrides=overrides, **network)


def milliseconds(own, cluster, case):
    kind, algorithm, size, members = case
    graph = yard.graph(16, [yard.collective(kind, size)], [members])
    protocol = {"all-gather": "simple"}  # two steps in flight; of LL128's eight packets lose up to 23 % at 10 km
    policy = CollectivePolicy(algorithm={yard.word(kind): algorithm}, protocol=protocol)
    return own.simulate([Job(graph)], cluster, policy=policy).makespan_ps / 1e9


EXCHANGE, TURN, GATHER = (
    (Kind.ALL_TO_ALL, "pairwise", 64 * yard.MIB, ALL),
    (Kind.ALL_REDUCE, "ring", 64 * yard.MIB, ALL),
    (Kind.ALL_GATHER, "ring", 256 * yard.MIB, ALL),
)
CASES = [
    *(
        (fabric, case)
        for fabric in ("infiniband", "spectrum-x", "uec", "scheduled")
        for case in (EXCHANGE, TURN, GATHER)
    ),
    ("roce", (Kind.ALL_TO_ALL, "pairwise", 64 * yard.MIB, (0, 8))),  # one flow a NIC: with more, hashes decide
]


@pytest.mark.parametrize("km", KM)
@pytest.mark.parametrize(("fabric", "case"), CASES)
def test_engines_agree_at_every_distance(fabric, case, km):
    cluster = sites(fabric, km)
    flow, packet = (milliseconds(own, cluster, case) for own in (engine.get("flow"), PACKETS))
    assert packet == pytest.approx(flow, rel=0.1)


def test_an_exchange_is_no_faster_than_light():
    """Four servers on two sites: half of the next ones are near, and the data waits for the far ones all the same."""
    topology = MultiSite(sites=2, distance_m=1e6, oversubscription=1.0, inner=LeafSpine())
    graph = yard.graph(32, [yard.collective(Kind.ALL_TO_ALL, 4096)], [np.arange(32)])
    policy = CollectivePolicy(algorithm={"all-to-all": "pairwise"})
    line = engine.get("flow").simulate([Job(graph)], yard.machine(32, "uec", topology), policy=policy)
    assert line.makespan_ps / 1e9 > 1e6 * 1.468 / 299_792_458 * 1e3


@pytest.mark.parametrize(("km", "gbps"), [(10, 8.887), (80, 1.117), (1000, 0.08942)])
def test_a_lane_s_credits_by_hand(km, gbps):
    """128 KiB less 16 KiB, told of late, over 2 x (5.13 us a km + 0.35 us)."""
    links = sites("infiniband", km).links
    assert links.rate_bps[links.of_tier("inter-site")] / 1e9 == pytest.approx(gbps, rel=1e-3)


def test_credits_do_not_grow_with_the_rate_but_with_the_latency():
    links = sites("infiniband", 80).links
    faster = links.scaled(np.full(len(links), 2.0), latency=0.5)
    long_links = links.of_tier("inter-site")
    assert faster.rate_bps[long_links] == pytest.approx(2 * links.rate_bps[long_links])
    assert links.scaled(np.full(len(links), 2.0)).rate_bps[long_links] == pytest.approx(links.rate_bps[long_links])
    assert links.degraded(long_links, 0.25)[long_links] == pytest.approx(links.rate_bps[long_links])


@pytest.mark.parametrize(("km", "share"), [(20, 1.0), (40, 1.0), (120, 1 / 3)])
def test_boxes_for_long_links_hold_the_credits_of_their_reach(km, share):
    """MetroX: 40 km at 100 Gb/s; beyond, what 40 km hold goes over the longer round trip."""
    cluster = sites("infiniband", km, links=2, border_switch="MetroX-3")
    links = cluster.links
    assert links.reach_bps[links.of_tier("inter-site")].min() / 100e9 == pytest.approx(share, rel=0.005)
    flow, packet = (milliseconds(own, cluster, EXCHANGE) for own in (engine.get("flow"), PACKETS))
    assert packet == pytest.approx(flow, rel=0.1)


def test_slots_of_the_library_bound_a_ring_by_hand():
    """1,000 km: 30 steps of 4 MiB twice round, two of them on the way: 30 round trips less the last way back."""
    one_way_ms = 1000e3 * 5.13e-6 + 0.006
    took = milliseconds(engine.get("flow"), sites("uec", 1000), (Kind.ALL_REDUCE, "ring", yard.GIB, ALL))
    assert took == pytest.approx(59 * one_way_ms, rel=0.01)


def test_a_credit_of_a_scheduled_fabric_goes_there_and_back_first():
    ports = sites("scheduled", 80).back_end.port_of_rank[:, 0]
    near, far = (sites("scheduled", km).back_end.path_latency_ps(ports[[0]], ports[[8]])[0] for km in (1, 80))
    assert far - near == pytest.approx(3 * 79e3 * 5130, rel=1e-6)


def test_headroom_grows_with_distance():
    """800 Gb/s over 80 km: 82.08 MB fly, beside three frames and a pause."""
    assert headroom_bytes(800e9, 80_000.0) == 82_080_000 + 3 * 9216 + 64
    plan = sites("roce", 80).plans["back_end"]
    assert plan.headroom_needed_bytes == headroom_bytes(800e9, 80_000.0)
    assert plan.headroom_left_bytes == 173_000_000 // 2 // 4  # four long links share half of Tomahawk 5's buffer


@pytest.mark.parametrize(("km", "links", "times"), [(100, 4, 1.234), (300, 2, 1.385), (1000, 4, 3.902)])
def test_incasts_beyond_too_little_headroom_are_sent_again(km, links, times):
    """1 + (needed / had - 1) / 16: 102.6, 307.8 and 1,026 MB needed, 21.6 or 43.3 had; none on `spectrum-x`."""
    plan = sites("roce", km, links=links).plans["back_end"]
    assert 1 / plan.crowded_share == pytest.approx(times, rel=2e-3)
    assert sites("roce", km, links=links, border_switch="7800R4").plans["back_end"].crowded_share == 1
    assert sites("spectrum-x", km, links=links).plans["back_end"].crowded_share == 1


def test_an_incast_of_another_site_takes_so_many_times_as_long_in_flow():
    burst = Bursts("incast", 8, 8_000_000, 10**9)
    both = [sites("roce", 1000, links=4, border_switch=border) for border in (None, "7800R4")]
    bursts = [tuple(until(cluster, (burst,), 1)) for cluster in both]
    short, full = (_entities(cluster, BurstFlows.of(one)) for cluster, one in zip(both, bursts, strict=True))
    moving = [entities.even_ps - entities.latency_ps for entities in (short, full)]
    assert (moving[0] / moving[1]).max() == pytest.approx(3.902, rel=0.01)
    assert (moving[0] / moving[1]).min() == pytest.approx(1.0, rel=0.01)  # those of the receiver's site


def test_warnings_say_what_distance_takes():
    assert "credits leave 1.12 of 400 Gb/s" in " ".join(notes_of(sites("infiniband", 80)))
    assert "82.1 MB of headroom, tomahawk-5 leaves it 21.6 MB" in " ".join(notes_of(sites("roce", 80)))
    assert not list(notes_of(sites("roce", 80, border_switch="7800R4")))
    assert not list(notes_of(sites("uec", 80)))
    assert "not priced" in " ".join(notes_of(sites("uec", 5000)))
