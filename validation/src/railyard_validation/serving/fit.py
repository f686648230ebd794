"""Constants of serving engines from measured rows.

The effects of all levels (`railyard.workload.serving.profiles`) minimise

    sum_rows weight * huber(log(predicted / measured) / 0.08) + sum_effects (effect / spread)^2

(`railyard_validation.robust`). Effects of all levels add up in the logarithm of a row's constant, so the slopes along
one constant serve all its levels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.columns import take
from railyard.workload.serving.profiles import constants, levels
from railyard.workload.serving.software import CONSTANTS, ServingSoftwareColumns
from railyard_validation import robust
from railyard_validation.serving.model import Table, part, tpot_s, ttft_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard_validation.serving.cases import Case

    F = NDArray[np.float64]
    Whole = NDArray[np.int64]
    Misses = Callable[[ServingSoftwareColumns], F]

# Relative error of a row that measurement and missing detail leave.
_ROW_SPREAD = 0.08
_HUBER = 1.5
# Constants that only the first token tells.
FIRST_TOKEN = ("prompt_s", "prompt_layer_s", "prompt_latent_s", "wave_share", "split_wave_share", "copies_wait")
_STEP = 1e-3
_ITERATIONS = 20
_PRECISION = 1e-4


@dataclass(frozen=True)
class Design:
    """Which effects make up the constants of which rows.

    Attributes:
        names: Of the levels.
        member: [group, level], 1 where the rows of a group belong to a level.
        group: Of every row.
    """

    names: tuple[str, ...]
    member: F
    group: Whole

    def rows(self, index: Whole) -> Design:
        """The design of some rows."""
        return replace(self, group=self.group[index])


def design(cases: tuple[Case, ...]) -> Design:
    """The levels of every row."""
    of = [levels(case.engine, case.device.architecture, case.generation) for case in cases]
    names = tuple(dict.fromkeys(name for row in of for name in row))
    groups = {own: number for number, own in enumerate(dict.fromkeys(of))}
    member = np.zeros((len(groups), len(names)))
    for own, number in groups.items():
        member[number, [names.index(name) for name in own]] = 1.0
    return Design(names, member, np.array([groups[own] for own in of]))


def software(effects: F, made: Design) -> ServingSoftwareColumns:
    """Constants of every row from effects[constant, level]."""
    values = []
    for number, name in enumerate(CONSTANTS):
        known = constants()[name]
        each = np.clip(known.prior * np.exp(made.member @ effects[number]), known.low, known.high)
        values.append(each[made.group])
    return ServingSoftwareColumns(*values)


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


def told_s(case: Case) -> float:
    """Seconds a token that a row tells, 0 where it does not.

    A unit that only decodes a batch of a given size, without drafts, tells it by its tokens/s. A pace that a unit is
    filled up to is no measurement.
    """
    if case.kind == "paced":
        return 0.0
    rate = case.row.real.get("out_tok_s_per_gpu", 0.0) * case.decode.ranks * case.decode.workers
    if case.kind == "decode" and rate and not case.drafts:
        return case.users / rate
    return case.row.real.get("tpot_ms", 0.0) / 1e3


def tpot_misses(rows: Table) -> Misses:
    """Logarithm of predicted over measured seconds a token."""
    measured = np.log([told_s(case) for case in rows.cases])

    def misses(known: ServingSoftwareColumns) -> F:
        return np.log(tpot_s(rows, known)) - measured

    return misses


def ttft_misses(rows: Table) -> Misses:
    """Logarithm of predicted over measured seconds to the first token."""
    measured = np.log([case.row.real["ttft_ms"] / 1e3 for case in rows.cases])

    def misses(known: ServingSoftwareColumns) -> F:
        return np.log(ttft_s(rows, known)) - measured

    return misses


def both_misses(rows: Table, first: NDArray[np.int64]) -> Misses:
    """Misses of TPOT of every row, then of TTFT of those in `first`; the constants come in that order."""
    of_token, of_first = tpot_misses(rows), ttft_misses(part(rows, first))
    count = len(rows.cases)

    def misses(known: ServingSoftwareColumns) -> F:
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
    spread = _spreads(made, free)

    def moved(own: F) -> F:
        found = start.copy()
        found[rows] = own.reshape(spread.shape)
        return found

    def slopes(own: F) -> F:
        return _slopes(made, misses, moved(own), rows)

    found = robust.minimise(
        lambda own: misses(software(moved(own), made)),
        slopes,
        robust.Priors(np.zeros(spread.size), spread.ravel()),
        robust.Rows(_ROW_SPREAD, _HUBER, 1.0 if weight is None else weight),
        start=start[rows].ravel(),
        iterations=iterations,
        precision=_PRECISION,
    )
    return moved(found)


def _spreads(made: Design, free: tuple[str, ...]) -> F:
    """Standard deviation of each effect [constant, level]: that of a constant over all engines, or of one level's."""
    known = [constants()[name] for name in free]
    return np.array([[own.spread if level == "all" else own.level for level in made.names] for own in known])


def _slopes(made: Design, misses: Misses, effects: F, rows: list[int]) -> F:
    """Derivatives of the misses, [row, effect]: effects of all levels of a row move its constant alike."""
    at = misses(software(effects, made))
    every, levels_of = made.names.index("all"), made.member[made.group]
    found = []
    for row in rows:
        moved = effects.copy()
        moved[row, every] += _STEP
        found.append((misses(software(moved, made)) - at)[:, None] / _STEP * levels_of)
    return np.concatenate(found, axis=1)


def left_out(
    rows: Table,
    by: Callable[[Case], str],
    misses_of: Callable[[Table], Misses],
    free: tuple[str, ...] = CONSTANTS,
) -> F:
    """Misses of every row under constants fitted, from the priors on, without the part that it belongs to.

    Args:
        rows: Table.
        by: The part of a case.
        misses_of: Misses of a table, to be fitted.
        free: Constants to be fitted.
    """
    made = design(rows.cases)
    names = np.array([by(case) for case in rows.cases])
    found = np.zeros(len(names))
    weight = trust(rows.cases)
    for name in dict.fromkeys(names.tolist()):
        keep, held = np.flatnonzero(names != name), np.flatnonzero(names == name)
        start = np.zeros((len(CONSTANTS), len(made.names)))
        effects = fit(made.rows(keep), misses_of(part(rows, keep)), start, free, weight=weight[keep])
        found[held] = misses_of(part(rows, held))(software(effects, made.rows(held)))
    return found
