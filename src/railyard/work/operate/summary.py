"""Figures of a run over its steady window: waiting, slowdown, use, goodput, fragmentation, fairness, dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.result.operate import (
    BreakageFigures,
    ClusterPrice,
    DrawFigures,
    FragmentationFigures,
    JobCounts,
    ModeRow,
    OperateFigures,
    PeriodFigures,
    ServiceRow,
    TimePart,
)
from railyard.measure.result.section import Band
from railyard.work.operate.accounts import SHORT_S, columns, shares, slowed_by, spread
from railyard.work.operate.by import by_size, by_tenant, finish_time_fairness, per_hour
from railyard.work.operate.files import heat, series
from railyard.work.operate.rules import HOUR, SECOND
from railyard.work.operate.state import DONE, ENDED, FUTURE, RUNNING, STUCK, WAITING
from railyard.work.operate.steady import submitted_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.work.operate.accounts import Columns
    from railyard.work.operate.failures.fault import Mode
    from railyard.work.operate.loop import Operation
    from railyard.work.operate.steady import Period, Steady

    PriceOf = Callable[[Period], Band]


def summary(
    run: Operation,
    parts: Steady,
    price_of: PriceOf,
    modes: Sequence[Mode],
    *,
    served: tuple[ServiceRow, ...] = (),
    draws: DrawFigures | None = None,
) -> OperateFigures:
    """All figures of a run.

    Args:
        run: That has ended.
        parts: Its steady window, and the rest.
        price_of: What an hour of the cluster costs at the use of a part of the run.
        modes: What could fail, in the order of the run's faults.
        served: What users of serving jobs saw.
        draws: What other draws of the failures gave.
    """
    jobs, window = columns(run), parts.window
    seen = submitted_in(run, window)
    done, started = seen & (jobs["status"] == DONE), seen & (jobs["start_us"] >= 0)
    time, usd_per_h = shares(window), price_of(window)
    total_usd = _over(usd_per_h, window)
    jct = (jobs["end_us"] - jobs["submit_us"])[done] / SECOND
    return OperateFigures(
        span_s=max(run.ledger.time_us, 1) / SECOND,
        nodes=run.state.tree.nodes,
        accelerators=run.state.tree.total,
        jobs=_counts(jobs),
        steady=parts.figures,
        before=None if parts.before is None else _period(parts.before, price_of),
        drain=None if parts.drain is None else _period(parts.drain, price_of),
        whole=_period(parts.whole, price_of),
        warm_up=parts.warm_up,
        jct_s=spread(jct),
        queue_s=spread((jobs["start_us"] - jobs["submit_us"])[started] / SECOND),
        slowdown=spread(np.maximum(jct, SHORT_S) / np.maximum(jobs["work_us"][done] / SECOND, SHORT_S)),
        finish_time_fairness=spread(finish_time_fairness(run, jobs)[done]),
        utilization=window.busy / window.capacity,
        in_service=window.up / window.capacity,
        goodput=time["work"],
        ettr=window.work / max(int(window.had.sum()), 1),
        time=tuple(TimePart(name=name, share=share) for name, share in time.items()),
        fragmentation=_fragmentation(run, window, total_usd),
        failures=_failures(run, window, modes),
        sizes=by_size(jobs, window, seen),
        slowed_by=slowed_by(run, window),
        tenants=by_tenant(run, jobs, window, total_usd),
        services=served,
        usd=ClusterPrice(
            per_h=usd_per_h, total=total_usd, per_useful_accelerator_hour=per_hour(total_usd, 1.0, window.work)
        ),
        draws=draws,
        series=series(run),
        heat=heat(run),
    )


def _over(usd_per_h: Band, period: Period) -> Band:
    """Dollars of a part of a run."""
    low, typical, high = (end * max(period.hours, 1 / HOUR) for end in usd_per_h.ends)
    return Band(low=low, typical=typical, high=high)


def _period(period: Period, price_of: PriceOf) -> PeriodFigures:
    """The headline figures of a part of a run."""
    usd = _over(price_of(period), period)
    return PeriodFigures(
        start_s=period.start_us / SECOND,
        end_s=period.end_us / SECOND,
        utilization=period.busy / period.capacity,
        goodput=period.work / period.capacity,
        useful_accelerator_hours=period.work / HOUR,
        usd=usd,
        usd_per_useful_accelerator_hour=per_hour(usd, 1.0, period.work),
    )


def _counts(jobs: Columns) -> JobCounts:
    status, unstarted = jobs["status"], jobs["start_us"] < 0

    def of(*codes: int) -> int:
        return int(np.isin(status, codes).sum())

    return JobCounts(
        all=len(status),
        done=of(DONE),
        ended=of(ENDED),
        running=of(RUNNING),
        waiting=of(WAITING),
        stuck=of(STUCK),
        unsubmitted=of(FUTURE),
        never_started=int((np.isin(status, (WAITING, STUCK)) & unstarted).sum()),
    )


def _fragmentation(run: Operation, window: Period, total_usd: Band) -> FragmentationFigures:
    """Of what is free: in nodes that others have a part of; of idle nodes: in groups that are not idle altogether."""
    table = run.ledger.columns("series")
    inside = (table["time_us"] >= window.start_us) & (table["time_us"] <= window.end_us)
    free, idle, broken_free, broken_idle = (
        int(table[name][inside].sum()) for name in ("free", "idle_nodes", "broken_free", "broken_idle")
    )
    useless = window.useless / window.capacity
    low, typical, high = (end * useless for end in total_usd.ends)
    return FragmentationFigures(
        idle_while_jobs_wait=useless,
        usd_while_jobs_wait=Band(low=low, typical=typical, high=high),
        accelerators_in_shared_nodes=broken_free / max(free, 1),
        nodes_in_shared_groups=broken_idle / max(idle, 1),
    )


def _failures(run: Operation, window: Period, modes: Sequence[Mode]) -> BreakageFigures:
    faults = run.ledger.columns("faults")
    inside = (faults["time_us"] >= window.start_us) & (faults["time_us"] <= window.end_us)
    rows = [
        ModeRow(name=mode.name, faults=int(mine.sum()), jobs_hit=int(faults["jobs"][mine].sum()))
        for mode, mine in ((mode, inside & (faults["mode"] == number)) for number, mode in enumerate(modes))
        if mine.any()
    ]
    return BreakageFigures(
        faults=int(inside.sum()),
        jobs_hit=int(faults["jobs"][inside].sum()),
        by_mode=tuple(sorted(rows, key=lambda row: (-row.faults, row.name))),
    )
