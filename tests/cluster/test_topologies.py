"""The contract that every topology family keeps, and the closed forms of each."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import maximum_flow, shortest_path

from railyard.cluster import routes
from railyard.cluster.boxes import fold
from railyard.cluster.network import spread as detour_spread
from railyard.cluster.topology import (
    BCube,
    Box,
    Dragonfly,
    DualPlane,
    Endpoints,
    FatTree,
    LeafSpine,
    MultiSite,
    RailOnly,
    RailOptimized,
    ThreeTier,
    Torus,
    ZCube,
)
from railyard.cluster.topology.clos import even_uplinks

from .wired import CASES, LARGE, RATE, SMALL, Case, every_case, flow_matrix, joined, thinned

cases = pytest.mark.parametrize("case", every_case(), ids=str)


@cases
def test_cables_have_two_ways_and_ends_of_their_own(case):
    wiring = case.build()
    assert (wiring.source[0::2] == wiring.target[1::2]).all()
    assert (wiring.target[0::2] == wiring.source[1::2]).all()
    assert (wiring.source != wiring.target).all()
    assert wiring.tier.max() < len(wiring.tiers)
    assert len(wiring.line_bps) == len(wiring.tier) == wiring.links


@cases
def test_switches_have_the_ports_and_the_capacity_that_they_use(case):
    wiring = case.build()
    degree = np.bincount(wiring.source, minlength=wiring.nodes)
    load = np.bincount(wiring.source, weights=wiring.line_bps, minlength=wiring.nodes)
    boxes = {box.name: box for box in (case.leaf, case.spine)}
    listed = np.zeros(wiring.nodes, bool)
    for group in wiring.groups:
        members = slice(group.first, group.first + group.count)
        box = boxes[group.box]
        assert not listed[members].any()
        listed[members] = True
        assert degree[members].max() <= group.ports
        assert group.ports <= box.max_ports + (160 if box.fabric_bps else 0)
        assert load[members].max() <= (box.capacity_bps + box.fabric_bps) * (1 + 1e-9)
    assert listed[wiring.ports :].all()
    assert not listed[: wiring.ports].any()


@cases
def test_every_nic_has_its_whole_rate(case):
    wiring = case.build()
    assert wiring.port_of.shape == (case.endpoints.servers, case.endpoints.nics)
    assert len(wiring.extra) == case.endpoints.extra
    assert len(np.unique(wiring.used)) == case.endpoints.ports
    out = np.bincount(wiring.source, weights=wiring.line_bps, minlength=wiring.nodes)[wiring.used]
    into = np.bincount(wiring.target, weights=wiring.line_bps, minlength=wiring.nodes)[wiring.used]
    assert out == pytest.approx(into)
    if case.spec.kind == "torus":
        assert (out <= RATE * (1 + 1e-9)).all()
    else:
        assert out == pytest.approx(RATE)


@cases
def test_building_twice_gives_the_same_numbers(case):
    one, other = case.build(), case.spec.build(case.endpoints, case.parts)
    for name in ("source", "target", "line_bps", "tier", "port_of", "extra"):
        assert (getattr(one, name) == getattr(other, name)).all()
    for name in ("record_ptr", "lo", "hi", "first", "width", "stride", "choices"):
        assert (getattr(one.routing, name) == getattr(other.routing, name)).all()


@cases
def test_hashed_paths_are_joined_and_end_where_they_should(case):
    wiring = case.build()
    source, target = joined(case, wiring)
    entropy = routes.mix(np.arange(len(source), dtype=np.uint64))
    path = routes.hashed(
        wiring.routing, wiring.target, source, target, entropy=entropy, salt=routes.salts(wiring.nodes)
    )
    assert (path.lengths > 0).all()
    first, last = path.link[path.ptr[:-1]], path.link[path.ptr[1:] - 1]
    assert (wiring.source[first] == source).all()
    assert (wiring.target[last] == target).all()
    inner = np.ones(len(path.link), bool)
    inner[path.ptr[:-1]] = False
    following = np.flatnonzero(inner)
    assert (wiring.target[path.link[following - 1]] == wiring.source[path.link[following]]).all()
    visited = path.rows() * wiring.nodes + wiring.target[path.link]
    assert len(np.unique(visited)) == len(visited)


@cases
def test_paths_are_shortest(case):
    """Against Dijkstra on the bare graph, in which ports pass nothing on unless they are routers themselves."""
    wiring = case.build()
    source, target = joined(case, wiring)
    passing = (wiring.target >= wiring.ports) | wiring.routes_through_ports
    graph = coo_matrix(
        (np.ones(passing.sum()), (wiring.source[passing], wiring.target[passing])), shape=(wiring.nodes, wiring.nodes)
    ).tocsr()
    hops = routes.hashed(wiring.routing, wiring.target, source, target).lengths
    best = shortest_path(graph, unweighted=True, indices=np.unique(source))
    rows = np.searchsorted(np.unique(source), source)
    if wiring.routes_through_ports:
        assert (hops == best[rows, target]).all()
        return
    last = [wiring.source[(wiring.target == port)] for port in range(wiring.ports)]
    expected = np.array([best[row, last[port]].min() + 1 for row, port in zip(rows, target, strict=True)])
    inner = getattr(case.spec, "inner", case.spec).kind
    if inner == "dragonfly":
        assert (hops >= expected).all()
        assert (hops <= (5 if case.spec.kind == "dragonfly" else 11)).all()
    else:
        assert (hops == expected).all()


@cases
def test_even_splits_conserve_bytes(case):
    wiring = case.build()
    source, target = thinned(*joined(case, wiring), 300)
    if wiring.detour is None:
        usage = routes.spread(wiring.routing, wiring.target, source, target)
    else:
        usage = detour_spread(wiring, wiring.detour, source, target)
    net = flow_matrix(wiring, usage, len(source))
    row = np.arange(len(source))
    assert net[row, target] == pytest.approx(1.0)
    assert net[row, source] == pytest.approx(-1.0)
    net[row, target] = net[row, source] = 0.0
    assert abs(net).max(initial=0.0) < 1e-9


@cases
def test_bundles_carry_what_their_members_carry(case):
    wiring = case.build()
    bundles = fold(wiring)
    if bundles is None:
        assert wiring.classes is None
        return
    source, target = thinned(*joined(case, wiring), 300)
    whole = routes.spread(wiring.routing, wiring.target, source, target)
    member = bundles.bundle_of[whole.link]
    image = np.where(member >= 0, wiring.links + member, whole.link)
    size = wiring.links + len(bundles.sample)
    expected = np.bincount(whole.rows() * size + image, weights=whole.share, minlength=len(source) * size)
    folded = routes.spread(bundles.routing, bundles.target, source, target)
    found = np.bincount(folded.rows() * size + folded.link, weights=folded.share, minlength=len(source) * size)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max(initial=0.0) < 1e-9


@cases
def test_members_of_a_bundle_are_loaded_alike(case):
    """Exactness of bundles: under uniform traffic every member carries the same, so their sum is what limits."""
    wiring = case.build()
    bundles = fold(wiring)
    if bundles is None or case.spec.kind == "multi-site":
        return
    source, target = joined(case, wiring)
    usage = routes.spread(wiring.routing, wiring.target, source, target)
    load = np.bincount(usage.link, weights=usage.share, minlength=wiring.links) / wiring.line_bps
    for bundle in range(len(bundles.sample)):
        members = load[bundles.bundle_of == bundle]
        assert members == pytest.approx(members[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_hashing_many_times_comes_to_the_even_split(case):
    wiring = case.build()
    source, target = joined(case, wiring)
    source, target = source[len(source) // 3 :][:1], target[len(source) // 3 :][:1]
    times = 4096
    entropy = routes.mix(np.arange(times, dtype=np.uint64))
    path = routes.hashed(
        wiring.routing,
        wiring.target,
        np.repeat(source, times),
        np.repeat(target, times),
        entropy=entropy,
        salt=routes.salts(wiring.nodes, seed=5),
    )
    found = np.bincount(path.link, minlength=wiring.links) / times
    usage = routes.spread(wiring.routing, wiring.target, source, target)
    expected = np.zeros(wiring.links)
    expected[usage.link] = usage.share
    deviation = np.sqrt(expected * (1 - expected) / times)
    assert (abs(found - expected) <= 5.5 * deviation + 1e-9).all()


def halves(wiring):
    """Ports of the first and of the second half of the servers."""
    middle = len(wiring.port_of) // 2
    return wiring.port_of[:middle].ravel(), wiring.port_of[middle : 2 * middle].ravel()


@cases
def test_bisection_is_no_more_than_any_cut_lets_through(case):
    """Against the maximum flow between the halves of the servers, over links of 1 Gb/s units."""
    wiring = case.build()
    one, other = halves(wiring)
    units = np.rint(wiring.line_bps / 1e9).astype(np.int32)
    rows = np.concatenate([wiring.source, np.full(len(one), wiring.nodes), other])
    columns = np.concatenate([wiring.target, one, np.full(len(other), wiring.nodes + 1)])
    weights = np.concatenate([units, np.full(len(one) + len(other), 10**6, np.int32)])
    size = wiring.nodes + 2
    graph = coo_matrix((weights, (rows, columns)), shape=(size, size)).tocsr().astype(np.int32)
    most = maximum_flow(graph, wiring.nodes, wiring.nodes + 1).flow_value * 1e9
    assert 0 < wiring.bisection_bps <= most * (1 + 1e-6)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (Case(LeafSpine(), Endpoints(16, 4)), 32 * RATE),
        (Case(LeafSpine(oversubscription=3.0), Endpoints(18, 4)), 12 * RATE),
        (Case(ThreeTier(), Endpoints(32, 4)), 64 * RATE),
        (Case(FatTree(k=8), Endpoints(32, 4)), 64 * RATE),
        (Case(RailOptimized(), Endpoints(16, 4)), 32 * RATE),
        (Case(RailOnly(), Endpoints(16, 4)), 32 * RATE),
        (Case(DualPlane(), Endpoints(16, 4)), 32 * RATE),
        (Case(Torus(dimensions=(4, 8)), Endpoints(32, 1)), 2 * 4 * RATE / 4),
        (Case(Torus(dimensions=(4, 4, 8)), Endpoints(128, 1)), 2 * 16 * RATE / 6),
        (Case(Dragonfly(p=2, a=4, h=2), Endpoints(72, 1)), 4 * 5 * RATE),
        (Case(MultiSite(links=4, link_bps=2 * RATE, inner=LeafSpine()), Endpoints(32, 2)), 8 * RATE),
        # Half of the ports of each of the 8 switches of a level, at half of a NIC's rate.
        (Case(BCube(), Endpoints(16, 4)), 8 * 4 * RATE / 2),
        # Level 1: 5 switches of 3 ports, of which one stands alone; level 0 would lose 3 x 2.
        (Case(BCube(dimensions=(5, 3)), Endpoints(15, 1)), 5 * 1 * RATE / 2),
        (Case(BCube(levels=3), Endpoints(27, 1)), 9 * 1 * RATE / 3),
        # 4 of 8 rows: 32 NICs, each with half of its rate to a column, and as many links from rows to columns.
        (Case(ZCube(), Endpoints(16, 4)), 32 * RATE),
        # 4 rows of 7 NICs; with links of a quarter of a NIC between rows and columns 2 x 7 x 3/4 cross.
        (Case(ZCube(columns=7, uplink_bps=RATE / 4), Endpoints(14, 2)), 2 * 7 * 0.75 * RATE),
    ],
    ids=str,
)
def test_bisection_in_closed_form(case, expected):
    assert case.build().bisection_bps == pytest.approx(expected)


@pytest.mark.parametrize(
    ("case", "cables", "switches"),
    [
        (Case(LeafSpine(), Endpoints(32, 4)), 128 + 128, 16 + 8),
        (Case(LeafSpine(oversubscription=3.0), Endpoints(18, 4)), 72 + 24, 6 + 2),
        (Case(FatTree(k=8), Endpoints(32, 4)), 3 * 8**3 // 4, 5 * 8**2 // 4),
        (Case(FatTree(k=16), Endpoints(256, 4)), 3 * 16**3 // 4, 5 * 16**2 // 4),
        (Case(ThreeTier(), Endpoints(256, 4)), 3 * 1024, 128 + 128 + 64),
        (Case(RailOptimized(), Endpoints(32, 4)), 256, 16 + 8),
        (Case(RailOnly(), Endpoints(16, 4)), 64, 4),
        (Case(DualPlane(), Endpoints(32, 4)), 2 * (128 + 128), 2 * (8 + 4)),
        (Case(Dragonfly(p=2, a=4, h=2), Endpoints(72, 1)), 72 + 9 * 6 + 36, 36),
        (Case(Torus(dimensions=(4, 4, 8)), Endpoints(128, 1)), 3 * 128, 0),
        # n^(k+1) servers, (k+1) n^k switches, a cable a server and level.
        (Case(BCube(), Endpoints(16, 4)), 2 * 64, 2 * 8),
        (Case(BCube(levels=3), Endpoints(27, 1)), 3 * 27, 3 * 9),
        (Case(BCube(dimensions=(5, 3)), Endpoints(15, 1)), 2 * 15, 3 + 5),
        (Case(BCube(dimensions=(7, 9)), Endpoints(21, 3)), 2 * 63, 9 + 7),
        # 2 n switches for n^2 NICs, and n^2 cables between them.
        (Case(ZCube(), Endpoints(16, 4)), 2 * 64 + 64, 2 * 8),
        # 23 NICs in rows of 5: five rows, the last one with 3.
        (Case(ZCube(), Endpoints(7, 3, 2)), 2 * 23 + 25, 10),
    ],
    ids=str,
)
def test_cables_and_switches_in_closed_form(case, cables, switches):
    wiring = case.build()
    assert wiring.links == 2 * cables
    assert sum(group.count for group in wiring.groups) == switches == wiring.nodes - wiring.ports


@pytest.mark.parametrize(
    ("spec", "endpoints", "borders", "ports", "inside", "between"),
    [
        # 4 links of 2 rates to one other site, and 8 into the own one, fill the one switch of 16 rates of a site.
        (MultiSite(links=4, link_bps=2 * RATE, inner=LeafSpine()), Endpoints(32, 2), 2, 4 + 8, 16, 4),
        # 3 links to each of two sites: 12 rates out and 12 in are too much for one; each of three has 4 and 4.
        (MultiSite(sites=3, links=3, inner=LeafSpine()), Endpoints(24, 2), 9, 2 + 4, 36, 9),
    ],
)
def test_border_switches_carry_as_much_in_as_out(spec, endpoints, *, borders, ports, inside, between):
    wiring = Case(spec, endpoints).build()
    (group,) = [group for group in wiring.groups if group.role == "border"]
    assert (group.count, group.ports) == (borders, ports)
    cables = {tier.name: int((wiring.tier == row).sum()) // 2 for row, tier in enumerate(wiring.tiers)}
    assert (cables["border"], cables["inter-site"]) == (inside, between)


@pytest.mark.parametrize(
    ("sizes", "endpoints"), [((8, 8), Endpoints(16, 4)), ((7, 9), Endpoints(21, 3)), ((2, 3, 4), Endpoints(8, 3))]
)
def test_a_path_of_a_bcube_has_a_switch_for_every_digit_that_differs(sizes, endpoints):
    wiring = Case(BCube(dimensions=sizes), endpoints).build()
    ports = np.arange(wiring.ports)
    digits = np.array(np.unravel_index(ports, sizes, order="F"))
    source, target = (part.ravel().astype(np.int32) for part in np.meshgrid(ports, ports))
    apart = source != target
    source, target = source[apart], target[apart]
    differ = (digits[:, source] != digits[:, target]).sum(axis=0)
    path = routes.hashed(wiring.routing, wiring.target, source, target)
    assert (path.lengths == 2 * differ).all()
    first = routes.spread(wiring.routing, wiring.target, source, target)
    leaving = wiring.source[first.link] == source[first.rows()]
    assert (np.bincount(first.rows()[leaving]) == differ).all()


def test_a_path_of_a_zcube_is_one_switch_in_a_row_or_column_and_two_elsewhere():
    wiring = Case(ZCube(columns=7), Endpoints(21, 3)).build()
    ports = np.arange(63)
    source, target = (part.ravel().astype(np.int32) for part in np.meshgrid(ports, ports))
    apart = source != target
    source, target = source[apart], target[apart]
    same = (source // 7 == target // 7) | (source % 7 == target % 7)
    path = routes.hashed(wiring.routing, wiring.target, source, target)
    assert (path.lengths == np.where(same, 2, 3)).all()
    usage = routes.spread(wiring.routing, wiring.target, source, target)
    assert (usage.lengths == np.where(same, 2, 6)).all()


def test_uniform_traffic_loads_all_links_between_the_switches_of_a_zcube_alike():
    wiring = Case(ZCube(), Endpoints(16, 4)).build()
    source, target = joined(Case(ZCube(), Endpoints(16, 4)), wiring)
    usage = routes.spread(wiring.routing, wiring.target, source, target)
    load = np.bincount(usage.link, weights=usage.share, minlength=wiring.links)
    between = load[wiring.tier == 1]
    # 7 x 7 NICs of other rows and columns get half of a flow from each of 8 NICs of a row, over 8 links.
    assert between == pytest.approx(8 * 49 * 0.5 / 8)


def test_a_zcube_has_a_third_fewer_switches_than_two_planes_of_leafs_and_spines():
    """The published saving: 4,096 NICs of two ports on switches of 128."""
    box = Box("25.6T", 64 * RATE, RATE, 128)
    flat, tree = (Case(spec, Endpoints(512, 8), box, box).build() for spec in (ZCube(), DualPlane(inner=LeafSpine())))
    assert [sum(group.count for group in wiring.groups) for wiring in (flat, tree)] == [128, 192]
    assert {group.ports for group in flat.groups} == {128}


def test_rails_of_one_index_are_one_switch_apart():
    wiring = Case(RailOptimized(), Endpoints(8, 4)).build()
    ports = wiring.port_of
    same = routes.hashed(wiring.routing, wiring.target, ports[0], ports[5]).lengths
    assert (same == 2).all()
    across = routes.hashed(wiring.routing, wiring.target, ports[0, :1], ports[0, 1:2]).lengths
    assert (across == 4).all()


def test_leaf_spine_keeps_a_server_on_one_leaf():
    wiring = Case(LeafSpine(), Endpoints(20, 3)).build()
    leaf = wiring.target[wiring.source < wiring.ports]
    leaf_of = dict(zip(wiring.source[wiring.source < wiring.ports].tolist(), leaf.tolist(), strict=True))
    for row in wiring.port_of:
        assert len({leaf_of[int(port)] for port in row}) == 1


def test_rails_never_meet():
    wiring = Case(RailOnly(), Endpoints(8, 4)).build()
    _, ok = routes.walked(wiring.routing, wiring.target, wiring.port_of[:, 0], wiring.port_of[:, 1])
    assert not ok.any()


def test_the_ways_of_a_minimal_dragonfly_use_one_global_link():
    wiring = Case(Dragonfly(p=2, a=4, h=2), Endpoints(72, 1)).build()
    source, target = (part.astype(np.int32) for part in (np.zeros(64, int), np.arange(8, 72)))
    path = routes.hashed(wiring.routing, wiring.target, source, target)
    tiers = wiring.tier[path.link]
    assert (np.bincount(path.rows(), weights=tiers == 2) == 1).all()
    assert (np.bincount(path.rows(), weights=tiers == 1) <= 2).all()


def test_detours_take_the_stated_share_by_other_groups():
    spec = Dragonfly(p=2, a=4, h=2, detour_share=0.25, detours=3)
    wiring = Case(spec, Endpoints(72, 1)).build()
    usage = detour_spread(wiring, wiring.detour, np.array([0], np.int32), np.array([71], np.int32))
    onto = usage.link[wiring.tier[usage.link] == 2]
    share = usage.share[wiring.tier[usage.link] == 2]
    assert len(onto) == 1 + 2 * 3
    assert share.max() == pytest.approx(0.75)
    assert share.sum() == pytest.approx(0.75 + 2 * 0.25)


@pytest.mark.parametrize("servers", [16, 32, 64, 128, 256, 512])
def test_a_default_dragonfly_carries_uniform_traffic_in_several_groups(servers):
    box = Box("large", 128 * RATE, 2 * RATE, 256)
    wiring = Case(Dragonfly(), Endpoints(servers, 8), box, box).build()
    routers = sum(group.count for group in wiring.groups)
    ports = servers * 8
    assert wiring.ports // wiring.pod_ports >= 2
    assert max(group.ports for group in wiring.groups) <= 128
    assert routers <= 1.1 * ports / 32
    local, across = (int((wiring.tier == tier).sum()) for tier in (1, 2))
    groups = wiring.ports // wiring.pod_ports
    # Directed links: each port's bytes cross a group's edge but for those to its own group, and two local links.
    assert across >= 0.9 * ports * (1 - 1 / groups)
    assert local >= 0.9 * 2 * ports * (1 - 1 / groups) * (1 - groups / routers)


def test_a_dragonfly_and_a_fat_tree_of_half_a_switch_are_one_switch():
    box = Box("large", 128 * RATE, 2 * RATE, 256)
    for spec in (Dragonfly(), FatTree()):
        assert [group.count for group in Case(spec, Endpoints(8, 8), box, box).build().groups] == [1]


def test_a_fat_tree_without_k_uses_switches_at_their_full_radix():
    box = Box("large", 128 * RATE, 2 * RATE, 256)
    wiring, clos = (Case(spec, Endpoints(256, 8), box, box).build() for spec in (FatTree(), ThreeTier()))
    assert [(group.role, group.count) for group in wiring.groups] == [
        (group.role, group.count) for group in clos.groups
    ]
    assert [group.count for group in wiring.groups] == [32, 32, 16]
    assert wiring.bisection_bps == pytest.approx(1024 * RATE)


def test_a_small_cluster_needs_no_spine():
    assert [group.role for group in Case(LeafSpine(), Endpoints(2, 4)).build().groups] == ["leaf"]


def test_a_site_reaches_the_other_only_by_long_links():
    wiring = Case(MultiSite(inner=LeafSpine(), links=4), Endpoints(16, 4)).build()
    long = [tier.name for tier in wiring.tiers].index("inter-site")
    ports = wiring.port_of
    path = routes.hashed(wiring.routing, wiring.target, ports[:8].ravel(), ports[8:].ravel())
    assert (np.bincount(path.rows(), weights=wiring.tier[path.link] == long) == 1).all()
    inside = routes.hashed(wiring.routing, wiring.target, ports[:4].ravel(), ports[4:8].ravel())
    assert not (wiring.tier[inside.link] == long).any()


def test_ports_that_borders_took_cannot_be_reached():
    wiring = Case(MultiSite(inner=LeafSpine(), links=4), Endpoints(16, 4)).build()
    free = np.setdiff1d(np.arange(wiring.ports), wiring.used).astype(np.int32)
    assert len(free)
    _, ok = routes.walked(wiring.routing, wiring.target, np.full(len(free), wiring.port_of[0, 0], np.int32), free)
    assert not ok.any()


def test_oversubscription_is_at_most_what_was_asked():
    for ratio in (1.0, 1.125, 2.0, 3.0, 4.0, 7.0):
        wiring = Case(LeafSpine(oversubscription=ratio), Endpoints(64, 8), LARGE, LARGE).build()
        up = wiring.line_bps[wiring.tier == 1].sum()
        down = wiring.line_bps[wiring.tier == 0].sum()
        assert down / up <= ratio * (1 + 1e-9)
        assert down / up >= ratio * 0.75


def test_scheduled_leafs_have_their_speed_up_in_the_wiring():
    wiring = CASES[5].build()
    up = wiring.line_bps[wiring.tier == 1].sum()
    down = wiring.line_bps[wiring.tier == 0].sum()
    assert up / down == pytest.approx(20 / 18, rel=0.05)
    assert SMALL.fabric_bps == 0


# Leafs with a few uplinks more than asked, by hand, of switches of 64 ports.


@pytest.mark.parametrize(
    ("leafs", "down", "uplinks"),
    [
        (8, 31, 32),  # 31 spines, or 8 x 32 / 64 = 4
        (8, 32, 32),
        (4, 29, 30),  # 29 spines, or 2 with 15 links from each leaf; 4 x 30 <= 128
        (10, 32, 32),  # 8 spines; 35 uplinks would take 7
        (12, 24, 24),  # 6 spines; 25 uplinks would take 5
        (16, 61, 61),  # no port left for another uplink of this leaf: 64 - 61 = 3 are fewer than it has
    ],
)
def test_uplinks_are_added_where_that_halves_the_spines(leafs, down, uplinks):
    leaf = SimpleNamespace(fabric_bps=0, capacity_bps=25.6e12, max_ports=64)
    parts = SimpleNamespace(leaf=leaf, spine=SimpleNamespace(ports=lambda rate: 64), link_bps=4e11)
    assert even_uplinks(leafs, down, down, parts, 4e11) == uplinks
