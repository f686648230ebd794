"""Tails before and after: quantiles by nearest rank, gains pair by pair with Student's interval, pooled curves."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.ask.tune.trials import SHARES, TimedStep, Times, curves, tail_gains


def run(values, *, flows=None):
    timed = {"collectives": Times.of(np.asarray(values, np.float64))}
    return TimedStep(1.0, 1.0, timed | ({} if flows is None else {"flows": Times.of(np.asarray(flows, np.float64))}))


def test_quantiles_are_values_that_were_seen():
    times = Times.of(np.arange(1000.0, 0.0, -1.0))
    assert (times.count, times.at(0.5), times.at(0.99), times.at(0.999), times.at(1.0)) == (1000, 500, 990, 999, 1000)
    assert len(SHARES) == 118
    assert sorted(set(SHARES)) == list(SHARES)


def test_gains_are_of_pairs_and_of_tails_with_enough_behind_them():
    pairs = [
        (run(100 * scale * np.arange(1, 101)), run(keep * 100 * scale * np.arange(1, 101)))
        for scale, keep in ((1, 0.7), (3, 0.8))
    ]
    found = {one.tail: one for one in tail_gains(pairs)}
    assert list(found) == ["p50", "p99", "slowest"]
    half = 6.314 * (np.log(0.8) - np.log(0.7)) / 2
    middle = np.log(0.56) / 2
    assert found["p99"].gain == pytest.approx(
        (1 - np.exp(middle), 1 - np.exp(middle + half), 1 - np.exp(middle - half))
    )
    assert found["p50"].before_us == pytest.approx(5000 * np.sqrt(3))
    assert found["p50"].after_us == pytest.approx(5000 * np.sqrt(3 * 0.56))


def test_what_only_some_runs_timed_is_left_out():
    pairs = [(run([1, 2], flows=[5, 6]), run([1, 1]))]
    assert [one.what for one in tail_gains(pairs)] == ["collectives"] * 2
    assert list(curves(pairs)) == ["collectives"]


def test_curves_pool_all_cases_by_their_numbers():
    few, many = run(np.full(100, 8.0)), run(np.full(300, 2.0))
    before, after = curves([(few, few), (many, many)])["collectives"]
    assert before == after
    assert dict(before)[2.0] == pytest.approx(0.25)
    assert before[-1] == (8.0, pytest.approx(0.0, abs=1e-12))
    shares = [share for _, share in before]
    assert shares == sorted(shares, reverse=True)
