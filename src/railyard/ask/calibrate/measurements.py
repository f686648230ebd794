"""Constants from a user's own measurements, `railyard calibrate runs`: one file a kind of measurement, in `kinds/`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from railyard.kit.errors import InputError, did_you_mean, keyed, suggest
from railyard.kit.files import read_text
from railyard.kit.registry import Registry
from railyard.kit.table import Table, TableRow
from railyard.measure.numbers import counted, finite_or_null
from railyard.measure.result.measured import ConstantFit, RowFit
from railyard.measure.result.section import Figures
from railyard.work.study.compose import model_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Catalog, Model
    from railyard.kit.errors import Problem

    F = NDArray[np.float64]


@dataclass(frozen=True)
class MeasurementFile:
    """A file of measurements."""

    path: Path
    text: str

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What the first line says between commas: the columns, where the file is a table."""
        return tuple(cell.strip() for cell in self.text.partition("\n")[0].split(","))

    def has(self, needed: Collection[str], metrics: Collection[str]) -> bool:
        """Whether the table has all the columns needed and one of the metrics."""
        return {*needed} <= {*self.columns} and not {*metrics}.isdisjoint(self.columns)


class Calibrated(Figures):
    """Result of a file of measurements; its fields as in `CalibrationAnswer`.

    Attributes:
        written: The constants as text, in the form that scenarios and `railyard validate` take.
    """

    kind: str
    unit: str
    constants: tuple[ConstantFit, ...]
    rows: tuple[RowFit, ...]
    written: str
    use: str
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class MeasurementKind:
    """A kind of measurements; its record is its registration.

    Attributes:
        summary: What a file of it holds, in one sentence.
        columns: That a table of it must have, `a or b` where one is enough; of files that are no tables, what they
            begin with. For messages.
        calibrate: Constants from a file of it; raises `InputError` with file and line.
        key: Where a scenario names the file of constants.
        work: The kind of work whose scenarios take them.
    """

    name: str
    summary: str
    columns: tuple[str, ...]
    recognizes: Callable[[MeasurementFile], bool]
    calibrate: Callable[[MeasurementFile, Catalog], Calibrated]
    key: str
    work: str


kinds: Registry[MeasurementKind] = Registry("kind of measurements", package="railyard.ask.calibrate.kinds")


def read(path: Path) -> tuple[MeasurementKind, MeasurementFile]:
    """A file of measurements, and what kind it is of.

    Raises:
        InputError: It cannot be read, or no kind knows it.
    """
    source = MeasurementFile(path, read_text(path))
    every = [kind for _, kind in kinds.items()]
    found = [kind for kind in every if kind.recognizes(source)]
    if not found:
        raise _unknown(source, every)
    return found[0], source


def _unknown(source: MeasurementFile, every: Sequence[MeasurementKind]) -> InputError:
    """Why no kind knows a file: what its heading lacks of the kind that it resembles most."""
    heading = ", ".join(source.columns)[:120] or "an empty file"
    missing = [[name for name in kind.columns if {*name.split(" or ")}.isdisjoint(source.columns)] for kind in every]
    best = max(range(len(every)), key=lambda one: 1.0 - len(missing[one]) / len(every[one].columns))
    if ";" in source.columns[0]:
        return InputError("the cells are separated by semicolons, expected commas", file=source.path, line=1)
    if 2 * len(missing[best]) >= len(every[best].columns):
        allowed = "; ".join(f"{kind.name}: {', '.join(kind.columns)}" for kind in every)
        message = "unknown measurements: no kind of table has these columns"
        return InputError(message, file=source.path, line=1, found=heading, allowed=allowed)
    names = [name for column in missing[best] for name in column.split(" or ")]
    alike = ((name, suggest(name, set(source.columns) - set(every[best].columns))) for name in names)
    hints = [f"is `{near}` meant as `{name}`?" for name, near in alike if near]
    lacks = ", ".join(f"`{name}`" for name in missing[best])
    return InputError(
        f"a table of {every[best].name} lacks the column{'s' * (len(missing[best]) > 1)} {lacks}",
        file=source.path,
        line=1,
        found=heading,
        hint=" ".join(hints) or None,
    )


T = TypeVar("T")


@dataclass(frozen=True)
class MeasuredColumn:
    """A column of a user's table.

    Attributes:
        read: The value of a filled cell.
        default: Of an empty cell; None: the row says nothing of it.
        needed: Whether a row without it says nothing at all.
    """

    read: Callable[[TableRow, str], Any]
    default: Any = None
    needed: bool = False


TEXT = MeasuredColumn(lambda row, name: row[name])
NEEDED_TEXT = MeasuredColumn(TEXT.read, needed=True)


def counts(most: int, *, needed: bool = False, default: int | None = None) -> MeasuredColumn:
    """A column of whole numbers from 1 up."""
    return MeasuredColumn(lambda row, name: row.integer(name, low=1, high=most), default, needed)


def numbers(low: float, high: float, default: float | None = None) -> MeasuredColumn:
    """A column of numbers; beyond the bounds nothing was ever measured."""
    return MeasuredColumn(lambda row, name: row.number(name, low=low, high=high), default)


def words(choices: Collection[str] | Mapping[str, Any], default: Any = None) -> MeasuredColumn:
    """A column of some words in any case; of a mapping its values."""

    def read(row: TableRow, name: str) -> Any:
        text = row[name].lower()
        if text not in choices:
            message = f"expected one of {', '.join(choices)}"
            raise row.wrong(name, message, allowed=", ".join(choices), hint=did_you_mean(text, choices))
        return choices[text] if isinstance(choices, Mapping) else text

    return MeasuredColumn(read, default)


def read_rows(
    source: MeasurementFile,
    columns: Mapping[str, MeasuredColumn],
    metrics: Sequence[str],
    make: Callable[[int, dict[str, Any]], T],
) -> list[T]:
    """Reads the rows of a table.

    Args:
        source: The table.
        columns: All that it may have.
        metrics: Columns of what was measured, of which one at least is filled.
        make: Of a line's number and its values by column; `id` is there always.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    table = Table(source.text, source.path, delimiter=",").require(known=columns)
    found: list[T] = []
    problems: list[Problem] = []
    for line, text in table.rows():
        try:
            found.append(make(line, _values(table.row(line, text), columns, metrics)))
        except InputError as error:
            problems += error.located(file=source.path, line=line).problems
    if problems:
        raise InputError.many(_once(problems))
    if not found:
        raise InputError("the table has no rows", file=source.path)
    return found


def _once(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Problems that several rows have, each at the first of them."""
    same: dict[Problem, list[Problem]] = {}
    for problem in problems:
        same.setdefault(replace(problem, line=None, column=None), []).append(problem)
    for first, *others in same.values():
        more = f" (the same in {counted(len(others), 'more row')})" if others else ""
        yield replace(first, message=first.message + more)


def model_of_cell(source: MeasurementFile, name: str, catalog: Catalog) -> Model:
    """The model of a cell, by what a scenario's `model` takes; a path is relative to the table's folder.

    Raises:
        InputError: The model is unknown or cannot be read.
    """
    with keyed("model"):
        return model_of(source.path.parent, name, catalog)


def _values(row: TableRow, columns: Mapping[str, MeasuredColumn], metrics: Sequence[str]) -> dict[str, Any]:
    for name, column in columns.items():
        if column.needed and not row.get(name):
            raise row.wrong(name, "the cell is empty")
    if not any(row.get(name) for name in metrics):
        raise row.wrong(metrics[0], f"one of {', '.join(metrics)} must be filled")
    values = {name: column.default for name, column in columns.items() if column.default is not None}
    return {"id": f"line {row.line}", **values, **{name: columns[name].read(row, name) for name in row if row[name]}}


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
    """Distribution of constants after the measurements.

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
    misses = _remembered(misses)
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


def _remembered(misses: Callable[[F], F]) -> Callable[[F], F]:
    """The same, worked out once a place: a search asks for the cost, the misses and the slopes where it stands."""
    known: dict[bytes, F] = {}

    def found(x: F) -> F:
        place = x.tobytes()
        if place not in known:
            known[place] = misses(x)
        return known[place]

    return found


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
    """The minimum of the sum, counting rows by their weight, and the slopes of the misses there.

    `near` are slopes at a place near to the answer, computed again after a long move.
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


def row_fit(line: int, name: str, figures: Sequence[float]) -> RowFit:
    """A measurement and its predictions: measured, before, after, left out, which is NaN of a single row."""
    measured, before, after, left_out = figures
    return RowFit(
        line=line, name=name, measured=measured, before=before, after=after, left_out=finite_or_null(left_out)
    )


def moved_constants(
    of: Sequence[str], names: Sequence[str], before: F, found: Posterior, digits: int = 17
) -> list[ConstantFit]:
    """The constants of a fit, in so many digits, with one standard deviation about each."""
    moved = []
    columns = (of, names, before.tolist(), found.at.tolist(), found.width.tolist(), found.prior.width.tolist())
    for whose, name, was, at, width, open_ in zip(*columns, strict=True):
        value, settled = float(f"{math.exp(at):.{digits}g}"), 1.0 - (width / open_) ** 2
        low, high = value * math.exp(-width), value * math.exp(width)
        moved.append(ConstantFit(of=whose, name=name, before=was, value=value, low=low, high=high, settled=settled))
    return moved
