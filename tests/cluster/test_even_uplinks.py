"""Leafs with a few uplinks more than asked, by hand, of switches of 64 ports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from railyard.cluster.topology.clos import even_uplinks


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
