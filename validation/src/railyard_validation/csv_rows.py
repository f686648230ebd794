"""Rows of a CSV table of measurements, with the errors that a wrong file deserves."""

from __future__ import annotations

import csv
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from railyard.errors import InputError

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
        InputError: The file is missing, is no text, or lacks a column that every table must have.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            header = list(reader.fieldnames or [])
            _check(header, required, path)
            return [row(cells, reader.line_num, header) for cells in reader]
    except FileNotFoundError as error:
        raise InputError("there is no such table", file=path) from error
    except UnicodeDecodeError as error:
        said = f"byte {error.start} (0x{error.object[error.start]:02x}) is no UTF-8"
        raise InputError(f"the table cannot be read as CSV: {said}", file=path) from error
    except (csv.Error, OSError) as error:
        said = str(error.strerror if isinstance(error, OSError) else error)
        raise InputError(f"the table cannot be read as CSV: {said}", file=path) from error


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


def number_of(text: Mapping[str, str], name: str, low: float, high: float, *, integer: bool = False) -> float:
    """A cell as a number.

    Raises:
        ValueError: It is none, or out of range; says so with the column's name.
    """
    try:
        value = float(text[name])
    except ValueError:
        raise ValueError(f"{name}: `{text[name]}` is no number") from None
    if not low <= value <= high or (integer and value != int(value)):
        kind = f"an integer from {low:.0f} to {high:.0f}" if integer else "a number of zero or more"
        raise ValueError(f"{name}: `{text[name]}` is not {kind}")
    return value


def cells_of(cells: Cells) -> dict[str, str]:
    """Cells as text by column; empty ones are left out."""
    return {name: value.strip() for name, value in cells.items() if name and isinstance(value, str) and value.strip()}
