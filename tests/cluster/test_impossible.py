"""What cannot be built is refused in words that name the key, what was found and what would be possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster import routes
from railyard.cluster.topology import (
    Box,
    Dragonfly,
    DualPlane,
    Endpoints,
    FatTree,
    LeafSpine,
    MultiSite,
    Parts,
    RailOnly,
    RailOptimized,
    ThreeTier,
    Torus,
    from_mapping,
    topologies,
)
from railyard.kit.errors import InputError

from .wired import RATE, SMALL, Case

IMPOSSIBLE = [
    (LeafSpine(), Endpoints(64, 8), "kind", "three-tier"),
    (LeafSpine(oversubscription=0.0), Endpoints(8, 8), "oversubscription", "more than 0"),
    (LeafSpine(oversubscription=-1.0), Endpoints(8, 8), "oversubscription", "more than 0"),
    (LeafSpine(oversubscription=100.0), Endpoints(8, 8), "oversubscription", "at most 8:1"),
    (RailOptimized(oversubscription=4.0), Endpoints(2, 8), "oversubscription", "at most 2:1"),
    (LeafSpine(ports_per_leaf=9), Endpoints(8, 8), "ports_per_leaf", "1 to 8"),
    (LeafSpine(ports_per_leaf=0), Endpoints(8, 8), "ports_per_leaf", "1 to 8"),
    (LeafSpine(spines=3), Endpoints(8, 8), "spines", "4, 8"),
    (LeafSpine(spines=2), Endpoints(16, 8), "spines", "possible: 8"),
    (LeafSpine(spines=0), Endpoints(8, 8), "spines", "4, 8"),
    (LeafSpine(uplink_bps=4 * RATE), Endpoints(8, 8), "uplink_rate", "800 Gb/s"),
    (LeafSpine(oversubscription=1e-6), Endpoints(8, 8), "oversubscription", "larger switch"),
    (ThreeTier(), Endpoints(512, 8), "kind", "higher radix"),
    (ThreeTier(leafs_per_pod=0), Endpoints(8, 8), "leafs_per_pod", "more than 0"),
    (ThreeTier(leafs_per_pod=12), Endpoints(64, 4), "leafs_per_pod", "2 to 8"),
    (ThreeTier(spine_oversubscription=0.0), Endpoints(8, 8), "spine_oversubscription", "more than 0"),
    (FatTree(k=7), Endpoints(8, 2), "k", "even"),
    (FatTree(k=4), Endpoints(16, 2), "k", "nearest possible: 6"),
    (FatTree(k=64), Endpoints(16, 2), "k", "1024 ports"),
    (FatTree(), Endpoints(1000, 2), "k", "1024 ports"),
    (RailOptimized(), Endpoints(1024, 8), "kind", "higher radix"),
    (RailOptimized(servers_per_leaf=17), Endpoints(32, 4), "servers_per_leaf", "1 to 8"),
    (RailOptimized(servers_per_leaf=4, servers_per_pod=6), Endpoints(32, 4), "servers_per_pod", "nearest possible: 8"),
    (RailOptimized(spine_oversubscription=0.0), Endpoints(32, 4), "spine_oversubscription", "more than 0"),
    (RailOptimized(servers_per_leaf=4, servers_per_pod=64), Endpoints(64, 4), "servers_per_pod", "higher radix"),
    (RailOnly(), Endpoints(8, 4, 1), "kind", "network of its own"),
    (RailOnly(), Endpoints(4096, 2), "kind", "higher radix"),
    (DualPlane(planes=0), Endpoints(8, 4), "planes", "at least one"),
    (DualPlane(inner=Torus()), Endpoints(8, 4), "inner", "Clos"),
    (Dragonfly(p=2, a=2, h=1), Endpoints(32, 1), "h", "at most 12 ports"),
    (Dragonfly(p=0), Endpoints(8, 1), "p", "1 or more"),
    (Dragonfly(p=8, a=8, h=8), Endpoints(8, 1), "p", "balanced"),
    (Dragonfly(p=2, a=4, h=2, detour_share=1.0), Endpoints(64, 1), "detour_share", "30 %"),
    (Torus(dimensions=(4, 4)), Endpoints(15, 1), "dimensions", "3 x 5"),
    (Torus(dimensions=()), Endpoints(15, 1), "dimensions", "15"),
    (Torus(dimensions=(4, 0)), Endpoints(16, 1), "dimensions", "4 x 4"),
    (Torus(), Endpoints(16, 1, 2), "kind", "storage"),
    (MultiSite(sites=1), Endpoints(16, 1), "sites", "at least two"),
    (MultiSite(sites=3), Endpoints(16, 1), "sites", "2, 4, 8, 16"),
    (MultiSite(links=0), Endpoints(16, 1), "links", "1 or more"),
    (MultiSite(distance_m=0.0), Endpoints(16, 1), "distance", "50 km"),
    (MultiSite(link_bps=9 * RATE), Endpoints(16, 1), "link_rate", "800 Gb/s"),
    (MultiSite(sites=16), Endpoints(16, 1), "sites", "fewer sites"),
    (MultiSite(inner=Torus()), Endpoints(16, 1), "kind", "storage"),
]


@pytest.mark.parametrize(("spec", "endpoints", "key", "words"), IMPOSSIBLE, ids=lambda value: str(value)[:60])
def test_impossible_topologies_are_refused(spec, endpoints, key, words):
    with pytest.raises(InputError) as caught:
        spec.build(endpoints, Parts(RATE, SMALL, SMALL))
    problem = caught.value.problems[0]
    assert problem.key == f"topology.{key}"
    assert problem.found is not None
    assert words in f"{problem.headline()} {problem.allowed}"


def test_every_family_is_read_from_what_a_file_says():
    spec = from_mapping(
        {"kind": "three-tier", "oversubscription": "3:1", "uplink_rate": "800 Gb/s", "leafs_per_pod": 8}
    )
    assert spec == ThreeTier(oversubscription=3.0, uplink_bps=800e9, leafs_per_pod=8)
    spec = from_mapping({"kind": "multi-site", "distance": "80 km", "inner": {"kind": "rail-optimized"}})
    assert spec == MultiSite(distance_m=80_000.0, inner=RailOptimized())
    assert from_mapping({"kind": "dual-plane", "inner": "leaf-spine"}) == DualPlane(inner=LeafSpine())
    assert from_mapping({"kind": "torus", "dimensions": [4, 4]}) == Torus(dimensions=(4, 4))
    assert from_mapping({"kind": "dragonfly", "detour_share": "30 %"}) == Dragonfly(detour_share=0.3)
    for name, family in topologies.items():
        assert from_mapping({"kind": name}) == family()


counts = st.integers(1, 24)
boxes = st.builds(
    lambda ports, extra: Box("any", ports * RATE, 2 * RATE, ports * 2, extra * RATE), st.integers(2, 40), st.just(0)
)
ratios = st.sampled_from([0.5, 1.0, 1.125, 1.5, 2.0, 3.0, 7.0])
maybe = st.one_of(st.none(), st.integers(0, 12))
specs = st.one_of(
    st.builds(LeafSpine, ratios, maybe, maybe),
    st.builds(ThreeTier, ratios, ratios, maybe, maybe),
    st.builds(FatTree, maybe),
    st.builds(RailOptimized, ratios, ratios, maybe, st.integers(0, 9), maybe),
    st.builds(RailOnly, ratios, maybe),
    st.builds(DualPlane, st.integers(0, 4), st.builds(LeafSpine, ratios, maybe)),
    st.builds(Dragonfly, maybe, maybe, maybe),
    st.builds(Torus, st.one_of(st.none(), st.lists(st.integers(1, 6), max_size=3).map(tuple))),
    st.builds(MultiSite, st.integers(1, 4), inner=st.builds(RailOptimized, ratios), links=maybe),
)


@settings(max_examples=150, deadline=None)
@given(specs, counts, st.integers(1, 4), st.integers(0, 3), boxes)
def test_any_numbers_give_a_working_network_or_a_clear_refusal(spec, servers, nics, extra, box):
    case = Case(spec, Endpoints(servers, nics, extra), box, box)
    refusal = None
    try:
        wiring = spec.build(case.endpoints, case.parts)
    except InputError as error:
        refusal = error
    if refusal is not None:
        assert refusal.problems[0].key.startswith("topology.")
        return
    degree = np.bincount(wiring.source, minlength=wiring.nodes)
    for group in wiring.groups:
        assert degree[group.first : group.first + group.count].max() <= group.ports <= box.max_ports
    first = wiring.port_of[:, 0]
    entropy = routes.mix(first.astype("uint64"))
    path = routes.hashed(
        wiring.routing, wiring.target, first, first[::-1].copy(), entropy=entropy, salt=routes.salts(wiring.nodes)
    )
    ends = path.lengths > 0
    assert (wiring.target[path.link[path.ptr[1:][ends] - 1]] == first[::-1][ends]).all()
