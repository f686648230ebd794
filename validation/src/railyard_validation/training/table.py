"""Rows of a table of measured training runs: text to typed facts, with line numbers.

The columns are those of `runs.csv` and of `runs_single_node.csv` (see docs/explanation/training.md), and every key of
a scenario's `software` and `parallelism`; a column that a table lacks is an unknown fact, a cell that is not what its
column may hold is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.work.training.spec import ATTENTION_PRECISIONS, DISPATCHERS, PRECISIONS
from railyard_validation.csv_rows import FLAG, Column, TableRow, checked, read_rows

if TYPE_CHECKING:
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
# More than any model has: typing errors, some of which would be counted layer by layer.
_MOST = {"layers": 4096, "hidden": 1_000_000, "vocab": 100_000_000, "experts": 100_000}
# A model without these is none.
_LEAST = ("layers", "hidden", "heads", "vocab", *_PLACE)
_STEPS = ("step_time_s", "step_p5_s", "step_p95_s", "step_p99_s")
_REAL = (*_STEPS, "bucket_mb", "routing_skew", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_pct", "mem_gib")
_FLAGS = ("seq_parallel", "gated_mlp", "fused_experts")
COLUMNS = {
    **{name: Column(1 if name in _LEAST else 0, _MOST.get(name, 1e12), integer=True) for name in _INTEGERS},
    **{name: Column() for name in _REAL},
    **dict.fromkeys(_FLAGS, FLAG),
    "published": Column(month=True),
    "tier": Column(words=("A", "B", "C")),
    "dispatcher": Column(words=DISPATCHERS),
    "head_precision": Column(words=PRECISIONS),
    "attention_precision": Column(words=ATTENTION_PRECISIONS),
}
"""What the cells of a table may hold, by column; others are text."""


@dataclass(frozen=True)
class Row(TableRow):
    """One measured run.

    Attributes:
        integers: Integers; unknown ones are left out.
        real: Other numbers; unknown ones are left out.
    """

    integers: dict[str, int] = field(default_factory=dict)
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
    integers = {name: int(float(text[name])) for name in _INTEGERS if name in text}
    real = {name: float(text[name]) for name in _REAL if name in text}
    return Row(text.get("id", f"line {line}"), line, text, integers, real)
