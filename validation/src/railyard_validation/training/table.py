"""Rows of a table of measured training runs: text to typed facts, with line numbers.

The columns are those of `runs.csv` and of `runs_single_node.csv` (see docs/explanation/training.md); a column that a
table lacks is an unknown fact, a cell that cannot be read makes its row malformed, and the rest goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard_validation.csv_rows import TableRow, cells_of, number_of, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from railyard_validation.csv_rows import Cells

_REQUIRED = ("id", "n_gpu", "gpu", "seq_len", "global_batch_seqs")
_SHAPE = (
    "layers",
    "hidden",
    "heads",
    "head_dim",
    "ffn",
    "vocab",
    "experts",
    "topk",
    "moe_ffn",
    "shared_experts",
    "seq_len",
)
_PLACE = ("n_gpu", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "micro_batch", "global_batch_seqs")
_INTEGERS = (*_SHAPE, *_PLACE)
# A model of more layers is a typing error, and would be counted layer by layer.
_MOST_LAYERS = 4096
_STEPS = ("step_time_s", "step_p5_s", "step_p95_s", "step_p99_s")
_REAL = (*_STEPS, "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_pct", "mem_gib")


@dataclass(frozen=True)
class Row(TableRow):
    """One measured run.

    Attributes:
        integers: Integers; unknown ones are left out.
        real: Other numbers; unknown ones are left out.
        problem: Why the row cannot be read, or "".
    """

    integers: dict[str, int] = field(default_factory=dict)
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
    extra = cells.get(None)
    missing = [name for name in header if cells.get(name) is None]
    if extra or missing:
        count = len(header) + (len(extra) if isinstance(extra, list) else 0) - len(missing)
        return Row(identity, line, text, problem=f"line {line}: {count} cells under {len(header)} columns")
    try:
        integers = {name: int(_number(text, name)) for name in _INTEGERS if name in text}
        real = {name: _number(text, name) for name in _REAL if name in text}
    except ValueError as error:
        return Row(identity, line, text, problem=f"line {line}: {error}")
    return Row(identity, line, text, integers, real)


def _number(text: Mapping[str, str], name: str) -> float:
    high = _MOST_LAYERS if name == "layers" else 1e15
    return number_of(text, name, 1 if name in _PLACE else 0, high, integer=name in _INTEGERS)
