"""The table that compares the variants of any result, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.face.api import faults, operated, served, wide, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.measure.result.reading import Result


@dataclass(frozen=True)
class Comparison:
    """A table of text.

    Attributes:
        headings: One a column.
        right: Columns that are set to the right.
        rows: Cells, a row a variant or a job of one.
    """

    headings: Sequence[str]
    right: Sequence[int]
    rows: Sequence[Sequence[str]]


def comparison(result: Result) -> Comparison:
    """The variants side by side, in the columns of their kind of work."""
    if operated.are_operated(result):
        sheet = next(operated.sheets(result))
        return Comparison(sheet.headings, range(1, len(sheet.headings)), sheet.rows)
    if wide.are_wide(result):
        sheet = next(wide.sheets(result))
        return Comparison(sheet.headings, range(1, len(sheet.headings)), sheet.rows)
    if faults.are_jobs(result):
        rows = [cells for variant in result.jobs for cells in faults.rows(variant)]
        return Comparison(faults.HEADINGS, faults.RIGHT, rows)
    if served.is_served(result):
        return Comparison(served.HEADINGS, served.RIGHT, [served.row(variant) for variant in result.served])
    return _of_steps(result)


def _of_steps(result: Result) -> Comparison:
    """Work whose ranks go through a step; what faults cost stands first where there are any."""
    rows = [words.row(variant) for variant in result.steps]
    if not any(variant.fault_cost for variant in result.steps):
        return Comparison(words.HEADINGS, words.RIGHT, rows)
    cells = [[name, faults.cell(variant), *row] for variant, (name, *row) in zip(result.steps, rows, strict=True)]
    name, *headings = words.HEADINGS
    return Comparison([name, "lost to faults", *headings], [column + 1 for column in words.RIGHT], cells)
