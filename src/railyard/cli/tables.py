"""Tables on stdout: ruled in a terminal, plain columns in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


def emit(text: str) -> None:
    """One line, or several, of data on stdout."""
    sys.stdout.write(f"{text}\n")


class Table:
    """Rows of text under headings.

    Args:
        headings: One a column; a second line of a heading, after a line break, is its unit.
        right: Columns whose figures are set to the right.
    """

    def __init__(self, headings: Sequence[str], right: Sequence[int] = ()) -> None:
        self.headings = list(headings)
        self.right = frozenset(right)
        self.rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """One row."""
        self.rows.append(cells)

    def print(self) -> None:
        """Writes the table in the form that suits where stdout goes."""
        if sys.stdout.isatty():
            self._ruled()
        else:
            emit(self.plain())

    def plain(self) -> str:
        """Columns separated by two spaces, headings in one line, nothing cut."""
        rows = [tuple(heading.replace("\n", " ") for heading in self.headings), *self.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.headings))]
        return "\n".join(self._line(row, widths) for row in rows)

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = [
            cell.rjust(width) if column in self.right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return _GAP.join(cells).rstrip()

    def _ruled(self) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for column, heading in enumerate(self.headings):
            table.add_column(Text(heading), justify="right" if column in self.right else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
