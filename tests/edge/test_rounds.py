"""Rounds: order statistics in closed form, shares of a server's line, barriers, deadlines, buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.rounds import buffered, order, sharing
from railyard.engine.rounds.waiting import Cohort, Rule, close


def cohort(compute, leave=None, before=(), after=(), up_bits=0.0):
    compute = np.asarray(compute, float)
    none, one = np.zeros(len(compute)), np.ones(len(compute))
    return Cohort(
        delay_s=none,
        down_bits=none,
        down_bps=one,
        down_lag_s=none,
        compute_s=compute,
        crossing_s=none,
        up_bits=one * up_bits,
        up_bps=one * 10.0,
        up_lag_s=none,
        before_s=np.array(before, float).reshape(len(before), len(compute)),
        after_s=np.array(after, float).reshape(len(after), len(compute)),
        leave_s=one * np.inf if leave is None else np.asarray(leave, float),
    )


@pytest.mark.parametrize(
    ("count", "rank", "expected"), [(1, 1, 1.0), (3, 3, 11 / 6), (13, 10, 1.3468004), (40, 40, 4.2785430)]
)
def test_order_statistics(count, rank, expected):
    assert order.exponential_order(count, rank) == pytest.approx(expected, rel=1e-6)
    assert order.exponential_order(count, rank, 2.5) == pytest.approx(2.5 * expected, rel=1e-6)


@pytest.mark.parametrize(("selected", "goal"), [(40, 40), (13, 10), (52, 40)])
def test_rounds_of_exponential_clients(selected, goal):
    random, rounds = np.random.default_rng(5), 3000
    took = [close(cohort(random.exponential(2.0, selected)), Rule(goal, 1)).took_s for _ in range(rounds)]
    expected = order.exponential_order(selected, goal, 2.0)
    assert np.mean(took) == pytest.approx(expected, abs=5 * np.std(took) / rounds**0.5)


def test_dropouts_are_binomial():
    random = np.random.default_rng(6)
    # Leaves before it is done with probability 1 - exp(-1/4): work of 1 s, stays of 4 s on average.
    stays = [random.exponential(4.0, 60) for _ in range(400)]
    left = [close(cohort(np.ones(60), one), Rule(60, 1)).gone.sum() for one in stays]
    mean, variance = order.survivors(60, 1 - np.exp(-0.25))
    assert np.mean(left) == pytest.approx(mean, abs=5 * (variance / 400) ** 0.5)
    assert np.var(left) == pytest.approx(variance, rel=0.4)


def test_a_deadline_ends_a_round():
    closed = close(cohort([1.0, 2.0, 9.0, 4.0]), Rule(goal=4, least=3, deadline_s=5.0))
    assert (closed.took_s, closed.ok, closed.by_deadline, closed.critical) == (5.0, True, True, -1)
    assert closed.used.tolist() == [True, True, False, True]
    assert not close(cohort([1.0, 2.0, 9.0, 8.0]), Rule(goal=4, least=3, deadline_s=5.0)).ok


def test_the_last_one_that_is_waited_for_is_critical():
    closed = close(cohort([3.0, 1.0, 7.0, 2.0]), Rule(goal=3, least=1))
    assert (closed.took_s, closed.critical, int(closed.used.sum())) == (3.0, 0, 3)


def test_all_come_or_go():
    closed = close(cohort([1.0, 5.0, 2.0], leave=[np.inf, 4.0, np.inf]), Rule(goal=3, least=2))
    assert (closed.took_s, closed.ok, closed.gone.tolist()) == (4.0, True, [False, True, False])


def test_stages_wait_for_all_who_are_there():
    # Stages of 1 and 3 s, then 2 and 2 s: both wait for the slowest; work of 1 s; a stage behind it, 2 of 2 needed.
    part = cohort([1.0, 1.5], before=[[1.0, 3.0], [2.0, 2.0]], after=[[0.5, 0.25]])
    closed = close(part, Rule(goal=2, least=2, stay_share=1.0))
    assert closed.took_s == pytest.approx(3.0 + 2.0 + 1.5 + 0.5)
    assert closed.stages_s == pytest.approx(5.5)
    gone = close(cohort([1.0, 1.0], leave=[2.0, np.inf], before=[[1.0, 3.0]]), Rule(goal=2, least=1))
    assert gone.gone.tolist() == [True, False]


def test_a_line_is_shared_fairly():
    ends = sharing.finish_s(np.array([0.0, 0.0, 1.0]), np.full(3, 10.0), np.array([1.0, 10.0, 10.0]), 6.0)
    assert ends == pytest.approx([10.0, 3.0, 4.0])
    assert sharing.finish_s(np.zeros(4), np.full(4, 8.0), np.full(4, 4.0), 8.0) == pytest.approx(np.full(4, 4.0))
    assert sharing.finish_s(np.array([0.0, np.inf]), np.full(2, 8.0), np.full(2, 4.0), 2.0)[0] == pytest.approx(4.0)


transfers = st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 20), st.floats(0.1, 10)), min_size=1, max_size=20)


@given(transfers, st.floats(0.5, 40))
@settings(max_examples=200, deadline=None)
def test_sharing_keeps_bytes_and_limits(rows, line):
    start, size, own = (np.array(column) for column in zip(*rows, strict=True))
    ends = sharing.finish_s(start, size, own, line)
    assert (ends >= start + size / own - 1e-6).all()
    assert ends.max() <= start.max() + size.sum() / min(line, own.min()) + 1e-6
    assert (sharing.finish_s(start, size, own, 2 * line) <= ends + 1e-6).all()
    # Work conserved: a line that is always short carries exactly its rate.
    if len(rows) > 1 and (start == start[0]).all() and own.min() >= line:
        assert ends.max() == pytest.approx(start[0] + size.sum() / line, rel=1e-6)


def test_levels():
    assert sharing.level_rates(np.array([1.0, 2.0, 9.0]), 6.0) == pytest.approx([1.0, 2.0, 3.0])
    assert sharing.level_rates(np.array([1.0, 2.0]), 6.0) == pytest.approx([1.0, 2.0])
    assert sharing.level_rates(np.array([4.0, 4.0]), 6.0) == pytest.approx([3.0, 3.0])


def test_a_buffered_server_is_a_renewal_process():
    random = np.random.default_rng(7)
    steps = buffered.run(lambda count: (random.exponential(3.0, count), random.random(count) < 0.2), 60, 12, 500)
    # 60 places, a cycle of 3 s, four of five stay: 16 updates a second, 12 of them a step.
    assert steps.at_s[-1] == pytest.approx(500 * 12 / 16.0, rel=0.05)
    # An update sees the steps of its own 3 s: 3 * 16 / 12 = 4, and what is left of the buffer.
    assert steps.staleness.mean() == pytest.approx(4.0, rel=0.1)
    assert steps.wasted == pytest.approx(6000 / 4, rel=0.1)
    assert (np.diff(steps.at_s) >= 0).all()
    assert len(np.unique(steps.row)) == len(steps.row) == 6000
