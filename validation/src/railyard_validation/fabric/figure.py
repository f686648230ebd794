"""What a published figure is, and what comes of running them."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MODULES = ("balancing", "pinning", "incast", "collectives", "scheduled", "distance", "situations")
"""Each adds its figures when it is imported."""


@dataclass(frozen=True)
class Row:
    """One number of a figure.

    Attributes:
        figure: Name of the figure.
        case: What was run.
        expected: The published value, in words.
        found: Ours.
        unit: Of `found`.
        low: Least value that agrees.
        high: Greatest value that agrees.
        tolerance: The same in words.
        engine: Which engine found it.
        status: `ok`, `off`, `shown` (nothing published to hold it to) or `not built`.
        note: What one must know to read it.
    """

    figure: str
    case: str
    expected: str
    found: float | None
    unit: str
    low: float | None
    high: float | None
    tolerance: str
    engine: str
    status: str
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A claim that others have published or that follows from a closed form.

    Attributes:
        name: As `--figure` takes it.
        claim: In a sentence.
        scenario: What is run.
        source: Who says so.
        rows: Runs it.
    """

    name: str
    claim: str
    scenario: str
    source: str
    rows: Callable[[], Iterable[Row]]


FIGURES: dict[str, Figure] = {}


def figure(
    name: str, *, claim: str, scenario: str, source: str
) -> Callable[[Callable[[], Iterable[Row]]], Callable[[], Iterable[Row]]]:
    """Registers the function that gives the rows of a figure."""

    def add(rows: Callable[[], Iterable[Row]]) -> Callable[[], Iterable[Row]]:
        FIGURES[name] = Figure(name, claim, scenario, source, rows)
        return rows

    return add


@dataclass(frozen=True)
class Case:
    """What a row is about, before anything is found.

    Attributes:
        figure: Name of the figure.
        name: What is run.
        unit: Of what is found.
        engine: Which engine finds it.
        note: What one must know to read it.
    """

    figure: str
    name: str
    unit: str
    engine: str = "packet"
    note: str = ""

    def absolute(self, expected: float, found: float, *, by: float) -> Row:
        """A row that agrees within `by` of the unit."""
        words = f"+-{by:g} {'points' if self.unit == '%' else self.unit}"
        return self._row(f"{expected:g}", found, (expected - by, expected + by), words)

    def relative(self, expected: float, found: float, *, by: float) -> Row:
        """A row that agrees within a share of the published value."""
        return self._row(f"{expected:g}", found, (expected * (1 - by), expected * (1 + by)), f"+-{100 * by:g} %")

    def between(
        self,
        expected: str,
        found: float,
        *,
        low: float | None = None,
        high: float | None = None,
        tolerance: str = "none",
    ) -> Row:
        """A row that agrees where it lies in a range, open where an end is None."""
        return self._row(expected, found, (low, high), tolerance)

    def shown(self, found: float) -> Row:
        """A row that stands beside the others."""
        return replace(self._row("", found, (None, None), ""), status="shown")

    def not_built(self, expected: str, tolerance: str) -> Row:
        """A row that cannot be run."""
        return replace(self._row(expected, 0.0, (None, None), tolerance), status="not built", found=None)

    def _row(self, expected: str, found: float, ends: tuple[float | None, float | None], tolerance: str) -> Row:
        low, high = ends
        good = (low is None or found >= low) and (high is None or found <= high)
        return Row(
            self.figure, self.name, expected, found, self.unit, low, high, tolerance, self.engine,
            "ok" if good else "off", self.note,
        )  # fmt: skip


@dataclass(frozen=True)
class FabricReport:
    """Every row of every figure that was run."""

    rows: tuple[Row, ...]

    def counts(self) -> dict[str, int]:
        """How many rows have which status."""
        return {
            status: sum(row.status == status for row in self.rows) for status in ("ok", "off", "shown", "not built")
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and dictionaries."""
        said = {
            name: {key: getattr(FIGURES[name], key) for key in ("claim", "scenario", "source")}
            for name in dict.fromkeys(row.figure for row in self.rows)
        }
        return {"figures": said, "rows": [asdict(row) for row in self.rows], "summary": self.counts()}


def validate_fabric(
    names: Sequence[str] = (), *, progress: Callable[[str, float], None] = lambda *_: None
) -> FabricReport:
    """Runs figures.

    Args:
        names: Which; all by default.
        progress: Called with the name of what comes next and the share that is done.

    Raises:
        InputError: There is no such figure.
    """
    for module in MODULES:
        importlib.import_module(f"railyard_validation.fabric.{module}")
    chosen = [FIGURES[_known(name)] for name in names] or sorted(FIGURES.values(), key=lambda each: int(each.name[1:]))
    rows: list[Row] = []
    for number, each in enumerate(chosen):
        progress(f"{each.name}: {each.claim}", number / len(chosen))
        rows += each.rows()
    return FabricReport(tuple(rows))


def _known(name: str) -> str:
    if name.upper() in FIGURES:
        return name.upper()
    raise InputError(
        f"there is no figure `{name}`", key="--figure", found=name, allowed=list(FIGURES),
        hint=did_you_mean(name.upper(), FIGURES),
    )  # fmt: skip
