"""A closed loop: what Little's law and the laws of interactive systems say of it, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.serving import Cost, Deployment, Pool, simulate, stream
from railyard.kit.errors import InputError

from .columns import pool, rows

MS = 10**9


def _asked(count=60, seed=3):
    draw = np.random.Generator(np.random.Philox(seed))
    return rows(np.zeros(count), draw.integers(1, 60, count), draw.integers(1, 50, count))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.sampled_from([0, 7 * MS]), st.sampled_from(["decode-first", "prefill-first"]))
def test_littles_law_holds_to_the_picosecond(users, think_ps, policy):
    """While there are requests to send, every user waits for an answer or thinks: the areas add up to users x time."""
    requests = _asked()
    run = simulate(requests, Deployment((pool(policy=policy),)), users=users, think_ps=think_ps)
    assert run.meta["outcome"] == "finished"
    window = int(run.start_ps.max())  # until the last one is sent nobody has left
    there = np.minimum(run.end_ps + think_ps, window) - np.minimum(run.start_ps, window)
    assert there.sum() == users * window
    there = [((run.start_ps <= t) & (run.end_ps + think_ps > t)).sum() for t in run.start_ps.tolist() if t < window]
    assert set(there) == {users}


def test_one_user_has_the_server_for_himself():
    """R = D: with one user nothing queues, and throughput is 1 / (service + think)."""
    requests = rows(np.zeros(20), np.full(20, 10), np.full(20, 5))
    run = simulate(requests, Deployment((Pool("one", Cost.constant(2e-3)),)), users=1, think_ps=3 * MS)
    assert (run.end_ps - run.start_ps == 5 * 2 * MS).all()
    assert (np.diff(run.start_ps) == 5 * 2 * MS + 3 * MS).all()


def test_the_interactive_response_time_law():
    """R = N D - Z at a saturated server that serves one at a time (Denning and Buzen, 1978)."""
    users, service, think = 8, 10 * MS, 15 * MS
    requests = rows(np.zeros(400), np.full(400, 10), np.full(400, 5))
    one = Deployment((Pool("one", Cost.constant(2e-3), max_sequences=1),))
    run = simulate(requests, one, users=users, think_ps=think)
    steady = slice(50, 350)
    assert (run.end_ps - run.start_ps)[steady].tolist() == [users * service - think] * 300


def test_nobody_sends_before_the_arrival_and_more_users_than_requests_change_nothing():
    requests = rows([0, 4 * MS, 90 * MS], [5, 60, 5], [3, 30, 3])
    deployment = Deployment((pool(),))
    free = simulate(requests, deployment)
    assert free.start_ps.tolist() == requests.arrival_ps.tolist()
    loose = simulate(requests, deployment, users=3)
    assert loose.end_ps.tolist() == free.end_ps.tolist()
    tight = simulate(requests, deployment, users=1)
    assert (tight.start_ps >= requests.arrival_ps).all()
    assert (tight.start_ps[1:] == np.maximum(tight.end_ps[:-1], requests.arrival_ps[1:])).all()


def test_what_can_never_be_served_keeps_no_user_busy():
    run = simulate(rows([0, 0], [10**6, 5], [1, 1]), Deployment((pool(),)), users=1)
    assert run.column("status").tolist() == [1, 0]


def test_a_crowd_that_comes_at_once_is_no_overload():
    count = 20_000
    deployment = Deployment((Pool("one", Cost.constant(1e-3), max_sequences=1),))
    requests = rows(np.zeros(count), np.ones(count), np.ones(count))
    assert simulate(requests, deployment, users=count).meta["outcome"] == "finished"
    assert simulate(requests, deployment).meta["outcome"] == "overload"


@pytest.mark.parametrize("wrong", [{"users": -1}, {"users": 1, "think_ps": -1}, {"users": 1, "think_ps": 2**62}])
def test_bad_input(wrong):
    with pytest.raises(InputError, match=next(iter(reversed(wrong)))):
        simulate(_asked(3), Deployment((pool(),)), **wrong)


def test_streams_have_a_sent_column_too():
    *parts, _ = list(stream([_asked(5)], Deployment((pool(),))))
    assert np.concatenate([part.columns["start_ps"] for part in parts]).tolist() == [0] * 5
