"""Ports of switches that are used and stranded, and rails that share a leaf, by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster import bill_of, build
from railyard.cluster.boxes import choose
from railyard.cluster.fabric import FabricSpec
from railyard.cluster.modules import free_halves
from railyard.cluster.names import ends_of, ports_of, servers_to_cross, sockets
from railyard.cluster.notes import empty_leafs, notes_of
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology import FatTree, RailOnly, from_mapping
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.cluster.topology.wiring import Tier
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


# Optical modules by the cage: counts worked out by hand at sizes that fill no cage.


def cages_cluster(accelerators: int, server: str, network: NetworkSpec):
    return build(ClusterSpec(accelerators, server, network), KNOWN)


def optics(made) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in bill_of(made).of("optic"):
        found[row.tier, row.name] += row.count
    return found


def test_links_of_infiniband_share_cages_of_switches_and_of_dgx():
    """31 DGX: 4 cages each. 8 leafs have 31 links down and 32 up in 32 cages, 16 begun by those down; 4 spines 32."""
    made = cages_cluster(248, "dgx-h100", NetworkSpec(RailOptimized(), FabricSpec("infiniband")))
    plan = made.plans["back_end"]
    assert [(group.role, group.count) for group in plan.wiring.groups] == [("leaf", 8), ("spine", 4)]
    assert optics(made) == {
        ("nic", "optic-800g-sr8"): 31 * 4 + 8 * 16,
        ("leaf-spine", "optic-800g-sr8"): 8 * 16 + 4 * 32,
    }
    assert free_halves(plan) == 8
    at_leaf = ends_of(plan) == plan.wiring.groups[0].first
    assert sockets(plan).cage[at_leaf].max() == 32
    assert sorted(sockets(plan).number[at_leaf].tolist()) == list(range(1, 64))


def test_cards_of_a_server_have_a_cage_each():
    made = cages_cluster(248, "hgx-h100", NetworkSpec(RailOptimized(), FabricSpec("infiniband")))
    assert optics(made)["nic", "optic-400g-sr4"] == 248
    assert optics(made)["nic", "optic-800g-sr8"] == 8 * 16


def test_single_mode_modules_have_twins_of_single_mode():
    network = NetworkSpec(LeafSpine(), FabricSpec("roce"), lengths_m={"nic": 2.0, "leaf-spine": 120.0})
    made = cages_cluster(256, "hgx-h100", network)
    assert optics(made) == {("leaf-spine", "optic-800g-dr8"): 256}
    assert bill_of(made).count("fibre") == 256


@pytest.mark.parametrize("name", ["optic-400g-sr4", "optic-400g-dr4", "optic-400g-fr4", "optic-800g-dr8"])
def test_a_twin_is_of_twice_the_rate_and_the_same_reach(name):
    one = KNOWN.cable(name)
    twin = KNOWN.cable(one.twin)
    assert (twin.rate_bps, twin.reach_m) == (2 * one.rate_bps, one.reach_m)
    assert twin.price_usd.typical <= 2 * one.price_usd.typical


def test_four_links_of_a_cage_are_not_two():
    network = NetworkSpec(LeafSpine(), FabricSpec("infiniband"), link_rate_bps=200e9)
    made = cages_cluster(256, "hgx-h100", network)
    plan = made.plans["back_end"]
    assert set(sockets(plan).lanes[ends_of(plan) >= plan.wiring.ports].tolist()) == {4}
    assert all("800g" not in name for _, name in optics(made))


# From how many servers on a job crosses spines: hand counts of ports below a switch.


@pytest.mark.parametrize(
    ("topology", "servers", "crosses"),
    [
        # 128 ports of 400 Gb/s, half of them down: 64 servers of a rail, or 8 servers with all their 8 NICs.
        (RailOptimized(), 4, 65),
        (RailOptimized(oversubscription=4.0), 4, 103),
        (RailOptimized(servers_per_leaf=5), 5, 6),
        (LeafSpine(), 2, 9),
        (LeafSpine(ports_per_leaf=16), 2, 3),
        (LeafSpine(ports_per_leaf=16), 3, None),
        (RailOnly(), 4, 129),  # a rail of its own needs a second switch when all 128 ports are taken
    ],
)
def test_servers_from_which_rails_span_leafs(topology, servers, crosses):
    spec = ClusterSpec(8 * servers, "hgx-h100", NetworkSpec(topology, FabricSpec("roce")))
    assert servers_to_cross(build(spec, catalog.load())) == crosses


# Sizes and prices of networks against published ones, for switches of 64 x 400 Gb/s (Quantum-2).


def machine(accelerators, topology):
    return build(ClusterSpec(accelerators, "hgx-h100", NetworkSpec(topology, FabricSpec("infiniband"))), KNOWN)


def switches(cluster):
    return sum(group.count for group in cluster.back_end.wiring.groups)


def network_usd(cluster):
    """Switches, cables and optics of the back-end for each accelerator; NICs are the servers' in the sources."""
    rows = [row for row in bill_of(cluster) if row.network == "back-end" and row.kind != "nic"]
    return sum(row.total_usd.typical for row in rows) / cluster.ranks


@pytest.mark.parametrize(
    ("topology", "most", "count"),
    [(LeafSpine(), 2048, 96), (RailOnly(), 16384, 768), (FatTree(), 65536, 5120)],
    ids=["two tiers", "two tiers in each of 8 planes", "three tiers"],
)
def test_how_far_64_ports_reach(topology, most, count):
    """DeepSeek-V3 hardware paper (ISCA 2025): 2,048 ports on two tiers, 16,384 on eight planes, 65,536 on three."""
    assert switches(machine(most, topology)) == count
    if isinstance(topology, RailOnly):
        assert {group.role for group in machine(most + 8, topology).back_end.wiring.groups} == {"leaf", "spine", "core"}
        return
    with pytest.raises(InputError):
        machine(most + 8, topology)


def test_switches_of_1024_accelerators():
    """ "H100 Freakonomics" sheet (tech-talk-cto, 2024): 48 switches for 1,024 accelerators."""
    assert switches(machine(1024, RailOptimized())) == 48


@pytest.mark.parametrize(
    ("accelerators", "topology", "usd"),
    [(16384, RailOnly(), 4248), (32768, RailOptimized(), 6612)],
    ids=["two tiers", "three tiers"],
)
def test_price_of_a_network_for_each_accelerator(accelerators, topology, usd):
    """The same sheet: switches, cables and optics, $4,248 on two tiers and $6,612 on three."""
    assert network_usd(machine(accelerators, topology)) == pytest.approx(usd, rel=0.15)


@pytest.mark.parametrize(
    ("gbps", "metres", "name"),
    [
        (100, 2, "dac-100g"),
        (100, 5, "aoc-100g"),  # $150; the next copper that reaches is a retimed one of 400 Gb/s at $230
        (100, 101, "optic-400g-dr4"),
        (400, 3, "dac-400g"),
        (400, 7, "aec-400g"),
        (400, 30, "optic-400g-sr4"),
        (400, 60, "optic-400g-dr4"),
        (800, 2, "dac-800g"),
        (800, 3, "acc-800g"),  # $280, retimed $400
        (800, 5, "acc-800g"),
        (800, 6, "optic-800g-sr8"),
        (1600, 3, "aec-1600g"),  # there is no cable with an equalizer only at this rate
    ],
)
def test_a_tier_gets_the_cheapest_cable_that_reaches(gbps, metres, name):
    run = choose(catalog.load(), gbps * 1e9, Tier("leaf-spine", float(metres)), None, key="cable_length.leaf-spine")
    assert run.cable.name == name
