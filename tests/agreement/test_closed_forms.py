"""The flow engine and the lowering against closed forms, on every topology.

Time = latency + bytes x factor / rate of the slowest link. Factors are those of the literature (see `traffic.py`); the
rates come from what was asked for: 100 Gb/s NICs, so that nothing but the network limits, and links between switches of
the efficiency that the fabric states. A network whose fabric sprays is limited by its cuts: what must leave a leaf, a
pod or a site over what its links carry.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import traffic, yard
from tests.agreement.test_engines import DENSE, SHAPES, SIZES, job

from railyard import engine
from railyard.cluster import fabrics, topologies
from railyard.cluster.fault import Late
from railyard.cluster.topology import (
    BCube,
    Dragonfly,
    DualPlane,
    FatTree,
    LeafSpine,
    MultiSite,
    Optical,
    RailOnly,
    RailOptimized,
    ThreeTier,
    Torus,
    ZCube,
)
from railyard.collective import CollectivePolicy
from railyard.graph import CollectiveKind, Job
from railyard.measure.decompose import decompose, lockstep
from railyard.work.training.graphs import build

NIC_BPS = 100e9
GOODPUT = 4096 / (4096 + 82)  # RoCEv2 framing at an MTU of 4096
SPRAYED = 0.987 * GOODPUT  # what one RDMA flow was measured to reach of that
SHARED = 0.95  # spectrum-x: links between switches

# All-to-alls among 8 servers: an input-queued switch of 7 outputs blocks 0.3766 (Karol 1987), one of very many 0.4142,
# of which NICs lose the 0.21 that 32 MI355X show.
WAITING = {"all-to-all": 1 - 0.21 * (1 - 0.6234) / (2**0.5 - 1)}

# H100: 18 links of 20.6 GB/s (NCCL's constant), of which published logs show 90.6 % in kernels that copy.
SCALE_UP_BPS = 0.906 * 18 * 20.6e9 * 8

CLOSED_FORMS_SHAPES = {
    "leaf-spine": LeafSpine(ports_per_leaf=8),
    "three-tier": ThreeTier(ports_per_leaf=8, leafs_per_pod=2),
    "fat-tree": FatTree(k=8),
    "rail-optimized": RailOptimized(servers_per_leaf=2),
    "rail-only": RailOnly(),
    "dual-plane": DualPlane(inner=RailOptimized(servers_per_leaf=2)),
    "dragonfly": Dragonfly(p=8, a=4, h=1, uplink_bps=800e9),
    "torus": Torus(dimensions=(8, 8)),
    "bcube": BCube(),
    "zcube": ZCube(),
    "optical": Optical(ports_per_leaf=8),
    "multi-site": MultiSite(sites=2, distance_m=1000.0, oversubscription=1.0, inner=LeafSpine(ports_per_leaf=8)),
}

EACH, PAIRS, HALVES, ALL = range(8), np.arange(8) // 2, np.arange(8) // 4, np.zeros(8, int)

# For each topology: which servers share a group, and how many NICs' worth of links leave it on one rail's account.
CUTS = {
    "leaf-spine": [(EACH, 1)],
    "three-tier": [(EACH, 1), (PAIRS, 2)],
    "fat-tree": [(EACH, 1), (PAIRS, 2)],
    "rail-optimized": [(PAIRS, 2)],
    "rail-only": [(ALL, 1)],
    "dual-plane": [(PAIRS, 2)],
    "multi-site": [(EACH, 1), (HALVES, 4)],
}

WAYS = list(traffic.BETWEEN)


def kind_of(name):
    return CollectiveKind[name.upper().replace("-", "_")]


def cluster_of(topology, fabric):
    return yard.machine(64, fabric, CLOSED_FORMS_SHAPES[topology], link_rate_bps=NIC_BPS)


def inside_s(kind, algorithm):
    """Seconds in scale-up before or after the network, in algorithms whose phases follow one another."""
    return 8 * yard.GIB * traffic.INSIDE.get((kind, algorithm), 0.0) / SCALE_UP_BPS


def rate_of(line, bytes_per_byte, kind="", algorithm=""):
    """Goodput in bit/s of a link that carries `bytes_per_byte` of the collective's size."""
    return 8 * yard.GIB * bytes_per_byte / (yard.moving_s(line)[0] - inside_s(kind, algorithm))


def test_every_family_is_here():
    assert set(CLOSED_FORMS_SHAPES) == set(topologies.names())


@pytest.mark.parametrize("topology", CLOSED_FORMS_SHAPES)
@pytest.mark.parametrize(("kind", "algorithm"), WAYS)
def test_on_a_crossbar_only_the_nics_count(topology, kind, algorithm):
    cluster = cluster_of(topology, "ideal")
    busiest = traffic.nic(traffic.BETWEEN[kind, algorithm])
    framing = cluster.fabric.mtu_bytes / (cluster.fabric.mtu_bytes + cluster.fabric.header_bytes)
    line = yard.one(cluster, kind_of(kind), algorithm)
    nic_bps = NIC_BPS * framing * WAITING.get(kind, 1.0)
    assert rate_of(line, busiest, kind, algorithm) == pytest.approx(nic_bps, rel=1e-6)


@pytest.mark.parametrize("topology", CUTS)
@pytest.mark.parametrize(("kind", "algorithm"), WAYS)
def test_sprayed_networks_are_limited_by_their_cuts(topology, kind, algorithm):
    between = traffic.BETWEEN[kind, algorithm]
    cluster = cluster_of(topology, "spectrum-x")
    seconds = [traffic.nic(between) / WAITING.get(kind, 1.0)]
    seconds += [traffic.crossing(between, groups) / (links * SHARED) for groups, links in CUTS[topology]]
    line = yard.one(cluster, kind_of(kind), algorithm)
    network_s = max(seconds) * 8 * yard.GIB / (NIC_BPS * SPRAYED)
    assert yard.moving_s(line)[0] == pytest.approx(network_s + inside_s(kind, algorithm), rel=1e-6)


@pytest.mark.parametrize(("kind", "algorithm"), [way for way in WAYS if way[0] != "all-to-all"])
def test_a_torus_is_limited_by_its_busiest_link(kind, algorithm):
    """Servers stand along the second axis, so data goes round that axis, over links of a quarter of a NIC's rate."""
    busiest = traffic.on_a_circle(traffic.BETWEEN[kind, algorithm])
    line = yard.one(cluster_of("torus", "spectrum-x"), kind_of(kind), algorithm)
    assert rate_of(line, busiest, kind, algorithm) == pytest.approx(NIC_BPS / 4 * SHARED * SPRAYED, rel=1e-6)


def test_an_all_to_all_on_a_torus_is_bound_by_its_links():
    """They have a quarter of a NIC's rate, so NICs that wait for one another cost nothing."""
    busiest = traffic.on_a_circle(traffic.BETWEEN["all-to-all", "pairwise"])
    line = yard.one(cluster_of("torus", "spectrum-x"), CollectiveKind.ALL_TO_ALL, "pairwise")
    assert rate_of(line, busiest) == pytest.approx(NIC_BPS / 4 * SHARED * SPRAYED, rel=1e-6)


FAR = MultiSite(sites=2, distance_m=50_000.0, oversubscription=1.0, inner=LeafSpine(ports_per_leaf=8))


def test_distance_is_paid_where_a_ring_crosses_it():
    """A chunk goes round twice; of eight hops a round two are 50 km, 250 us each."""
    near, far = CLOSED_FORMS_SHAPES["multi-site"], FAR
    latency = [
        yard.one(yard.machine(64, "spectrum-x", shape), CollectiveKind.ALL_REDUCE, "ring").column("latency_ps")[0]
        * 1e-6
        for shape in (near, far)
    ]
    assert latency[1] - latency[0] == pytest.approx(2 * 2 * (250 - 5), rel=0.15)


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_a_dragonfly_ring_fills_the_link_between_two_routers(algorithm):
    """One server a router: eight NICs of 100 Gb/s over one link of 800 Gb/s to the next router."""
    busiest = traffic.nic(traffic.BETWEEN["all-reduce", algorithm])
    line = yard.one(cluster_of("dragonfly", "spectrum-x"), CollectiveKind.ALL_REDUCE, algorithm)
    assert rate_of(line, busiest, "all-reduce", algorithm) == pytest.approx(NIC_BPS * SHARED * SPRAYED, rel=1e-6)


def test_a_dragonfly_with_equal_links_takes_as_many_times_longer_as_nics_share_one():
    thin = yard.machine(64, "spectrum-x", Dragonfly(p=8, a=4, h=1), link_rate_bps=NIC_BPS)
    busiest = traffic.nic(traffic.BETWEEN["all-reduce", "ring"])
    line = yard.one(thin, CollectiveKind.ALL_REDUCE, "ring")
    assert rate_of(line, busiest) == pytest.approx(NIC_BPS / 8 * SHARED * SPRAYED, rel=1e-6)


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter"])
def test_inside_a_switched_domain_a_ring_runs_at_the_rate_that_libraries_plan(kind):
    """8 H100: 18 links of 20.6 GB/s (NCCL's constant for this generation)."""
    cluster = yard.machine(8)
    line = yard.one(cluster, kind_of(kind), "ring")
    passes = 2 if kind == "all-reduce" else 1
    bus_gbs = yard.GIB * passes * 7 / 8 / yard.moving_s(line)[0] / 1e9
    assert bus_gbs == pytest.approx(18 * 20.6, rel=1e-3)


def test_a_ring_that_gathers_stays_below_the_plan_as_published_plateaus_do():
    """223 of 240 GB/s (8 A100), 329 of 360 (2 x 8 H200), 672 of 722 (8 B200): 0.92 in the mean."""
    line = yard.one(yard.machine(8), kind_of("all-gather"), "ring")
    bus_gbs = yard.GIB * 7 / 8 / yard.moving_s(line)[0] / 1e9
    measured = (223 / 240 + 329 / 360 + 672 / 722) / 3
    assert bus_gbs / (18 * 20.6) == pytest.approx(measured, rel=0.04)


ONE_SWITCH = {"leaf-spine": LeafSpine(), "rail-optimized": RailOptimized(), "rail-only": RailOnly()}

# Steps that follow one another: through NICs (fewest, most), and inside a server (most).
STEPS = {"ring": (14, 16, 112), "tree": (6, 6, 14), "halving-doubling": (6, 6, 6), "hierarchical": (14, 14, 2)}


@pytest.mark.parametrize("topology", ONE_SWITCH)
@pytest.mark.parametrize("algorithm", STEPS)
@pytest.mark.parametrize("fabric", ["ideal", "infiniband", "roce", "spectrum-x", "uec", "scheduled"])
def test_latency_is_steps_times_a_path(topology, algorithm, fabric):
    """At least every step's path of NICs, cables and one switch; at most with NCCL's 14 us a step beside it."""
    cluster = yard.machine(64, fabric, ONE_SWITCH[topology])
    record = cluster.fabric
    path_us = (record.nic_latency_ps + record.setup_latency_ps + record.hop_latency_ps) * 1e-6
    fewest, most, inside = STEPS[algorithm]
    found_us = yard.one(cluster, CollectiveKind.ALL_REDUCE, algorithm, 1024).column("latency_ps")[0] * 1e-6
    cables_us = 2 * 100.0 * 5e-3  # two cables, none longer than 100 m
    assert fewest * path_us <= found_us <= most * (path_us + cables_us + 14) + inside * 4 + 20


@pytest.mark.parametrize("fabric", ["ideal", "roce", "infiniband", "spectrum-x"])
def test_collisions_never_help(fabric):
    """Hashed or not, no fabric beats its own NICs on any topology."""
    for topology in CLOSED_FORMS_SHAPES:
        if topology == "dragonfly" and fabric == "infiniband":
            continue  # its switches have no port of 800 Gb/s
        cluster = cluster_of(topology, fabric)
        for (kind, algorithm), between in traffic.BETWEEN.items():
            line = yard.one(cluster, kind_of(kind), algorithm)
            bound = NIC_BPS * cluster.fabric.payload_efficiency * (1 + 1e-9)
            assert rate_of(line, traffic.nic(between), kind, algorithm) <= bound, (topology, kind, algorithm)


# `ideal` is the upper bound: no fabric is faster, for the same algorithms, in one collective or in a whole
# step.

REAL = [name for name in fabrics.names() if name != "ideal"]
LEAFS = RailOptimized(servers_per_leaf=2)

# Steps may differ by this for another reason: a communication that ends earlier can meet others at a worse moment.
ANOMALY = 1 + 5e-4


@pytest.mark.parametrize("fabric", REAL)
def test_goodput_of_a_nic_is_at_most_the_ideal_one(fabric):
    assert fabrics.get(fabric).payload_efficiency <= fabrics.get("ideal").payload_efficiency


@pytest.mark.parametrize("fabric", REAL)
@pytest.mark.parametrize("server", ["hgx-h100", "hgx-b200", "mi300x-8"])
def test_no_fabric_beats_ideal_in_a_collective(fabric, server):
    ideal, real = (yard.machine(64, name, LEAFS, server) for name in ("ideal", fabric))
    for kind in yard.KINDS:
        for where, ranks in SHAPES.items():
            bound = yard.table(ideal, kind, SIZES, list(ranks)).alone_ps
            found = yard.table(real, kind, SIZES, list(ranks)).alone_ps
            assert (found >= bound).all(), (kind, where)


@pytest.mark.parametrize("fabric", REAL)
def test_no_fabric_beats_ideal_with_the_same_algorithm(fabric):
    ideal, real = (yard.machine(64, name, LEAFS, link_rate_bps=100e9) for name in ("ideal", fabric))
    for kind, algorithm in traffic.BETWEEN:
        what = CollectiveKind[kind.upper().replace("-", "_")]
        bound, found = (yard.one(cluster, what, algorithm).makespan_ps for cluster in (ideal, real))
        assert bound <= found, (kind, algorithm)


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("fabric", REAL)
def test_no_fabric_beats_ideal_in_a_step(name, fabric):
    model, layout = DENSE[name]
    policy = CollectivePolicy(selector="best")
    what, steps = job(model, **layout), []
    for each in ("ideal", fabric):
        cluster = yard.machine(64, each, LEAFS)
        steps.append(engine.get("flow").simulate([Job(build(what, cluster))], cluster, policy=policy).makespan_ps)
    assert steps[0] <= steps[1] * ANOMALY


@pytest.mark.parametrize("name", ["pipeline", "data", "context"])
@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
def test_a_fabric_makes_no_difference_where_no_nic_is_used(name, fabric):
    """64 GPUs in one scale-up domain of 72: what lies behind their NICs cannot matter."""
    model, layout = DENSE[name]
    steps = []
    for each in ("ideal", fabric):
        cluster = yard.machine(64, each, LEAFS, "gb200-nvl72")
        steps.append(engine.get("flow").simulate([Job(build(job(model, **layout), cluster))], cluster).makespan_ps)
    assert steps[0] == pytest.approx(steps[1], rel=1e-9)


# The lockstep fact: one GPU of 10,000 late by 20 us costs 0.2 GPU-seconds per collective.

RANKS, US = 10_000, 1_000_000
LATE = 4321


def steps(count):
    """`count` times: every rank computes 1 ms, then all reduce 64 MiB together."""
    rows = []
    for _ in range(count):
        rows += [{"rank": rank, "duration_ps": 1000 * US} for rank in range(RANKS)]
        rows.append(yard.collective(CollectiveKind.ALL_REDUCE, 64 * yard.MIB, stream=0))
    return yard.graph(RANKS, rows, [np.arange(RANKS)])


@pytest.mark.parametrize("collectives", [1, 3])
def test_one_of_ten_thousand_late_by_20_us(collectives):
    cluster = yard.machine(RANKS, "infiniband", RailOptimized())
    what = steps(collectives)
    calm = engine.get("flow").simulate([Job(what)], cluster)
    each = calm.makespan_ps // collectives
    faults = [Late(rank=LATE, by_ps=20 * US, at_ps=each * index) for index in range(collectives)]
    late = engine.get("flow").simulate([Job(what)], cluster, faults=faults)
    assert late.makespan_ps - calm.makespan_ps == 20 * US * collectives
    assert lockstep(decompose(calm)).gpu_seconds_lost_to_stragglers == 0
    found = lockstep(decompose(late))
    assert found.gpu_seconds_lost_to_stragglers == pytest.approx(9_999 * 20e-6 * collectives, rel=1e-9)
    assert found.gpu_seconds_lost_to_stragglers == pytest.approx(0.2 * collectives, rel=1e-3)
    assert found.events == collectives
    assert found.worst_ranks[0].rank == LATE
