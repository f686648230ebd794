"""Rows of a table of measured serving: text to typed facts with line numbers, and the same measurement found twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard_validation.csv_rows import TableRow, cells_of, number_of, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard_validation.csv_rows import Cells

_REQUIRED = ("id", "model", "accelerator", "n_accel", "framework", "parallelism", "isl", "osl", "load")
_REAL = (
    "n_accel",
    "isl",
    "osl",
    "ttft_ms",
    "tpot_ms",
    "out_tok_s_per_gpu",
    "in_tok_s_per_gpu",
    "total_out_tok_s",
    "power_w",
    "usd_per_mtok",
)
_SAME = ("accelerator", "isl", "osl", "load", "ttft_ms", "tpot_ms")


@dataclass(frozen=True)
class Row(TableRow):
    """One measured point.

    Attributes:
        real: Numbers; unknown ones are left out.
        problem: Why the row cannot be read, or "".
    """

    real: dict[str, float] = field(default_factory=dict)
    problem: str = ""


def read(path: Path) -> list[Row]:
    """All rows of a table.

    Raises:
        InputError: The file is missing, is no text, or lacks a column that every table must have.
    """
    return read_rows(path, _REQUIRED, _row)


def _row(cells: Cells, line: int, header: list[str]) -> Row:
    text = cells_of(cells)
    identity = text.get("id", f"line {line}")
    if cells.get(None) or any(cells.get(name) is None for name in header):
        return Row(identity, line, text, problem=f"line {line}: not as many cells as the {len(header)} columns")
    try:
        real = {name: number_of(text, name, 0.0, 1e15) for name in _REAL if name in text}
    except ValueError as error:
        return Row(identity, line, text, problem=f"line {line}: {error}")
    return Row(identity, line, text, real)


def same_measurement(rows: Sequence[Row]) -> dict[int, int]:
    """The row that stands for each row, by line: itself, or the best labelled row of the same measurement.

    Two rows are one measurement when device, lengths, load, TTFT and TPOT are the same and both times are given. Best
    labelled is the one that names how many workers there are, then the one with the fewest accelerators.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if "ttft_ms" in row.real and "tpot_ms" in row.real and not row.problem:
            groups.setdefault(tuple(row.get(name) for name in _SAME), []).append(row)
    stands = {row.line: row.line for row in rows}
    for group in groups.values():
        best = min(group, key=_vagueness)
        stands |= {row.line: best.line for row in group}
    return stands


def _vagueness(row: Row) -> tuple[int, float, int]:
    named = "x(" in row.get("parallelism") and " x(" not in row.get("parallelism")
    return (0 if named else 1, row.real.get("n_accel", 0.0) or 1e9, row.line)
