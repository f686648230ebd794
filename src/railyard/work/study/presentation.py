"""How results are shown: each kind of work has one record, `PRESENTATION` in its `present.py`.

Code that shows a result asks `presentation_of` for the record, and never checks the kind of work.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result


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
class Presentation:
    """Presentation of a kind of work.

    Attributes:
        sheets: The tables of a result, the comparison of its variants first.
        why: The outcome, in a few sentences.
        explain: Where the time of every variant goes, and what would help.
        card: A few lines, with the path of the report.
        notes: Notes on the variants.
        html: The inner part of a notebook's card; None: the comparison as a table.
    """

    sheets: Callable[[Result], Iterable[Sheet]]
    why: Callable[[Result], str]
    explain: Callable[[Result], str]
    card: Callable[[Result, Path | None], str]
    notes: Callable[[Result], list[str]] = warnings
    html: Callable[[Result], str] | None = None


def presentation_of(result: Result) -> Presentation:
    """The presentation for a result's kind of work."""
    found: Presentation = import_module(f"railyard.work.{result.variants[0].kind}.present").PRESENTATION
    return found


def comparison(result: Result) -> Sheet:
    """The variants side by side, in the columns of their kind of work."""
    return next(iter(presentation_of(result).sheets(result)))
