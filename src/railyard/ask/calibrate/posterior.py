"""Constants from few measurements: what was known before, moved as far as the measurements say, with what is left open.

The logarithms x of the constants have a normal prior each. A row's miss, log(predicted / measured), has the spread
that measurement and missing detail leave; a miss of more than `HUBER` spreads counts linearly (Huber 1964). The most
likely x minimises

    sum_rows huber(miss(x) / spread) + sum_constants ((x - prior) / width)^2

found by Gauss and Newton's steps; about it x is normal with the inverse of the curvature as covariance (Laplace).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.measurements import CalibratedConstant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    F = NDArray[np.float64]


HUBER = 2.0
"""Spreads from which on a miss counts linearly."""
STEP = 1e-3
_ROUNDS = 12
_SETTLED = 0.02
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
        without: Most likely logarithms of all rows but those of a group, by group.
        left_out: Misses of each row with the constants of all groups but its own, [row].
    """

    at: F
    width: F
    without: dict[str, F]
    left_out: F
    prior: Prior


def posterior(
    misses: Callable[[F], F],
    prior: Prior,
    spread: float,
    *,
    weight: F | None = None,
    groups: Sequence[str] | None = None,
    step: float = STEP,
) -> Posterior:
    """The constants that measurements leave most likely, how sure they are, and what they are without each group.

    Args:
        misses: log(predicted / measured), [row], of the logarithms of the constants.
        prior: Of the constants.
        spread: Relative error that measurement and missing detail leave.
        weight: Of each row; one for all when None.
        groups: Of each row, such as its source; each row by itself when None.
        step: By which a logarithm is moved for its slope: more than what rounding in the model hides.
    """
    start = misses(prior.at)
    counted = np.ones(len(start)) if weight is None else weight
    names = [str(row) for row in range(len(start))] if groups is None else list(groups)
    at, slopes = _most_likely(misses, prior, spread, counted, prior.at, step=step)
    weights = counted * _weights(misses(at), spread)
    curvature = (slopes * weights[:, None]).T @ slopes / spread**2 + np.diag(prior.width**-2.0)
    left_out, without = np.full(len(start), np.nan), {}
    for name in dict.fromkeys(names if len(set(names)) > 1 else ()):
        those = np.array([group == name for group in names])
        without[name], _ = _most_likely(misses, prior, spread, np.where(those, 0.0, counted), at, near=slopes)
        left_out[those] = misses(without[name])[those]
    return Posterior(at, np.sqrt(np.diag(np.linalg.inv(curvature))), without, left_out, prior)


def _most_likely(
    misses: Callable[[F], F],
    prior: Prior,
    spread: float,
    rows: F,
    start: F,
    *,
    near: F | None = None,
    step: float = STEP,
) -> tuple[F, F]:
    """Where the sum is least, counting rows by their weight, and the slopes of the misses there.

    `near` are slopes at a place near to the answer, taken anew after a long move.
    """

    def cost(x: F) -> float:
        size = np.abs(misses(x)) / spread
        rowed = np.where(size > HUBER, 2.0 * HUBER * size - HUBER**2, size**2)
        return float(rows @ rowed + np.sum(((x - prior.at) / prior.width) ** 2))

    at, last = start, cost(start)
    slopes = slopes_of(misses, at, step) if near is None else near
    for _ in range(_ROUNDS):
        miss = misses(at)
        weight = rows * _weights(miss, spread) / spread**2
        curvature = (slopes * weight[:, None]).T @ slopes + np.diag(prior.width**-2.0)
        move = -np.linalg.solve(curvature, slopes.T @ (weight * miss) + (at - prior.at) / prior.width**2)
        tried = [np.clip(at + move / 2.0**halving, prior.low, prior.high) for halving in range(_HALVINGS)]
        better = next((x for x in tried if cost(x) < last), None)
        if better is None:
            break
        moved, now = float(np.max(np.abs(better - at) / prior.width)), cost(better)
        at, settled, last = better, last - now < _SETTLED, now
        if settled:
            break
        if moved > 0.3:
            slopes = slopes_of(misses, at, step)
    return at, slopes


def _weights(miss: F, spread: float) -> F:
    return np.minimum(1.0, HUBER * spread / np.maximum(np.abs(miss), 1e-12))


def slopes_of(misses: Callable[[F], F], at: F, step: float = STEP) -> F:
    """Derivatives of the misses, [row, constant], by steps that are greater than what rounding in a model hides."""
    there = misses(at)
    return np.stack([(misses(at + step * unit) - there) / step for unit in np.eye(len(at))], axis=1)


SETTLED = 0.05
"""Constants of which measurements settle less than this share of what was open stay as they are."""


def moved_constants(
    of: Sequence[str], names: Sequence[str], before: F, found: Posterior, digits: int = 17
) -> list[CalibratedConstant]:
    """The constants of a fit, in so many digits, with one standard deviation about each."""
    moved = []
    columns = (of, names, before.tolist(), found.at.tolist(), found.width.tolist(), found.prior.width.tolist())
    for whose, name, was, at, width, open_ in zip(*columns, strict=True):
        value, settled = float(f"{math.exp(at):.{digits}g}"), 1.0 - (width / open_) ** 2
        low, high = value * math.exp(-width), value * math.exp(width)
        moved.append(CalibratedConstant(whose, name, was, value, low, high, settled))
    return moved
