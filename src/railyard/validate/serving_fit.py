"""Constants of serving engines from measured rows.

The effects of all levels (`railyard.workload.serving.profiles`) minimise

    sum_rows weight * huber(log(predicted / measured) / 0.08) + sum_effects (effect / spread)^2

by Levenberg-Marquardt (Marquardt 1963) in the logarithms with Huber's weights (1964). Effects of all levels add up in
the logarithm of a row's constant, so the slopes along one constant serve all its levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.validate.serving_model import Table, part, tpot_s, ttft_s
from railyard.workload.serving.columns import take
from railyard.workload.serving.profiles import constants, levels
from railyard.workload.serving.software import CONSTANTS, SoftwareColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.validate.serving_cases import Case

    F = NDArray[np.float64]
    Misses = Callable[[SoftwareColumns], F]

# Relative error of a row that measurement and missing detail leave.
_ROW_SPREAD = 0.08
_HUBER = 1.5
# Constants that only the first token tells.
FIRST_TOKEN = ("prompt_s", "prompt_layer_s", "prompt_latent_s", "wave_share", "split_wave_share", "copies_wait")
_STEP = 1e-3
_ITERATIONS = 12


@dataclass(frozen=True)
class Design:
    """Which effects make up the constants of which rows: `member[row, level]`, and the levels' names."""

    names: tuple[str, ...]
    member: F


def design(cases: tuple[Case, ...]) -> Design:
    """The levels of every row."""
    of = [levels(case.engine, case.device.architecture, case.generation) for case in cases]
    names = tuple(dict.fromkeys(name for row in of for name in row))
    place = {name: number for number, name in enumerate(names)}
    member = np.zeros((len(cases), len(names)))
    for row, own in enumerate(of):
        member[row, [place[name] for name in own]] = 1.0
    return Design(names, member)


def software(effects: F, made: Design) -> SoftwareColumns:
    """Constants of every row from effects[constant, level]."""
    values = []
    for number, name in enumerate(CONSTANTS):
        known = constants()[name]
        values.append(np.clip(known.prior * np.exp(made.member @ effects[number]), known.low, known.high))
    return SoftwareColumns(*values)


def from_known(made: Design, known: Mapping[str, Mapping[str, float]]) -> F:
    """Effects[constant, level] of a table's levels, 0 where none is known."""
    return np.array([[known.get(level, {}).get(name, 0.0) for level in made.names] for name in CONSTANTS])


def as_known(made: Design, effects: F) -> dict[str, dict[str, float]]:
    """The same by level and constant, without what is too small to matter."""
    found = {}
    for column, level in enumerate(made.names):
        own = {name: float(f"{effects[row, column]:.4g}") for row, name in enumerate(CONSTANTS)}
        found[level] = {name: value for name, value in own.items() if abs(value) > 1e-3}
    return found


def tpot_misses(rows: Table) -> Misses:
    """Logarithm of predicted over measured seconds a token."""
    measured = np.log([case.row.real["tpot_ms"] / 1e3 for case in rows.cases])

    def misses(known: SoftwareColumns) -> F:
        return np.log(tpot_s(rows, known)) - measured

    return misses


def ttft_misses(rows: Table) -> Misses:
    """Logarithm of predicted over measured seconds to the first token."""
    measured = np.log([case.row.real["ttft_ms"] / 1e3 for case in rows.cases])

    def misses(known: SoftwareColumns) -> F:
        return np.log(ttft_s(rows, known)) - measured

    return misses


def both_misses(rows: Table, first: NDArray[np.int64]) -> Misses:
    """Misses of TPOT of every row, then of TTFT of those in `first`; the constants come in that order."""
    of_token, of_first = tpot_misses(rows), ttft_misses(part(rows, first))
    count = len(rows.cases)

    def misses(known: SoftwareColumns) -> F:
        whole = take(known, np.arange(count))
        return np.concatenate([of_token(whole), of_first(take(known, np.arange(count, count + len(first))))])

    return misses


def trust(cases: tuple[Case, ...]) -> F:
    """Weight of a row in the fit: less where facts were assumed, least where a label leaves out what decides."""
    return np.array([0.15 if case.drafting < 1.0 else (0.4 if case.defaults else 1.0) for case in cases])


def fit(
    made: Design,
    misses: Misses,
    start: F,
    free: tuple[str, ...] = CONSTANTS,
    *,
    weight: F | None = None,
    iterations: int = _ITERATIONS,
) -> F:
    """Effects[constant, level] that minimise the misses, from `start` on; constants not in `free` stay."""
    rows = [CONSTANTS.index(name) for name in free]
    width = len(made.names)
    spread = np.array(
        [
            [constants()[name].spread if level == "all" else constants()[name].level for level in made.names]
            for name in free
        ]
    ).ravel()
    count = np.ones(made.member.shape[0]) if weight is None else weight
    effects, damping = start.copy(), 1e-2
    miss = misses(software(effects, made))
    cost = _cost(miss, effects[rows].ravel() / spread, count)
    for _ in range(iterations):
        slopes = []
        for row in rows:
            moved = effects.copy()
            moved[row, made.names.index("all")] += _STEP
            slopes.append((misses(software(moved, made)) - miss) / _STEP)
        slope = np.concatenate([each[:, None] * made.member for each in slopes], axis=1)
        held = count * np.minimum(1.0, _HUBER / np.maximum(np.abs(miss) / _ROW_SPREAD, 1e-12)) / _ROW_SPREAD**2
        normal = slope.T @ (held[:, None] * slope) + np.diag(spread**-2.0)
        downhill = slope.T @ (held * miss) + effects[rows].ravel() / spread**2
        while damping < 1e8:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -downhill)
            tried = effects.copy()
            tried[rows] += step.reshape(len(rows), width)
            missed = misses(software(tried, made))
            reached = _cost(missed, tried[rows].ravel() / spread, count)
            if reached < cost:
                break
            damping *= 10.0
        else:
            return effects
        small = cost - reached < 1e-4 * cost
        effects, miss, cost, damping = tried, missed, reached, max(damping / 10.0, 1e-8)
        if small:
            break
    return effects


def _cost(miss: F, strain: F, weight: F) -> float:
    off = np.abs(miss) / _ROW_SPREAD
    huber = np.where(off <= _HUBER, off**2, 2.0 * _HUBER * off - _HUBER**2)
    return float(np.sum(weight * huber) + np.sum(strain**2))


def left_out(
    rows: Table,
    by: Callable[[Case], str],
    start: F,
    misses_of: Callable[[Table], Misses],
    free: tuple[str, ...] = CONSTANTS,
) -> F:
    """Misses of every row under constants fitted without the part that it belongs to.

    Args:
        rows: Table.
        by: The part of a case.
        start: Effects of all rows, from which each fit starts.
        misses_of: Misses of a table, to be fitted.
        free: Constants to be fitted.
    """
    made = design(rows.cases)
    names = [by(case) for case in rows.cases]
    found = np.zeros(len(names))
    weight = trust(rows.cases)
    for name in dict.fromkeys(names):
        out = np.array([part_name == name for part_name in names])
        keep = np.flatnonzero(~out)
        some = Design(made.names, made.member[keep])
        effects = fit(some, misses_of(part(rows, keep)), start, free, weight=weight[keep], iterations=4)
        held = np.flatnonzero(out)
        found[held] = misses_of(part(rows, held))(software(effects, Design(made.names, made.member[held])))
    return found
