"""Ports of switches that are used and stranded, and rails that share a leaf, by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster.fabric import FabricSpec
from railyard.cluster.names import ports_of
from railyard.cluster.notes import empty_leafs, notes_of
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology import from_mapping
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.kit.errors import InputError

KNOWN = catalog.load()


def built(accelerators=64, **topology):
    """H100 servers of eight 400 Gb/s NICs on switches of 128 such ports."""
    network = NetworkSpec(topology=RailOptimized(**topology))
    return cluster.build(ClusterSpec(accelerators=accelerators, server="hgx-h100", back_end=network), KNOWN)


def rows(made):
    return {row.role: (row.count, row.ports, row.used, row.stranded) for row in ports_of(made.plans["back_end"])}


def test_eight_leafs_for_eight_servers_are_mostly_empty():
    """Each leaf has 8 NICs and 8 uplinks of 128 ports; the spine takes 64 links."""
    made = built()
    assert rows(made) == {"leaf": (8, 1024, 128, 896), "spine": (1, 128, 64, 64)}
    (note,) = empty_leafs(made)
    assert note.startswith("8 leafs use 128 of 1024 ports; rails may share a leaf")


@pytest.mark.parametrize(
    ("shared", "found"),
    [
        (2, {"leaf": (4, 512, 128, 384), "spine": (1, 128, 64, 64)}),
        (4, {"leaf": (2, 256, 128, 128), "spine": (1, 128, 64, 64)}),
        (8, {"leaf": (1, 128, 64, 64)}),
    ],
)
def test_rails_that_share_a_leaf(shared, found):
    made = built(rails_per_leaf=shared)
    assert rows(made) == found
    assert list(empty_leafs(made)) == []


@pytest.mark.parametrize("shared", [1, 2, 4, 8])
def test_nics_of_one_rail_stay_one_switch_apart(shared):
    """72 servers: leafs of 64 NICs join 64, 32, 16 or 8 servers; a NIC's leaf is its rail's and its servers'."""
    made = built(72 * 8, rails_per_leaf=shared)
    wiring = made.plans["back_end"].wiring
    leafs = next(group for group in wiring.groups if group.role == "leaf")
    groups = -(-72 // (64 // shared))
    assert leafs.count == 8 // shared * groups
    access = (wiring.target >= leafs.first) & (wiring.target < leafs.first + leafs.count) & (wiring.tier == 0)
    nics = np.bincount(wiring.target[access] - leafs.first, minlength=leafs.count)
    assert nics.sum() == 576
    assert nics.max() <= 64


PORTS = {1e9 * gbps for gbps in (10, 25, 50, 100, 200, 400, 800, 1600)}
"""Of IEEE 802.3 and InfiniBand, bit/s."""


def some_topology(random):
    kind = random.choice(["leaf-spine", "rail-optimized", "three-tier", "dual-plane", "multi-site"])
    ratio = f"{random.choice([1, 1.5, 2, 2.5, 3, 4, 5, 7])}:1"
    if kind == "dual-plane":
        return {"kind": kind, "planes": random.choice([2, 3, 4, 5]), "inner": {"kind": "leaf-spine"}}
    if kind == "multi-site":
        return {"kind": kind, "inner": {"kind": "leaf-spine", "oversubscription": ratio}}
    rate = {"uplink_rate": f"{random.choice([100, 200, 300, 400, 800])} Gb/s"} if random.random() < 0.5 else {}
    return {"kind": kind, "oversubscription": ratio, **rate}


@pytest.mark.parametrize("seed", range(60))
def test_a_network_has_real_ports_and_the_ratio_that_was_asked_for_or_says_so(seed):
    """Whatever is asked: every port of every switch is of a standard's rate, none more than the box has, and a ratio
    that is off by half a per cent is in a note."""
    random = Random(seed)
    wanted, fabric = some_topology(random), random.choice(["roce", "infiniband", "scheduled"])
    server = random.choice(["hgx-h100", "hgx-b300", "hls-gaudi2", "dgx-a100"])
    spec = NetworkSpec(topology=from_mapping(wanted), fabric=FabricSpec(fabric))
    try:
        made = cluster.build(ClusterSpec(8 * random.randrange(2, 90, 2), server, spec), KNOWN)
    except InputError:
        return
    plan = made.plans["back_end"]
    wiring = plan.wiring
    for group in wiring.groups:
        box = plan.switches[group.box]
        mine = (wiring.source >= group.first) & (wiring.source < group.first + group.count)
        for rate in np.unique(wiring.line_bps[mine]):
            parts = 3 if server == "hls-gaudi2" and rate == 300e9 else 1  # a NIC of three ports of 100 Gb/s
            assert rate / parts in PORTS
            assert rate / parts <= box.port_rate_bps
            of_one = np.bincount(wiring.source[mine & (wiring.line_bps == rate)])
            assert parts * of_one.max() <= max(box.max_ports, box.fabric_ports or 0)
    built_as = wiring.oversubscription().get("leaf-spine")
    inner = wanted.get("inner", wanted)
    asked = float(inner.get("oversubscription", "1:1").split(":")[0])
    if built_as is not None and abs(built_as / asked - 1) > 0.005:
        assert any(f"built as {built_as:.3g}:1" in words for words in notes_of(made)), (wanted, built_as)


def test_three_to_one_says_what_it_is_built_as():
    """22 servers of 8 NICs on two leafs of 88: 30 uplinks each, 88/30."""
    network = NetworkSpec(topology=from_mapping({"kind": "leaf-spine", "oversubscription": "3:1"}))
    made = cluster.build(ClusterSpec(176, "hgx-h100", network), KNOWN)
    assert [words for words in notes_of(made) if "built as 2.93:1" in words]


@pytest.mark.parametrize(("asked", "port"), [(250, 400), (133, 200), (3, 10), (0.2, 1)])
def test_a_link_below_the_rate_of_any_port_is_limited_and_takes_a_whole_port(asked, port):
    """Of 51.2 Tb/s in at most 256 ports (Tomahawk 5): as many as of the next faster port, as many switches, a note."""
    made, whole = (
        cluster.build(ClusterSpec(1024, "hgx-h100", NetworkSpec(link_rate_bps=gbps * 1e9)), KNOWN)
        for gbps in (asked, port)
    )
    assert rows(made) == rows(whole)
    assert set(made.plans["back_end"].wiring.line_bps.tolist()) == {asked * 1e9}
    assert sum(f"limited to it on ports of {port} Gb/s" in words for words in notes_of(made)) == 1
    assert not any("limited to" in words for words in notes_of(whole))
