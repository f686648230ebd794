"""Constants from a user's own measurements, `railyard calibrate runs`: one file a kind of measurement, in `kinds/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.kit.registry import Registry
from railyard.kit.table import Table, TableRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.kit.errors import Problem


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


@dataclass(frozen=True)
class Column:
    """A column of a user's table.

    Attributes:
        read: The value of a filled cell.
        default: Of an empty cell; None: the row says nothing of it.
        needed: Whether a row without it says nothing at all.
    """

    read: Callable[[TableRow, str], Any]
    default: Any = None
    needed: bool = False


TEXT = Column(lambda row, name: row[name])
NEEDED_TEXT = Column(TEXT.read, needed=True)


def counts(most: int, *, needed: bool = False, default: int | None = None) -> Column:
    """A column of whole numbers from 1 up."""
    return Column(lambda row, name: row.integer(name, low=1, high=most), default, needed)


def numbers(low: float, high: float, default: float | None = None) -> Column:
    """A column of numbers; beyond the bounds nothing was ever measured."""
    return Column(lambda row, name: row.number(name, low=low, high=high), default)


def words(choices: Collection[str] | Mapping[str, Any], default: Any = None) -> Column:
    """A column of some words in any case; of a mapping its values."""

    def read(row: TableRow, name: str) -> Any:
        text = row[name].lower()
        if text not in choices:
            message = f"expected one of {', '.join(choices)}"
            raise row.wrong(name, message, allowed=", ".join(choices), hint=did_you_mean(text, choices))
        return choices[text] if isinstance(choices, Mapping) else text

    return Column(read, default)


def read_rows(
    source: MeasurementFile,
    columns: Mapping[str, Column],
    metrics: Sequence[str],
    make: Callable[[int, dict[str, Any]], T],
) -> list[T]:
    """What each row of a table says.

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
        raise InputError.many(problems)
    if not found:
        raise InputError("the table has no rows", file=source.path)
    return found


def _values(row: TableRow, columns: Mapping[str, Column], metrics: Sequence[str]) -> dict[str, Any]:
    for name, column in columns.items():
        if column.needed and not row.get(name):
            raise row.wrong(name, "the cell is empty")
    if not any(row.get(name) for name in metrics):
        raise row.wrong(metrics[0], f"one of {', '.join(metrics)} must be filled")
    values = {name: column.default for name, column in columns.items() if column.default is not None}
    return {"id": f"line {row.line}", **values, **{name: columns[name].read(row, name) for name in row if row[name]}}
