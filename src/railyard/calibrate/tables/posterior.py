"""Constants from few measurements: what was known before, moved as far as the measurements say, with what is left open.

The logarithms x of the constants have a normal prior each. A row's miss, log(predicted / measured), has the spread
that measurement and missing detail leave; a miss of more than `HUBER` spreads counts linearly (Huber 1964). The most
likely x minimises

    sum_rows huber(miss(x) / spread) + sum_constants ((x - prior) / width)^2

found by Gauss and Newton's steps; about it x is normal with the inverse of the curvature as covariance (Laplace).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    F = NDArray[np.float64]

HUBER = 2.0
"""Spreads from which on a miss counts linearly."""
_STEP = 1e-3
_ROUNDS = 12
_SETTLED = 1e-4
# Steps that are tried when a whole one overshoots: each half of the one before.
_HALVINGS = 4


@dataclass(frozen=True)
class Prior:
    """What is known of each constant before, in logarithms: most likely value, one standard deviation, bounds."""

    at: F
    width: F
    low: F | float = -np.inf
    high: F | float = np.inf


@dataclass(frozen=True)
class Posterior:
    """What is known after.

    Attributes:
        at: Most likely logarithms.
        width: One standard deviation of each.
        left_out: Misses of each row with the constants of all others, [row].
    """

    at: F
    width: F
    left_out: F


def posterior(misses: Callable[[F], F], prior: Prior, spread: float) -> Posterior:
    """The constants that measurements leave most likely, and how sure they are.

    Args:
        misses: log(predicted / measured), [row], of the logarithms of the constants.
        prior: Of the constants.
        spread: Relative error that measurement and missing detail leave.
    """
    everything = np.ones(len(misses(prior.at)))
    at, slopes = _most_likely(misses, prior, spread, everything, prior.at)
    weight = _weights(misses(at), spread)
    curvature = (slopes * weight[:, None]).T @ slopes / spread**2 + np.diag(prior.width**-2.0)
    left_out = np.full(len(everything), np.nan)
    for row in range(len(everything) if len(everything) > 1 else 0):
        others = everything.copy()
        others[row] = 0.0
        without, _ = _most_likely(misses, prior, spread, others, at)
        left_out[row] = misses(without)[row]
    return Posterior(at, np.sqrt(np.diag(np.linalg.inv(curvature))), left_out)


def _most_likely(misses: Callable[[F], F], prior: Prior, spread: float, rows: F, start: F) -> tuple[F, F]:
    """Where the sum is least, counting rows by their weight, and the slopes of the misses there."""

    def cost(x: F) -> float:
        size = np.abs(misses(x)) / spread
        rowed = np.where(size > HUBER, 2.0 * HUBER * size - HUBER**2, size**2)
        return float(rows @ rowed + np.sum(((x - prior.at) / prior.width) ** 2))

    at, last = start, cost(start)
    slopes = slopes_of(misses, at)
    for _ in range(_ROUNDS):
        miss = misses(at)
        weight = rows * _weights(miss, spread) / spread**2
        curvature = (slopes * weight[:, None]).T @ slopes + np.diag(prior.width**-2.0)
        step = -np.linalg.solve(curvature, slopes.T @ (weight * miss) + (at - prior.at) / prior.width**2)
        tried = [np.clip(at + step / 2.0**halving, prior.low, prior.high) for halving in range(_HALVINGS)]
        better = next((x for x in tried if cost(x) < last), None)
        if better is None:
            break
        moved, now = float(np.max(np.abs(better - at) / prior.width)), cost(better)
        at, settled, last = better, last - now < _SETTLED, now
        if settled:
            break
        if moved > 0.3:
            slopes = slopes_of(misses, at)
    return at, slopes


def _weights(miss: F, spread: float) -> F:
    return np.minimum(1.0, HUBER * spread / np.maximum(np.abs(miss), 1e-12))


def slopes_of(misses: Callable[[F], F], at: F) -> F:
    """Derivatives of the misses, [row, constant], by steps that are greater than what rounding in a model hides."""
    there = misses(at)
    return np.stack([(misses(at + _STEP * unit) - there) / _STEP for unit in np.eye(len(at))], axis=1)
