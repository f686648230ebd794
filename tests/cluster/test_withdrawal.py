"""Routes that keep off dead links, against the shortest paths of the network without them."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.cluster import routes as hashing
from railyard.cluster import routes as paths
from railyard.cluster.steering import withdrawn
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

from .wired import SIXTEEN, SIXTY_FOUR, Case, joined, thinned

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
