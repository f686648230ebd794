"""Least squares with Huber's weights and priors, against normal equations solved by hand."""

import numpy as np
import pytest

from railyard.work.serving.software import CONSTANTS, LEVEL_SPREAD, constants
from railyard_validation.robust import Priors, Rows, minimise
from railyard_validation.serving import fit as serving

AROUND_ZERO = Priors(np.zeros(1), np.array([0.1]))


def fitted(measured, rows, priors=AROUND_ZERO):
    """One constant x that every row measures: miss = x - measured."""
    found = minimise(
        lambda x: x[0] - np.array(measured),
        lambda x: np.ones((len(measured), 1)),
        priors,
        rows,
        iterations=60,
        precision=1e-14,
    )
    return float(found[0])


def test_rows_and_prior_weigh_by_their_spreads():
    # 2 / 0.04^2 x + x / 0.1^2 = (0.03 + 0.05) / 0.04^2
    assert fitted([0.03, 0.05], Rows(0.04, 2.0)) == pytest.approx(50 / 1350, rel=1e-6)


def test_a_row_far_off_pulls_no_harder_than_at_the_edge():
    # The third row adds 2 / 0.04 to the right side wherever it lies, half of it at half the weight.
    for far in (1.0, 3.0):
        assert fitted([0.03, 0.05, far], Rows(0.04, 2.0)) == pytest.approx(100 / 1350, rel=1e-5)
    halved = Rows(0.04, 2.0, np.array([1.0, 1.0, 0.5]))
    assert fitted([0.03, 0.05, 1.0], halved) == pytest.approx(75 / 1350, rel=1e-5)


def test_bounds_hold():
    bounded = Priors(np.zeros(1), np.array([0.1]), np.array([-1.0]), np.array([0.02]))
    assert fitted([0.03, 0.05], Rows(0.04, 2.0), bounded) == pytest.approx(0.02, rel=1e-9)


class OneConstant:
    """Evidence of rows that tell a constant by their seconds a token, and nothing of the first one.

    Args:
        name: The constant.
        measured: Logarithm of it over its prior, by row.
    """

    def __init__(self, name, measured):
        self.name, self.measured = name, np.array(measured)
        self.weight = np.stack([np.ones(len(measured)), np.zeros(len(measured))])

    def misses(self, known):
        ratio = getattr(known, self.name) / constants()[self.name].prior
        return np.concatenate([np.log(ratio) - self.measured, np.zeros(len(self.measured))])


def test_effects_of_levels_share_what_rows_have_in_common():
    """Two rows of one level, three of it and another: both effects by the normal equations."""
    name = "gemm_fraction"
    known = constants()[name]
    member = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    near = np.tile([constants()[each].prior for each in CONSTANTS], (len(member), 1))
    made = serving.Design(((name, "all"), (name, "/a")), member, near)
    found = serving.fit(made, OneConstant(name, [-0.03, -0.03, -0.07, -0.07, -0.07]), iterations=60)
    counts = np.array([[5.0, 3.0], [3.0, 3.0]]) / 0.08**2 + np.diag([known.spread**-2.0, LEVEL_SPREAD**-2.0])
    wanted = np.linalg.solve(counts, np.array([-0.27, -0.21]) / 0.08**2)
    assert found == pytest.approx(wanted, rel=0.01)
