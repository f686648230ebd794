"""Predicts your next run from a few of your own: a share that all have in common, and one that similar runs share.

A run's logarithm of measured over predicted is taken as a sum: what the whole system is off by, what runs of such a
shape and layout are off by, and what is the run's own. The first two are normal, and the covariance of two runs is

    system^2 + alike^2 * exp(-distance^2 / (2 reach^2))

(regression by a Gaussian process: Rasmussen and Williams 2006, chapter 2). The third has Student's t distribution, so
that a run far off the others pulls little; its weight is found by expectation and maximisation (Lange, Little and
Taylor 1989). With no run nothing moves, and with few little: the widths, read off published runs of many systems, say
how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.model.machine import F

TAIL = 4.0
"""Degrees of freedom of Student's distribution: one run in twenty lies beyond three of its scales."""
_ROUNDS, _SETTLED = 50, 1e-4


@dataclass(frozen=True, slots=True)
class Scatter:
    """Scatter of one system's runs about a prediction that never saw them; standard deviations of logarithms.

    Attributes:
        alike: Of what runs of one shape and layout share beyond that.
        reach: Distance over which runs are alike.
        run: Scale of what is one run's own: the measurement, and details that nobody wrote down.
    """

    system: float
    alike: float
    reach: float
    run: float

    def covariance(self, one: F, other: F) -> F:
        """Covariance by what runs share, [one, other].

        Args:
            one: Places of runs, [one, trait].
            other: Places of others, [other, trait].
        """
        apart = np.sum((one[:, None, :] - other[None, :, :]) ** 2, axis=2)
        shared: F = self.system**2 + self.alike**2 * np.exp(-apart / (2.0 * self.reach**2))
        return shared


def noise(at: F, off: F, slope: F, scatter: Scatter) -> F:
    """Variance of each run about what it shares with the others, [run]; greater where it lies far off them.

    Args:
        at: Places of runs, [run, trait].
        off: Logarithm by which each is off, [run].
        slope: How much of that quantity shows in what was measured: the run's scale counts over it.
        scatter: How runs scatter.
    """
    shared, scale = scatter.covariance(at, at), (scatter.run / slope) ** 2
    found = scale
    for _ in range(_ROUNDS):
        gain = np.linalg.solve(shared + np.diag(found), shared)
        left = (off - gain.T @ off) ** 2
        spread = np.maximum(np.diag(shared - shared @ gain), 0.0)
        last, found = found, scale * (TAIL + (left + spread) / scale) / (TAIL + 1.0)
        if np.all(np.abs(found - last) < _SETTLED * last):
            break
    return found


def expected(at: F, off: F, spread: F, new: F, scatter: Scatter) -> tuple[F, F]:
    """Expected errors of others, and the variance of what they share, [new].

    Args:
        at: Places of known runs, [run, trait].
        off: Logarithm by which each is off, [run].
        spread: Variance of each, as of `noise`.
        new: Places of others, [new, trait].
        scatter: How runs scatter.
    """
    near = scatter.covariance(new, at)
    inside = scatter.covariance(at, at) + np.diag(spread)
    gain = np.linalg.solve(inside, near.T)
    left = scatter.system**2 + scatter.alike**2 - np.sum(near.T * gain, axis=0)
    return gain.T @ off, np.maximum(left, 0.0)
