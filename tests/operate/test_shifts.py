"""Time shifts on the circle, and classes of traffic, in what contention costs."""

import numpy as np
import pytest

from railyard import engine
from railyard.graph import Job
from railyard.work.operate.contention.intensity import TrafficBeat, excess, shifts
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.pattern import PatternJob, WorkClass, out_bytes, uplinks_bps
from railyard.work.operate.contention.speeds import Manner, Speeds
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.tree import NodeTree

from .test_contention import machine, state_of


def overlaps(beats, turns, link=0, samples=20_000):
    """Mean demand beyond 1 on a link, by sampling a long time."""
    time = np.linspace(0, 400.0, samples, endpoint=False)
    total = np.zeros(samples)
    for beat, turn in zip(beats, turns, strict=True):
        phase = (time - turn - beat.begins_s) % beat.period_s
        total += beat.share.get(link, 0.0) * (phase < beat.lasts_s)
    return np.maximum(total - 1, 0).mean()


def test_two_equal_jobs_send_in_turn():
    """Each sends for 0.4 of a step of 1: the second begins close behind the first; so does a third that sends 0.15."""
    beat = TrafficBeat(1.0, 0.5, 0.4, {0: 1.0})
    first, second = shifts([beat, beat])
    assert abs(second - first) == pytest.approx(0.4, abs=2.1 / 72)
    three = [beat, beat, TrafficBeat(1.0, 0.1, 0.15, {0: 1.0})]
    assert excess(three, shifted=True) == 0.0
    assert overlaps(three, shifts(three)) == 0.0
    assert excess([beat, beat], shifted=True) == 0.0
    # At random two arcs of 0.4 meet for 0.4 x 0.4 of the step on average.
    assert excess([beat, beat], shifted=False) == pytest.approx(0.16, abs=0.04)


def test_steps_of_different_length_meet_on_a_common_circle():
    """Steps of 1 and 2: one sends twice 0.3 while the other sends 0.5 in a gap of 0.7."""
    beats = [TrafficBeat(1.0, 0.2, 0.3, {0: 1.0}), TrafficBeat(2.0, 0.9, 0.5, {0: 1.0})]
    assert excess(beats, shifted=True) == 0.0
    assert overlaps(beats, shifts(beats)) == 0.0
    assert overlaps(beats, [0.0, 0.0]) > 0.05


def test_what_cannot_fit_meets_as_little_as_can_be():
    """0.7 and 0.6 of a step: 0.3 is left over whatever the turn."""
    beats = [TrafficBeat(1.0, 0.0, 0.7, {0: 1.0}), TrafficBeat(1.0, 0.0, 0.6, {0: 1.0})]
    assert excess(beats, shifted=True) == pytest.approx(0.3, abs=0.01)


def test_only_links_that_are_shared_count():
    beats = [
        TrafficBeat(1.0, 0.0, 0.7, {0: 1.0}),
        TrafficBeat(1.0, 0.0, 0.7, {1: 1.0}),
        TrafficBeat(1.0, 0.0, 0.7, {0: 0.5, 1: 0.5}),
    ]
    assert excess(beats[:2], shifted=True) == 0.0
    # On each of both links two arcs of 0.7 meet for at least 0.4, at 0.5 beyond what it carries.
    assert excess(beats, shifted=True) == pytest.approx(2 * 0.2, abs=0.01)


def test_bytes_out_of_groups():
    """Order 0 0 1 1 0: out of group 0 twice, out of group 1 once... and the ring closes inside group 0."""
    sent = out_bytes(np.array([0, 0, 1, 1, 0]), 40, 8e9)
    assert sent == {0: pytest.approx(2 * 39 / 40 * 8e9), 1: pytest.approx(2 * 39 / 40 * 8e9)}
    assert out_bytes(np.array([3, 3]), 16, 8e9) == {}


def test_uplinks_and_what_a_ring_sends_over_them():
    """12:1 under leafs of 4 nodes, 32 ports of 400 Gb/s: 3 up, at 97 %; what links carried is the formula's."""
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    capacity = uplinks_bps(cluster, tree.members[0])
    assert capacity == pytest.approx([3 * 0.97 * 400e9] * 4)
    work = WorkClass("w", 0.1, 10_000_000_000, 0.0)
    nodes = np.array([0, 1, 4, 5])
    ranks = (nodes[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)
    record = engine.get("flow").simulate([Job(work.steps(32, 5), ranks)], cluster)
    up = cluster.links.tiers.index("leaf-spine")
    carried = np.asarray(record.tables["links"]["bytes"])[cluster.links.tier == up].sum()
    sent = out_bytes(tree.group[0][nodes], 32, 10e9)
    # Up to a spine, and down again; headers and flags of the protocol come on top.
    assert 1 < carried / 5 / (2 * sum(sent.values())) < 1.06


HEAVY = WorkClass("heavy", 0.2, 60_000_000_000, 0.0)
LIGHT = WorkClass("light", 0.2, 30_000_000_000, 0.0)


def two(manner, classes=(HEAVY, HEAVY), fabric="infiniband"):
    cluster = machine(fabric)
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    state = state_of([np.array([leaf[0][0], leaf[1][0]]), np.array([leaf[0][1], leaf[1][1]])])
    return Neighbours(cluster, tree, classes, [0, 1], manner=manner).changed(state, [0, 1], [])


def test_the_more_intense_job_goes_first():
    """The one with half the traffic has twice the intensity: it loses next to nothing, the other more than before."""
    alike, ranked = two(Manner(), (HEAVY, LIGHT)), two(Manner(priorities=True), (HEAVY, LIGHT))
    apart = two(Manner(), (HEAVY, WorkClass("none", 0.2, 1000, 0.0)))
    assert alike[1] < 0.9 * ranked[1]
    assert ranked[0] < alike[0] < apart[0]


def test_equal_jobs_are_of_one_class():
    assert two(Manner(priorities=True)) == two(Manner())


def test_shifts_let_jobs_that_fit_forget_one_another():
    """Each sends for less than half of its step: shifted, both are as fast as alone; any phases cost them some."""
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    calm = WorkClass("calm", 0.5, 60_000_000_000, 0.0)
    leaf = tree.members[0]
    one = state_of([np.array([leaf[0][0], leaf[1][0]])])
    alone = Neighbours(cluster, tree, [calm], [0]).changed(one, [0], [])[0]
    shifted, alike = two(Manner(shifted=True), (calm, calm)), two(Manner(), (calm, calm))
    assert shifted[0] == pytest.approx(alone, rel=2e-3)
    assert shifted[1] == pytest.approx(alone, rel=2e-3)
    assert alike[0] < 0.97 * alone


def test_intensity_by_hand():
    """16 accelerators that compute 0.2 s each, over the time that the reduction takes alone."""
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    speeds = Speeds(cluster, tree.members[0], (HEAVY, LIGHT), Manner())
    heavy, light = PatternJob(0, 8, (0, 1)), PatternJob(1, 8, (0, 1))
    lasts = speeds.alone(heavy).lasts_s
    assert speeds.alone(heavy).step_s == pytest.approx(0.2 + lasts, rel=1e-4)
    assert speeds.alone(heavy).begins_s == pytest.approx(0.2, rel=1e-4)
    assert speeds.turn(heavy).intensity == pytest.approx(16 * 0.2 / lasts)
    assert speeds.turn(light).intensity == pytest.approx(2 * speeds.turn(heavy).intensity, rel=0.01)


def test_what_jobs_send_is_seen_and_goes_with_them():
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    state = state_of([np.array([leaf[0][0], leaf[1][0]]), np.array([leaf[0][1], leaf[2][1]])])
    state.free = FreeNodes(tree)
    known = Neighbours(cluster, tree, [HEAVY], [0, 0])
    known.watch(state)
    known.moved(state, 0)
    known.moved(state, 1)
    each = round(2 * 15 / 16 * 60e9 * 8 / 0.2)
    assert state.free.traffic_bps[0].tolist() == [2 * each, each, each, 0]
    known.changed(state, [0, 1], [])
    assert state.free.judge(PlacementRequest(2, 8, job=1), np.array([leaf[0][2], leaf[1][2]])) > 0.1
    assert state.free.judge(PlacementRequest(2, 8, job=1), np.array([leaf[2][2], leaf[3][2]])) == 0.0
    assert state.free.judge(PlacementRequest(2, 8, job=1), np.array([leaf[0][2], leaf[0][3]])) == 0.0
    del state.placed[0]
    known.moved(state, 0)
    assert state.free.traffic_bps[0].tolist() == [each, 0, each, 0]
