"""Pieces over one link follow one another; groups are posted before they are sent; what a relay costs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster.topology import LeafSpine
from railyard.collective import Shape
from railyard.engine.lowering import lower
from railyard.engine.packet.legs import JOIN, in_turn, legs_of
from railyard.engine.packet.lowering import Lowering, _longest
from railyard.engine.packet.plan import GATE, Planner
from railyard.engine.packet.plans import Grain, plan
from railyard.engine.packet.records import AT_SENDER
from railyard.graph import CollectiveKind, Job

MEMBERS = np.arange(8)


def ends_ps(legs, work, row):
    """When a leg ends, by the longest way to it."""
    before = legs.edges.before[(legs.edges.after == row) & (legs.edges.before != GATE)]
    return work[row] + max((ends_ps(legs, work, int(other)) for other in before), default=0.0)


@pytest.mark.parametrize(("latency", "chunks", "expected"), [(2.0, 1, [7, 12, 17]), (2.0, 5, [3, 8, 13])])
def test_three_pieces_over_one_link(latency, chunks, expected):
    """5 ps a piece: each begins when the one before has left, and is passed on when its first chunk has come."""
    planner = Planner()
    ids = planner.sends(0, 1, np.full(3, 1 / 3))
    planner.wait(ids[1:], ids[:-1], at=AT_SENDER)
    legs = legs_of(yard.machine(64), planner.build(), MEMBERS, pxn=True)
    moving = np.full(3, 5.0)
    found, work, origin = in_turn(legs, np.ones(3, np.bool_), moving, latency + moving / chunks)
    assert [ends_ps(found, work, row) for row in range(3)] == expected
    assert origin.tolist() == [0, 1, 2, 0, 1]
    assert _longest(found, work) == max(expected)


def test_pieces_of_a_tree_inside_a_domain_wait_for_one_another():
    shape = Shape.grid(2, 8)
    sends = plan("nvls-tree", CollectiveKind.ALL_REDUCE, shape, Grain(pieces=4))
    into = sends.target < 0
    waits = (sends.dep_at == AT_SENDER) & into[sends.dep_rows]
    # 16 ranks send to their switch twice, 4 pieces each, all but the first of which wait
    assert into.sum() == 16 * 2 * 4
    assert waits.sum() == 16 * 2 * 3


@pytest.mark.parametrize(("name", "posted"), [("pairwise", [31]), ("hierarchical-all-to-all", [7, 3])])
def test_groups_are_posted_before_anything_is_sent(name, posted):
    """31 peers at once; or 7 of the domain, then 3 on the rail."""
    sends = plan(name, CollectiveKind.ALL_TO_ALL, Shape.grid(4, 8), Grain())
    joins = np.flatnonzero(sends.steps == 0)
    assert sorted(set(sends.posted[joins].tolist()) - {0.0}) == sorted(float(one) for one in posted)
    assert not sends.posted[sends.steps > 0].any()
    groups = np.flatnonzero(sends.posted > 0)
    started = np.isin(np.arange(len(sends)), sends.dep_rows[np.isin(sends.dep_idx, groups)])
    assert started[sends.steps > 0].all()


def test_a_pass_through_a_domain_s_switch_is_counted_once():
    """NCCL's 25 us stand for the sum and the multicast of an all-reduce: four ways to and from the switch."""
    cluster = yard.machine(64, "ideal", LeafSpine())
    policy = yard.forced(CollectiveKind.ALL_REDUCE, "nvls-tree")
    graph = yard.graph(64, [yard.collective(CollectiveKind.ALL_REDUCE, 1 << 12)], [np.arange(64)])
    lowering = Lowering(graph, cluster, lower(graph, cluster, policy), policy, graph.duration_ps)
    assert 4 * lowering.classes[0].tempo.pass_ps == pytest.approx(25e6)


def test_a_relay_costs_what_scale_up_is_slower_than_the_nic():
    """A send to another rail alone: NVLink is faster than the NIC, so that the way to the peer is hidden."""
    cluster = yard.machine(64, "ideal", LeafSpine())
    took = []
    for target in (8, 9):  # the same rail, the next one
        graph = yard.graph(64, [yard.transfer(0, target, 1 << 22)])
        took.append(engine.get("packet").simulate([Job(graph)], cluster).makespan_ps)
    assert took[1] == pytest.approx(took[0], rel=1e-3)


def test_joins_move_nothing():
    planner = Planner()
    planner.joins([0, 1], posted=3)
    legs = legs_of(yard.machine(64), planner.build(), MEMBERS, pxn=True)
    assert (legs.kind == JOIN).all()
    assert not legs.share.any()
