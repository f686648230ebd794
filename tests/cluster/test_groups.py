"""Accelerators that groups cannot use while nodes are out: closed forms against drawn outages and sums by hand."""

import numpy as np
import pytest

from railyard.cluster.scale_up.groups import GroupedNodes, HopRing, SwitchedDomains, TorusCubes, idle_shares


def drawn(asked, hops, rings=200):
    """Mean share of accelerators that groups use on rings with drawn outages."""
    random = np.random.Generator(np.random.Philox(7))
    used = 0
    for up in random.random((rings, asked.nodes)) >= asked.out:
        places = np.flatnonzero(up)
        cuts = np.flatnonzero(np.diff(places, append=places[0] + asked.nodes) > hops)
        stretches = [len(places)] if len(cuts) < 2 else np.diff(cuts, append=cuts[0] + len(places))
        used += sum(int(length) // asked.group_nodes for length in stretches) * asked.group
    return used / (rings * asked.nodes * asked.each)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("out", [0.01, 0.05, 0.15])
@pytest.mark.parametrize(("nodes", "group"), [(720, 32), (3000, 64)])
def test_a_ring_as_drawn(hops, out, nodes, group):
    asked = GroupedNodes(nodes, 4, group, out)
    assert HopRing(hops, "").used(asked) == pytest.approx(drawn(asked, hops), abs=0.004)


def test_domains_by_hand():
    """72 of 4 a node: 64 are used with 16 to 18 healthy nodes, 32 with 8 to 15; without outages a ninth is idle."""
    asked = GroupedNodes(18, 4, 32, 0.1)
    random = np.random.Generator(np.random.Philox(3))
    healthy = random.binomial(18, 0.9, 200_000)
    assert SwitchedDomains(72, "").used(asked) == pytest.approx(np.mean(healthy * 4 // 32 * 32) / 72, abs=0.002)
    assert SwitchedDomains(72, "").used(GroupedNodes(18, 4, 32, 0.0)) == 64 / 72
    assert SwitchedDomains(36, "").used(GroupedNodes(18, 4, 64, 0.0)) == 0.0
    assert SwitchedDomains(36, "").used(GroupedNodes(18, 8, 32, 0.0)) is None


def test_cubes_by_hand():
    """A block of 32 needs 8 nodes of 4 to be healthy, one of 128 two cubes of 16 nodes each: any, so cubes count."""
    for group, nodes in ((4, 1), (32, 8), (64, 16), (128, 16)):
        assert TorusCubes(64, "").used(GroupedNodes(64, 4, group, 0.02)) == pytest.approx(0.98**nodes)
    assert TorusCubes(64, "").used(GroupedNodes(64, 4, 48, 0.0)) == 0.75


def test_a_ring_wastes_ten_times_less_than_domains_and_cubes():
    """720 nodes of 4 accelerators, groups of 32, 1.2 % of nodes out: InfiniteHBD's abstract, SIGCOMM 2025."""
    idle = idle_shares(GroupedNodes(720, 4, 32, 0.0122))
    assert 10 * idle["ring-2-hop"] < min(idle["domain-72"], idle["cube-64"])
    assert idle["ring-3-hop"] <= idle["ring-2-hop"] < 0.01
    more = idle_shares(GroupedNodes(720, 4, 32, 0.05))
    assert more["ring-2-hop"] < 0.01
