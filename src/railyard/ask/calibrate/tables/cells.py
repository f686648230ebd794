"""Rows of a user's own table: every wrong cell is named with its line before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema.bounds import limits
from railyard.kit.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from railyard.ask.calibrate.tables.kind import Source
    from railyard.kit.errors import Problem
    from railyard.kit.schema.bounds import Bounds

T = TypeVar("T")


def read_rows(source: Source, columns: Sequence[str], read: Callable[[int, dict[str, str]], T]) -> list[T]:
    """What each row of a table says.

    Args:
        source: The table.
        columns: All that it may have.
        read: Of a line's number and its filled cells by column.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    table = Table(source.text, source.path, delimiter=",").require(known=columns)
    found: list[T] = []
    problems: list[Problem] = []
    for line, text in table.rows():
        try:
            row = table.row(line, text)
            found.append(read(line, {name: value for name, value in row.items() if value}))
        except InputError as error:
            problems += error.located(file=source.path, line=line).problems
    if problems:
        raise InputError.many(problems)
    if not found:
        raise InputError("the table has no rows", file=source.path)
    return found


_ANY = limits(0.0, 1e12)


class Cells:
    """The filled cells of one row, read strictly: every error names the column.

    Attributes:
        needed: Columns without which a row says nothing.
        metrics: Columns of what was measured, of which one at least is filled.
        ranges: Range of the number in a column.
        most: Largest count in a column, `largest` in any other.
    """

    needed: ClassVar[Sequence[str]]
    metrics: ClassVar[Sequence[str]]
    ranges: ClassVar[Mapping[str, Bounds]]
    most: ClassVar[Mapping[str, int]] = {}
    largest: ClassVar[int]

    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.line, self.cells = line, cells
        for name in self.needed:
            if name not in cells:
                raise InputError("the cell is empty", key=name)

    @property
    def name(self) -> str:
        """The row's id, or its line."""
        return self.cells.get("id", f"line {self.line}")

    def filled(self) -> str:
        """The first metric that is filled."""
        for name in self.metrics:
            if name in self.cells:
                return name
        raise InputError(f"one of {', '.join(self.metrics)} must be filled", key=self.metrics[0])

    def count(self, name: str) -> int:
        """A whole number from 1 up."""
        value, most = self.number(name), self.most.get(name, self.largest)
        if value != int(value) or not 1 <= value <= most:
            raise InputError(
                "expected a whole number", key=name, found=self.cells[name], allowed=f"an integer from 1 to {most:,}"
            )
        return int(value)

    def number(self, name: str) -> float:
        """A number above 0."""
        try:
            value = float(self.cells[name])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise InputError("expected a number above 0", key=name, found=self.cells[name])
        try:
            self.ranges.get(name, _ANY).check(value)
        except InputError as error:
            raise InputError(
                error.problems[0].message, key=name, found=self.cells[name], allowed=error.problems[0].allowed
            ) from None
        return value

    def choice(self, name: str, choices: Collection[str], default: str) -> Any:
        """The word of a cell; of a mapping, what it stands for."""
        text = self.cells.get(name, default).lower()
        if text not in choices:
            raise InputError(
                f"expected one of {', '.join(choices)}",
                key=name,
                found=text,
                allowed=", ".join(choices),
                hint=did_you_mean(text, choices),
            )
        return choices[text] if isinstance(choices, Mapping) else text
