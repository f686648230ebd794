"""Rows of a table of measured serving: text to typed facts with line numbers, and the same measurement found twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard_validation.csv_rows import Column, TableRow, checked, read_rows

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
COLUMNS = {**{name: Column() for name in _REAL}, "published": Column(month=True)}
"""What the cells of a table may hold, by column; others are text."""
_SAME = ("accelerator", "isl", "osl", "load", "ttft_ms", "tpot_ms")


@dataclass(frozen=True)
class Row(TableRow):
    """One measured point.

    Attributes:
        real: Numbers; unknown ones are left out.
    """

    real: dict[str, float] = field(default_factory=dict)


def read(path: Path) -> list[Row]:
    """All rows of a table.

    Raises:
        InputError: The file is missing, is no text, or lacks a column that every table must have, or has cells
            that are wrong.
    """
    return read_rows(path, _REQUIRED, _row)


def _row(cells: Cells, line: int, header: list[str]) -> Row:
    text = checked(cells, line, header, COLUMNS)
    real = {name: float(text[name]) for name in _REAL if name in text}
    return Row(text.get("id", f"line {line}"), line, text, real)


def same_measurement(rows: Sequence[Row]) -> dict[int, int]:
    """The row that stands for each row, by line: itself, or the best labelled row of the same measurement.

    Two rows are one measurement when device, lengths, load, TTFT and TPOT are the same and both times are given. Best
    labelled is the one that names how many workers there are, then the one with the fewest accelerators.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if "ttft_ms" in row.real and "tpot_ms" in row.real:
            groups.setdefault(tuple(row.get(name) for name in _SAME), []).append(row)
    stands = {row.line: row.line for row in rows}
    for group in groups.values():
        best = min(group, key=_vagueness)
        stands |= {row.line: best.line for row in group}
    return stands


def _vagueness(row: Row) -> tuple[int, float, int]:
    named = "x(" in row.get("parallelism") and " x(" not in row.get("parallelism")
    return (0 if named else 1, row.real.get("n_accel", 0.0) or 1e9, row.line)
