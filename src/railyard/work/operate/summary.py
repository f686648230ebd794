"""Figures of a run over its steady window: waiting, slowdown, use, goodput, fragmentation, fairness, dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.cost.assumptions import ZERO, band_of
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
    SizeRow,
    TenantRow,
    TimePart,
)
from railyard.work.operate.files import heat, series
from railyard.work.operate.rules import HOUR, SECOND
from railyard.work.operate.state import DONE, ENDED, FUTURE, RUNNING, STUCK, WAITING
from railyard.work.operate.steady import PARTS, SHORT_S, columns, shares, slowed_by, spread, submitted_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.measure.result.section import Band
    from railyard.work.operate.failures.fault import FailureMode
    from railyard.work.operate.loop import ClusterRun
    from railyard.work.operate.steady import Columns, RunParts, RunPeriod

    PriceOf = Callable[[RunPeriod], Band]


def by_size(jobs: Columns, window: RunPeriod, seen: NDArray[np.bool_]) -> tuple[SizeRow, ...]:
    """A row for each power of two of accelerators (1, 2, 3 to 4, 5 to 8 and so on) that occurs.

    Args:
        jobs: Columns of the run's jobs.
        window: The window whose accelerator time counts.
        seen: bool[jobs], jobs submitted in it: their waits and slowdowns count.
    """
    power = np.ceil(np.log2(np.maximum(jobs["accelerators"], 1))).astype(np.int64)
    return tuple(_row(jobs, window, seen, (int(one), power == one)) for one in np.unique(power))


def _row(jobs: Columns, window: RunPeriod, seen: NDArray[np.bool_], which: tuple[int, NDArray[np.bool_]]) -> SizeRow:
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
    """Node-hours per failure over the whole run, because failures are rare."""
    failures = int(jobs["failures"][alike].sum())
    had = sum(jobs[f"{name}_accelerator_us"][alike] for name in PARTS)
    with_nodes_us = float((had / np.maximum(jobs["accelerators"][alike], 1)).sum())
    return with_nodes_us / HOUR / failures if failures else None


def by_tenant(run: ClusterRun, jobs: Columns, window: RunPeriod, total_usd: Band) -> tuple[TenantRow, ...]:
    """A row per tenant; each pays for the cluster in the window in proportion to its accelerator time."""
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
    """A share of the dollars per hour of work done with it; None if there was none."""
    return total_usd.mapped(lambda usd: usd * share / (work_us / HOUR)) if work_us else None


def finish_time_fairness(run: ClusterRun, jobs: Columns) -> NDArray[np.float64]:
    """float64[jobs], completion time over that on an equal part of the cluster without a queue; above 1: worse off.

    Source: K. Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020. A job larger than its
    tenant's part runs proportionally longer there. If tenants own nodes (`cluster.tenancy`), those are the part.
    """
    alone = np.maximum(jobs["work_us"] / SECOND, SHORT_S) * np.maximum(1.0, jobs["accelerators"] / _parts(run))
    return np.asarray(np.maximum((jobs["end_us"] - jobs["submit_us"]) / SECOND, SHORT_S) / alone)


def _parts(run: ClusterRun) -> NDArray[np.float64]:
    """float64[jobs], accelerators in the part of each job's tenant."""
    tree, tenants = run.state.tree, len(run.jobs.tenants)
    if tree.owner is None:
        return np.full(len(run.jobs), tree.total / tenants)
    parts = [float(tree.accelerators[tree.owner == owner].sum()) for owner in run.state.owner_of]
    return np.array(parts)[run.jobs.tenant]


def summary(
    run: ClusterRun,
    parts: RunParts,
    price_of: PriceOf,
    modes: Sequence[FailureMode],
    *,
    served: tuple[ServiceRow, ...] = (),
    draws: DrawFigures | None = None,
) -> OperateFigures:
    """All figures of a run.

    Args:
        run: The finished run.
        parts: Its steady window, and the rest.
        price_of: Hourly cost of the cluster at the use of a part of the run.
        modes: Possible failure modes, in the order of the run's faults.
        served: Latencies that users of serving jobs saw.
        draws: Results of other failure draws.
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
        failures=failures_of(run, window, modes),
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


def _over(usd_per_h: Band, period: RunPeriod) -> Band:
    return usd_per_h.mapped(lambda usd: usd * max(period.hours, 1 / HOUR))


def _period(period: RunPeriod, price_of: PriceOf) -> PeriodFigures:
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


def _fragmentation(run: ClusterRun, window: RunPeriod, total_usd: Band) -> FragmentationFigures:
    """Share of free accelerators on partly used nodes, and of idle nodes in partly used groups."""
    table = run.ledger.columns("series")
    inside = (table["time_us"] >= window.start_us) & (table["time_us"] <= window.end_us)
    free, idle, broken_free, broken_idle = (
        int(table[name][inside].sum()) for name in ("free", "idle_nodes", "broken_free", "broken_idle")
    )
    useless = window.useless / window.capacity
    return FragmentationFigures(
        idle_while_jobs_wait=useless,
        usd_while_jobs_wait=total_usd.mapped(lambda usd: usd * useless),
        accelerators_in_shared_nodes=broken_free / max(free, 1),
        nodes_in_shared_groups=broken_idle / max(idle, 1),
    )


def failures_of(run: ClusterRun, window: RunPeriod, modes: Sequence[FailureMode]) -> BreakageFigures:
    """What broke in a window, and its repair."""
    faults = run.ledger.columns("faults")
    inside = (faults["time_us"] >= window.start_us) & (faults["time_us"] <= window.end_us)
    rows = [
        ModeRow(name=mode.name, faults=int(mine.sum()), jobs_hit=int(faults["jobs"][mine].sum()))
        for mode, mine in ((mode, inside & (faults["mode"] == number)) for number, mode in enumerate(modes))
        if mine.any()
    ]
    count = np.bincount(faults["mode"][inside], minlength=len(modes)).tolist()
    usd = sum((mode.repair_usd.scaled(number) for mode, number in zip(modes, count, strict=True)), ZERO)
    return BreakageFigures(
        faults=int(inside.sum()),
        jobs_hit=int(faults["jobs"][inside].sum()),
        by_mode=tuple(sorted(rows, key=lambda row: (-row.faults, row.name))),
        repair_work_h=sum(mode.work_s * number for mode, number in zip(modes, count, strict=True)) / 3600.0,
        repair_usd=band_of(usd),
    )
