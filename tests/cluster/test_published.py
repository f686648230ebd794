"""Sizes and prices of networks against published ones, for switches of 64 x 400 Gb/s (Quantum-2)."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, bill_of, build
from railyard.cluster.topology import FatTree, LeafSpine, RailOnly, RailOptimized
from railyard.kit.errors import InputError

KNOWN = catalog.load()


def machine(accelerators, topology):
    return build(ClusterSpec(accelerators, "hgx-h100", NetworkSpec(topology, FabricSpec("infiniband"))), KNOWN)


def switches(cluster):
    return sum(group.count for group in cluster.back_end.groups)


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
        assert {group.role for group in machine(most + 8, topology).back_end.groups} == {"leaf", "spine", "core"}
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
