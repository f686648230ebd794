"""Ports of switches that are used and stranded, and rails that share a leaf, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster.notes import empty_leafs
from railyard.cluster.ports import ports_of
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.errors import InputError

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


def test_rails_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match="leafs of 3 rails do not divide the 8 NICs"):
        built(rails_per_leaf=3)
