"""Figures by tenant: what each had, how long it waited, how fairly, and what it pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.result.operate import SizeRow, TenantRow
from railyard.measure.result.section import Band
from railyard.work.operate.accounts import PARTS, SHORT_S, spread
from railyard.work.operate.rules import HOUR, SECOND
from railyard.work.operate.state import DONE
from railyard.work.operate.steady import submitted_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.accounts import Columns
    from railyard.work.operate.loop import Operation
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


def by_tenant(run: Operation, jobs: Columns, window: Period, total_usd: Band) -> tuple[TenantRow, ...]:
    """A row a tenant; each pays for the cluster in the window in proportion to the accelerator time that it had."""
    had, fair, seen = window.had, finish_time_fairness(run, jobs), submitted_in(run, window)
    started, done = seen & (jobs["start_us"] >= 0), seen & (jobs["status"] == DONE)
    all_had, rows = max(int(had.sum()), 1), []
    for number, name in enumerate(run.jobs.tenants):
        theirs = run.jobs.tenant == number
        mine, work = int(had[theirs].sum()), int(window.spent[theirs, 0].sum())
        rows.append(
            TenantRow(
                name=name,
                jobs=int((theirs & seen).sum()),
                accelerator_hours=mine / HOUR,
                useful_accelerator_hours=work / HOUR,
                queue_s=spread((jobs["start_us"] - jobs["submit_us"])[theirs & started] / SECOND),
                jct_s=spread((jobs["end_us"] - jobs["submit_us"])[theirs & done] / SECOND),
                finish_time_fairness=spread(fair[theirs & done]),
                usd_per_useful_accelerator_hour=per_hour(total_usd, mine / all_had, work),
            )
        )
    return tuple(rows)


def per_hour(total_usd: Band, share: float, work_us: int) -> Band | None:
    """A share of the dollars over the hours of work that were done with it; None where none was."""
    if not work_us:
        return None
    low, typical, high = (end * share / (work_us / HOUR) for end in total_usd.ends)
    return Band(low=low, typical=typical, high=high)


def finish_time_fairness(run: Operation, jobs: Columns) -> NDArray[np.float64]:
    """float64[jobs], completion time over that on an equal part of the cluster without a queue; above 1: worse off.

    Source: K. Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020. A job wider than its
    tenant's part takes so many times longer there. Where tenants have nodes of their own (`cluster.tenancy`), those are
    the part.
    """
    alone = np.maximum(jobs["work_us"] / SECOND, SHORT_S) * np.maximum(1.0, jobs["accelerators"] / _parts(run))
    return np.asarray(np.maximum((jobs["end_us"] - jobs["submit_us"]) / SECOND, SHORT_S) / alone)


def _parts(run: Operation) -> NDArray[np.float64]:
    """float64[jobs], accelerators that are the part of each job's tenant."""
    tree, tenants = run.state.tree, len(run.jobs.tenants)
    if tree.owner is None:
        return np.full(len(run.jobs), tree.total / tenants)
    parts = [float(tree.accelerators[tree.owner == owner].sum()) for owner in run.state.owner_of]
    return np.array(parts)[run.jobs.tenant]
