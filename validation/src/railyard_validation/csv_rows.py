"""Rows of a CSV table of measurements, with the errors that a wrong file deserves."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Cells = dict[str | None, str | list[str] | None]

T = TypeVar("T")


@dataclass(frozen=True)
class TableRow:
    """A row of measurements.

    Attributes:
        id: Of the row; `line 7` where the cell is empty.
        line: In the file, from 1.
        text: Cells as they stand; empty cells are left out.
    """

    id: str
    line: int
    text: dict[str, str]

    def get(self, name: str, default: str = "") -> str:
        """A cell as text."""
        return self.text.get(name, default)


def read_rows(path: Path, required: Sequence[str], row: Callable[[Cells, int, list[str]], T]) -> list[T]:
    """Every row of a table, in order.

    Args:
        path: The table, in UTF-8.
        required: Columns that it must have.
        row: Makes a row of its cells, its line (from 1), and the header.

    Raises:
        InputError: The file is missing, is no text, lacks a column that every table must have, or has cells that are
            wrong: all of them, each with line and column.
    """
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
        header = list(reader.fieldnames or [])
        _check(header, required, path)
        return _rows(reader, header, row, path)
    except csv.Error as error:
        raise InputError(f"the table cannot be read as CSV: {error}", file=path) from error


def _rows(
    reader: csv.DictReader[str], header: list[str], row: Callable[[Cells, int, list[str]], T], path: Path
) -> list[T]:
    """Every row; what is wrong with any is raised at once."""
    found: list[T] = []
    problems: list[Problem] = []
    for cells in reader:
        try:
            found.append(row(cells, reader.line_num, header))
        except InputError as error:
            problems += error.located(file=path).problems
    if problems:
        raise InputError.many(problems)
    return found


def _check(header: list[str], required: Sequence[str], path: Path) -> None:
    absent = [name for name in required if name not in header]
    if absent:
        raise InputError(
            f"the table lacks the column{'s' if len(absent) > 1 else ''} {', '.join(absent)}",
            file=path,
            line=1,
            found=textwrap.shorten(", ".join(header), 80, placeholder=" ...") or "an empty file",
            allowed=", ".join(required) + " and more",
        )


@dataclass(frozen=True)
class Column:
    """What a cell of a column may hold: a number in a range, or one of some words.

    Attributes:
        low, high: Bounds of a number, both allowed.
        integer: Whether it has no fraction.
        words: The words that it may be; empty for numbers.
        month: Whether it is a year and month, `2025-06`.
    """

    low: float = 0.0
    high: float = 1e15
    integer: bool = False
    words: tuple[str, ...] = ()
    month: bool = False

    @property
    def allowed(self) -> str:
        """What may stand there, for messages."""
        if self.words:
            return ", ".join(self.words)
        if self.month:
            return "a year and month, such as 2025-06"
        if self.integer:
            return f"an integer from {self.low:.0f} to {self.high:.0f}"
        return f"a number from {self.low:g} to {self.high:g}"

    def holds(self, cell: str) -> bool:
        """Whether the cell is right."""
        if self.words:
            return cell in self.words
        if self.month:
            return re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", cell) is not None
        try:
            value = float(cell)
        except ValueError:
            return False
        return self.low <= value <= self.high and not (self.integer and value != int(value))


FLAG = Column(words=("0", "1"))
"""A column of yes and no."""


def checked(cells: Cells, line: int, header: list[str], columns: Mapping[str, Column]) -> dict[str, str]:
    """Cells as text by column, each right for its column; empty ones are left out.

    Args:
        cells: Of the line.
        line: From 1.
        header: The columns of the table.
        columns: What those that are read as numbers or words may hold.

    Raises:
        InputError: Cells are wrong, or not as many as columns: all of them, with line, column and what is allowed.
    """
    extra = cells.get(None)
    missing = sum(cells.get(name) is None for name in header)
    if extra or missing:
        count = len(header) + (len(extra) if isinstance(extra, list) else 0) - missing
        raise InputError(f"{count} cells under {len(header)} columns", line=line)
    text = cells_of(cells)
    wrong = [name for name, column in columns.items() if name in text and not column.holds(text[name])]
    if wrong:
        raise InputError.many([_wrong(name, text[name], columns[name], line) for name in wrong])
    return text


def _wrong(name: str, cell: str, column: Column, line: int) -> Problem:
    message = f"`{cell}` is not {column.allowed}" if not column.words else f"`{cell}` is none of its words"
    hint = did_you_mean(cell, column.words) if column.words else None
    return Problem(message, line=line, key=name, found=cell, allowed=column.allowed, hint=hint)


def cells_of(cells: Cells) -> dict[str, str]:
    """Cells as text by column; empty ones are left out."""
    return {name: value.strip() for name, value in cells.items() if name and isinstance(value, str) and value.strip()}
