"""Small topologies of every family, and what can be said about any wired network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from railyard.cluster.topology import (
    BCube,
    Box,
    Dragonfly,
    DualPlane,
    Endpoints,
    FatTree,
    LeafSpine,
    MultiSite,
    Optical,
    Parts,
    RailOnly,
    RailOptimized,
    ThreeTier,
    Torus,
    ZCube,
    topologies,
)

RATE = 400e9
SMALL = Box("small", 16 * RATE, 2 * RATE, 64)
LARGE = Box("large", 64 * RATE, 2 * RATE, 256)
CELL_LEAF = Box("cell leaf", 18 * RATE, 2 * RATE, 144, fabric_bps=20 * RATE)
CELL_SPINE = Box("cell spine", 64 * RATE, RATE / 4, 512)


@dataclass(frozen=True)
class Case:
    """A topology with the end points that it joins."""

    spec: object
    endpoints: Endpoints
    leaf: Box = SMALL
    spine: Box = SMALL

    @property
    def parts(self):
        return Parts(RATE, self.leaf, self.spine)

    def build(self):
        return _built(self)

    def __str__(self):
        given = ",".join(f"{key}={value}" for key, value in vars(self.spec).items() if not hasattr(value, "kind"))
        inner = getattr(getattr(self.spec, "inner", None), "kind", "")
        return f"{self.spec.kind}{'/' + inner if inner else ''}({given})-{self.endpoints.ports}"


@cache
def _built(case):
    return case.spec.build(case.endpoints, case.parts)


SIXTEEN = Endpoints(8, 2)
SIXTY_FOUR = Endpoints(16, 4)
CASES = [
    Case(LeafSpine(), SIXTEEN),
    Case(LeafSpine(), SIXTY_FOUR),
    Case(LeafSpine(oversubscription=3.0), SIXTY_FOUR),
    Case(LeafSpine(oversubscription=0.5, ports_per_leaf=4, spines=8), SIXTY_FOUR, spine=LARGE),
    Case(LeafSpine(), Endpoints(13, 3, 5), LARGE, LARGE),
    Case(LeafSpine(), SIXTY_FOUR, CELL_LEAF, CELL_SPINE),
    Case(LeafSpine(uplink_bps=2 * RATE), SIXTY_FOUR),
    Case(ThreeTier(), Endpoints(32, 4)),
    Case(ThreeTier(oversubscription=2.0, spine_oversubscription=3.0), Endpoints(32, 4, 2)),
    Case(ThreeTier(ports_per_leaf=2, leafs_per_pod=4), SIXTY_FOUR),
    Case(FatTree(), Endpoints(8, 2)),
    Case(FatTree(), Endpoints(25, 2)),
    Case(FatTree(k=8), Endpoints(32, 4)),
    Case(RailOptimized(), SIXTY_FOUR),
    Case(RailOptimized(servers_per_leaf=4), Endpoints(12, 2, 3)),
    Case(RailOptimized(servers_per_leaf=4, servers_per_pod=8), Endpoints(20, 2, 3)),
    Case(RailOnly(), SIXTY_FOUR),
    Case(RailOnly(ports_per_leaf=4), SIXTY_FOUR),
    Case(DualPlane(), SIXTY_FOUR),
    Case(DualPlane(planes=4, inner=ThreeTier(ports_per_leaf=8)), SIXTY_FOUR),
    Case(DualPlane(inner=RailOnly()), SIXTEEN),
    Case(Dragonfly(p=2, a=4, h=2), SIXTY_FOUR),
    Case(Dragonfly(p=2, a=4, h=2), Endpoints(9, 5, 1)),
    Case(Dragonfly(p=2, a=4, h=2, detour_share=0.25, detours=3), SIXTY_FOUR),
    Case(Dragonfly(p=1, a=3, h=1), Endpoints(2, 5)),
    Case(Dragonfly(p=4, a=1, h=4), SIXTEEN),
    Case(Dragonfly(), SIXTEEN),
    Case(Torus(dimensions=(4, 4)), SIXTEEN),
    Case(Torus(dimensions=(2, 3, 5)), Endpoints(30, 1)),
    Case(Torus(dimensions=(7,)), Endpoints(7, 1)),
    Case(Torus(), SIXTY_FOUR),
    Case(BCube(), SIXTY_FOUR),
    Case(BCube(dimensions=(5, 3)), Endpoints(15, 1)),
    Case(BCube(levels=3), Endpoints(9, 3)),
    Case(BCube(dimensions=(2, 3, 4)), Endpoints(7, 3, 3)),
    Case(BCube(levels=1), Endpoints(5, 3)),
    Case(ZCube(), SIXTY_FOUR),
    Case(ZCube(), Endpoints(7, 3, 2)),
    Case(ZCube(columns=5), Endpoints(9, 3)),
    Case(ZCube(columns=16), Endpoints(3, 5)),
    Case(Optical(nics=2, region=4), SIXTY_FOUR),
    Case(Optical(nics=3, region=2, inner=LeafSpine(oversubscription=3.0)), Endpoints(12, 5, 3), LARGE, LARGE),
    Case(Optical(nics=2, inner=RailOptimized(servers_per_leaf=4)), Endpoints(12, 4, 3), LARGE, LARGE),
    Case(MultiSite(inner=LeafSpine()), SIXTY_FOUR),
    Case(
        MultiSite(sites=4, inner=RailOptimized(servers_per_leaf=4), oversubscription=2.0),
        Endpoints(32, 2, 6),
        LARGE,
        LARGE,
    ),
    Case(MultiSite(sites=3, inner=Dragonfly(p=2, a=4, h=2), links=2), Endpoints(24, 2)),
    Case(MultiSite(inner=DualPlane(inner=LeafSpine()), links=4), SIXTY_FOUR, LARGE, LARGE),
    Case(MultiSite(), SIXTY_FOUR),
]


def every_case():
    """Cases of this file, and the bare default of every registered family, third parties' included."""
    return [*CASES, *(Case(spec(), Endpoints(16, 2), LARGE, LARGE) for _, spec in topologies.items())]


def pairs(wiring):
    """Every ordered pair of used ports that has a path by design: all, or those of one rail."""
    used = wiring.used
    source, target = (part.ravel() for part in np.meshgrid(used, used, indexing="ij"))
    apart = source != target
    return source[apart].astype(np.int32), target[apart].astype(np.int32)


def joined(case, wiring):
    """The pairs that the family promises to join."""
    source, target = pairs(wiring)
    if wiring.circuits is not None:
        ends = wiring.ends(source, target)
        own = (ends[0] == source) & (ends[1] == target)
        return source[own], target[own]
    spec = getattr(case.spec, "inner", case.spec)
    if spec.kind != "rail-only":
        return source, target
    rail = {int(port): rail for row in wiring.port_of for rail, port in enumerate(row)}
    same = np.array([rail[int(one)] == rail[int(other)] for one, other in zip(source, target, strict=True)])
    return source[same], target[same]


def flow_matrix(wiring, usage, flows):
    """float64[flows, nodes], what flows into a node less what flows out of it."""
    rows = usage.rows()
    net = np.zeros((flows, wiring.nodes))
    np.add.at(net, (rows, wiring.target[usage.link]), usage.share)
    np.add.at(net, (rows, wiring.source[usage.link]), -usage.share)
    return net


def thinned(source, target, most):
    """About `most` of the pairs, from all over the list."""
    step = max(1, len(source) // most) | 1  # odd, so that it does not walk along one port
    return source[::step], target[::step]
