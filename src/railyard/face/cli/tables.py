"""Tables on stdout: ruled and fitted to the width in a terminal, plain columns in a pipe."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from railyard.face.cli.messages import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP = "  "
_CELL = 26
"""Widest cell of a table that is turned on its side; longer text is folded."""


def emit(text: str) -> None:
    """One line, or several, of data on stdout."""
    sys.stdout.write(f"{text}\n")


class Table:
    """Rows of text under headings.

    Args:
        headings: One a column.
        right: Columns whose figures are set to the right.
        turn: Where the table is too wide, put it on its side; else the last column is folded.
    """

    def __init__(self, headings: Sequence[str], right: Sequence[int] = (), *, turn: bool = False) -> None:
        self.headings = list(headings)
        self.right = frozenset(right)
        self.turn = turn
        self.rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """One row."""
        self.rows.append(tuple(map(visible, cells)))

    def print(self) -> None:
        """Writes the table in the form that suits where stdout goes."""
        if not sys.stdout.isatty():
            emit(self.plain())
            return
        width = shutil.get_terminal_size().columns
        if max(map(len, self.plain().splitlines())) <= width:
            emit(_ruled(self.plain().splitlines()))
        elif self.turn:
            emit("\n\n".join(self.turned(width)))
        else:
            emit(_ruled(self.folded(width)))

    def plain(self) -> str:
        """Columns separated by two spaces, headings in one line, nothing cut."""
        return "\n".join(_aligned([tuple(self.headings), *self.rows], self.right))

    def folded(self, width: int) -> list[str]:
        """The lines of the table with its last column folded to what the others leave of the width."""
        rows = [tuple(self.headings), *self.rows]
        before = sum(max(len(row[column]) for row in rows) + len(_GAP) for column in range(len(self.headings) - 1))
        lines: list[tuple[str, ...]] = []
        for row in rows:
            first, *more = textwrap.wrap(row[-1], max(width - before, _CELL)) or [""]
            lines.append((*row[:-1], first))
            lines += [(*[""] * (len(row) - 1), part) for part in more]
        return _aligned(lines, self.right)

    def turned(self, width: int) -> Iterable[str]:
        """The table on its side, headings down the left, in as many blocks as it takes to fit the width."""
        columns = [[_folded(cell) for cell in row] for row in self.rows]
        used = max(map(len, self.headings))
        block: list[list[list[str]]] = []
        for column in columns:
            wide = max(len(line) for cell in column for line in cell) + len(_GAP)
            if block and used + wide > width:
                yield self._block(block)
                block, used = [], max(map(len, self.headings))
            block.append(column)
            used += wide
        if block:
            yield self._block(block)

    def _block(self, columns: Sequence[Sequence[list[str]]]) -> str:
        lines: list[tuple[str, ...]] = []
        for number, heading in enumerate(self.headings):
            cells = [column[number] for column in columns]
            for line in range(max(map(len, cells))):
                parts = [cell[line] if line < len(cell) else "" for cell in cells]
                lines.append((heading if line == 0 else "", *parts))
        return _ruled(_aligned(lines, ()))


def _folded(cell: str) -> list[str]:
    return textwrap.wrap(cell, _CELL) or [""]


def _aligned(rows: Sequence[tuple[str, ...]], right: Iterable[int]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_right = set(right)
    return [
        _GAP.join(
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _ruled(lines: Sequence[str]) -> str:
    """The first line as a heading, bold where colours are wanted, with a rule below it."""
    rule = "─" * max(map(len, lines))
    head = lines[0] if "NO_COLOR" in os.environ else f"\x1b[1m{lines[0]}\x1b[0m"
    return "\n".join([head, rule, *lines[1:]])
