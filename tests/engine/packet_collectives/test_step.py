"""The engine `packet` on clusters: against the flow engine where nothing collides, and what must hold always."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster.fabric import fabrics
from railyard.cluster.fault import DegradeLink
from railyard.cluster.topology import Dragonfly, DualPlane, FatTree, LeafSpine, RailOnly, RailOptimized, Torus
from railyard.collective import CollectivePolicy
from railyard.engine.background import Bursts
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.fabrics import settings_of
from railyard.engine.packet.placing import place
from railyard.engine.packet.records import Traffic
from railyard.engine.packet.running import run
from railyard.graph import CollectiveKind, Job, Kind, Stream

MIB = 1 << 20
EXACT = PacketEngine(samples=0)
SIXTY_FOUR, APART = tuple(range(64)), tuple(range(0, 64, 8))


def pair(rows, groups=(), *, fabric="ideal", policy=None, own=EXACT, **machine):
    """The flow engine's timeline and the packet engine's."""
    cluster = yard.machine(64, fabric, **machine)
    graph = yard.graph(64, rows, groups)
    policy = policy or CollectivePolicy()
    return engine.get("flow").simulate([Job(graph)], cluster, policy=policy), own.simulate(
        [Job(graph)], cluster, policy=policy
    )


def compute(rank, duration_ps):
    return {"kind": int(Kind.COMPUTE), "rank": rank, "duration_ps": duration_ps}


def by(kind, algorithm):
    return CollectivePolicy(algorithm={yard.word(kind): algorithm})


REDUCE, GATHER, EVERYBODY = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL

# kind, algorithm, members, MiB, how far the two engines may be apart
COLLECTIVES = [
    (REDUCE, "ring", APART, 64, 0.03),
    (GATHER, "ring", APART, 64, 0.03),
    (REDUCE, "ring", SIXTY_FOUR, 1, 0.03),
    (REDUCE, "ring", SIXTY_FOUR, 128, 0.01),
    (GATHER, "ring", SIXTY_FOUR, 256, 0.01),
    (REDUCE, "nvls-tree", SIXTY_FOUR, 1, 0.03),
    (REDUCE, "nvls-tree", SIXTY_FOUR, 64, 0.03),
    (REDUCE, "hierarchical", SIXTY_FOUR, 64, 0.02),
    (REDUCE, "halving-doubling", SIXTY_FOUR, 64, 0.02),
    (REDUCE, "direct", APART, 32, 0.05),
    (REDUCE, "tree", SIXTY_FOUR, 128, 0.08),
    (CollectiveKind.BROADCAST, "broadcast", SIXTY_FOUR, 128, 0.06),
    (CollectiveKind.BROADCAST, "broadcast", SIXTY_FOUR, 256, 0.06),
    (EVERYBODY, "pairwise", SIXTY_FOUR, 1, 0.01),
    (EVERYBODY, "pairwise", SIXTY_FOUR, 12, 0.01),
    (EVERYBODY, "pairwise", SIXTY_FOUR, 64, 0.01),
    (EVERYBODY, "hierarchical-all-to-all", SIXTY_FOUR, 64, 0.02),
]


@pytest.mark.parametrize(("kind", "algorithm", "members", "mib", "apart"), COLLECTIVES)
def test_collectives_alone_take_what_the_cost_model_says(kind, algorithm, members, mib, apart):
    flow, packet = pair([yard.collective(kind, mib * MIB)], [members], policy=by(kind, algorithm))
    assert packet.makespan_ps == pytest.approx(flow.makespan_ps, rel=apart)


@pytest.mark.parametrize(("ranks", "steps", "factor"), [(8, 14, 2 * 7 / 8), (4, 6, 2 * 3 / 4)])
def test_ring_all_reduce_is_its_closed_form(ranks, steps, factor):
    """2 (n - 1) steps of latency, and 2 (n - 1) / n of the data over the wire with its headers."""
    members = tuple(8 * rank for rank in range(ranks))
    cluster = yard.machine(64)
    policy = replace(by(REDUCE, "ring"), protocol={"all-reduce": "simple"})
    times = []
    for size in (64 * MIB, 128 * MIB):
        graph = yard.graph(64, [yard.collective(REDUCE, size)], [members])
        times.append(EXACT.simulate([Job(graph)], cluster, policy=policy).makespan_ps)
    wire_s = factor * 64 * MIB * 8 / (cluster.nic.rate_bps * cluster.fabric.payload_efficiency)
    assert (times[1] - times[0]) * 1e-12 == pytest.approx(wire_s, rel=0.02)
    assert times[0] * 1e-12 - wire_s > steps * 10e-6  # the latencies are paid too


LONG = [
    [(0, 8), (16, 8)],
    [(0, 8), (16, 8), (16, 24)],
    [(0, 8), (16, 8), (24, 8), (24, 32), (40, 32)],
]


@pytest.mark.parametrize("ends", LONG)
def test_long_flows_share_as_max_min_says(ends):
    rows = [yard.transfer(source, target, 200 * MIB) | {"stream": 3 + at} for at, (source, target) in enumerate(ends)]
    flow, packet = pair(rows)
    assert packet.end_ps == pytest.approx(flow.end_ps, rel=0.02)


def test_bytes_are_on_the_links_that_the_flow_engine_loads():
    flow, packet = pair([yard.collective(REDUCE, 64 * MIB)], [APART], policy=by(REDUCE, "ring"))
    loaded = flow.table("links")["bytes"] > 0
    assert (packet.table("links")["bytes"][loaded] > 0).all()
    # acknowledgements come on top, and one flow's goodput of a line is in the flow engine's bytes
    assert packet.table("links")["bytes"][loaded] == pytest.approx(flow.table("links")["bytes"][loaded], rel=0.03)


def test_every_byte_arrives_and_none_faster_than_light():
    _, packet = pair([yard.collective(REDUCE, 16 * MIB)], [SIXTY_FOUR], policy=by(REDUCE, "ring"), fabric="uec")
    flows = packet.parts["flows"]
    wanted = 2 * 63 / 64 * 16 * MIB * 64
    # every eighth edge leaves its server; LL128 sends 128 bytes for 120
    assert flows.size_bytes.sum() == pytest.approx(wanted / 8 * 128 / 120, rel=0.01)
    serial_ps = flows.size_bytes * 8e12 / 400e9
    assert (flows.end_ps - flows.start_ps >= serial_ps).all()


def test_equal_seeds_give_equal_bits_and_others_others():
    graph = yard.graph(64, [yard.collective(EVERYBODY, 8 * MIB)], [SIXTY_FOUR])
    cluster = yard.machine(64, "uec", LeafSpine(ports_per_leaf=8))
    one, two, other = (EXACT.simulate([Job(graph)], cluster, seed=seed) for seed in (1, 1, 2))
    assert one.digest() == two.digest()
    assert one.digest() != other.digest()


def test_slices_take_what_the_whole_takes():
    rows = [compute(rank, 2_000_000_000) for rank in APART]
    rows += [yard.collective(REDUCE, 64 * MIB) | {"stream": 2} for _ in range(6)]
    _, whole = pair(rows, [APART], fabric="uec")
    for factor in (3, 10, 40):
        budget = whole.parts["flows"].meta["packets"]["hops"] / factor
        _, part = pair(rows, [APART], fabric="uec", own=replace(EXACT, budget_hops=budget))
        assert part.meta["slice"] > 1
        assert any("slice" in said for said in part.meta["left_out"])
        assert part.makespan_ps == pytest.approx(whole.makespan_ps, rel=0.01)


@pytest.mark.parametrize("fabric", ["uec", "infiniband"])
def test_slices_agree_while_a_link_is_slow(fabric):
    """Sharded layers on two leaves, one uplink at a quarter: what adapts to it must not cost more in a slice.

    No two layers are of one size, so that none stands for another.
    """
    rows = [yard.collective(GATHER, 16 * MIB + (layer << 14)) for layer in range(6)]
    rows += [yard.collective(CollectiveKind.REDUCE_SCATTER, 16 * MIB + (n << 14)) | {"stream": 2} for n in range(3)]
    sixteen = tuple(range(0, 64, 4))
    cluster = yard.machine(64, fabric, LeafSpine(ports_per_leaf=8))
    graph = yard.graph(64, rows, [sixteen])
    uplink = int(np.flatnonzero(cluster.links.tier == cluster.links.tiers.index("leaf-spine"))[0])
    slow = [DegradeLink(0.25, link=uplink)]
    whole = EXACT.simulate([Job(graph)], cluster, faults=slow)
    hops = whole.parts["flows"].meta["packets"]["hops"]
    for factor in (3, 6):
        part = replace(EXACT, budget_hops=hops / factor).simulate([Job(graph)], cluster, faults=slow)
        assert part.meta["slice"] > factor / 2
        assert part.makespan_ps == pytest.approx(whole.makespan_ps, rel=0.05)


def test_a_run_that_is_not_sliced_is_timed_as_it_ran():
    """Durations put together again by stream order give the times of the run itself."""
    rows = [compute(0, 10_000_000), yard.transfer(0, 8, MIB) | {"deps": (0,)}, compute(8, 5_000_000)]
    rows += [compute(8, 1_000_000) | {"deps": (1,)}, yard.collective(REDUCE, MIB) | {"deps": (3,)}]
    _, packet = pair(rows, [APART])
    assert packet.start_ps[1] == packet.end_ps[0]
    assert packet.start_ps[3] == packet.end_ps[1]
    assert packet.start_ps[4] == packet.end_ps[3]
    assert packet.column("blocker").tolist()[1:] == [0, -1, 1, 3]
    flows = packet.parts["flows"]
    sent = flows.start_ps[flows.what == [label.name for label in flows.labels].index("dp all-reduce")]
    assert sent.min() >= packet.start_ps[4]
    assert flows.end_ps.max() >= packet.end_ps[4]


def test_scale_up_as_packets_reduces_in_its_switches():
    inside = tuple(range(8))
    for algorithm in ("ring", "nvls"):
        rows = [yard.collective(REDUCE, 64 * MIB)]
        flow, packet = pair(
            rows, [inside], policy=by(REDUCE, algorithm), own=PacketEngine(samples=0, scale_up="packets")
        )
        assert packet.parts["flows"].meta["packets"]["hops"] > 0
        assert packet.makespan_ps >= flow.makespan_ps * 0.9


@pytest.mark.parametrize("algorithm", ["collnet-direct", "collnet-chain", "nvls-sharp"])
def test_switches_of_the_network_reduce(algorithm):
    cluster = yard.machine(64, "infiniband", LeafSpine(ports_per_leaf=16), overrides={"sharp": True})
    graph = yard.graph(64, [yard.collective(REDUCE, 64 * MIB)], [SIXTY_FOUR])
    policy = by(REDUCE, algorithm)
    flow = engine.get("flow").simulate([Job(graph)], cluster, policy=policy)
    own = replace(EXACT, settings=settings_of(cluster, fabrics.get("uec")))
    packet = own.simulate([Job(graph)], cluster, policy=policy)
    assert packet.makespan_ps == pytest.approx(flow.makespan_ps, rel=0.2)


SHAPES = {
    "leaf-spine": LeafSpine(ports_per_leaf=8),
    "fat-tree": FatTree(k=8),
    "rail-optimized": RailOptimized(servers_per_leaf=2),
    "rail-only": RailOnly(),
    "dual-plane": DualPlane(inner=RailOptimized(servers_per_leaf=2)),
    "dragonfly": Dragonfly(p=8, a=4, h=1, uplink_bps=800e9),
    "torus": Torus(dimensions=(8, 8)),
}


@pytest.mark.parametrize("fabric", ["uec", "ideal"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_topology_carries_a_shift_to_the_next_server(shape, fabric):
    cluster = yard.machine(64, fabric, SHAPES[shape])
    placed = place(cluster, scale_up=True, packet_bytes=4160, header_bytes=64)
    ports, rank = cluster.back_end.port_of_rank[:, 0], np.arange(64)
    source = np.concatenate([ports, placed.scale_up + rank])
    target = np.concatenate([np.roll(ports, 8), placed.scale_up + rank // 8 * 8 + (rank + 1) % 8])
    settings, _ = EXACT._settings(cluster, 0)
    result = run(
        placed.network,
        Traffic.of(placed.network.hosts, source, target, 10**5),
        replace(settings, base_rtt_ps=placed.base_rtt_ps),
    )
    assert result.ended.all()
    paths = cluster.back_end.path_latency_ps(ports, np.roll(ports, 8)) - cluster.fabric.end_latency_ps
    if fabric != "ideal":
        assert (result.duration_ps[:64] >= 2 * paths).all()


def test_bursts_beside_a_step_slow_it():
    rows = [yard.collective(REDUCE, 64 * MIB)]
    _, quiet = pair(rows, [APART], fabric="uec")
    burst = Bursts("incast", ports=32, targets=8, size_bytes=10**6, every_ps=100_000_000)
    _, busy = pair(rows, [APART], fabric="uec", own=replace(EXACT, background=(burst,)))
    assert "incast beside" in [label.name for label in busy.parts["flows"].labels]
    assert busy.makespan_ps > quiet.makespan_ps
    assert "background" not in quiet.parts["flows"].tables
    flows, table = busy.parts["flows"], busy.parts["flows"].table("background")
    row, alone_ps = table["row"], table["alone_ps"]
    assert {flows.labels[label].name for label in flows.what[row]} == {"incast beside"}
    assert (flows.size_bytes[row] == 10**6).all()
    # Each of 32 ends no earlier than its own bytes take, the last no earlier than all of them do.
    assert alone_ps.min() > 10**6 * 8e12 / 400e9
    assert alone_ps.max() > 32 * 10**6 * 8e12 / 400e9
    assert len(row) % 32 == 0


# ------------------------------------------------------------------------------------------------------------ bad input


def test_free_tasks_and_releases_are_those_of_the_flow_engine():
    """Four ranks on servers of their own: two computations at once, a transfer held until 2 ms, one behind it."""
    free = {"stream": int(Stream.FREE)}
    rows = [
        compute(0, 700_000_000) | free,
        compute(0, 300_000_000) | free,
        yard.transfer(8, 16, 3 * MIB, deps=[1], release_ps=2_000_000_000) | free,
        compute(24, 50_000_000) | {"release_ps": 17_000_000} | free,
        yard.transfer(24, 0, MIB, deps=[3], release_ps=1_000_000) | free,
        yard.transfer(24, 16, MIB, deps=[2, 4]) | free,
    ]
    flow, packet = pair(rows)
    expected = [0, 0, 2_000_000_000, 17_000_000, 67_000_000]
    assert flow.start_ps[:5].tolist() == expected
    assert packet.start_ps[:5].tolist() == expected
    blockers = [record.column("blocker").tolist() for record in (packet, flow)]
    assert blockers == [[-1, -1, -1, -1, 3, 2]] * 2
    assert (packet.end_ps - packet.start_ps)[[2, 4, 5]] == pytest.approx((flow.end_ps - flow.start_ps)[[2, 4, 5]], 0.03)
    sent = np.sort(packet.parts["flows"].start_ps)
    assert sent[1] - sent[0] == pytest.approx(2_000_000_000 - 67_000_000, rel=1e-3)


@pytest.mark.parametrize("fabric", ["uec", "ideal", "roce", "infiniband", "spectrum-x", "scheduled"])
def test_a_step_is_the_same_where_nothing_is_repeated(fabric):
    """Layers of eight rings, one a rail, and sends that meet one of them at odd times."""
    repeat = fabric in {"uec", "ideal"}
    rails = [tuple(range(rail, 64, 8)) for rail in range(8)]
    layers = 6 if repeat else 2
    rows = [yard.collective(GATHER, 4 * MIB, group) | {"stream": 2} for _ in range(layers) for group in range(8)]
    rows += [compute(1, 234_567_891), yard.transfer(1, 33, 3 * MIB), compute(33, 345_678), yard.transfer(33, 17, MIB)]
    cluster = yard.machine(64, fabric, RailOptimized())
    graph = yard.graph(64, rows, rails)
    found = PacketEngine().simulate([Job(graph)], cluster)
    whole = PacketEngine(repeats=False).simulate([Job(graph)], cluster)
    assert found.digest() == whole.digest()
    ours, theirs = found.parts["flows"], whole.parts["flows"]
    np.testing.assert_array_equal(ours.end_ps, theirs.end_ps)
    assert ours.meta["packets"] == theirs.meta["packets"]
    for name, values in theirs.table("queue_series").items():
        np.testing.assert_array_equal(ours.table("queue_series")[name], values, err_msg=name)
    repeats = ours.meta["repeats"]
    assert repeats["worst_ps"] == 0
    if repeat:
        assert repeats["hops"] > 0.6 * ours.meta["packets"]["hops"]
    else:
        assert repeats["episodes"] == 0
