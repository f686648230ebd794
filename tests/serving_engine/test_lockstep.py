"""Replicas in lockstep: each has its own queue, and all begin and end every iteration together."""

import numpy as np
import pytest

from railyard.engine.serving import Cost, Deployment, Pool, Router, simulate

from .columns import poisson, rows

MS = 10**9
# A token takes 1 ms where it is, and 0.5 ms (a fifth of it collectives) of everybody.
OWN = {"tokens": np.array([0, 1024]), "compute_s": np.array([0.0, 1.024]), "network_s": np.zeros(2)}
JOINT = {
    "joint_tokens": np.array([0, 2048]),
    "joint_compute_s": np.array([0.0, 0.4 * 2.048]),
    "joint_network_s": np.array([0.0, 0.1 * 2.048]),
}


def _pool(**changed):
    asked = {"replicas": 2, "lockstep": 2, "max_batched_tokens": 1024} | changed
    return Pool("copies", Cost(**OWN, **JOINT), **asked)


def _served(requests, **changed):
    return simulate(requests, Deployment((_pool(**changed),), Router("round-robin"), stop_on_overload=False))


def test_by_hand():
    # 10 tokens alone: 10 + 5 ms. Then 1 here and the 4 that came meanwhile there: 4 + 2.5. Then 1 and 1: 1 + 1.
    run = _served(rows([0, 1 * MS], [10, 4], [3, 2]))
    assert run.who.tolist() == [0, 1]
    assert run.column("first_token_ps") == pytest.approx([15 * MS, 21.5 * MS])
    assert run.column("prefill_start_ps") == pytest.approx([0, 15 * MS])
    assert run.end_ps == pytest.approx([23.5 * MS, 23.5 * MS])
    # Collectives of the tokens of all: 10, 5 and 2 of them for the first request, 5 and 2 for the second.
    assert run.column("collectives_ps") == pytest.approx([1.7 * MS, 0.7 * MS])


def test_a_group_waits_only_for_its_own():
    # Four in two groups: the long prompt on replica 0 holds up replica 1, not 2 and 3.
    run = _served(rows([0, 1, 2, 3], [100, 1, 1, 1], [1, 1, 1, 1]), replicas=4)
    assert run.column("first_token_ps")[1] > 100 * MS
    assert run.column("first_token_ps")[2] < 3 * MS


def test_copies_that_share_nothing_but_the_clock():
    """Without joint times two copies with the same requests serve them as one copy alone does."""
    one = poisson(400, 3.0, 30, 20)
    alone = Pool("one", Cost(**OWN), max_batched_tokens=1024)
    expected = simulate(one, Deployment((alone,), stop_on_overload=False))
    twice = rows(np.repeat(one.arrival_ps, 2), np.repeat(one.input_tokens, 2), np.repeat(one.output_tokens, 2))
    pool = Pool("two", Cost(**OWN), replicas=2, lockstep=2, max_batched_tokens=1024)
    found = simulate(twice, Deployment((pool,), Router("round-robin"), stop_on_overload=False))
    assert np.abs(found.column("first_token_ps")[::2] - expected.column("first_token_ps")).max() <= 1
    assert np.abs(found.end_ps[1::2] - expected.end_ps).max() <= 1


@pytest.mark.parametrize("ahead", [False, True])
def test_nothing_is_lost(ahead):
    requests = poisson(3000, 8.0, 60, 12)
    run = _served(requests, ahead=ahead, max_sequences=8, kv_blocks=64)
    assert (run.column("status") == 0).all()
    assert (run.column("first_token_ps") > requests.arrival_ps).all()
    assert (run.end_ps >= run.column("first_token_ps")).all()
