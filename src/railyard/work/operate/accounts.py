"""What became of each job and of the cluster's accelerator time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.measure.result.operate import SlowedRow, SpreadFigures
from railyard.work.operate.rules import HOUR, PPM
from railyard.work.operate.state import LOSSES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.loop import Operation
    from railyard.work.operate.steady import Period


WORST = 10
"""Pairs of a job and its noisy neighbour that are named."""


def slowed_by(run: Operation, window: Period) -> tuple[SlowedRow, ...]:
    """Who cost whom most: pairs by the accelerator time that a job lost while a neighbour sent most of what it met.

    Args:
        run: That has ended.
        window: Whose time counts.
    """
    state, last = run.state, run.ledger.time_us
    lost: dict[tuple[int, int], int] = {}
    since: dict[int, tuple[int, int, int]] = {}
    ends = [(end if end >= 0 else last, job, PPM, -1) for job, end in enumerate(state.end_us) if state.attempts[job]]
    for time, job, speed, culprit in sorted([*state.slowed, *ends]):
        begun, before, who = since.pop(job, (time, PPM, -1))
        if who >= 0:
            span = max(min(time, window.end_us) - max(begun, window.start_us), 0)
            lost[job, who] = lost.get((job, who), 0) + span * (PPM - before) // PPM * state.accelerators[job]
        since[job] = (time, speed, culprit)
    worst = sorted(lost.items(), key=lambda pair: (-pair[1], pair[0]))[:WORST]
    names = run.jobs.name
    return tuple(
        SlowedRow(job=names[job], by=names[who], accelerator_hours=value / HOUR) for (job, who), value in worst if value
    )


SHORT_S = 10.0
"""Slowdown is bounded: shorter jobs count as so long. D. Feitelson, "Metrics for parallel job scheduling", 2001."""
PARTS = ("work", *LOSSES)

Columns = dict[str, "NDArray[Any]"]
"""A row a job, by name of the column."""


def columns(run: Operation) -> Columns:
    """A row a job: when, how long, and what became of its accelerator time in all of the run."""
    state, jobs = run.state, run.jobs
    spent = np.array(state.spent, np.int64).reshape(-1, len(PARTS))
    found: Columns = {
        "job": np.array(jobs.name),
        "tenant": np.array(jobs.tenants)[jobs.tenant],
        "class": np.array(jobs.classes)[jobs.work],
        "line": jobs.line,
        "nodes": jobs.nodes,
        "accelerators": jobs.accelerators,
        "submit_us": jobs.submit_us,
        "start_us": np.array(state.first_us, np.int64),
        "end_us": np.array(state.end_us, np.int64),
        "work_us": jobs.work_us,
        "done_us": np.array(state.done_us, np.int64),
        "status": np.array(state.status, np.int64),
        "attempts": np.array(state.attempts, np.int64),
        "preemptions": np.array(state.preempted, np.int64),
        "unserved_us": np.array(state.unserved_us, np.int64),
        "failures": np.array(state.failed, np.int64),
    }
    return found | {f"{name}_accelerator_us": spent[:, number] for number, name in enumerate(PARTS)}


def spread(values: NDArray[Any]) -> SpreadFigures | None:
    """Mean and percentiles; None where there is nothing."""
    if not len(values):
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return SpreadFigures(mean=float(values.mean()), p50=p50, p95=p95, p99=p99)


def shares(period: Period) -> dict[str, float]:
    """What became of all of the cluster's accelerator time in a part of a run; adds up to 1."""
    parts = dict(zip(PARTS, period.spent.sum(axis=0).tolist(), strict=True))
    found = {name: value / period.capacity for name, value in parts.items()}
    found["idle"] = (period.up - sum(parts.values())) / period.capacity
    found["out of service"] = 1 - period.up / period.capacity
    return found
