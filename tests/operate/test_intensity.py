"""Who goes first: Crux' two examples by hand, cuts into classes, chosen paths."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.work.operate.contention.intensity import (
    TOLERANCE,
    JobTurn,
    classes,
    correction,
    off_beat,
    priorities,
    realigning,
    served_s,
)
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.pattern import PatternJob, WorkClass
from railyard.work.operate.contention.speeds import Manner, Speeds
from railyard.work.operate.tree import NodeTree

from .test_contention import machine, state_of

LONG, SHORT = JobTurn(2, 0, 2, 10, sent=2.0), JobTurn(1, 0, 1, 10, sent=1.0)


def test_the_shorter_step_goes_first():
    """Crux, figure 11: in 12 s the link serves 6 and 3 s with the long step first, 4 and 6 s with the short one."""
    assert LONG.intensity == SHORT.intensity == 10
    assert served_s(LONG, SHORT, 12) == (6, 3)
    assert served_s(SHORT, LONG, 12) == (6, 4)
    assert correction(SHORT, LONG) == pytest.approx(1.5, rel=0.02)
    assert correction(LONG, SHORT) == pytest.approx(1 / 1.5, rel=0.02)
    found = priorities([LONG, SHORT])
    assert found[0] == 10
    assert found[1] == pytest.approx(15, rel=0.02)


def test_who_cannot_hide_traffic_goes_first():
    """Crux, figure 12: 2 GPUs compute 4 s and hide their second, 12 compute 2 s and do not hide theirs of 3 s."""
    hidden, bare = JobTurn(2, 2, 1, 2), JobTurn(1, 1, 3, 12)
    assert hidden.intensity == bare.intensity == 8
    assert hidden.step_s == bare.step_s == 4
    assert correction(bare, hidden) > 1 > correction(hidden, bare)


def test_who_never_meet_need_no_correction():
    assert correction(JobTurn(0, 2, 0.5, 8), JobTurn(0, 2, 0.6, 8)) == 1.0


def test_links_serve_no_more_than_there_is_time():
    first, second = served_s(JobTurn(0.7, 0.2, 1.1, 4), JobTurn(0.3, 0.5, 0.9, 4), 40)
    assert first == pytest.approx(40 / 1.8 * 1.1, abs=1.1)  # as if it were alone
    assert first + second <= 40


def test_classes_keep_apart_who_meets():
    """Crux, figure 13: two pairs on two links; two classes do for all four jobs."""
    pairs = ({0, 1}, {2, 3})
    assert classes([4, 3, 2, 1], [4, 3, 2, 1], lambda one, other: {one, other} in pairs, 2) == [1, 0, 1, 0]
    assert classes([4, 3, 2, 1], [4, 3, 2, 1], lambda _one, _other: True, 4) == [3, 2, 1, 0]
    # Of four that all meet, two and two lose 4 + 2; one and three 3 + 3 + 2; three and one 4 + 4 + 3.
    assert classes([4, 3, 2, 1], [4, 3, 2, 1], lambda _one, _other: True, 2) == [1, 1, 0, 0]
    assert classes([7, 7], [1, 1], lambda _one, _other: True, 8) == [0, 0]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 2**15 - 1), st.integers(1, 4))
def test_classes_follow_priorities(values, links, most):
    """No job is above one that it meets and that has a higher priority, and there are no more than so many classes."""
    pairs = [pair for bit, pair in enumerate(itertools.combinations(range(6), 2)) if links >> bit & 1]

    def meets(one, other):
        return (min(one, other), max(one, other)) in pairs

    found = classes(values, values, meets, most)
    assert min(found) == 0
    assert max(found) < most
    for one, other in itertools.permutations(range(len(values)), 2):
        if meets(one, other) and values[one] > values[other]:
            assert found[one] >= found[other]


def test_a_job_that_drifts_is_near_its_place():
    """A walk that begins anew at the bound: half of its time within 0.293 of it, none beyond; symmetric."""
    assert off_beat(0.5) == 0.0
    assert off_beat(0.75) == pytest.approx(TOLERANCE * (1 - np.sqrt(0.5)))
    assert off_beat(0.1) == -off_beat(0.9)
    assert off_beat(0.0) == -TOLERANCE
    random, place, spent = np.random.default_rng(0), 0.0, []
    for step in random.normal(0, 0.005, 200_000):
        place = 0.0 if abs(place) >= TOLERANCE else place + step
        spent.append(place)
    assert np.quantile(spent, 0.75) == pytest.approx(off_beat(0.75), rel=0.1)
    back = sum(1 for one in spent if abs(one) >= TOLERANCE) / len(spent)
    assert back * TOLERANCE == pytest.approx(realigning(0.005), rel=0.25)


BARE = WorkClass("bare", 0.2, 60_000_000_000, 0.0)


def spread(manner, fabric="roce"):
    """Speeds of two jobs of four nodes, each half under one leaf and half under another."""
    cluster = machine(fabric)
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    nodes = [np.concatenate([leaf[0][at : at + 2], leaf[1][at : at + 2]]) for at in (0, 2)]
    return Neighbours(cluster, tree, [BARE], [0, 0], manner=manner).changed(state_of(nodes), [0, 1], [])


def test_chosen_paths_do_not_collide():
    """On hashed paths uplinks are used unevenly, with four queue pairs less than with one; chosen ones are as good as a
    fabric that spreads."""
    fabric, even = "roce-untuned", spread(Manner(), "infiniband")
    hashed, chosen = spread(Manner(), fabric), spread(Manner(paths=True), fabric)
    assert hashed[0] < 0.9 * chosen[0]
    assert 1.05 * hashed[0] < spread(Manner(), "roce")[0] < 0.97 * chosen[0]
    assert chosen[0] == pytest.approx(even[0], rel=0.05)
    assert spread(Manner(paths=True), "infiniband") == even


def test_a_job_alone_is_measured_against_paths_that_do_not_collide():
    cluster = machine("roce")
    tree = NodeTree.of(cluster)
    wide = PatternJob(0, 8, tuple(np.repeat([0, 1], 4).tolist()))
    hashed, chosen = (Speeds(cluster, tree.members[0], [BARE], Manner(paths=one)) for one in (False, True))
    assert hashed.ideal_s(wide) == chosen.ideal_s(wide) == chosen.alone(wide).step_s < hashed.alone(wide).step_s
    assert chosen.of((wide,)) == 1_000_000 > hashed.of((wide,))


def test_shifted_jobs_that_drift_lose_a_little():
    calm = WorkClass("calm", 0.5, 60_000_000_000, 0.0)
    cluster = machine("infiniband")
    tree = NodeTree.of(cluster)
    leaf = tree.members[0]
    nodes = [np.array([leaf[0][at], leaf[1][at]]) for at in (0, 1)]
    still, drifting = (
        Neighbours(cluster, tree, [calm], [0, 0], manner=Manner(shifted=True, drift=one)).changed(
            state_of(nodes), [0, 1], []
        )
        for one in (0.0, 0.02)
    )
    assert 0.95 * still[0] < drifting[0] < 0.993 * still[0]  # going back alone costs 0.02^2 / 0.05
