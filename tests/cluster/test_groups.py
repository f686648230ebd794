"""Accelerators that groups cannot use while nodes are out: closed forms against drawn outages and sums by hand."""

import numpy as np
import pytest

from railyard.cluster.scale_up.groups import (
    GroupedNodes,
    HopRing,
    SwitchedDomains,
    TorusCubes,
    idle_shares,
    ways_to_join,
)


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
    """A block of 32 needs 8 nodes of 4 to be healthy, one of 64 all 16 of a cube."""
    for group, nodes in ((4, 1), (32, 8), (64, 16)):
        assert TorusCubes(64, "").used(GroupedNodes(64, 4, group, 0.02)) == pytest.approx(0.98**nodes)
    assert TorusCubes(64, "").used(GroupedNodes(64, 4, 48, 0.0)) == 0.75


def test_groups_beyond_a_cube_take_whole_cubes():
    """Four cubes, up with c = 0.98^16 each: two groups of 128 with 4 cubes, one with 2 or 3; groups of 96 alike."""
    up = 0.98**16
    groups = 2 * up**4 + 4 * up**3 * (1 - up) + 6 * up**2 * (1 - up) ** 2
    for group in (96, 128):
        used = TorusCubes(64, "").used(GroupedNodes(64, 4, group, 0.02))
        assert used == pytest.approx(groups * group / 256)
    assert TorusCubes(64, "").used(GroupedNodes(64, 4, 320, 0.0)) == 0.0
    assert TorusCubes(64, "").used(GroupedNodes(40, 4, 64, 0.0)) == 128 / 160  # the last 8 nodes fill no cube


@pytest.mark.parametrize(
    ("nodes", "group", "used"),
    [
        (18, 32, 64 / 72),
        (20, 32, 64 / 80),  # two nodes beyond a domain hold no group
        (26, 32, 96 / 104),
        (10, 64, 0.0),
    ],
)
def test_the_last_domain_may_be_smaller(nodes, group, used):
    assert SwitchedDomains(72, "").used(GroupedNodes(nodes, 4, group, 0.0)) == pytest.approx(used)


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        (GroupedNodes(720, 4, 32, 0.0), 1.0),  # 90 groups of 8 nodes
        (GroupedNodes(723, 4, 32, 0.0), 720 / 723),
        (GroupedNodes(3, 4, 64, 0.0), 0.0),
        (GroupedNodes(100, 16, 8, 0.25), 0.75),  # two groups in a node
        (GroupedNodes(720, 4, 32, 1.0), 0.0),
        (GroupedNodes(20, 4, 32, 0.999), 0.0),
    ],
)
def test_a_ring_at_its_ends(asked, used):
    assert HopRing(2, "").used(asked) == pytest.approx(used, abs=1e-9)


@pytest.mark.parametrize("nodes", [16, 20, 40])
@pytest.mark.parametrize("out", [0.02, 0.1])
def test_a_short_ring_as_drawn(nodes, out):
    asked = GroupedNodes(nodes, 4, 32, out)
    assert HopRing(2, "").used(asked) == pytest.approx(drawn(asked, 2, 4000), abs=0.03)


@pytest.mark.parametrize("out", [0.0, 0.001, 0.3, 0.999, 1.0])
@pytest.mark.parametrize(("nodes", "each", "group"), [(3, 4, 64), (64, 4, 96), (100, 16, 8), (1000, 8, 256), (7, 8, 3)])
def test_shares_are_shares(nodes, each, group, out):
    asked = GroupedNodes(nodes, each, group, out)
    for name in ways_to_join.names():
        used = ways_to_join.get(name).used(asked)
        assert used is None or -1e-12 <= used <= 1 - out + 1e-12


def test_a_ring_wastes_ten_times_less_than_domains_and_cubes():
    """720 nodes of 4 accelerators, groups of 32, 1.2 % of nodes out: InfiniteHBD's abstract, SIGCOMM 2025."""
    idle = idle_shares(GroupedNodes(720, 4, 32, 0.0122))
    assert 10 * idle["ring-2-hop"] < min(idle["domain-72"], idle["cube-64"])
    assert idle["ring-3-hop"] <= idle["ring-2-hop"] < 0.01
    more = idle_shares(GroupedNodes(720, 4, 32, 0.05))
    assert more["ring-2-hop"] < 0.01
