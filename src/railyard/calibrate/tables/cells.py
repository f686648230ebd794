"""Rows of a user's own table: every wrong cell is named with its line before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.calibrate.tables.kind import Source
    from railyard.errors import Problem

T = TypeVar("T")


def read_rows(source: Source, what: str, columns: Sequence[str], read: Callable[[int, dict[str, str]], T]) -> list[T]:
    """What each row of a table says.

    Args:
        source: The table.
        what: What it is a table of, for messages.
        columns: All that it may have.
        read: Of a line's number and its filled cells by column.

    Raises:
        InputError: A column is unknown, or cells are wrong: all of them, each with its line.
    """
    _check_columns(source, what, columns)
    found: list[T] = []
    problems: list[Problem] = []
    for line, cells in source.rows():
        try:
            found.append(read(line, _filled(source, cells)))
        except InputError as error:
            problems += error.located(file=source.path, line=line).problems
    if problems:
        raise InputError.many(problems)
    if not found:
        raise InputError("the table has no rows", file=source.path)
    return found


def _check_columns(source: Source, what: str, columns: Sequence[str]) -> None:
    for name in source.columns:
        if name not in columns:
            raise InputError(
                f"a table of {what} has no column `{name}`",
                file=source.path,
                line=1,
                found=name,
                allowed=", ".join(columns),
                hint=did_you_mean(name, columns),
            )


def _filled(source: Source, cells: dict[str | Any, str | Any]) -> dict[str, str]:
    if None in cells or None in cells.values():
        raise InputError(f"a row needs {len(source.columns)} cells, as many as the heading")
    return {name.strip(): value.strip() for name, value in cells.items() if value.strip()}
