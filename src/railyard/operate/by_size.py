"""Figures of jobs by their size: what waits, what fails, what a failure costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.operate.accounts import SHORT_S, had_us, spread
from railyard.operate.rules import HOUR, SECOND
from railyard.operate.state import DONE
from railyard.result.operate import SizeRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.operate.accounts import Columns


def by_size(jobs: Columns) -> tuple[SizeRow, ...]:
    """A row for each power of two of accelerators (1, 2, 3 to 4, 5 to 8 and so on) that some job has."""
    power = np.ceil(np.log2(np.maximum(jobs["accelerators"], 1))).astype(np.int64)
    return tuple(_row(jobs, int(one), power == one) for one in np.unique(power))


def _row(jobs: Columns, power: int, theirs: NDArray[np.bool_]) -> SizeRow:
    low, high = 2 ** (power - 1) + 1 if power > 1 else 2**power, 2**power
    had, started, done = had_us(jobs)[theirs], jobs["start_us"][theirs] >= 0, jobs["status"][theirs] == DONE
    failures = int(jobs["failures"][theirs].sum())
    with_nodes_us = float((had / np.maximum(jobs["accelerators"][theirs], 1)).sum())
    took = (jobs["end_us"] - jobs["submit_us"])[theirs] / SECOND
    alone = np.maximum(jobs["work_us"][theirs] / SECOND, SHORT_S)
    work = int(jobs["work_accelerator_us"][theirs].sum())
    return SizeRow(
        accelerators=f"{low:,}" if low == high else f"{low:,} to {high:,}",
        jobs=int(theirs.sum()),
        accelerator_hours=int(had.sum()) / HOUR,
        queue_s=spread((jobs["start_us"] - jobs["submit_us"])[theirs][started] / SECOND),
        slowdown=spread((np.maximum(took, SHORT_S) / alone)[done]),
        ettr=work / int(had.sum()) if had.sum() else None,
        mtbf_h=with_nodes_us / HOUR / failures if failures else None,
    )
