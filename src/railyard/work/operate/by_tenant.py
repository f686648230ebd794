"""Figures by tenant: what each had, how long it waited, how fairly, and what it pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.result.operate import TenantRow
from railyard.measure.result.section import Band
from railyard.work.operate.accounts import SHORT_S, spread
from railyard.work.operate.rules import HOUR, SECOND
from railyard.work.operate.state import DONE
from railyard.work.operate.steady import submitted_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.accounts import Columns
    from railyard.work.operate.loop import Operation
    from railyard.work.operate.steady import Period


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
