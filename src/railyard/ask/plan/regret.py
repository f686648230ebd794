"""Regret: how far each choice is behind the best of all in each future, and what to make of several futures.

Several futures are judged by the largest regret over them (Savage 1951: choose the least of these), or by the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    F = NDArray[np.float64]


def excess(costs: ArrayLike) -> F:
    """float64[choices, futures, ...] of costs of that shape, 0 for the best choice of a future."""
    table = np.asarray(costs, np.float64)
    found: F = table - table.min(axis=0)
    return found


def relative(costs: ArrayLike) -> F:
    """The excess as a share of the least cost."""
    table = np.asarray(costs, np.float64)
    found: F = excess(table) / np.abs(table.min(axis=0))
    return found


def largest(found: F) -> F:
    """float64[choices, ...]: the largest over the futures."""
    worst: F = found.max(axis=1)
    return worst


def expected(found: F, odds: Sequence[float]) -> F:
    """float64[choices, ...]: the mean over the futures.

    Args:
        found: float64[choices, futures, ...].
        odds: Of the futures; they add up to 1.
    """
    mean: F = np.tensordot(np.asarray(odds), found, axes=(0, 1))
    return mean
