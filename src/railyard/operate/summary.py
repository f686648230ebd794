"""Figures of a run: waiting, slowdown, utilization, goodput, fragmentation, fairness, dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.operate.accounts import SHORT_S, columns, had_us, shares, spread
from railyard.operate.by_size import by_size
from railyard.operate.by_tenant import by_tenant, finish_time_fairness, per_hour
from railyard.operate.heat import heat, series
from railyard.operate.rules import HOUR, SECOND
from railyard.operate.slowed import slowed_by
from railyard.operate.state import DONE, ENDED, FUTURE, RUNNING, STUCK, WAITING
from railyard.result.operate import (
    BreakageFigures,
    ClusterPrice,
    DrawFigures,
    FragmentationFigures,
    JobCounts,
    ModeRow,
    OperateFigures,
    ServiceRow,
    TimePart,
)
from railyard.result.section import Band

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.operate.failures.modes import Mode
    from railyard.operate.loop import Operation


def summary(
    run: Operation,
    usd_per_h: Band,
    modes: Sequence[Mode],
    served: tuple[ServiceRow, ...] = (),
    draws: DrawFigures | None = None,
) -> OperateFigures:
    """All figures of a run.

    Args:
        run: That has ended.
        usd_per_h: What an hour of the cluster costs.
        modes: What could fail, in the order of the run's faults.
        served: What users of serving jobs saw.
        draws: What other draws of the failures gave.
    """
    jobs = columns(run)
    done, started = jobs["status"] == DONE, jobs["start_us"] >= 0
    span_us, time = max(run.ledger.time_us, 1), shares(run, jobs)
    capacity = run.state.tree.total * span_us
    low, typical, high = (end * span_us / HOUR for end in usd_per_h.ends)
    total_usd = Band(low=low, typical=typical, high=high)
    work, had = int(jobs["work_accelerator_us"].sum()), int(had_us(jobs).sum())
    jct = (jobs["end_us"] - jobs["submit_us"])[done] / SECOND
    return OperateFigures(
        span_s=span_us / SECOND,
        nodes=run.state.tree.nodes,
        accelerators=run.state.tree.total,
        jobs=_counts(jobs["status"]),
        jct_s=spread(jct),
        queue_s=spread((jobs["start_us"] - jobs["submit_us"])[started] / SECOND),
        slowdown=spread(np.maximum(jct, SHORT_S) / np.maximum(jobs["work_us"][done] / SECOND, SHORT_S)),
        finish_time_fairness=spread(finish_time_fairness(run, jobs)[done]),
        utilization=run.ledger.busy_us / capacity,
        in_service=run.ledger.up_us / capacity,
        goodput=time["work"],
        ettr=work / max(had, 1),
        time=tuple(TimePart(name=name, share=share) for name, share in time.items()),
        fragmentation=_fragmentation(run, total_usd),
        failures=_failures(run, modes),
        sizes=by_size(jobs),
        slowed_by=slowed_by(run),
        tenants=by_tenant(run, jobs, total_usd),
        services=served,
        usd=ClusterPrice(per_h=usd_per_h, total=total_usd, per_useful_accelerator_hour=per_hour(total_usd, 1.0, work)),
        draws=draws,
        series=series(run),
        heat=heat(run),
    )


def _counts(status: NDArray[np.int64]) -> JobCounts:
    def of(*codes: int) -> int:
        return int(np.isin(status, codes).sum())

    return JobCounts(
        all=len(status),
        done=of(DONE),
        ended=of(ENDED),
        running=of(RUNNING),
        waiting=of(WAITING, FUTURE),
        stuck=of(STUCK),
    )


def _fragmentation(run: Operation, total_usd: Band) -> FragmentationFigures:
    """Of what is free: in nodes that others have a part of; of idle nodes: in groups that are not idle altogether."""
    table = run.ledger.columns("series")
    free, idle = int(table["free"].sum()), int(table["idle_nodes"].sum())
    useless = (
        float((table["free"] * (table["waiting"] > 0)).mean()) / run.state.tree.total if len(table["free"]) else 0.0
    )
    low, typical, high = (end * useless for end in total_usd.ends)
    return FragmentationFigures(
        idle_while_jobs_wait=useless,
        usd_while_jobs_wait=Band(low=low, typical=typical, high=high),
        accelerators_in_shared_nodes=int(table["broken_free"].sum()) / max(free, 1),
        nodes_in_shared_groups=int(table["broken_idle"].sum()) / max(idle, 1),
    )


def _failures(run: Operation, modes: Sequence[Mode]) -> BreakageFigures:
    faults = run.ledger.columns("faults")
    rows = [
        ModeRow(name=mode.name, faults=int(mine.sum()), jobs_hit=int(faults["jobs"][mine].sum()))
        for mode, mine in ((mode, faults["mode"] == number) for number, mode in enumerate(modes))
        if mine.any()
    ]
    return BreakageFigures(
        faults=len(faults["mode"]),
        jobs_hit=int(faults["jobs"].sum()),
        by_mode=tuple(sorted(rows, key=lambda row: (-row.faults, row.name))),
    )
