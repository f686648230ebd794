"""Presentation of results: each kind of work has one record, in the `present.py` of its folder.

Code that shows a result asks `presentation_of` for the record, and never checks the kind of work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.kit.registry import Registry
from railyard.work.study.memo import warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result, Variant
    from railyard.measure.result.section import Figures
    from railyard.work.study.memo import DecisionMemo

    Row = dict[str, object]

V = TypeVar("V")


@dataclass(frozen=True)
class Sheet:
    """A table of text.

    Attributes:
        title: A line above the table.
        right: Right-aligned columns; None: all but the first.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    right: Sequence[int] | None = None

    @classmethod
    def of(
        cls, columns: Sequence[tuple[str, Callable[[V], str]]], every: Sequence[V], right: Sequence[int] | None = None
    ) -> Sheet:
        """A row for each variant; a column is its heading and what it says of a variant."""
        rows = [[cell(one) for _, cell in columns] for one in every]
        return cls([heading for heading, _ in columns], rows, right=right)

    @property
    def to_right(self) -> Sequence[int]:
        """Right-aligned columns."""
        return range(1, len(self.headings)) if self.right is None else self.right


WIDTH = 100
"""Columns of explanations."""

MOST_VARIANTS = 24
"""Maximum rows of a notebook's card."""


def html_head(*titles: str) -> str:
    """The heading row of a table in HTML."""
    return "<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"


@dataclass(frozen=True)
class ResultTable:
    """A table of a result for further computation: `run.time`.

    Attributes:
        file: Parquet file in the folder of the run that holds it, in place of `rows`.
    """

    about: str
    rows: Callable[[Any], Iterable[Row]] = tuple
    file: str = ""


def settings_row(variant: Variant) -> Row:
    """The settings of a variant as columns."""
    return {f"set {key}": str(value) for key, value in variant.settings.items()}


def plain_rows(sections: Iterable[Figures]) -> Iterable[Row]:
    """Sections as rows, without those columns that have parts of their own."""
    return (
        {key: value for key, value in row.plain().items() if not isinstance(value, list | dict)} for row in sections
    )


def nested_columns(values: Row, head: str = "") -> Row:
    """Sections within sections as columns: `usd_total_low`."""
    found: Row = {}
    for key, value in values.items():
        found |= nested_columns(value, f"{head}{key}_") if isinstance(value, dict) else {f"{head}{key}": value}
    return found


def _nothing(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class ExplainDepth:
    """How much of an explanation to show."""

    levels: int = 3
    details: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Presentation:
    """Presentation of a kind of work.

    Attributes:
        verdict: The answer in one sentence: what to take, its cost, the band.
        sheets: The tables that every reader needs, the comparison of the variants first: at most eight columns.
        card: A few lines, with the path of the report.
        explain: Where the time of every variant goes, and what would help; None: verdict and reasons.
        html: The inner part of a notebook's card; None: the comparison as a table.
        explained: An explanation: the answer in one sentence, then lines and tables.
        memo: A page for a decision; None: this kind of work has none.
    """

    verdict: Callable[[Result], str]
    sheets: Callable[[Result], Iterable[Sheet]]
    why: Callable[[Result], Sequence[str]]
    card: Callable[[Result, Path | None], str]
    explain: Callable[[Result], str] | None = None
    details: Callable[[Result], Iterable[Sheet]] = _nothing
    notes: Callable[[Result], list[str]] = warnings
    html: Callable[[Result], str] | None = None
    tables: Mapping[str, ResultTable] = field(default_factory=dict)
    explained: Callable[[Any, ExplainDepth], Iterable[str | Sheet]] = _nothing
    memo: Callable[[Result], DecisionMemo] | None = None

    def conclusion(self, result: Result) -> str:
        """The verdict and its reasons as one paragraph."""
        return " ".join([self.verdict(result), *self.why(result)])

    def explanation(self, result: Result) -> str:
        """Where the time of every variant goes, as text."""
        return (self.explain or self.conclusion)(result)


presentations: Registry[Presentation] = Registry("presentation", package="railyard.work", part="present")


def presentation_of(result: Result) -> Presentation:
    """The presentation for a result's kind of work."""
    return presentations.get(result.variants[0].kind)


def comparison(result: Result) -> Sheet:
    """The variants side by side, in the columns of their kind of work."""
    return next(iter(presentation_of(result).sheets(result)))
