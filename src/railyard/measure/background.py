"""Background traffic while a job ran: its own completion times, and what they are without the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.percentile import percentile
from railyard.measure.result.packet import BackgroundRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.graph import Record

_PS_PER_US = 1e6


def background(flows: Record) -> Iterator[BackgroundRow]:
    """A row for each group of background flows; none where all flows are the job's.

    Args:
        flows: With the table `background` where there are any.
    """
    if "background" not in flows.tables:
        return
    row, alone_ps = flows.table("background")["row"], flows.table("background")["alone_ps"]
    job = np.ones(len(flows.start_ps), np.bool_)
    job[row] = False
    done_ps = int(flows.end_ps[job].max(initial=0)) or int(flows.end_ps[row].max())
    began = flows.start_ps[row] < done_ps
    for label in np.unique(flows.what[row]).tolist():
        chosen = began & (flows.what[row] == label)
        if chosen.any():
            yield _row(flows, flows.labels[label].name, row[chosen], alone_ps[chosen], done_ps)


def _row(
    flows: Record, group: str, rows: NDArray[np.int64], alone_ps: NDArray[np.int64], done_ps: int
) -> BackgroundRow:
    took = np.sort((flows.end_ps[rows] - flows.start_ps[rows]) / _PS_PER_US)
    alone = np.sort(alone_ps / _PS_PER_US)
    return BackgroundRow(
        group=group,
        flows=len(rows),
        finished_share=float((flows.end_ps[rows] <= done_ps).mean()),
        mean_us=float(took.mean()),
        p99_us=percentile(took, 0.99),
        max_us=float(took[-1]),
        alone_mean_us=float(alone.mean()),
        alone_p99_us=percentile(alone, 0.99),
        slowdown=float(took.mean() / alone.mean()),
    )
