"""Figures of a run: waiting, slowdown, utilization, goodput, fragmentation, fairness, dollars; by tenant too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.operate.rules import HOUR, PPM, SECOND
from railyard.operate.state import DONE, ENDED, LOSSES, RUNNING, STUCK, WAITING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.operate.loop import Operation

SHORT_S = 10.0
"""Slowdown is bounded: shorter jobs count as so long. D. Feitelson, "Metrics for parallel job scheduling", 2001."""
WORST = 10
"""Pairs of a job and its noisy neighbour that are named."""
PARTS = ("work", *LOSSES)


def columns(run: Operation) -> dict[str, NDArray[Any]]:
    """A row a job: when, how long, and what became of its accelerator time."""
    state, jobs = run.state, run.jobs
    spent = np.array(state.spent, np.int64).reshape(-1, len(PARTS))
    found: dict[str, NDArray[Any]] = {
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
        "failures": np.array(state.failed, np.int64),
    }
    return found | {f"{name}_accelerator_us": spent[:, number] for number, name in enumerate(PARTS)}


def spread(values: NDArray[Any]) -> dict[str, float]:
    """Mean and percentiles of seconds; empty where there is nothing."""
    if not len(values):
        return {}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"mean": float(values.mean()), "p50": float(p50), "p95": float(p95), "p99": float(p99)}


def summary(run: Operation, usd_per_h: dict[str, float] | None = None) -> dict[str, Any]:
    """All figures of a run.

    Args:
        run: That has ended.
        usd_per_h: What an hour of the cluster costs: low, typical, high; None leaves dollars out.
    """
    jobs = columns(run)
    done = jobs["status"] == DONE
    span_us = max(run.ledger.time_us, 1)
    found = {
        "jobs": _counts(jobs["status"]),
        "span_s": span_us / SECOND,
        "nodes": run.state.tree.nodes,
        "accelerators": run.state.tree.total,
        **_times(jobs, done),
        "utilization": run.ledger.busy_us / (run.state.tree.total * span_us),
        "in_service": run.ledger.up_us / (run.state.tree.total * span_us),
        **_goodput(run, jobs, span_us),
        "fragmentation": _fragmentation(run),
        "failures": _failures(run),
        "slowed_by": slowed_by(run),
        "tenants": _tenants(run, jobs, done, span_us, usd_per_h),
    }
    if usd_per_h is not None:
        found["usd"] = _usd(jobs, span_us, usd_per_h)
    return found


def _counts(status: NDArray[np.int64]) -> dict[str, int]:
    names = {"done": DONE, "ended": ENDED, "running": RUNNING, "waiting": WAITING, "stuck": STUCK}
    return {"all": len(status), **{name: int(np.count_nonzero(status == code)) for name, code in names.items()}}


def _times(jobs: dict[str, NDArray[Any]], done: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    started = jobs["start_us"] >= 0
    jct = (jobs["end_us"] - jobs["submit_us"])[done] / SECOND
    alone = np.maximum(jobs["work_us"][done] / SECOND, SHORT_S)
    return {
        "jct_s": spread(jct),
        "queue_s": spread((jobs["start_us"] - jobs["submit_us"])[started] / SECOND),
        "slowdown": spread(np.maximum(jct, SHORT_S) / alone),
    }


def _goodput(run: Operation, jobs: dict[str, NDArray[Any]], span_us: int) -> dict[str, Any]:
    """What became of the cluster's accelerator time; shares of all of it add up to 1."""
    capacity = run.state.tree.total * span_us
    parts = {name: int(jobs[f"{name}_accelerator_us"].sum()) for name in PARTS}
    used = sum(parts.values())
    shares = {name: value / capacity for name, value in parts.items()}
    shares["idle"] = (run.ledger.up_us - used) / capacity
    shares["out of service"] = 1 - run.ledger.up_us / capacity
    return {"goodput": parts["work"] / capacity, "ettr": parts["work"] / max(used, 1), "time": shares}


def _fragmentation(run: Operation) -> dict[str, float]:
    """Of what is free: in nodes that others have a part of; of idle nodes: in groups that are not idle altogether."""
    series = run.ledger.columns("series")
    free, idle = series["free"].sum(), series["idle_nodes"].sum()
    return {
        "accelerators_in_shared_nodes": float(series["broken_free"].sum() / free) if free else 0.0,
        "nodes_in_shared_groups": float(series["broken_idle"].sum() / idle) if idle else 0.0,
    }


def _failures(run: Operation) -> dict[str, Any]:
    faults = run.ledger.columns("faults")
    hit = faults["jobs"] > 0
    return {
        "faults": len(hit),
        "jobs_hit": int(faults["jobs"].sum()),
        "by_mode": {str(mode): int(np.count_nonzero(faults["mode"] == mode)) for mode in np.unique(faults["mode"])},
    }


def slowed_by(run: Operation) -> list[dict[str, Any]]:
    """Who cost whom most: pairs by the accelerator time that a job lost while a neighbour sent most of what it met."""
    state, last = run.state, run.ledger.time_us
    lost: dict[tuple[int, int], int] = {}
    since: dict[int, tuple[int, int, int]] = {}
    ends = [(end if end >= 0 else last, job, PPM, -1) for job, end in enumerate(state.end_us) if state.attempts[job]]
    for time, job, speed, culprit in sorted([*state.slowed, *ends]):
        begun, before, who = since.pop(job, (time, PPM, -1))
        if who >= 0:
            lost[job, who] = lost.get((job, who), 0) + (time - begun) * (PPM - before) // PPM * state.accelerators[job]
        since[job] = (time, speed, culprit)
    worst = sorted(lost.items(), key=lambda pair: (-pair[1], pair[0]))[:WORST]
    names = run.jobs.name
    return [
        {"job": names[job], "by": names[who], "accelerator_hours": value / HOUR} for (job, who), value in worst if value
    ]


def _usd(jobs: dict[str, NDArray[Any]], span_us: int, usd_per_h: dict[str, float]) -> dict[str, Any]:
    work_h = int(jobs["work_accelerator_us"].sum()) / HOUR
    total = {end: rate * span_us / HOUR for end, rate in usd_per_h.items()}
    each = {end: value / work_h if work_h else None for end, value in total.items()}
    return {"total": total, "per_useful_accelerator_hour": each}


def _tenants(
    run: Operation,
    jobs: dict[str, NDArray[Any]],
    done: NDArray[np.bool_],
    span_us: int,
    usd_per_h: dict[str, float] | None,
) -> dict[str, dict[str, Any]]:
    """Figures by tenant; each pays for the cluster in proportion to the accelerator time that it had."""
    spent = np.sum([jobs[f"{name}_accelerator_us"] for name in PARTS], axis=0)
    fair = finish_time_fairness(run, jobs)
    found = {}
    for number, name in enumerate(run.jobs.tenants):
        theirs = run.jobs.tenant == number
        had, work = int(spent[theirs].sum()), int(jobs["work_accelerator_us"][theirs].sum())
        row: dict[str, Any] = {
            "jobs": int(theirs.sum()),
            "accelerator_hours": had / HOUR,
            "useful_accelerator_hours": work / HOUR,
            "queue_s": spread((jobs["start_us"] - jobs["submit_us"])[theirs & (jobs["start_us"] >= 0)] / SECOND),
            "jct_s": spread((jobs["end_us"] - jobs["submit_us"])[theirs & done] / SECOND),
            "finish_time_fairness": spread(fair[theirs & done]),
        }
        if usd_per_h is not None and work:
            share = had / max(int(spent.sum()), 1)
            row["usd_per_useful_accelerator_hour"] = {
                end: rate * span_us / HOUR * share / (work / HOUR) for end, rate in usd_per_h.items()
            }
        found[name] = row
    return found


def finish_time_fairness(run: Operation, jobs: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """float64[jobs], completion time over that on an equal part of the cluster without a queue; above 1: worse off.

    Source: K. Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020. A job wider than its
    tenant's part
    takes so many times longer there.
    """
    part = run.state.tree.total / len(run.jobs.tenants)
    alone = np.maximum(jobs["work_us"] / SECOND, SHORT_S) * np.maximum(1.0, jobs["accelerators"] / part)
    return np.asarray(np.maximum((jobs["end_us"] - jobs["submit_us"]) / SECOND, SHORT_S) / alone)
