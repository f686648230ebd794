"""What a kind of measurement is to `railyard calibrate runs`, and which one a file is of: as its content tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from railyard.catalog import Catalog


@dataclass(frozen=True)
class Source:
    """A file of measurements.

    Attributes:
        path: Where it lies, for messages.
        text: What stands in it.
    """

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
class Constant:
    """A constant that measurements moved.

    Attributes:
        of: What it belongs to: a profile of software, an engine on a device, a launch.
        name: Of the constant.
        before: What Railyard ships.
        value: Most likely after the measurements.
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
class Judged:
    """One measurement and what is predicted for it, in one unit.

    Attributes:
        line: In the file, from 1.
        name: Of the row.
        measured: What was measured.
        before: Predicted with the constants that ship.
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
        kind: Of its measurements.
        unit: Of what is measured.
        constants: That moved, and how sure they are.
        rows: Every measurement that was used.
        written: The constants as text, in the form that scenarios and `railyard validate` take.
        use: How to use them, a line.
        skipped: Rows that were left out, each with its line and why.
    """

    kind: str
    unit: str
    constants: tuple[Constant, ...]
    rows: tuple[Judged, ...]
    written: str
    use: str
    skipped: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class TableKind:
    """A kind of measurements; its record is its registration.

    Attributes:
        name: As users read it.
        summary: What a file of it holds, in one sentence.
        columns: That a table of it must have; of files that are no tables, what they begin with. For messages.
        recognizes: Whether a file is of this kind.
        calibrate: Constants from a file of it; raises `InputError` with file and line.
    """

    name: str
    summary: str
    columns: tuple[str, ...]
    recognizes: Callable[[Source], bool]
    calibrate: Callable[[Source, Catalog], Calibrated]


kinds: Registry[TableKind] = Registry("kind of measurements", package="railyard.ask.calibrate.tables.kinds")


def read(path: Path) -> tuple[TableKind, Source]:
    """A file of measurements, and what kind it is of.

    Raises:
        InputError: It cannot be read, or no kind knows it.
    """
    source = Source(path, read_text(path))
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
