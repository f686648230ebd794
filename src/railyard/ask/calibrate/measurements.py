"""Constants from a user's own measurements, `railyard calibrate runs`: one file a kind of measurement, in `kinds/`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.kit.registry import Registry
from railyard.kit.schema.bounds import limits
from railyard.kit.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.kit.errors import Problem
    from railyard.kit.schema.bounds import Bounds


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


@dataclass(frozen=True)
class CalibratedConstant:
    """A constant that measurements moved.

    Attributes:
        of: What it belongs to: a profile of software, an engine on a device, a launch.
        low, high: One standard deviation of what is known of it now, about the value.
        settled: Share of what was open before that the measurements settled: 0, they say nothing; 1, they say all.
    """

    of: str
    name: str
    before: float
    value: float
    low: float
    high: float
    settled: float


@dataclass(frozen=True)
class JudgedRow:
    """One measurement and what is predicted for it, in one unit.

    Attributes:
        line: In the file, from 1.
        after: Predicted with those of all rows, itself among them.
        left_out: Predicted with those of all rows but itself; NaN of a single row.
    """

    line: int
    name: str
    measured: float
    before: float
    after: float
    left_out: float


@dataclass(frozen=True)
class Calibrated:
    """What came of a file.

    Attributes:
        written: The constants as text, in the form that scenarios and `railyard validate` take.
        skipped: Rows that were left out, each with its line and why.
    """

    kind: str
    unit: str
    constants: tuple[CalibratedConstant, ...]
    rows: tuple[JudgedRow, ...]
    written: str
    use: str
    skipped: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class MeasurementKind:
    """A kind of measurements; its record is its registration.

    Attributes:
        summary: What a file of it holds, in one sentence.
        columns: That a table of it must have; of files that are no tables, what they begin with. For messages.
        calibrate: Constants from a file of it; raises `InputError` with file and line.
    """

    name: str
    summary: str
    columns: tuple[str, ...]
    recognizes: Callable[[MeasurementFile], bool]
    calibrate: Callable[[MeasurementFile, Catalog], Calibrated]


kinds: Registry[MeasurementKind] = Registry("kind of measurements", package="railyard.ask.calibrate.kinds")


def read(path: Path) -> tuple[MeasurementKind, MeasurementFile]:
    """A file of measurements, and what kind it is of.

    Raises:
        InputError: It cannot be read, or no kind knows it.
    """
    source = MeasurementFile(path, read_text(path))
    found = [kind for _, kind in kinds.items() if kind.recognizes(source)]
    if not found:
        raise InputError(
            "what the file measures is not known: no kind of table has these columns",
            file=path,
            line=1,
            found=", ".join(source.columns)[:120] or "an empty file",
            allowed="; ".join(f"{kind.name}: {', '.join(kind.columns)}" for _, kind in kinds.items()),
        )
    return found[0], source


T = TypeVar("T")


def read_rows(source: MeasurementFile, columns: Sequence[str], read: Callable[[int, dict[str, str]], T]) -> list[T]:
    """What each row of a table says.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    table = Table(source.text, source.path, delimiter=",").require(known=columns)
    found: list[T] = []
    problems: list[Problem] = []
    for line, text in table.rows():
        try:
            row = table.row(line, text)
            found.append(read(line, {name: value for name, value in row.items() if value}))
        except InputError as error:
            problems += error.located(file=source.path, line=line).problems
    if problems:
        raise InputError.many(problems)
    if not found:
        raise InputError("the table has no rows", file=source.path)
    return found


_ANY = limits(0.0, 1e12)


class Cells:
    """The filled cells of one row, read strictly: every error names the column.

    Attributes:
        metrics: Columns of what was measured, of which one at least is filled.
        most: Largest count in a column, `largest` in any other.
    """

    needed: ClassVar[Sequence[str]]
    metrics: ClassVar[Sequence[str]]
    ranges: ClassVar[Mapping[str, Bounds]]
    most: ClassVar[Mapping[str, int]] = {}
    largest: ClassVar[int]

    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.line, self.cells = line, cells
        for name in self.needed:
            if name not in cells:
                raise InputError("the cell is empty", key=name)

    @property
    def name(self) -> str:
        """The row's id, or its line."""
        return self.cells.get("id", f"line {self.line}")

    def filled(self) -> str:
        """The first metric that is filled."""
        for name in self.metrics:
            if name in self.cells:
                return name
        raise InputError(f"one of {', '.join(self.metrics)} must be filled", key=self.metrics[0])

    def count(self, name: str) -> int:
        """A whole number from 1 up."""
        value, most = self.number(name), self.most.get(name, self.largest)
        if value != int(value) or not 1 <= value <= most:
            raise InputError(
                "expected a whole number", key=name, found=self.cells[name], allowed=f"an integer from 1 to {most:,}"
            )
        return int(value)

    def number(self, name: str) -> float:
        """A number above 0."""
        try:
            value = float(self.cells[name])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise InputError("expected a number above 0", key=name, found=self.cells[name])
        try:
            self.ranges.get(name, _ANY).check(value)
        except InputError as error:
            raise InputError(
                error.problems[0].message, key=name, found=self.cells[name], allowed=error.problems[0].allowed
            ) from None
        return value

    def choice(self, name: str, choices: Collection[str], default: str) -> Any:
        """The word of a cell; of a mapping, what it stands for."""
        text = self.cells.get(name, default).lower()
        if text not in choices:
            raise InputError(
                f"expected one of {', '.join(choices)}",
                key=name,
                found=text,
                allowed=", ".join(choices),
                hint=did_you_mean(text, choices),
            )
        return choices[text] if isinstance(choices, Mapping) else text
