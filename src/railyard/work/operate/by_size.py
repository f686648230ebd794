"""Figures of jobs by their size: what waits, what fails, what a failure costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.result.operate import SizeRow
from railyard.work.operate.accounts import PARTS, SHORT_S, spread
from railyard.work.operate.rules import HOUR, SECOND
from railyard.work.operate.state import DONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.accounts import Columns
    from railyard.work.operate.steady import Period


def by_size(jobs: Columns, window: Period, seen: NDArray[np.bool_]) -> tuple[SizeRow, ...]:
    """A row for each power of two of accelerators (1, 2, 3 to 4, 5 to 8 and so on) that some job has.

    Args:
        jobs: Of the run.
        window: Whose accelerator time counts.
        seen: bool[jobs], those submitted in it: their waits and slowdowns count.
    """
    power = np.ceil(np.log2(np.maximum(jobs["accelerators"], 1))).astype(np.int64)
    return tuple(_row(jobs, window, seen, (int(one), power == one)) for one in np.unique(power))


def _row(jobs: Columns, window: Period, seen: NDArray[np.bool_], which: tuple[int, NDArray[np.bool_]]) -> SizeRow:
    power, alike = which
    low, high = 2 ** (power - 1) + 1 if power > 1 else 2**power, 2**power
    theirs = alike & seen
    started, done = theirs & (jobs["start_us"] >= 0), theirs & (jobs["status"] == DONE)
    had, work = int(window.had[alike].sum()), int(window.spent[alike, 0].sum())
    took = np.maximum((jobs["end_us"] - jobs["submit_us"]) / SECOND, SHORT_S)
    return SizeRow(
        accelerators=f"{low:,}" if low == high else f"{low:,} to {high:,}",
        jobs=int(theirs.sum()),
        accelerator_hours=had / HOUR,
        queue_s=spread((jobs["start_us"] - jobs["submit_us"])[started] / SECOND),
        slowdown=spread((took / np.maximum(jobs["work_us"] / SECOND, SHORT_S))[done]),
        ettr=work / had if had else None,
        mtbf_h=_mtbf_h(jobs, alike),
    )


def _mtbf_h(jobs: Columns, alike: NDArray[np.bool_]) -> float | None:
    """Hours with nodes for each failure, of all of the run: failures are few."""
    failures = int(jobs["failures"][alike].sum())
    had = sum(jobs[f"{name}_accelerator_us"][alike] for name in PARTS)
    with_nodes_us = float((had / np.maximum(jobs["accelerators"][alike], 1)).sum())
    return with_nodes_us / HOUR / failures if failures else None
