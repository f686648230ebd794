"""Repeats of communications of which some stand for all: what is simulated, and what the others take."""

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard
from tests.engine.packet_collectives.test_step import EXACT, GATHER, MIB

from railyard.cluster.topology import LeafSpine
from railyard.engine.packet.samples import _meeting, _turns, _with_others
from railyard.graph import CollectiveKind, Job

LAYERS = 24
REDUCE_SCATTER = CollectiveKind.REDUCE_SCATTER
TWO = [tuple(range(0, 64, 4)), tuple(range(2, 64, 4))]


def step(layers=LAYERS):
    """Layers that two groups gather and reduce at the same time over the same uplinks, half as many as NICs."""
    rows = [yard.collective(GATHER, 8 * MIB, group) for _ in range(layers) for group in (0, 1)]
    rows += [yard.collective(REDUCE_SCATTER, 4 * MIB, group, deps=[2 * layers - 2 + group]) for group in (0, 1)]
    return yard.graph(64, rows, TWO)


@pytest.mark.parametrize("fabric", ["uec", "roce", "spectrum-x"])
def test_some_layers_stand_for_all(fabric):
    graph = step()
    cluster = yard.machine(64, fabric, LeafSpine(ports_per_leaf=8, oversubscription=2.0))
    whole = EXACT.simulate([Job(graph)], cluster)
    hops = whole.parts["flows"].meta["packets"]["hops"]
    part = replace(EXACT, budget_hops=hops / 3).simulate([Job(graph)], cluster)
    assert part.meta["slice"] == 1
    assert part.parts["flows"].meta["packets"]["hops"] < hops / 2
    said = next(one for one in part.meta["left_out"] if "repeats of communications" in one)
    skipped, every = map(int, re.match(r"(\d+) of (\d+) ", said).groups())
    assert every == LAYERS + 1
    assert skipped >= LAYERS / 2
    assert part.makespan_ps == pytest.approx(whole.makespan_ps, rel=0.01)
    took, real = part.end_ps - part.start_ps, whole.end_ps - whole.start_ps
    np.testing.assert_allclose(took, real, rtol=0.05)
    carried, really = (one.table("links")["bytes"] for one in (part, whole))
    assert carried.sum() == pytest.approx(really.sum(), rel=0.02)


def test_none_stands_for_others_where_all_fit():
    cluster = yard.machine(64, "uec", LeafSpine(ports_per_leaf=8))
    whole = EXACT.simulate([Job(step(4))], cluster)
    assert not any("repeats of" in one for one in whole.meta["left_out"])


def test_an_occasion_counts_by_group_and_start():
    assert _turns(np.array([7, 3, 7, 3, 7]), np.array([5, 1, 2, 9, 8])).tolist() == [1, 0, 0, 1, 2]


def test_spans_meet_where_they_share_time():
    first, last = np.array([0, 10, 20, 30]), np.array([10, 20, 30, 40])
    assert _meeting(first, last, np.array([12]), np.array([13])).tolist() == [False, True, False, False]
    assert _meeting(first, last, np.array([10]), np.array([30])).tolist() == [False, True, True, False]
    assert _meeting(first, last, np.array([0, 35]), np.array([1, 36])).tolist() == [True, False, False, True]
    assert not _meeting(first, last, np.array([], int), np.array([], int)).any()


def test_kinds_that_meet_others_are_kinds_of_their_own():
    kind, first = np.array([0, 0, 1, 0]), np.array([0, 10, 12, 30])
    found = _with_others(kind, first, first + 5)
    assert found[0] == found[3]
    assert len(set(found.tolist())) == 3
