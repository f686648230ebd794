"""The steady window: the part of a run that the headline figures describe. The rest is reported separately.

The window is that of `railyard.measure.utilization`, from the first submission to the last, or the scenario's `steady`.
Work counts when it was done, unless it is lost later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.kit.errors import InputError
from railyard.measure.numbers import percent
from railyard.measure.result.operate import (
    DrawBand,
    DrawFigures,
    DrawRow,
    SlowedRow,
    SpreadFigures,
    SteadyFigures,
    WarmUpFigures,
)
from railyard.measure.utilization import Window
from railyard.work.operate.rules import HOUR, PPM, SECOND
from railyard.work.operate.state import DONE, ENDED, LOSSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.measure.result.operate import BreakageFigures
    from railyard.work.operate.loop import ClusterRun
    from railyard.work.operate.state import BookedMark


WORST = 10
"""Number of job and noisy neighbor pairs that are named."""


def slowed_by(run: ClusterRun, window: RunPeriod) -> tuple[SlowedRow, ...]:
    """Noisy neighbors: pairs by the accelerator time that a job lost while that neighbor sent most on its links."""
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
"""Bounded slowdown: shorter jobs count as this long. D. Feitelson, "Metrics for parallel job scheduling", 2001."""
PARTS = ("work", *LOSSES)

Columns = dict[str, "NDArray[Any]"]
"""One row per job, by column name."""


def columns(run: ClusterRun) -> Columns:
    """One row per job: times, and the uses of its accelerator time over the whole run."""
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
    """Mean and percentiles; None if there are no values."""
    if not len(values):
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return SpreadFigures(mean=float(values.mean()), p50=p50, p95=p95, p99=p99)


def shares(period: RunPeriod) -> dict[str, float]:
    """Uses of the cluster's accelerator time in a part of a run; they sum to 1."""
    parts = dict(zip(PARTS, period.spent.sum(axis=0).tolist(), strict=True))
    found = {name: value / period.capacity for name, value in parts.items()}
    found["idle"] = (period.up - sum(parts.values())) / period.capacity
    found["out of service"] = 1 - period.up / period.capacity
    return found


def draw_row(window: RunPeriod, usd_per_h: float, seed: int, failures: BreakageFigures) -> DrawRow:
    """The figures of one draw.

    Args:
        window: The steady window of its run.
        usd_per_h: Hourly cost of the cluster at its use.
        seed: Seed of the draw.
        failures: Failures in the window.
    """
    work_h = window.work / HOUR
    return DrawRow(
        seed=seed,
        goodput=window.work / window.capacity,
        ettr=window.work / max(int(window.had.sum()), 1),
        useful_accelerator_hours=work_h,
        usd_per_useful_accelerator_hour=usd_per_h * window.hours / work_h if work_h else None,
        lost_accelerator_hours=int(window.had.sum()) / HOUR - work_h,
        failures=failures,
    )


def draw_figures(rows: Sequence[DrawRow]) -> DrawFigures | None:
    """All draws together; None if there is only one."""
    if len(rows) < 2:
        return None
    return DrawFigures(
        goodput=_band([row.goodput for row in rows]),
        ettr=_band([row.ettr for row in rows]),
        usd_per_useful_accelerator_hour=_usd(rows),
        by_draw=tuple(rows),
    )


def _usd(rows: Sequence[DrawRow]) -> DrawBand | None:
    """Dollars per useful hour: of each draw, and of all draws combined."""
    known = [
        (row.usd_per_useful_accelerator_hour, row.useful_accelerator_hours)
        for row in rows
        if row.usd_per_useful_accelerator_hour is not None
    ]
    if len(known) < len(rows):
        return None
    mean = sum(usd * hours for usd, hours in known) / sum(hours for _, hours in known)
    return DrawBand(low=min(known)[0], mean=mean, high=max(known)[0])


def _band(values: Sequence[float]) -> DrawBand:
    return DrawBand(low=min(values), mean=sum(values) / len(values), high=max(values))


BATCHES = 200
"""Maximum number of batch means of a window when searching for its warm-up."""
LEAST_BATCHES = 20
WORTH = 0.01
"""A warm-up that changes the utilization by less than this, in accelerator time, is not reported."""

KEY = "workload.operate.steady"


@dataclass(frozen=True)
class RunPeriod:
    """A part of a run.

    Attributes:
        start_us, end_us: Start and end.
        capacity: Accelerator-microseconds of the cluster.
        spent: int64[jobs, parts], uses of each job's accelerator time: work, then `LOSSES`.
        busy, up, useless: Accelerator-microseconds in use, in service, and free while jobs waited.
    """

    start_us: int
    end_us: int
    capacity: int
    spent: NDArray[np.int64] = field(repr=False)
    busy: int
    up: int
    useless: int

    @property
    def hours(self) -> float:
        """Length in hours."""
        return (self.end_us - self.start_us) / HOUR

    @property
    def had(self) -> NDArray[np.int64]:
        """int64[jobs], accelerator-microseconds of each job."""
        return np.asarray(self.spent.sum(axis=1))

    @property
    def work(self) -> int:
        """Accelerator-microseconds of work."""
        return int(self.spent[:, 0].sum())


@dataclass(frozen=True)
class RunParts:
    """A run in parts.

    Attributes:
        before: The part before a given window; None: none.
        drain: The part after the window; None: none.
        figures: How the window was chosen, and what ran and waited at its end.
        warm_up: Warm-up of the window while the cluster fills; None: it changes nothing.
    """

    window: RunPeriod
    before: RunPeriod | None
    drain: RunPeriod | None
    whole: RunPeriod
    figures: SteadyFigures
    warm_up: WarmUpFigures | None

    @property
    def notes(self) -> list[str]:
        """Notes on the window for the reader."""
        out = []
        if self.figures.chosen == "whole run":
            out.append("no job ends between the first submission and the last: the figures are of the whole run")
        if self.warm_up is not None:
            found = self.warm_up
            out.append(
                f"the cluster starts empty: jobs had {percent(found.utilization)} of it in the first"
                f" {found.span_s / 3600:,.3g} h of the window and {percent(found.utilization_after)} after that;"
                f" `steady: {{start: {found.until_s / 3600:.4g} h}}` leaves the warm-up out"
            )
        return out


def steady(run: ClusterRun, *, given: bool) -> RunParts:
    """The parts of a finished run.

    Args:
        run: The run.
        given: Whether the scenario gives the window.

    Raises:
        InputError: The run ends before the given window begins.
    """
    first, last = [*run.state.marks, None, None][:2]
    whole = _between(run, None, None)
    if given and first is None:
        end = f"before {run.ledger.time_us / HOUR:,.4g} h"
        raise InputError(
            "the run ends before the window begins",
            key=f"{KEY}.start",
            found=f"{run.steady_us[0] / HOUR:,.4g} h",
            allowed=end,
        )
    window = _between(run, first, last)
    turned_over = given or _ends(run, window) > 0
    if not turned_over:
        first = last = None
        window = whole
    chosen: Literal["scenario", "first to last submission", "whole run"]
    chosen = "scenario" if given else "first to last submission" if turned_over else "whole run"
    running, waiting = (len(run.state.placed), run.state.waiting) if last is None else last.jobs
    figures = SteadyFigures(
        start_s=window.start_us / SECOND,
        end_s=window.end_us / SECOND,
        chosen=chosen,
        submitted=int(submitted_in(run, window).sum()),
        running_at_end=running,
        waiting_at_end=waiting,
    )
    before = _between(run, None, first) if given and first is not None and first.time_us > 0 else None
    drain = _between(run, last, None) if last is not None and last.time_us < whole.end_us else None
    return RunParts(window, before, drain, whole, figures, _warm_up(run, window))


def _between(run: ClusterRun, first: BookedMark | None, last: BookedMark | None) -> RunPeriod:
    """The part between two marks; None: the start of the run, or its end."""
    ledger, state = run.ledger, run.state
    time = ledger.time_us if last is None else last.time_us
    spent = np.array(state.spent if last is None else last.spent, np.int64).reshape(len(run.jobs), -1)
    busy, up, useless = ledger.totals if last is None else last.totals
    begin = 0
    if first is not None:
        begin, spent = first.time_us, spent - np.array(first.spent, np.int64)
        busy, up, useless = busy - first.totals[0], up - first.totals[1], useless - first.totals[2]
    return RunPeriod(begin, time, state.tree.total * max(time - begin, 1), spent, busy, up, useless)


def submitted_in(run: ClusterRun, period: RunPeriod) -> NDArray[np.bool_]:
    """bool[jobs], jobs submitted in a period, including its ends."""
    submit = run.jobs.submit_us
    return np.asarray((submit >= period.start_us) & (submit <= period.end_us))


def _ends(run: ClusterRun, period: RunPeriod) -> int:
    end, status = np.array(run.state.end_us, np.float64), np.array(run.state.status)
    return int((np.isin(status, (DONE, ENDED)) & Window(period.start_us, period.end_us).ended(end)).sum())


def _warm_up(run: ClusterRun, window: RunPeriod) -> WarmUpFigures | None:
    """The part of the window in which the cluster fills, if leaving it out changes the utilization.

    MSER: the truncation point minimizes the standard error of the mean of the rest; at most half is cut.
    Source: K. P. White, "An effective truncation heuristic for bias reduction in simulation output", Simulation, 1997.
    """
    table = run.ledger.columns("series")
    inside = (table["time_us"] >= window.start_us) & (table["time_us"] < window.end_us)
    busy, time = table["busy"][inside], table["time_us"][inside]
    each = max(-(-len(busy) // BATCHES), 1)
    count = len(busy) // each
    if count < LEAST_BATCHES:
        return None
    batch = busy[: count * each].reshape(count, each).mean(axis=1)
    error = [batch[cut:].var() / (count - cut) for cut in range(count // 2 + 1)]
    cut = int(np.argmin(error))
    if not cut:
        return None
    until = int(time[cut * each])
    span, had = until - window.start_us, _busy_until(run, window.start_us, until)
    total = run.state.tree.total
    before, after = had / (span * total), (window.busy - had) / ((window.end_us - until) * total)
    if after - window.busy / window.capacity < WORTH:
        return None
    return WarmUpFigures(until_s=until / SECOND, span_s=span / SECOND, utilization=before, utilization_after=after)


def _busy_until(run: ClusterRun, start_us: int, end_us: int) -> int:
    table = run.ledger.columns("allocations")
    span = np.minimum(table["end_us"], end_us) - np.maximum(table["start_us"], start_us)
    each = np.array(run.state.each, np.int64)[table["job"]]
    return int((np.maximum(span, 0) * table["count"] * each).sum())
