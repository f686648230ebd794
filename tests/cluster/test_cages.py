"""Optical modules by the cage: counts worked out by hand at sizes that fill no cage."""

from __future__ import annotations

from collections import Counter

import pytest

from railyard import catalog
from railyard.cluster import bill_of, build
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.names import ends_of, free_halves, sockets
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.rail_optimized import RailOptimized

KNOWN = catalog.load()


def cluster(accelerators: int, server: str, network: NetworkSpec):
    return build(ClusterSpec(accelerators, server, network), KNOWN)


def optics(made) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in bill_of(made).of("optic"):
        found[row.tier, row.name] += row.count
    return found


def test_links_of_infiniband_share_cages_of_switches_and_of_dgx():
    """31 DGX: 4 cages each. 8 leafs have 31 links down and 32 up in 32 cages, 16 begun by those down; 4 spines 32."""
    made = cluster(248, "dgx-h100", NetworkSpec(RailOptimized(), FabricSpec("infiniband")))
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
    made = cluster(248, "hgx-h100", NetworkSpec(RailOptimized(), FabricSpec("infiniband")))
    assert optics(made)["nic", "optic-400g-sr4"] == 248
    assert optics(made)["nic", "optic-800g-sr8"] == 8 * 16


def test_single_mode_modules_have_twins_of_single_mode():
    network = NetworkSpec(LeafSpine(), FabricSpec("roce"), lengths_m={"nic": 2.0, "leaf-spine": 120.0})
    made = cluster(256, "hgx-h100", network)
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
    made = cluster(256, "hgx-h100", network)
    plan = made.plans["back_end"]
    assert set(sockets(plan).lanes[ends_of(plan) >= plan.wiring.ports].tolist()) == {4}
    assert all("800g" not in name for _, name in optics(made))
