"""Rows of a user's own table: every wrong cell is named with its line before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from railyard.kit.errors import InputError
from railyard.kit.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.ask.calibrate.tables.kind import Source
    from railyard.kit.errors import Problem

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
