"""A cluster in time in words: a row a variant, where its time went, tenants, sizes, who slowed whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.api import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.result.operate import OperateFigures, SpreadFigures
    from railyard.result.result import Result
    from railyard.result.variants.operate import OperateVariant

MOST_NOISY = 3
"""Pairs of a job and its neighbour that a variant's table names."""


@dataclass(frozen=True)
class Sheet:
    """A table of text.

    Attributes:
        headings: One a column; all but the first are set to the right.
        rows: Cells.
    """

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def are_operated(result: Result) -> bool:
    """Whether a result is of a cluster in time."""
    return len(result.operated) == len(result.variants)


def sheets(result: Result) -> Iterator[Sheet]:
    """The tables of a result, the comparison first; details of tenants and sizes where there is one variant."""
    yield Sheet(HEADINGS, [_row(one) for one in result.operated])
    names = [part.name for part in result.operated[0].operate.time]
    yield Sheet(
        ("accelerator time", *names),
        [(one.name, *(numbers.percent(part.share) for part in one.operate.time)) for one in result.operated],
    )
    if len(result.operated) == 1:
        yield from _details(result.operated[0].operate)
    noisy = [(one.name, row) for one in result.operated for row in one.operate.slowed_by[:MOST_NOISY]]
    if noisy:
        rows = [(name, row.job, row.by, numbers.short(row.accelerator_hours)) for name, row in noisy]
        yield Sheet(("variant", "job", "most slowed by", "GPU-h lost"), rows)


HEADINGS = (
    "variant",
    "jobs done",
    "JCT p50 / p99",
    "queue mean / p99",
    "slowdown p50",
    "fairness mean / p95",
    "utilization",
    "goodput",
    "ETTR",
    "idle while jobs wait",
    "$/useful GPU-h low/typ/high",
)


def _row(variant: OperateVariant) -> tuple[str, ...]:
    found = variant.operate
    return (
        variant.name,
        f"{found.jobs.done:,} of {found.jobs.all:,}",
        _two(found.jct_s, "p50", "p99", numbers.seconds),
        _two(found.queue_s, "mean", "p99", numbers.seconds),
        numbers.short(None if found.slowdown is None else found.slowdown.p50),
        _two(found.finish_time_fairness, "mean", "p95", numbers.short),
        numbers.percent(found.utilization),
        numbers.percent(found.goodput),
        numbers.percent(found.ettr),
        f"{numbers.percent(found.fragmentation.idle_while_jobs_wait)},"
        f" {numbers.dollars(found.fragmentation.usd_while_jobs_wait.typical)}",
        numbers.band(found.usd.per_useful_accelerator_hour),
    )


def _two(spread: SpreadFigures | None, first: str, second: str, show: Any) -> str:
    if spread is None:
        return numbers.NOT_APPLICABLE
    return f"{show(getattr(spread, first))} / {show(getattr(spread, second))}"


def _one(spread: SpreadFigures | None, name: str, show: Any) -> str:
    return numbers.NOT_APPLICABLE if spread is None else str(show(getattr(spread, name)))


def _details(found: OperateFigures) -> Iterator[Sheet]:
    """By tenant, and by size."""
    if len(found.tenants) > 1:
        heads = ("tenant", "jobs", "GPU-h", "useful", "queue mean", "JCT p50", "finish-time fairness", "$/useful GPU-h")
        yield Sheet(
            heads,
            [
                (
                    row.name,
                    f"{row.jobs:,}",
                    numbers.short(row.accelerator_hours),
                    numbers.short(row.useful_accelerator_hours),
                    _one(row.queue_s, "mean", numbers.seconds),
                    _one(row.jct_s, "p50", numbers.seconds),
                    _one(row.finish_time_fairness, "mean", numbers.short),
                    numbers.band(row.usd_per_useful_accelerator_hour),
                )
                for row in found.tenants
            ],
        )
    if len(found.sizes) > 1:
        yield Sheet(
            ("accelerators", "jobs", "GPU-h", "queue mean", "slowdown p50", "ETTR", "MTBF"),
            [
                (
                    row.accelerators,
                    f"{row.jobs:,}",
                    numbers.short(row.accelerator_hours),
                    _one(row.queue_s, "mean", numbers.seconds),
                    _one(row.slowdown, "p50", numbers.short),
                    numbers.percent(row.ettr),
                    numbers.NOT_APPLICABLE if row.mtbf_h is None else numbers.seconds(row.mtbf_h * 3600),
                )
                for row in found.sizes
            ],
        )


def why(result: Result) -> str:
    """Which variant's useful hour is cheapest and which dearest, and what of the time sets them apart most."""
    priced = [
        (one.operate.usd.per_useful_accelerator_hour.typical, one)
        for one in result.operated
        if one.operate.usd.per_useful_accelerator_hour is not None
    ]
    if len(priced) < 2:
        return "\n".join(_time(one) for one in result.operated)
    (low, best), (high, worst) = min(priced, key=lambda pair: pair[0]), max(priced, key=lambda pair: pair[0])
    apart = {part.name: worst.operate.share(part.name) - part.share for part in best.operate.time[1:]}
    name = max(apart, key=lambda part: apart[part])
    return (
        f"a useful GPU-hour costs ${low:.2f} with {best.name} and ${high:.2f} with {worst.name}, where"
        f" {100 * apart[name]:+.1f} % of all GPU time is {name}"
    )


def _time(variant: OperateVariant) -> str:
    found = variant.operate
    most = max(found.time[1:], key=lambda part: part.share)
    return (
        f"{variant.name}: {numbers.percent(found.goodput)} of all GPU time is work; most of the rest is {most.name},"
        f" {numbers.percent(most.share)}"
    )


def card(result: Result, report: Path | None) -> str:
    """A line a variant, and where the report is."""
    lines = [f"{result.name}: {len(result.operated)} runs of many jobs on one cluster"]
    lines += [
        f"{one.name}: utilization {numbers.percent(one.operate.utilization)}, goodput"
        f" {numbers.percent(one.operate.goodput)},"
        f" ${numbers.band(one.operate.usd.per_useful_accelerator_hour)} a useful GPU-hour"
        for one in result.operated
    ]
    return "\n".join([*lines, f"report      {report if report is not None else 'not written'}"])
