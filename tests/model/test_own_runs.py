"""What own runs say of the next one: points by hand, and what must hold of any."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.model.own_runs import TAIL, Scatter, expected, noise

WIDTHS = Scatter(system=0.03, alike=0.04, reach=2.0, run=0.05)


def test_one_run_by_hand():
    # Shared variance 0.0009 + 0.0016 = 0.0025 at its own place; with 0.0075 of its own a quarter is believed.
    at, off, spread = np.zeros((1, 2)), np.array([0.2]), np.array([0.0075])
    mean, variance = expected(at, off, spread, at, WIDTHS)
    assert mean[0] == pytest.approx(0.25 * 0.2)
    assert variance[0] == pytest.approx(0.0025 * 0.75)
    # Two reaches away along each of two traits: distance^2 / (2 reach^2) = 32 / 8 = 4.
    far = np.full((1, 2), 4.0)
    near = 0.0009 + 0.0016 * math.exp(-4.0)
    mean, variance = expected(at, off, spread, far, WIDTHS)
    assert mean[0] == pytest.approx(near / 0.01 * 0.2)
    assert variance[0] == pytest.approx(0.0025 - near**2 / 0.01)


def test_the_noise_of_one_run_by_hand():
    # The likeliest weights solve v = s2 (4 + (left^2 + spread) / s2) / 5 with left and spread under v itself.
    at, off = np.zeros((1, 1)), np.array([0.3])
    (found,) = noise(at, off, np.ones(1), WIDTHS)
    gain = 0.0025 / (0.0025 + found)
    left, open_ = 0.3 * (1.0 - gain), 0.0025 * (1.0 - gain)
    assert found == pytest.approx((TAIL * 0.0025 + left**2 + open_) / (TAIL + 1.0), rel=1e-3)


def test_a_run_far_off_the_others_pulls_little():
    at = np.zeros((5, 1))
    off = np.array([0.0, 0.01, -0.01, 0.0, 1.0])
    mean, _ = expected(at, off, noise(at, off, np.ones(5), WIDTHS), at[:1], WIDTHS)
    assert mean[0] < 0.02  # their mean is 0.2


def test_runs_that_are_all_network_say_little():
    at, off = np.zeros((1, 1)), np.array([0.1])
    spread = noise(at, off, np.array([0.1]), WIDTHS)
    assert spread[0] > 0.2
    assert expected(at, off, spread, at, WIDTHS)[0][0] < 0.002


@given(st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=12), st.floats(0.0, 10.0))
def test_nothing_is_surer_than_before_for_free_and_nothing_less(off, apart):
    at = apart * np.arange(len(off), dtype=np.float64)[:, None]
    spread = noise(at, np.array(off), np.ones(len(off)), WIDTHS)
    mean, variance = expected(at, np.array(off), spread, at, WIDTHS)
    assert np.all((variance > 0.0) & (variance < 0.0025))
    assert np.all(np.abs(mean) <= 0.5)
    assert np.all(spread >= TAIL / (TAIL + 1.0) * 0.05**2 * (1 - 1e-9))
