"""Curves of collectives: between powers of two near what the engine takes, longer where bytes take longer."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.topology import LeafSpine
from railyard.collective import (
    ALGORITHMS,
    Case,
    CollectivePolicy,
    Steps,
    choose,
    connections,
    lower_collectives,
    lower_transfers,
)
from railyard.collective.choice import choose_many, predicted_us
from railyard.collective.chunks import tree_chunk_bytes, window_s
from railyard.collective.curves import Curves, Library
from railyard.collective.machine import Shape, machine_of
from railyard.collective.timing import timing
from railyard.graph import CollectiveKind
from railyard.graph import CollectiveKind as Kind


@cache
def yard():
    return cluster.build(
        ClusterSpec(96, "hgx-h100", NetworkSpec(LeafSpine(), FabricSpec("infiniband"))), catalog.load()
    )


@pytest.mark.parametrize(("ranks", "local"), [(4, 4), (24, 8), (12, 1), (12, 8)])
@pytest.mark.parametrize("kind", [CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL])
def test_curves_are_what_the_library_is_predicted_to_take(kind, ranks, local):
    full, rest = divmod(ranks, local)
    counts = (local,) * full + ((rest,) if rest else ())
    shape = Shape(ranks, len(counts), local, counts if rest else (), aligned=not rest, ports=local)
    size = np.array([3e4, 5e6, 7e8])
    wanted = choose_many(kind, size, shape, machine_of(yard())).time_us * 1e-6
    curves = Curves.of([Library.of(yard())] * 3)
    found = curves.seconds(kind, size, (np.full(3, ranks), np.full(3, local)), None)
    assert found == pytest.approx(wanted, rel=0.05)


def test_bytes_that_take_longer_on_nics_lengthen_what_nics_bound():
    curves, size = Curves.of([Library.of(yard())] * 2), np.array([4e9, 4e9])
    group = (np.array([12.0, 12.0]), np.array([1.0, 1.0]))
    longer = (np.array([1.0, 1.0]), np.array([1.0, 2.0]), np.array([7.0, 7.0]))  # so large, no trees
    plain, twice = curves.seconds(CollectiveKind.ALL_GATHER, size, group, longer)
    assert twice / plain == pytest.approx(2.0, rel=0.02)
    assert curves.seconds(CollectiveKind.ALL_GATHER, size, (np.ones(2), np.ones(2)), longer).tolist() == [0.0, 0.0]


def test_where_the_library_changes_only_one_side_counts():
    """Twelve ranks, one a server: aggregated trees up to some size, rings beyond; never a mean of the two."""
    size = 2.0 ** np.arange(20, 30, 1 / 64)
    choices = choose_many(CollectiveKind.ALL_GATHER, size, Shape(12, 12, 1, ports=1), machine_of(yard()))
    trees = np.array([name == "pat" for name, _ in choices.candidates])[choices.index]
    curves, group = Curves.of([Library.of(yard())] * len(size)), (np.full(len(size), 12), np.ones(len(size)))
    found = curves.aggregated(CollectiveKind.ALL_GATHER, size, group)
    assert set(found) == {0.0, 1.0}
    assert np.abs(found - trees).sum() <= 1  # the change is known to a part in 128 of an octave
    longer = tuple(np.full(len(size), each) for each in (1.0, 1.0, 3.0))
    slower = curves.seconds(CollectiveKind.ALL_GATHER, size, group, longer)
    plain = curves.seconds(CollectiveKind.ALL_GATHER, size, group, None)
    assert (slower > 1.3 * plain)[(found == 1) & (size > 4e6)].all()
    assert slower[found == 0] == pytest.approx(plain[found == 0])


# Time alone with flows spread evenly: what hashing costs one collective is told apart from what its links
# cost.

GIB = 1 << 30
SERVERS = 64


def _ring(cluster, communicators, algorithm="ring", size=GIB):
    count = len(communicators)
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm}, protocol={"all-reduce": "simple"})
    columns = (np.full(count, value) for value in (Kind.ALL_REDUCE, size, 1))
    return lower_collectives(cluster, communicators, (np.arange(count), *columns), policy=policy)


def _rails(group):
    return group(*(np.arange(SERVERS) * 8 + local for local in range(8)))


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_hashed_flows_of_one_collective_collide_and_even_ones_take_what_they_take_when_sprayed(build, group, algorithm):
    hashed = build(8 * SERVERS, "hgx-h100", "roce", qps=1)
    everyone = group(np.arange(8 * SERVERS))
    size = 16 * GIB  # so much that latencies do not hide the collisions
    table = _ring(hashed, everyone, algorithm, size)
    same = {"transport_efficiency": hashed.fabric.transport_efficiency, "header_bytes": hashed.fabric.header_bytes}
    same["congestion_efficiency"] = hashed.fabric.congestion_efficiency
    sprayed = _ring(build(8 * SERVERS, "hgx-h100", "roce", load_balancing="spray", **same), everyone, algorithm, size)
    assert table.alone_ps[0] > 1.2 * table.even_ps[0]
    assert table.even_ps[0] == pytest.approx(sprayed.alone_ps[0], rel=0.02)


@pytest.mark.parametrize("fabric", ["spectrum-x", "infiniband", "scheduled", "uec", "ideal"])
def test_a_fabric_that_spreads_has_nothing_to_even_out(build, group, fabric):
    cluster = build(8 * SERVERS, "hgx-h100", fabric)
    table = _ring(cluster, _rails(group))
    assert (table.even_ps == table.alone_ps).all()


def test_one_transfer_of_many_queue_pairs_can_collide_with_itself(build):
    cluster = build(8 * SERVERS, "hgx-h100", "roce", qps=4)
    source = np.arange(200, dtype=np.int32)
    size = np.full(200, GIB)
    table = lower_transfers(cluster, source, source + 256, size, np.ones(200, np.int32))
    assert (table.even_ps <= table.alone_ps).all()
    assert np.ptp(table.even_ps) <= 2


@given(
    qps=st.sampled_from([1, 2, 8]),
    topology=st.sampled_from(["leaf-spine", "rail-optimized", "fat-tree", "dragonfly", "dual-plane"]),
    algorithm=st.sampled_from(["ring", "tree", "halving-doubling", "hierarchical"]),
)
@settings(max_examples=15, deadline=None)
def test_even_is_never_longer(build, group, qps, topology, algorithm):
    table = _ring(build(256, "hgx-h100", "roce", topology, qps=qps), group(np.arange(256)), algorithm)
    assert (table.latency_ps <= table.even_ps).all()
    assert (table.even_ps <= table.alone_ps).all()


# Channels and chunks against measured times and NCCL's rules: what limits the middle of the curves.

KIB, MIB, CHANNELS_GIB = 1 << 10, 1 << 20, 1 << 30


def _send_us(build, size, ranks):
    cluster = build(8, "hgx-b200", "roce")
    first, count = np.zeros(1, np.int32), np.ones(1, np.int32)
    table = lower_transfers(cluster, first, first + 1, np.array([size]), count, ranks=ranks)
    return table.alone_ps[0] / 1e6


def _us(cluster, kind, size, shape):
    return choose(kind, size, shape, cluster).time_ps / 1e6


@pytest.mark.parametrize(
    ("size", "measured_us"),
    [
        (128 * KIB, 15.9),
        (512 * KIB, 35.1),
        (8 * MIB, 118.0),
        (64 * MIB, 793.1),
        (256 * MIB, 809.8),
        (512 * MIB, 859.0),
        (4 * CHANNELS_GIB, 6522.4),
    ],
)
def test_a_single_send_has_few_channels(build, size, measured_us):
    """Ring of sends over 8 B200 (published nccl-tests): 64 and 256 MiB take the same time."""
    assert _send_us(build, size, 8) == pytest.approx(measured_us, rel=0.1)


@pytest.mark.parametrize(
    ("size", "measured_us"), [(2 * MIB, 23.9), (64 * MIB, 121.3), (512 * MIB, 787.1), (4 * CHANNELS_GIB, 5183.9)]
)
def test_an_all_to_all_of_four_has_eight_channels_a_peer(build, size, measured_us):
    """4 GB300 (published nccl-tests)."""
    cluster = build(4, "gb300-nvl72", "roce")
    assert _us(cluster, Kind.ALL_TO_ALL, size, Shape.grid(1, 4)) == pytest.approx(measured_us, rel=0.1)


@pytest.mark.parametrize(
    ("ranks", "message", "channels"),
    [(8, 64 * MIB, 4), (8, 64 * MIB + 1, 8), (4, 128 * MIB, 8), (2, 1, 16), (64, 1, 1), (8, 64 * CHANNELS_GIB, 32)],
)
def test_channels_double_while_a_part_is_above_16_mib(ranks, message, channels):
    """NCCL 2.30: as many as let all peers share 32, doubled above 32 steps of 512 KiB."""
    assert connections.channels_of_peer(ranks, np.array([float(message)]))[0] == channels


@pytest.mark.parametrize(("server", "domains"), [("dgx-a100", 4), ("hgx-h100", 16)])
def test_chunks_of_a_tree_follow_the_rule(server, domains):
    """LL128: to 128 KiB while data is less than steps x 64 / ranks chunks, to 32 KiB below steps x 16 / ranks."""
    steps = 1 + np.log2(domains) + 0.8
    data = np.array([64 * KIB, 512 * KIB, 4 * MIB, 1 * CHANNELS_GIB], np.float64)
    chunk = tree_chunk_bytes(data, steps, 8, "ll128")
    assert chunk[0] == 32 * KIB
    assert chunk[-1] == 512 * KIB
    assert np.all(np.diff(chunk) >= 0)
    short = (chunk > 128 * KIB) & (data < steps * 8 * chunk)
    assert not short.any()


@pytest.mark.parametrize(
    ("size", "measured_us"), [(1 * MIB, (135, 143)), (8 * MIB, (298, 320)), (16 * MIB, (381, 448))]
)
def test_a_tree_over_four_servers_is_filled(build, size, measured_us):
    """32 A100 on four servers, published twice (DGX A100 with HDR200; CoreWeave 2023); unfilled 110, 205, 320 us."""
    time_us = _us(build(32, "dgx-a100", "infiniband"), Kind.ALL_REDUCE, size, Shape.grid(4, 8))
    assert measured_us[0] * 0.8 <= time_us <= measured_us[1] * 1.2


def test_a_barrier_crosses_a_long_edge_once_without_bytes(build):
    """A ring's only window need not come back; a tree's comes back: 20 ms one way."""
    case = Case(machine_of(build(32, "dgx-a100", "infiniband")), Shape.grid(4, 8), Kind.ALL_REDUCE)
    ring, tree = (window_s(case, name, "simple", np.zeros(1), np.array([0.02]))[0] for name in ("ring", "tree"))
    assert (ring, tree) == (0.02, 0.04)


def test_in_switch_reduction_speeds_up_as_its_chunk_grows(build):
    """8 GB300: 346 GB/s at 32 MiB, 597 at 128 MiB; 725 at 1 GiB, 823 at 2 GiB (published nccl-tests)."""
    shape, machine = Shape.grid(1, 8), machine_of(build(8, "hgx-b300", "roce"))
    sizes = np.array([32 * MIB, 128 * MIB, CHANNELS_GIB, 2 * CHANNELS_GIB], np.float64)
    bus = sizes * 1.75 / 1e3 / predicted_us(Case(machine, shape, Kind.ALL_REDUCE), "nvls", "simple", sizes)
    assert bus == pytest.approx([346, 597, 725, 823], rel=0.12)
    assert bus[1] / bus[0] > 1.25
    assert bus[3] / bus[2] > 1.08


def test_synchronisation_hides_behind_slower_nics(build):
    """4 x 8 B200 over EFA of 8 x 400 Gb/s: 382 GB/s at 16 GiB, 98 % of what the NICs leave."""
    cluster = build(32, "aws-p6-b200", "uec")
    time_us = _us(cluster, Kind.ALL_REDUCE, 16 * CHANNELS_GIB, Shape.grid(4, 8))
    assert 16 * CHANNELS_GIB * 2 * 31 / 32 / time_us / 1e3 == pytest.approx(382, rel=0.05)


@pytest.mark.parametrize(("server", "protocol"), [("aws-p4d", "simple"), ("aws-p5", "ll")])
def test_the_first_efa_speaks_simple_only(build, server, protocol):
    """Its plugin sets NCCL_PROTO to Simple and exempts P5; 161 us for 8 bytes on 2 x 8 A100, 65 us on 2 x 8 H100."""
    chosen = choose(Kind.ALL_REDUCE, 8, Shape.grid(2, 8), build(16, server, "uec"))
    assert chosen.protocol == protocol
    inside = choose(Kind.ALL_REDUCE, 8, Shape.grid(1, 8), build(16, server, "uec"))
    assert inside.protocol == "ll"


def test_two_ranks_of_a_mesh_take_no_ll_for_large_data(build):
    """2 of 8 MI350X move 28 MB of a reduce-scatter in 354 us; LL would double the bytes on their one link: 530 us."""
    case = Case(machine_of(build(8, "mi350x-8", "roce")), Shape.grid(1, 2), Kind.REDUCE_SCATTER)
    chosen = choose(case.kind, 28311552, Shape(ranks=2, domains=1, per_domain=2, scale_up="mesh"), case.machine)
    assert chosen.protocol != "ll"
    assert chosen.time_ps / 1e6 < 354


@pytest.mark.parametrize(("kind", "name"), [(Kind.BROADCAST, "broadcast"), (Kind.REDUCE, "reduce")])
def test_a_chain_of_an_a100_takes_nvlinks_steps(build, kind, name):
    """8.4 us, 7 steps of 3.4 us, not 1.7 times that as rings do; 7 chunks of a twelfth of 120 kB at 240 GB/s."""
    case = Case(machine_of(build(8, "dgx-a100", "roce")), Shape.grid(1, 8), kind)
    found = timing(case, ALGORITHMS.get(name), "simple", np.array([120_000.0]))
    assert found.latency_us[0] == pytest.approx(8.4 + 7 * 3.4 + 7 * 10_000 / 240e3, rel=1e-9)
    assert found.network_steps == 0


# Messages that must follow one another, of every algorithm, counted by hand.

REDUCE, GATHER, EVERYBODY = Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.ALL_TO_ALL
THREE, ONE = Shape.grid(3, 5), Shape.grid(1, 5)

# 3 domains of 5 ranks where nothing else is said; an all-reduce goes there and back.
COUNTED = [
    # 2 x 14 edges of a ring, each turn crosses all 3 boundaries
    ("ring", REDUCE, THREE, Steps(scale_up=22, scale_out=6)),
    ("ring", GATHER, THREE, Steps(scale_up=11, scale_out=3)),
    ("ring", REDUCE, Shape.grid(7, 1), Steps(scale_out=12)),
    ("ring", REDUCE, ONE, Steps(scale_up=8)),
    # everybody posts to 14 others at once, once for each round
    ("direct", REDUCE, THREE, Steps(scale_out=2, peers=28)),
    ("direct", GATHER, THREE, Steps(scale_out=1, peers=14)),
    ("direct", REDUCE, ONE, Steps(scale_up=2, peers=8)),
    ("pairwise", EVERYBODY, THREE, Steps(scale_out=1, peers=14)),
    ("pairwise", EVERYBODY, ONE, Steps(scale_up=1, peers=4)),
    # 4 peers inside, then a ring of 3 domains; for an all-to-all 4 peers inside and 2 outside
    ("hierarchical", REDUCE, THREE, Steps(scale_up=2, scale_out=4, peers=8)),
    ("hierarchical", GATHER, THREE, Steps(scale_up=1, scale_out=2, peers=4)),
    ("hierarchical", Kind.REDUCE_SCATTER, THREE, Steps(scale_up=1, scale_out=2, peers=4)),
    ("hierarchical-all-to-all", EVERYBODY, THREE, Steps(scale_up=1, scale_out=1, peers=6)),
    # to the network's switches and back, between all-to-alls of 4 peers
    ("collnet-direct", REDUCE, THREE, Steps(scale_up=2, reduction=1, peers=8)),
    ("collnet-direct", REDUCE, Shape.grid(3, 1), Steps(reduction=1)),
    ("collnet-chain", REDUCE, THREE, Steps(scale_up=8, reduction=1)),
    ("nvls-sharp", REDUCE, THREE, Steps(switch=1, reduction=1)),
    ("nvls", REDUCE, ONE, Steps(switch=1)),
    # a tree over 9 domains has 4 levels below its root
    ("nvls-tree", REDUCE, Shape.grid(9, 4), Steps(switch=1, scale_out=8)),
    # 11 ranks double 4 times
    ("pat", GATHER, Shape.grid(11, 1), Steps(scale_out=4, peers=10)),
    # 8 of 24 ranks fold into the others first and unfold last; of 4 exchanges 3 are inside
    ("halving-doubling", REDUCE, Shape.grid(3, 8), Steps(scale_up=8, scale_out=2)),
    ("halving-doubling", GATHER, Shape.grid(2, 8), Steps(scale_up=3, scale_out=1)),
    # chains of 14 edges
    ("broadcast", Kind.BROADCAST, THREE, Steps(scale_up=12, scale_out=2)),
    ("reduce", Kind.REDUCE, THREE, Steps(scale_up=12, scale_out=2)),
    # rings of 4, 3 and 2 one after another
    ("torus", REDUCE, Shape(24, 1, 24, scale_up="torus", torus=(4, 3, 2)), Steps(scale_up=12)),
    ("torus", GATHER, Shape(24, 1, 24, scale_up="torus", torus=(4, 3, 2)), Steps(scale_up=6)),
]


@pytest.mark.parametrize(("name", "kind", "shape", "steps"), COUNTED)
def test_steps(name, kind, shape, steps):
    assert ALGORITHMS.get(name).steps(kind, shape) == steps


@pytest.mark.parametrize(("ranks", "refused"), [(512, False), (513, True)])
def test_direct_messages_have_at_most_511_peers(ranks, refused):
    assert bool(ALGORITHMS.get("direct").refuses(REDUCE, Shape.grid(ranks, 1), None)) == refused


@pytest.mark.parametrize(("kind", "inside", "outside"), [(REDUCE, 2 / 5, 4 / 15), (GATHER, 1 / 5, 2 / 15)])
def test_edges_of_a_hierarchical_collective(kind, inside, outside):
    """Each of 5 peers gets a fifth once a round; on a rail 2 of 3 domains' parts of that fifth go over every edge."""
    pattern = ALGORITHMS.get("hierarchical").pattern(kind, THREE)
    out = pattern.scale_out(THREE)
    assert pattern.share[~out].tolist() == pytest.approx([inside] * 60)
    assert pattern.share[out].tolist() == pytest.approx([outside] * 15)
