"""Constants from measured rows, by SciPy's least squares.

The logarithms x of the constants minimise

    sum_rows weight * huber(miss(x) / spread of a row) + sum_constants ((x - prior) / spread)^2

where huber(z) is z^2 up to a number of spreads and grows linearly beyond (Huber 1964), so that a row with a missing
fact does not pull, and a constant that no row tells of keeps its prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    F = NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """What is known of each constant before any row is read, in logarithms.

    Attributes:
        at: Its most likely value.
        spread: One standard deviation.
        low: Least value.
        high: Greatest value.
    """

    at: F
    spread: F
    low: F | float = -np.inf
    high: F | float = np.inf


@dataclass(frozen=True)
class Rows:
    """How far rows may miss.

    Attributes:
        spread: Relative error that measurement and missing detail leave.
        huber: Number of spreads from which on a miss counts linearly.
        weight: [row], or one for all.
    """

    spread: float
    huber: float
    weight: F | float = 1.0


def minimise(
    misses: Callable[[F], F],
    slopes: Callable[[F], F],
    priors: Priors,
    rows: Rows,
    *,
    start: F | None = None,
    iterations: int,
    precision: float,
) -> F:
    """The logarithms of the constants that minimise the misses.

    Args:
        misses: Logarithm of predicted over measured, [row], of the logarithms of the constants.
        slopes: Its derivatives, [row, constant].
        priors: Of the constants.
        rows: How the misses count.
        start: Where the search begins; at the priors when None.
        iterations: Most evaluations of `misses`.
        precision: Relative fall of the cost at which the search ends.
    """
    strain = np.diag(1.0 / priors.spread)

    def residuals(x: F) -> F:
        return np.concatenate([misses(x) / rows.spread, (x - priors.at) / priors.spread])

    def jacobian(x: F) -> F:
        return np.concatenate([slopes(x) / rows.spread, strain])

    # SciPy documents this form of a loss; its type stubs know another one only.
    loss: Any = partial(_huber, rows, len(priors.at))
    found = least_squares(
        residuals,
        priors.at if start is None else start,
        jacobian,
        bounds=(priors.low, priors.high),
        method="dogbox",
        x_scale=priors.spread,
        ftol=precision,
        xtol=None,
        gtol=None,
        loss=loss,
        max_nfev=iterations,
    )
    return np.asarray(found.x)


def _huber(rows: Rows, constants: int, squares: F) -> F:
    """Value and first two derivatives of the loss by the squared residuals.

    Those of rows come first, by Huber's law; the last ones are those of as many priors as there are constants, squared.
    """
    count = len(squares) - constants
    loss = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
    beyond = np.flatnonzero(squares[:count] > rows.huber**2)
    root = np.sqrt(squares[beyond])
    loss[:, beyond] = 2 * rows.huber * root - rows.huber**2, rows.huber / root, -rows.huber / (2 * root**3)
    loss[:, :count] *= rows.weight
    return loss
