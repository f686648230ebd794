"""Rows of a table of measured training runs: text to typed facts, with line numbers.

The columns are those of `runs.csv` and of `runs_single_node.csv` (see docs/explanation/training.md); a column that a
table lacks is an unknown fact, a cell that cannot be read makes its row malformed, and the rest goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard_validation.csv_rows import cells_of, read_rows

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
_WHOLE = (*_SHAPE, *_PLACE)
# A model of more layers is a typing error, and would be counted layer by layer.
_MOST_LAYERS = 4096
_STEPS = ("step_time_s", "step_p5_s", "step_p95_s", "step_p99_s")
_REAL = (*_STEPS, "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_pct", "mem_gib")


@dataclass(frozen=True)
class Row:
    """One measured run.

    Attributes:
        id: Of the row; `line 7` where the cell is empty.
        line: In the file, from 1.
        text: Cells as they stand; empty cells are left out.
        whole: Integers; unknown ones are left out.
        real: Other numbers; unknown ones are left out.
        problem: Why the row cannot be read, or "".
    """

    id: str
    line: int
    text: dict[str, str]
    whole: dict[str, int] = field(default_factory=dict)
    real: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    def get(self, name: str, default: str = "") -> str:
        """A cell as text."""
        return self.text.get(name, default)


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
    whole: dict[str, int] = {}
    real: dict[str, float] = {}
    for name in (*_WHOLE, *_REAL):
        if name not in text:
            continue
        try:
            value = float(text[name])
        except ValueError:
            return Row(identity, line, text, problem=f"line {line}: {name}: `{text[name]}` is no number")
        most = _MOST_LAYERS if name == "layers" else 1e15
        least = 1 if name in _PLACE else 0
        if not least <= value <= most or (name in _WHOLE and value != int(value)):
            kind = f"an integer from {least} to {most:.0f}" if name in _WHOLE else "a number of zero or more"
            return Row(identity, line, text, problem=f"line {line}: {name}: `{text[name]}` is not {kind}")
        if name in _WHOLE:
            whole[name] = int(value)
        else:
            real[name] = value
    return Row(identity, line, text, whole, real)
