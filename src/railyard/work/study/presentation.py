"""Presentation of results: each kind of work has one record, in the `present.py` of its folder.

Code that shows a result asks `presentation_of` for the record, and never checks the kind of work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result, Variant
    from railyard.measure.result.section import Figures

    Row = dict[str, object]


@dataclass(frozen=True)
class Sheet:
    """A table of text.

    Attributes:
        headings: One per column.
        rows: Cells.
        title: A line above the table.
        right: Right-aligned columns; None: all but the first.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    right: Sequence[int] | None = None

    @property
    def to_right(self) -> Sequence[int]:
        """Right-aligned columns."""
        return range(1, len(self.headings)) if self.right is None else self.right


WIDTH = 80
"""Columns of explanations."""

MOST_VARIANTS = 24
"""Maximum rows of a notebook's card."""


def html_head(*titles: str) -> str:
    """The heading row of a table in HTML."""
    return "<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"


def warnings(result: Result) -> list[str]:
    """Warnings of each variant, one line each, without duplicates."""
    found: dict[str, list[str]] = {}
    for variant in result.variants:
        for line in getattr(variant, "warnings", ()):
            found.setdefault(line, []).append(variant.name)
    everybody = len(result.variants)
    return [
        f"note: {'' if len(names) == everybody else ', '.join(names) + ': '}{line}" for line, names in found.items()
    ]


@dataclass(frozen=True)
class ResultTable:
    """A table of a result for further computation: `run.time`.

    Attributes:
        rows: Rows of one variant.
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


def _nothing(*_: object) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Presentation:
    """Presentation of a kind of work.

    Attributes:
        sheets: The tables of a result, the comparison of its variants first.
        why: The outcome, in a few sentences.
        explain: Where the time of every variant goes, and what would help.
        card: A few lines, with the path of the report.
        notes: Notes on the variants.
        html: The inner part of a notebook's card; None: the comparison as a table.
        tables: Tables of the result by name.
        explained: Lines and tables of an explanation, given levels of its tree, and whether notes are left out.
    """

    sheets: Callable[[Result], Iterable[Sheet]]
    why: Callable[[Result], str]
    explain: Callable[[Result], str]
    card: Callable[[Result, Path | None], str]
    notes: Callable[[Result], list[str]] = warnings
    html: Callable[[Result], str] | None = None
    tables: Mapping[str, ResultTable] = field(default_factory=dict)
    explained: Callable[[Any, int, bool], Iterable[str | Sheet]] = _nothing


presentations: Registry[Presentation] = Registry("presentation", package="railyard.work", part="present")


def presentation_of(result: Result) -> Presentation:
    """The presentation for a result's kind of work."""
    return presentations.get(result.variants[0].kind)


def comparison(result: Result) -> Sheet:
    """The variants side by side, in the columns of their kind of work."""
    return next(iter(presentation_of(result).sheets(result)))
