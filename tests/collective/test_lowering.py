"""Collectives on the links of a cluster: closed forms, conservation, every kind of machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster import build as cluster_build
from railyard.cluster.topology import MultiSite
from railyard.collective import CollectivePolicy, lower_collectives, lower_storage, lower_transfers, machine_of
from railyard.collective.constants import MEASURED
from railyard.collective.timing import EXCHANGE_SHARE, SHARP_SHARE, WIRE
from railyard.graph import CollectiveKind as Kind
from railyard.kit.errors import InputError

GIB = 1 << 30


def _one(cluster, communicators, kind, size=GIB, *, count=1, policy=None):
    request = (np.zeros(1, np.int32), np.array([kind]), np.array([size]), np.array([count]))
    table = lower_collectives(cluster, communicators, request, policy=policy or CollectivePolicy())
    assert len(table) == 1
    return table


def _moving_s(table):
    return (table.alone_ps[0] - table.latency_ps[0]) * 1e-12


def _goodput(cluster):
    """Bytes a second that one NIC of a rank moves."""
    return cluster.nic.rate_bps / 8 * cluster.fabric.payload_efficiency


def _forced(kind, algorithm):
    word = kind.name.lower().replace("_", "-")
    return CollectivePolicy(algorithm={word: algorithm}, protocol={word: "simple"})


@pytest.mark.parametrize("servers", [2, 3, 8, 64])
def test_ring_between_servers(build, group, servers):
    """One rank a server: time = 2 (n-1)/n S / NIC."""
    cluster = build(8 * servers, "hgx-h100")
    table = _one(cluster, group(np.arange(servers) * 8), Kind.ALL_REDUCE, policy=_forced(Kind.ALL_REDUCE, "ring"))
    expected = 2 * (servers - 1) / servers * GIB / _goodput(cluster)
    assert _moving_s(table) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "algorithm", "crossings"),
    [
        (Kind.ALL_REDUCE, "ring", 4),
        (Kind.ALL_REDUCE, "hierarchical", 4),
        (Kind.ALL_GATHER, "ring", 2),
        (Kind.BROADCAST, "broadcast", 1),
        (Kind.REDUCE, "reduce", 1),
    ],
)
def test_steps_pay_for_the_distances_that_they_cross(group, kind, algorithm, crossings):
    """Two sites of four servers: a round of a ring crosses between them twice, a chain once; 245 us each."""
    known = catalog.load()
    floor_ps = []
    for distance_m in (1_000.0, 50_000.0):
        network = NetworkSpec(topology=MultiSite(sites=2, distance_m=distance_m), fabric=FabricSpec("spectrum-x"))
        cluster = cluster_build(ClusterSpec(64, "hgx-h100", network), known)
        table = _one(
            cluster, group(np.arange(64)), kind, 1 << 20, policy=_forced(kind, algorithm)
        )  # too little to hide any
        floor_ps.append(table.latency_ps[0])
    assert (floor_ps[1] - floor_ps[0]) * 1e-6 == pytest.approx(crossings * 245, rel=0.05)


@pytest.mark.parametrize("servers", [4, 32])
def test_a_long_ring_of_one_rank_a_server_runs_at_its_nic(build, group, servers):
    """Its proxies have slots in flight, so that steps through NICs are hidden: 96.4 of 100 GB/s (GB200, 4 to 32)."""
    cluster = build(8 * servers, "hgx-h100")
    ranks = group(np.arange(servers) * 8)
    table = _one(cluster, ranks, Kind.ALL_REDUCE, 16 * GIB, policy=_forced(Kind.ALL_REDUCE, "ring"))
    bus = 2 * (servers - 1) / servers * 16 * GIB / (table.alone_ps[0] * 1e-12)
    assert bus == pytest.approx(_goodput(cluster), rel=0.01)


@pytest.mark.parametrize("servers", [2, 4, 16])
def test_ring_over_whole_servers_uses_every_nic(build, group, servers):
    """All ranks: 8 NICs carry the ring side by side, unless the kernels inside the servers are slower."""
    cluster = build(8 * servers, "dgx-a100")
    n = 8 * servers
    table = _one(cluster, group(np.arange(n)), Kind.ALL_GATHER, policy=_forced(Kind.ALL_GATHER, "ring"))
    expected = (n - 1) / n * GIB / (8 * _goodput(cluster))
    assert _moving_s(table) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("servers", [2, 4, 32])
def test_tree_between_servers(build, group, servers):
    """Double tree: the busiest NIC sends S with two servers, up to 2 S with many (a parent's two children)."""
    cluster = build(8 * servers, "hgx-h100")
    ranks = np.arange(servers) * 8
    table = _one(cluster, group(ranks), Kind.ALL_REDUCE, policy=_forced(Kind.ALL_REDUCE, "tree"))
    carried = 1.0 if servers == 2 else 2.0
    assert _moving_s(table) * _goodput(cluster) / GIB == pytest.approx(carried, rel=0.26 if servers > 2 else 1e-6)
    assert _moving_s(table) * _goodput(cluster) / GIB <= 2.0 + 1e-6


KAROL = {1: 1.0, 3: 0.6825, 7: 0.6234}
"""Throughput of an input-queued switch by its outputs (Karol, Hluchyj and Morgan 1987, table I)."""


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_all_to_all_leaves_the_server_in_proportion(build, group, servers):
    """Of a rank's data, (n - 8)/n go through its NIC; several others that are in no order hold one another up."""
    cluster = build(8 * servers, "hgx-h100")
    n = 8 * servers
    table = _one(cluster, group(np.arange(n)), Kind.ALL_TO_ALL)
    lost = (1 - EXCHANGE_SHARE) * (1 - KAROL[servers - 1]) / (2**0.5 - 1)
    expected = (n - 8) / n * GIB / _goodput(cluster) / (1 - lost)
    assert _moving_s(table) == pytest.approx(expected, rel=1e-6)


def test_hierarchical_all_to_all_moves_the_same_bytes(build, group):
    cluster = build(32, "hgx-h100")
    ranks = group(np.arange(32))
    direct = _one(cluster, ranks, Kind.ALL_TO_ALL, policy=_forced(Kind.ALL_TO_ALL, "pairwise"))
    staged = _one(cluster, ranks, Kind.ALL_TO_ALL, policy=_forced(Kind.ALL_TO_ALL, "hierarchical-all-to-all"))
    loads = []
    for table in (direct, staged):
        links, share = table.row(0)
        nics = cluster.links.tier[links] == cluster.links.tiers.index("nic")
        loads.append(dict(zip(links[nics].tolist(), share[nics].tolist(), strict=True)))
    assert loads[0] == pytest.approx(loads[1])


@pytest.mark.parametrize(
    ("kind", "algorithm", "carried"),
    [
        (Kind.ALL_REDUCE, "hierarchical", (2 * 7 / 8, 2 * 7 / 8 / 8)),
        (Kind.ALL_REDUCE, "halving-doubling", (2 * 7 / 8, 2 * (1 / 16 + 1 / 32 + 1 / 64))),
        (Kind.ALL_TO_ALL, "hierarchical-all-to-all", (7 / 8, 7 / 8)),
    ],
)
def test_phases_that_follow_one_another_add_up(build, group, kind, algorithm, carried):
    """64 H100: bytes through scale-up (18 x 20.6 GB/s, 91 % in grouped sends), then bytes through the NIC."""
    cluster = build(64, "hgx-h100")
    table = _one(cluster, group(np.arange(64)), kind, policy=_forced(kind, algorithm))
    inside, outside = carried
    lost = (1 - EXCHANGE_SHARE) * (1 - KAROL[7]) / (2**0.5 - 1) if kind == Kind.ALL_TO_ALL else 0.0
    expected = GIB * (inside / (MEASURED.peer_share * 18 * 20.6e9) + outside / _goodput(cluster) / (1 - lost))
    assert _moving_s(table) == pytest.approx(expected, rel=1e-6)


def test_halving_doubling_and_hierarchical_need_the_bytes_of_a_ring(build, group):
    cluster = build(64, "hgx-h100")
    ranks = group(np.arange(8) * 8)
    ring = _one(cluster, ranks, Kind.ALL_REDUCE, policy=_forced(Kind.ALL_REDUCE, "ring"))
    halving = _one(cluster, ranks, Kind.ALL_REDUCE, policy=_forced(Kind.ALL_REDUCE, "halving-doubling"))
    assert _moving_s(halving) == pytest.approx(_moving_s(ring), rel=1e-6)
    assert halving.latency_ps[0] < ring.latency_ps[0]


def test_sharp_sends_once(build, group):
    cluster = build(128, "hgx-h100", "infiniband", sharp=True)
    ranks = group(np.arange(16) * 8)
    table = _one(cluster, ranks, Kind.ALL_REDUCE, policy=_forced(Kind.ALL_REDUCE, "collnet-chain"))
    links, share = table.row(0)
    assert (cluster.links.rate_bps[links] / share).min() == pytest.approx(8 * _goodput(cluster))
    assert _moving_s(table) == pytest.approx(8 * GIB / cluster.nic.rate_bps / SHARP_SHARE, rel=1e-6)


def test_in_switch_reduction_inside_a_server(build, group):
    """8 x H100: 476 to 480 GB/s of bus bandwidth in logs; a ring stays below 370."""
    cluster = build(8, "hgx-h100", "roce")
    table = _one(cluster, group(np.arange(8)), Kind.ALL_REDUCE, 16 * GIB)
    assert table.algorithm[0] == "nvls"
    assert 1.75 * 16 * GIB / table.alone_ps[0] * 1e3 == pytest.approx(478, rel=0.03)
    ring = _one(cluster, group(np.arange(8)), Kind.ALL_REDUCE, 16 * GIB, policy=_forced(Kind.ALL_REDUCE, "ring"))
    assert 1.75 * 16 * GIB / ring.alone_ps[0] * 1e3 == pytest.approx(367, rel=0.03)


def test_alone_is_latency_and_the_slowest_link(build, group):
    cluster = build(64, "hgx-h100", "roce", qps=2)
    for kind in Kind:
        table = _one(cluster, group(np.arange(64)), kind)
        links, share = table.row(0)
        rate = min(table.rate_cap_bps[0], (cluster.links.rate_bps[links] / share).min())
        expected = table.latency_ps[0] + 8e12 * table.volume_bytes[0] / rate
        assert table.alone_ps[0] == pytest.approx(expected, abs=2)


def test_bytes_are_conserved(build, group):
    """What leaves NICs enters NICs, and is the pattern's scale-out share over the payload's share of the wire."""
    cluster = build(64, "hgx-h100", "roce")
    table = _one(cluster, group(np.arange(64)), Kind.ALL_REDUCE, policy=_forced(Kind.ALL_REDUCE, "ring"))
    links, share = table.row(0)
    first = cluster.back_end.node_offset
    ports = range(first, first + cluster.back_end.ports)
    leaving = sum(s for link, s in zip(links, share, strict=True) if cluster.links.source[link] in ports)
    entering = sum(s for link, s in zip(links, share, strict=True) if cluster.links.target[link] in ports)
    assert leaving == pytest.approx(entering)
    assert leaving == pytest.approx(8 * 2 * 63 / 64 / cluster.fabric.payload_efficiency)


def test_flags_of_a_protocol_are_on_the_wire(build, group):
    cluster = build(16, "hgx-h100", "roce")
    plain = _one(cluster, group(np.arange(16)), Kind.ALL_GATHER, policy=_forced(Kind.ALL_GATHER, "ring"))
    policy = CollectivePolicy(algorithm={"dp": "ring"}, protocol={"dp": "ll"})
    flagged = _one(cluster, group(np.arange(16)), Kind.ALL_GATHER, policy=policy)
    assert flagged.link_share == pytest.approx(WIRE["ll"] * plain.link_share)


def test_hashed_queue_pairs_collide_and_more_of_them_collide_less(build, group):
    """32 servers over a two-tier network: with one queue pair the slowest uplink carries several flows."""
    ranks = np.arange(64) * 8
    slowest = {}
    for qps in (1, 16):
        cluster = build(512, "hgx-h100", "roce", qps=qps)
        table = _one(cluster, group(ranks), Kind.ALL_GATHER, policy=_forced(Kind.ALL_GATHER, "ring"))
        slowest[qps] = _moving_s(table)
    ideal = _one(build(512, "hgx-h100"), group(ranks), Kind.ALL_GATHER, policy=_forced(Kind.ALL_GATHER, "ring"))
    assert slowest[1] >= slowest[16] >= _moving_s(ideal)


def test_spraying_has_no_collisions(build, group):
    ranks = np.arange(64) * 8
    sprayed = _one(build(512, "hgx-h100", "uec"), group(ranks), Kind.ALL_GATHER)
    assert _moving_s(sprayed) == pytest.approx(63 / 64 * GIB / _goodput(build(512, "hgx-h100", "uec")), rel=0.06)


def test_rail_only_crosses_rails_inside_the_server(build, group):
    """An all-to-all over a rail-only network: every leg between NICs is of one rail, the rest goes over scale-up."""
    cluster = build(32, "hgx-h100", "roce", "rail-only")
    table = _one(cluster, group(np.arange(32)), Kind.ALL_TO_ALL)
    assert np.isfinite(table.alone_ps).all()
    transfer = lower_transfers(cluster, np.array([0]), np.array([13]), np.array([GIB]), np.array([1]))
    links, _ = transfer.row(0)
    tiers = [cluster.links.tiers[tier] for tier in cluster.links.tier[links]]
    assert tiers.count("scale-up") == 2
    with pytest.raises(InputError, match="path"):
        _one(cluster, group(np.arange(32)), Kind.ALL_TO_ALL, policy=CollectivePolicy(pxn=False))


def test_communicators_of_one_shape_come_out_as_if_alone(build, group):
    """Lowering many at once is only faster: rows are those of single requests."""
    cluster = build(64, "hgx-h100", "uec")
    lists = [np.arange(8) * 8 + local for local in range(8)] + [np.arange(8) + 8 * server for server in range(8)]
    many = group(*lists)
    request = (np.arange(16), np.zeros(16, np.uint8), np.full(16, GIB), np.ones(16, np.int32))
    table = lower_collectives(cluster, many, request)
    for place, ranks in enumerate(lists):
        alone = _one(cluster, group(ranks), Kind.ALL_REDUCE)
        assert table.alone_ps[place] == alone.alone_ps[0]
        assert table.row(place)[0].tolist() == alone.row(0)[0].tolist()


def test_requests_keep_their_order_and_counts(build, group):
    cluster = build(16, "hgx-h100", "roce")
    both = group(np.arange(16), np.arange(8))
    kinds = np.array([Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.ALL_REDUCE, Kind.ALL_TO_ALL])
    request = (np.array([1, 0, 0, 1]), kinds, np.array([GIB, 1 << 20, 8, 4096]), np.array([3, 1, 5, 2]))
    table = lower_collectives(cluster, both, request)
    single = [
        _one(cluster, group(both.members(comm)), kind, size)
        for comm, kind, size in zip(request[0], kinds, request[2], strict=True)
    ]
    assert table.volume_bytes == pytest.approx([3.0 * GIB, 1 << 20, 40, 8192])
    for place, alone in enumerate(single):
        assert table.algorithm[place] == alone.algorithm[0]
        assert table.latency_ps[place] == request[3][place] * alone.latency_ps[0]


@pytest.mark.parametrize(
    ("server", "ranks"),
    [
        ("dgx-a100", 24),
        ("dgx-1-v100", 16),
        ("aws-p4d", 16),
        ("gcp-a3-high", 16),
        ("gb200-nvl72", 144),
        ("mi300x-8", 16),
        ("gh200-node", 4),
        ("oci-bm-gpu-h100-8", 16),
        ("tpu-v5p-host", 32),
        ("aws-trn2", 32),
        ("l40s-8", 16),
        ("gaudi3-8", 16),
    ],
)
@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_server(build, group, server, ranks, kind):
    cluster = build(ranks, server, "roce")
    table = _one(cluster, group(np.arange(ranks)), kind)
    _, share = table.row(0)
    assert (share > 0).all()
    assert table.alone_ps[0] > table.latency_ps[0] > 0
    assert np.isfinite(table.fair_weight[0])


def test_a_shared_nic_carries_what_its_ranks_send(build, group):
    """Four NICs for eight accelerators: a ring over two servers moves as much as the NICs do, not more."""
    cluster = build(16, "aws-p4d")
    table = _one(cluster, group(np.arange(16)), Kind.ALL_GATHER, policy=_forced(Kind.ALL_GATHER, "ring"))
    assert _moving_s(table) == pytest.approx(15 / 16 * GIB / (4 * _goodput(cluster)), rel=1e-6)


def test_inside_a_rack_of_72_only_scale_up_works(build, group):
    cluster = build(144, "gb200-nvl72", "roce")
    inside = _one(cluster, group(np.arange(72)), Kind.ALL_TO_ALL)
    tiers = {cluster.links.tiers[tier] for tier in cluster.links.tier[inside.row(0)[0]]}
    assert tiers == {"scale-up"}
    both = _one(cluster, group(np.arange(144)), Kind.ALL_TO_ALL)
    assert both.alone_ps[0] > 4 * inside.alone_ps[0]


def test_one_peer_of_a_mesh_gets_one_link(build, group):
    """2 of 8 MI300X: one link of seven. MI350X measured 54.7 of 76.8 GB/s there, 71 %."""
    cluster = build(8, "mi300x-8", "roce")
    pair = _one(cluster, group(np.arange(2)), Kind.ALL_GATHER)
    link = MEASURED.mesh_share * cluster.accelerator.scale_up_collective_bps / 7 / 8
    assert _moving_s(pair) == pytest.approx(0.5 * GIB / link, rel=0.01)


def test_a_torus_works_on_all_its_links(build, group):
    cluster = build(64, "tpu-v5p-host")
    table = _one(cluster, group(np.arange(64)), Kind.ALL_REDUCE, 16 * GIB)
    assert table.algorithm[0] == "torus"
    assert len(table.row(0)[0]) == 64 * 6
    expected = 2 * 63 / 64 * 16 * GIB * 8 / cluster.accelerator.scale_up_collective_bps
    assert _moving_s(table) == pytest.approx(expected, rel=1e-6)


def test_one_rank_alone_does_nothing(build, group):
    cluster = build(8, "hgx-h100")
    table = _one(cluster, group([3]), Kind.ALL_REDUCE)
    assert table.alone_ps[0] == 0
    assert len(table.row(0)[0]) == 0


def test_weights_give_every_queue_pair_the_same(build, group):
    """Two rings meet at a NIC, one of two ranks and one of four: rates follow 1 / bytes per queue pair."""
    cluster = build(32, "hgx-h100", "roce")
    both = group(np.arange(2) * 8, np.arange(4) * 8)
    request = (np.arange(2), np.full(2, Kind.ALL_GATHER), np.full(2, GIB), np.ones(2, np.int32))
    table = lower_collectives(cluster, both, request, policy=_forced(Kind.ALL_GATHER, "ring"))
    per_edge = np.array([1 / 2, 3 / 4])
    # 4 connections through a server's only NIC, of 4 queue pairs each
    assert table.fair_weight * per_edge == pytest.approx(4 * 4 * np.ones(2))


def test_transfers(build):
    cluster = build(16, "hgx-h100")
    source, target = np.array([0, 0, 3, 5]), np.array([1, 8, 12, 5])
    table = lower_transfers(cluster, source, target, np.full(4, GIB), np.array([1, 1, 2, 1]))
    moving = (table.alone_ps - table.latency_ps) * 1e-12
    nic = GIB / _goodput(cluster)
    assert moving[1] == pytest.approx(nic, rel=1e-6)
    assert moving[2] == pytest.approx(2 * nic, rel=1e-6)
    assert table.alone_ps[3] == 0
    assert moving[0] < nic / 5
    assert table.rate_cap_bps[0] <= cluster.scale_up.ceiling * cluster.accelerator.scale_up_bps


def test_transfers_reject_strangers(build):
    with pytest.raises(InputError, match="not in the cluster"):
        lower_transfers(build(16, "hgx-h100"), np.array([0]), np.array([16]), np.array([1]), np.array([1]))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (([1], [0], [8], [1]), "`comm` is out of range"),
        (([0], [6], [8], [1]), "`kind` is out of range"),
        (([0], [0], [-8], [1]), "`size_bytes` is out of range"),
        (([0], [0], [8], [0]), "`count` is out of range"),
        (([0, 0], [0], [8], [1]), "differ in length"),
    ],
)
def test_bad_requests_are_named(build, group, request_, message):
    with pytest.raises(InputError, match=message):
        lower_collectives(build(8, "hgx-h100"), group(np.arange(8)), tuple(np.array(column) for column in request_))


@pytest.mark.parametrize(("ranks", "message"), [([0, 0], "twice"), ([0, 99], "not in the cluster")])
def test_bad_communicators_are_named(build, group, ranks, message):
    with pytest.raises(InputError, match=message):
        _one(build(8, "hgx-h100"), group(ranks), Kind.ALL_REDUCE)


def test_storage_needs_storage(build):
    with pytest.raises(InputError, match="no storage"):
        lower_storage(build(8, "hgx-h100"), np.array([0]), np.array([False]), np.array([8]))


MACHINES = [("hgx-h100", 32), ("dgx-a100", 16), ("mi300x-8", 16), ("gb200-nvl72", 144)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_more_bandwidth_is_never_slower_on_ideal(build, group, data):
    """When the best algorithm is taken; the library's estimate is wrong near its switching points."""
    server, ranks = data.draw(st.sampled_from(MACHINES))
    kind, size = data.draw(st.sampled_from(list(Kind))), 1 << data.draw(st.integers(3, 34))
    more = {data.draw(st.sampled_from(["scale_up", "nic"])): data.draw(st.floats(1.0, 4.0))}
    cluster = build(ranks, server)
    everyone = group(np.arange(ranks))
    best = CollectivePolicy(selector="best")
    before = _one(cluster, everyone, kind, size, policy=best)
    after = _one(cluster.scaled(**more), everyone, kind, size, policy=best)
    assert after.alone_ps[0] <= before.alone_ps[0] * (1 + 1e-9) + 1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 31), min_size=2, max_size=12, unique=True), st.sampled_from(list(Kind)))
def test_any_set_of_ranks_can_talk(build, group, ranks, kind):
    """Communicators of no particular shape, on a network without cross-rail paths."""
    cluster = build(32, "hgx-h100", "roce", "rail-only")
    table = _one(cluster, group(ranks), kind)
    assert table.alone_ps[0] >= table.latency_ps[0] > 0
    shuffled = _one(cluster, group(ranks[::-1]), kind)
    assert shuffled.alone_ps[0] == table.alone_ps[0]


def test_latency_is_what_latency_scales(build, group):
    cluster = build(32, "hgx-h100", "roce")
    slow = cluster.scaled(latency=10.0)
    assert machine_of(slow).path_latency_ps > 5 * machine_of(cluster).path_latency_ps
    before, after = (_one(c, group(np.arange(32)), Kind.ALL_REDUCE, 8) for c in (cluster, slow))
    assert after.latency_ps[0] > 3 * before.latency_ps[0]


@pytest.fixture(scope="module")
def stored():
    """16 servers with 8 storage nodes on a front-end network."""
    from railyard import catalog, cluster

    known = catalog.load()
    name = next(name for name in known.names("storage") if known.storage(name).network_bps > 0)
    spec = cluster.ClusterSpec(
        accelerators=128,
        server="hgx-h100",
        front_end=cluster.NetworkSpec(fabric=cluster.FabricSpec("roce")),
        storage=cluster.StorageSpec(name, servers=8, network="front_end"),
    )
    return cluster.build(spec, known)


def test_a_rank_reads_from_all_storage_nodes(stored):
    table = lower_storage(stored, np.array([0, 0]), np.array([False, True]), np.array([GIB, GIB]))
    assert table.algorithm.tolist() == ["read", "write"]
    for place, device in enumerate((stored.storage_servers.read_link, stored.storage_servers.write_link)):
        links, share = table.row(place)
        on_device = dict(zip(links.tolist(), share.tolist(), strict=True))
        assert [on_device[link] for link in device.tolist()] == pytest.approx([1 / 8] * 8)
        rate = (stored.links.rate_bps[links] / share).min()
        assert table.alone_ps[place] == pytest.approx(table.latency_ps[place] + 8e12 * GIB / rate, abs=2)
        assert table.latency_ps[place] > stored.storage_servers.latency_ps


def test_all_ranks_together_load_storage_nodes_alike(stored):
    ranks = np.arange(128)
    table = lower_storage(stored, ranks, np.zeros(128, bool), np.full(128, GIB))
    total = np.bincount(table.link_idx, table.link_share, minlength=len(stored.links))
    assert total[stored.storage_servers.read_link] == pytest.approx(np.full(8, 16))


def test_local_disks_serve_their_own_server():
    from railyard import catalog, cluster

    known = catalog.load()
    name = next((name for name in known.names("storage") if known.storage(name).network_bps == 0), None)
    assert name is not None
    spec = cluster.ClusterSpec(
        accelerators=16, server="hgx-h100", storage=cluster.StorageSpec(name, servers=2, network="back_end")
    )
    built = cluster.build(spec, known)
    table = lower_storage(built, np.array([3, 11]), np.zeros(2, bool), np.array([GIB, GIB]))
    assert [table.row(place)[0].tolist() for place in (0, 1)] == [[link] for link in built.storage_servers.read_link]
