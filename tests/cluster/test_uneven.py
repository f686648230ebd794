"""Bundles whose members differ: closed forms of sprays that look and of sprays that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard.cluster.fabric.fabric import Behavior
from railyard.cluster.links import uneven_bps
from railyard.cluster.topology import LeafSpine

NOMINAL = 400e9


def rate_bps(kept, moved, remaining=1.0):
    """Of one bundle over the nominal rate of a member; its members keep these shares."""
    members = np.asarray(kept, float) * NOMINAL
    bundle = np.zeros(len(members), np.int32)
    index, reached = uneven_bps(
        members, np.full(len(members), NOMINAL), bundle, np.array([moved]), np.array([remaining])
    )
    return reached.item() / NOMINAL if len(index) else None


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (0.0, 2.0),  # all 8 carry what the slowest carries: 8 x 25 %
        (1.0, 7.25),  # 7 + 25 %
        (0.6, 1 / (0.6 / 7.25 + 0.4 / 2.0)),
    ],
)
def test_one_of_eight_at_a_quarter(moved, expected):
    assert rate_bps([1, 1, 1, 0.25, 1, 1, 1, 1], moved) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("moved", [0.0, 0.37, 1.0])
def test_a_dead_one_holds_nobody_up(moved):
    assert rate_bps([1, 1, 1, 0, 1, 1, 1, 1], moved) == pytest.approx(7.0, rel=1e-12)
    assert rate_bps([1, 1, 1, 0, 1, 1, 1, 1], moved, remaining=0.83) == pytest.approx(5.81, rel=1e-12)


def test_dead_and_slow_ones_together():
    """An oblivious spray over the 3 that are left: 3 x 30 %; the efficiency of what is left counts too."""
    assert rate_bps([1, 0, 0.3, 1], 0.0, remaining=0.9) == pytest.approx(0.9 * 3 * 0.3, rel=1e-12)


@pytest.mark.parametrize("kept", [[1, 1, 1], [0.7, 0.7, 0.7], [0, 0, 0]])
def test_members_that_are_alike_add_up_as_before(kept):
    assert rate_bps(kept, 0.0, remaining=0.5) is None


def crossing(behavior):
    spines = LeafSpine(ports_per_leaf=8, spines=8)
    return yard.machine(16, "uec", spines, overrides=(("behavior", behavior),))


@pytest.mark.parametrize(
    ("up", "moved", "expected"),
    [(True, 0.0, 2 / 8), (True, 1.0, 7.25 / 8), (False, 0.5, 1 / (0.5 * 8 / 7.25 + 0.5 * 8 / 2))],
)
def test_a_cluster_reads_its_fabric(up, moved, expected):
    """Eight flows from leaf to leaf over eight spines, one link at a quarter."""
    behavior = replace(Behavior(), moved_up=moved if up else 1.0, moved_down=1.0 if up else moved)
    cluster = crossing(behavior)
    wiring, leaf, spine = cluster.back_end.wiring, 16, 18 + 3
    ends = (leaf, spine) if up else (spine, leaf)
    link = np.flatnonzero((wiring.source == ends[0]) & (wiring.target == ends[1])) + cluster.back_end.link_offset
    rates = cluster.links.degraded(link.astype(np.int32), 0.25)
    bundle = cluster.links.bundle_of[link[0]]
    assert rates[bundle] / cluster.links.rate_bps[bundle] == pytest.approx(expected, rel=1e-12)
    assert (rates[: link[0]] == cluster.links.rate_bps[: link[0]]).all()
