"""The hash against published values of splitmix64, and that two tiers choose independently."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build, fabrics, routes
from railyard.cluster import routes as hashing
from railyard.cluster import routes as paths
from railyard.cluster.links import Csr
from railyard.cluster.steering import TRIES, Steering, withdrawn
from railyard.cluster.topology import (
    BCube,
    Dragonfly,
    DualPlane,
    Endpoints,
    LeafSpine,
    RailOptimized,
    ThreeTier,
    Torus,
    ZCube,
)
from railyard.engine.probing import steered
from railyard.graph import Job
from railyard.work.operate.contention.pattern import WorkClass

from .wired import LARGE, SIXTEEN, SIXTY_FOUR, Case, joined, thinned


@pytest.mark.parametrize(
    ("seed", "first"),
    [(0, 0xE220A8397B1DCDAF), (1234567, 6457827717110365317)],  # first outputs of the reference implementation
)
def test_mix_is_splitmix64(seed, first):
    assert int(routes.mix(np.array([seed], np.uint64))[0]) == first


def test_picks_are_uniform_for_any_width():
    hashed = routes.mix(np.arange(200_000, dtype=np.uint64))
    for width in (2, 3, 7, 48, 64, 129):
        count = np.bincount(routes.pick(hashed, np.full(len(hashed), width, np.int32)), minlength=width)
        assert len(count) == width
        expected = len(hashed) / width
        chi_square = ((count - expected) ** 2 / expected).sum()
        assert chi_square < width + 6 * np.sqrt(2 * width) + 10


def test_salts_and_subflows_differ():
    assert len(np.unique(routes.salts(100_000))) > 99_990  # of 2^32: one pair is alike by chance
    assert len(np.unique(routes.subflows(np.arange(10_000, dtype=np.uint64), 8))) == 80_000
    assert (routes.salts(100, seed=1) != routes.salts(100, seed=2)).all()


def test_tiers_do_not_polarize():
    """Flows that a leaf sent to one spine spread over all its cores: the choice above does not follow that below."""
    wiring = Case(ThreeTier(leafs_per_pod=4), Endpoints(64, 8), LARGE, LARGE).build()
    flows = 40_000
    source = np.full(flows, wiring.port_of[0, 0], np.int32)
    target = np.full(flows, wiring.port_of[-1, 0], np.int32)
    entropy = np.arange(flows, dtype=np.uint64)
    path = routes.hashed(
        wiring.routing, wiring.target, source, target, entropy=entropy, salt=routes.salts(wiring.nodes)
    )
    up, over = path.link[path.ptr[:-1] + 1], path.link[path.ptr[:-1] + 2]
    spines, uplinks = len(np.unique(up)), len(np.unique(over[up == up[0]]))
    assert spines == 32
    assert uplinks == 32
    joint = np.unique(up.astype(np.int64) * wiring.links + over, return_counts=True)[1]
    expected = flows / 32 / 32
    assert ((joint - expected) ** 2 / expected).sum() < 1024 + 6 * np.sqrt(2 * 1024)


def test_equal_entropy_takes_equal_paths():
    wiring = Case(LeafSpine(), Endpoints(16, 4)).build()
    source, target = np.zeros(8, np.int32), np.full(8, 60, np.int32)
    path = routes.hashed(
        wiring.routing,
        wiring.target,
        source,
        target,
        entropy=np.full(8, 7, np.uint64),
        salt=routes.salts(wiring.nodes),
    )
    assert (path.link.reshape(8, -1) == path.link[: len(path.link) // 8]).all()


# The law of ECMP collisions out of hashed paths, and that spraying has none.

RATE = 400e9


def machine(fabric, accelerators=1024, topology=None, **overrides):
    """A cluster whose leafs have 32 ports down and 32 up, whatever the fabric."""
    shape = topology or LeafSpine(ports_per_leaf=32, spines=32)
    spec = NetworkSpec(shape, FabricSpec(fabric, overrides))
    return build(ClusterSpec(accelerators, "hgx-h100", spec), catalog.load())


def max_min(usage, capacity):
    """Progressive filling, flows with their shares on links; the rate of every flow."""
    rows = usage.rows()
    flows = len(usage)
    rate, frozen = np.zeros(flows), np.zeros(flows, bool)
    left = capacity.astype(float).copy()
    while not frozen.all():
        weight = np.bincount(usage.link, weights=usage.share * ~frozen[rows], minlength=len(capacity))
        room = np.divide(left, weight, out=np.full(len(left), np.inf), where=weight > 1e-12)
        step = room.min()
        rate[~frozen] += step
        left -= weight * step
        tight = (left <= 1e-9 * capacity) & (weight > 1e-12)
        frozen[rows[tight[usage.link] & (usage.share > 0)]] = True
    return rate


def leaf_loads(qps, uplinks, trials):
    """Loads of the uplinks of one leaf whose 32 hosts each send one flow elsewhere, in flows; a row a trial."""
    cluster = machine("roce", topology=LeafSpine(ports_per_leaf=32, oversubscription=32 / uplinks, spines=uplinks))
    network = cluster.back_end
    source = np.tile(np.arange(32, dtype=np.int32), trials)
    target = source + 32 + 32 * (np.arange(len(source), dtype=np.int32) % 31)
    usage = network.split(source, target, np.arange(len(source), dtype=np.uint64) * np.uint64(977) + np.uint64(5), qps)
    trial = usage.rows() // 32
    tier = cluster.links.tiers.index("leaf-spine")
    up = (cluster.links.tier[usage.link] == tier) & (
        cluster.links.source[usage.link] == network.node_offset + network.ports
    )
    first = usage.link[up].min()
    column = (usage.link[up] - first) // 2
    return np.bincount(trial[up] * uplinks + column, weights=usage.share[up], minlength=trials * uplinks).reshape(
        trials, uplinks
    )


def test_the_aggregate_of_32_flows_on_32_uplinks_is_63_percent():
    loads = leaf_loads(1, 32, 400)
    assert np.minimum(loads, 1.0).sum(axis=1).mean() / 32 == pytest.approx(1 - (1 - 1 / 32) ** 32, abs=0.01)
    assert np.minimum(loads, 1.0).sum(axis=1).mean() / 32 == pytest.approx(0.632, abs=0.03)


@pytest.mark.parametrize(
    ("qps", "uplinks", "slowest"),
    [
        (1, 32, 0.28),
        (2, 32, 0.37),
        (4, 32, 0.47),
        (8, 32, 0.56),
        (16, 32, 0.64),
        (32, 32, 0.72),
        (64, 32, 0.79),
        (1, 64, 0.37),
        (4, 64, 0.67),
        (16, 64, 0.98),
    ],
)
def test_the_slowest_flow_follows_the_law(qps, uplinks, slowest):
    loads = leaf_loads(qps, uplinks, 300 if qps < 32 else 100)
    assert np.minimum(1.0, 1 / loads.max(axis=1)).mean() == pytest.approx(slowest, abs=0.03)


def permutation(cluster, seed):
    """Every rank sends to another of another leaf, every rank receives once: usage with unit demand."""
    ports = cluster.back_end.port_of_rank[:, 0]
    order = np.random.default_rng(seed).permutation(len(ports))
    target = np.empty_like(ports)
    target[order] = ports[np.roll(order, 1)]
    return cluster.back_end.usage(ports, target, np.arange(len(ports), dtype=np.uint64) + np.uint64(seed))


def test_a_permutation_under_ecmp_is_near_half_and_rises_with_queue_pairs():
    mean = {}
    for qps in (1, 4, 16):
        cluster = machine("roce", accelerators=512, qps=qps, congestion_efficiency=1.0)
        rate = max_min(permutation(cluster, 3), cluster.links.rate_bps) / RATE
        mean[qps] = rate.mean()
        assert rate.min() < 0.9
    # Both ways of a two-tier network collide: below the one-stage 63 %.
    assert mean[1] < 0.632
    assert mean[1] < mean[4] < mean[16]


@pytest.mark.parametrize("fabric", [name for name, record in fabrics.items() if record.bundled or name == "ideal"])
@pytest.mark.parametrize("topology", [LeafSpine(), ThreeTier(), RailOptimized()], ids=lambda spec: spec.kind)
def test_spraying_has_no_collisions(fabric, topology):
    cluster = machine(fabric, accelerators=512, topology=topology)
    rate = max_min(permutation(cluster, 1), cluster.links.rate_bps) / RATE
    assert rate.min() >= 0.93
    assert rate.max() <= 1.0 + 1e-9


def test_bundles_and_real_links_give_the_same_rates():
    cluster = machine("uec", accelerators=512, topology=ThreeTier(oversubscription=2.0))
    ports = cluster.back_end.port_of_rank[:, 0]
    target = np.roll(ports, 200)
    folded = cluster.back_end.spread(ports, target)
    real = cluster.back_end.spread(ports, target, physical=True)
    assert len(folded.link) < len(real.link) / 5
    one, other = (max_min(usage, cluster.links.rate_bps) for usage in (folded, real))
    assert one == pytest.approx(other)
    load = np.bincount(folded.link, weights=folded.share, minlength=len(cluster.links))
    expected = np.bincount(real.link, weights=real.share, minlength=cluster.links.physical)
    assert cluster.links.to_physical(load) == pytest.approx(expected, abs=1e-9)


def test_queue_pairs_with_one_source_port_take_one_path_unless_switches_hash_their_numbers():
    own = {"accelerators": 64, "qps": 8, "topology": LeafSpine(ports_per_leaf=8)}
    usage = permutation(machine("roce", source_port="pair-of-ports", **own), 0)
    assert (usage.share == 1.0).all()
    for apart in ({"source_port": "pair-of-ports", "e_ecmp": True}, {"source_port": "queue-pair"}):
        assert permutation(machine("roce", **own, **apart), 0).share.min() == 1 / 8


def test_flowlets_spread_a_flow_without_more_queue_pairs():
    cluster = machine(
        "roce-untuned", accelerators=64, load_balancing="flowlet", flowlets=16, topology=LeafSpine(ports_per_leaf=8)
    )
    usage = permutation(cluster, 0)
    assert usage.share.min() == pytest.approx(1 / 16)


# Paths that are chosen where switches would hash.


def steering_machine(fabric):
    spec = NetworkSpec(LeafSpine(oversubscription=12, ports_per_leaf=32), FabricSpec(fabric))
    return build(ClusterSpec(128, "hgx-h100", spec), catalog.load())


STEERING_RATE = np.array([4.0, 4.0, 4.0, 1.0])
"""Three links between two switches, and the sender's (a NIC of a quarter of their rate)."""


def look(source, target, label):
    """Each source port leads over one of three links; the sender's own is link 3."""
    flows = len(source)
    link = np.stack([np.full(flows, 3), (label % np.uint64(3)).astype(np.int64)], axis=1)
    return Csr(np.arange(flows + 1) * 2, link.ravel().astype(np.int32))


def chosen(group, share, flows):
    """The link between switches that each connection gets."""
    steering = Steering(np.array(group), np.array(share))
    source, target = np.array(flows, np.int32), np.full(len(flows), 9, np.int32)
    pair = np.arange(len(flows), dtype=np.uint64)
    assert (steering.labels(source, target, pair) == pair).all()
    steering.settle(look, STEERING_RATE, 3)
    again = steering.labels(source[::-1], target, pair[::-1])[::-1]
    assert len(set(again.tolist())) <= TRIES * 3
    return look(source, target, again).link.reshape(-1, 2)[:, 1].tolist()


def test_connections_of_one_job_spread():
    assert sorted(chosen([0], [1.0], [0] * 6)) == [0, 0, 1, 1, 2, 2]


def test_the_first_job_chooses_first_and_counts_for_the_time_that_it_sends():
    """The two connections of the first job, port 1, take two links at half of the NIC each. The first of the other's
    four takes the third; its second would make 0.5 there, and 0.25 + 0.5 x 0.9 beside the first job.
    """
    first, second, third, fourth, *_ = chosen([1, 0], [0.9, 1.0], [1, 1, 0, 0, 0, 0])
    assert first != second
    assert third not in (first, second)
    assert fourth == third
    calm = chosen([1, 0], [0.2, 1.0], [1, 1, 0, 0, 0, 0])
    assert sorted(calm[2:5]) == [0, 1, 2]


def test_who_is_in_no_group_stays_hashed():
    steering = Steering(np.array([-1, 0]), np.array([1.0]))
    ports, target = np.array([0, 1], np.int32), np.array([9, 9], np.int32)
    pair = np.array([5, 5], np.uint64)
    steering.labels(ports, target, pair)
    steering.settle(look, STEERING_RATE, 3)
    found = steering.labels(ports, target, pair)
    assert found[0] == 5 != found[1]


def test_nothing_heard_nothing_chosen():
    steering = Steering(np.array([0]), np.array([1.0]))
    steering.settle(look, STEERING_RATE, 3)
    pair = np.array([7], np.uint64)
    assert steering.labels(np.array([0], np.int32), np.array([9], np.int32), pair) is pair


def test_a_cluster_is_steered_the_same_every_time():
    cluster = steering_machine("roce")
    ranks = (np.array([0, 4, 1, 5])[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)
    job = Job(WorkClass("w", 0.1, 1_000_000_000, 0.0).steps(32, 2), ranks)
    first, second = (steered([job], cluster, [0], [1.0]).back_end.steering for _ in range(2))
    ports = cluster.back_end.port_of_rank[ranks][:, 0]
    pair = np.arange(len(ports), dtype=np.uint64)
    assert np.array_equal(first.labels(ports, ports[::-1], pair), second.labels(ports, ports[::-1], pair))


@pytest.mark.parametrize("fabric", ["infiniband", "uec"])
def test_fabrics_that_spread_have_no_paths_to_choose(fabric):
    cluster = steering_machine(fabric)
    job = Job(WorkClass("w", 0.1, 1_000_000_000, 0.0).steps(16, 2), np.arange(16, dtype=np.int32))
    assert steered([job], cluster, [0], [1.0]) is cluster


# Routes that keep off dead links, against the shortest paths of the network without them.

CASES = [
    Case(LeafSpine(), SIXTY_FOUR),
    Case(ThreeTier(ports_per_leaf=2, leafs_per_pod=4), SIXTY_FOUR),
    Case(RailOptimized(servers_per_leaf=4), Endpoints(12, 2, 3)),
    Case(DualPlane(), SIXTY_FOUR),
    Case(Dragonfly(p=2, a=4, h=2), SIXTY_FOUR),
    Case(Torus(dimensions=(4, 4)), SIXTEEN),
    Case(BCube(), SIXTY_FOUR),
    Case(ZCube(), Endpoints(7, 3, 2)),
]


def around(wiring, node):
    return np.flatnonzero((wiring.source == node) | (wiring.target == node))


def walk(wiring, routes, source, target):
    entropy = hashing.mix(np.arange(len(source), dtype=np.uint64))
    return paths.hashed(routes, wiring.target, source, target, entropy=entropy, salt=hashing.salts(wiring.nodes))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("part", ["cable", "switch"])
def test_no_flow_crosses_a_dead_link_that_has_a_way_around(case, part):
    wiring = case.build()
    if part == "switch" and not wiring.groups:
        return
    node = wiring.groups[-1].first if wiring.groups else 5
    dead = around(wiring, node)
    if part == "cable":
        dead = np.array([dead[0] // 2 * 2, dead[0] // 2 * 2 + 1])
    routes = withdrawn(wiring, dead)
    source, target = thinned(*joined(case, wiring), 400)
    path = walk(wiring, routes, source, target)
    crossed = np.isin(path.link, dead)
    met = np.zeros(len(source), bool)
    met[path.rows()[crossed]] = True
    assert (met == _cut_off(wiring, dead, source, target)).all()
    assert (
        walk(wiring, withdrawn(wiring, dead[:0]), source, target).link
        == walk(wiring, wiring.routing, source, target).link
    ).all()


def _cut_off(wiring, dead, source, target):
    """Whether every designed equal-cost path of a pair meets a dead link: by walking all of them."""
    alive = np.ones(wiring.links, bool)
    alive[dead] = False

    def leads(node, goal):
        if node == goal:
            return True
        first, width = paths._next_links(wiring.routing, np.array([node], np.int32), np.array([goal], np.int32))
        links = wiring.routing.choices[first[0] : first[0] + width[0]]
        return any(alive[link] and leads(int(wiring.target[link]), goal) for link in links)

    return np.array([not leads(int(one), int(other)) for one, other in zip(source, target, strict=True)])


def test_a_dead_leaf_of_one_plane_leaves_the_other_to_its_ports_alone():
    wiring = Case(DualPlane(inner=LeafSpine(ports_per_leaf=8)), SIXTY_FOUR).build()
    leaf = next(group.first for group in wiring.groups if group.role == "leaf")
    dead = around(wiring, leaf)
    below = np.unique(wiring.source[dead][wiring.source[dead] < wiring.ports])
    usage = paths.spread(withdrawn(wiring, dead), wiring.target, *thinned(*joined(CASES[3], wiring), 500))
    source, target = thinned(*joined(CASES[3], wiring), 500)
    plane = (usage.link >= wiring.links // 2).astype(float)
    second = np.bincount(usage.rows(), weights=plane * usage.share * (wiring.tier[usage.link] == 0)) / 2
    hit = np.isin(source, below) | np.isin(target, below)
    assert second[hit] == pytest.approx(1.0)
    assert second[~hit] == pytest.approx(0.5)
