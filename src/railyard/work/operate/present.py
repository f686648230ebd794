"""Tables of a cluster over time: a row per variant, where its time went, tenants, sizes, and noisy neighbors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from railyard.kit.prose import listed, quoted
from railyard.kit.quantities import interval
from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure
from railyard.measure.result.variants import OperateVariant
from railyard.measure.verdict import price_band
from railyard.work.study.memo import (
    DecisionMemo,
    LossChart,
    assumptions_of,
    cost_figure,
    origin_of,
)
from railyard.work.study.presentation import (
    Presentation,
    ResultTable,
    Sheet,
    nested_columns,
    presentations,
    settings_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.operate import DrawBand, OperateFigures, ServiceRow, SpreadFigures
    from railyard.measure.result.reading import Result

LITTLE = 0.0005
"""Share of all time below which 0.0 % is shown."""
MOST_NOISY = 3
"""Pairs of a job and a noisy neighbor shown in a variant's table."""


def sheets(result: Result) -> Iterator[Sheet]:
    """The comparison, failure draws and services."""
    every = result.of(OperateVariant)
    yield Sheet(HEADINGS, [_row(one) for one in every])
    yield from _draws(every)
    yield from _repairs(every)
    yield from _services(every)


def details(result: Result) -> Iterator[Sheet]:
    """Further figures, windows, shares of time, noisy neighbors; tenants and sizes if there is one variant."""
    every = result.of(OperateVariant)
    yield Sheet(_MORE, [_more_row(one) for one in every])
    yield Sheet(PARTS, [_parts(one) for one in every])
    yield from _replicas(every)
    names = [part.name for part in every[0].operate.time]
    yield Sheet(
        ("accelerator time", *names),
        [(one.name, *(numbers.percent(part.share) for part in one.operate.time)) for one in every],
    )
    if len(every) == 1:
        yield from _details(every[0].operate)
    noisy = [(one.name, row) for one in every for row in one.operate.slowed_by[:MOST_NOISY]]
    if noisy:
        rows = [(name, row.job, row.by, numbers.short(row.accelerator_hours)) for name, row in noisy]
        yield Sheet(("variant", "job", "most slowed by", "GPU-h lost"), rows)


HEADINGS = (
    "variant",
    "jobs done",
    "JCT p50 / p99",
    "queue mean / p99",
    "utilization",
    "goodput",
    "$/useful GPU-h (low to high)",
)
_MORE = ("variant", "slowdown p50", "fairness mean / p95", "ETTR", "idle while jobs wait")


def _row(variant: OperateVariant) -> tuple[str, ...]:
    found = variant.operate
    return (
        variant.name,
        f"{found.jobs.done:,} of {found.jobs.all:,}",
        _two(found.jct_s, "p50", "p99", numbers.seconds),
        _two(found.queue_s, "mean", "p99", numbers.seconds),
        numbers.percent(found.utilization),
        numbers.percent(found.goodput),
        numbers.with_range(found.usd.per_useful_accelerator_hour),
    )


def _more_row(variant: OperateVariant) -> tuple[str, ...]:
    found = variant.operate
    return (
        variant.name,
        numbers.short(None if found.slowdown is None else found.slowdown.p50),
        _two(found.finish_time_fairness, "mean", "p95", numbers.short),
        numbers.percent(found.ettr),
        f"{numbers.percent(found.fragmentation.idle_while_jobs_wait)},"
        f" {numbers.dollars(found.fragmentation.usd_while_jobs_wait.typical)}",
    )


PARTS = ("variant", "figures are of", "from", "to", "jobs at its end", "drain: length, utilization", "whole run")


def _parts(variant: OperateVariant) -> tuple[str, ...]:
    """The steady window, which all other figures describe, and the time before and after it."""
    found = variant.operate
    steady, drain, whole = found.steady, found.drain, found.whole
    per_hour = whole.usd_per_useful_accelerator_hour
    late = "none" if drain is None else numbers.seconds(drain.end_s - drain.start_s)
    return (
        variant.name,
        _window(found),
        numbers.seconds(steady.start_s),
        numbers.seconds(steady.end_s),
        f"{steady.running_at_end:,} run, {steady.waiting_at_end:,} wait",
        late if drain is None else f"{late}, {numbers.percent(drain.utilization)}",
        f"{numbers.percent(whole.utilization)}"
        + ("" if per_hour is None else f", ${numbers.short(per_hour.typical)}/useful GPU-h"),
    )


def _two(spread: SpreadFigures | None, first: str, second: str, show: Any) -> str:
    if spread is None:
        return numbers.NOT_APPLICABLE
    return f"{show(getattr(spread, first))} / {show(getattr(spread, second))}"


def _one(spread: SpreadFigures | None, name: str, show: Any) -> str:
    return numbers.NOT_APPLICABLE if spread is None else str(show(getattr(spread, name)))


def _details(found: OperateFigures) -> Iterator[Sheet]:
    """Tables by tenant and by size."""
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


def _draws(variants: Sequence[OperateVariant]) -> Iterator[Sheet]:
    """Figures that depend on when things fail."""
    drawn = [(one.name, one.operate.draws) for one in variants if one.operate.draws is not None]
    if not drawn:
        return
    count = max(len(draws.by_draw) for _, draws in drawn)
    yield Sheet(
        (f"{count} draws: low / mean / high", "goodput", "ETTR", "$/useful GPU-h"),
        [
            (
                name,
                _band(draws.goodput, numbers.percent),
                _band(draws.ettr, numbers.percent),
                _band(draws.usd_per_useful_accelerator_hour, numbers.short),
            )
            for name, draws in drawn
        ],
    )


def _band(band: DrawBand | None, show: Any) -> str:
    return numbers.NOT_APPLICABLE if band is None else " / ".join(show(one) for one in (band.low, band.mean, band.high))


def _repairs(variants: Sequence[OperateVariant]) -> Iterator[Sheet]:
    """Failures and their repair, where the catalogue knows the parts; means of the draws."""
    rows = []
    for one in variants:
        every = [row.failures for row in one.operate.draws.by_draw] if one.operate.draws else [one.operate.failures]
        lost = [row.lost_accelerator_hours for row in one.operate.draws.by_draw] if one.operate.draws else [_lost(one)]
        if not any(found.repair_work_h for found in every):
            continue
        rows.append(
            (
                one.name,
                numbers.short(_mean([found.faults for found in every])),
                numbers.short(_mean([found.jobs_hit for found in every])),
                numbers.short(_mean(lost)),
                numbers.short(_mean([found.repair_work_h for found in every])),
                numbers.dollars(_mean([found.repair_usd.typical for found in every])),
            )
        )
    if rows:
        yield Sheet(("variant", "failures", "jobs hit", "GPU-h lost", "repair work h", "repair cost"), rows)


def _lost(one: OperateVariant) -> float:
    """Accelerator hours of the window that jobs had and that were no work."""
    return sum(row.accelerator_hours - row.useful_accelerator_hours for row in one.operate.tenants)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _services(variants: Sequence[OperateVariant]) -> Iterator[Sheet]:
    """Latencies that users of serving jobs saw."""
    rows = [(one.name, row) for one in variants for row in one.operate.services]
    if not rows:
        return
    yield Sheet(
        (
            "variant",
            "service",
            "SLO attainment",
            "TTFT p99: all up / run",
            "TPOT p99: all up / run",
            "failed",
        ),
        [
            (
                name,
                row.name,
                numbers.percent(row.in_time),
                _latencies(row, "ttft_p99_s"),
                _latencies(row, "tpot_p99_s"),
                f"{100 * row.failed:.3f} %",
            )
            for name, row in rows
        ],
    )


def _replicas(variants: Sequence[OperateVariant]) -> Iterator[Sheet]:
    """Replicas of services, and how much of the time all of them answer."""
    rows = [
        (
            one.name,
            row.name,
            f"{row.jobs} x {row.replicas}" if row.jobs > 1 else str(row.replicas),
            numbers.percent(row.load),
            numbers.percent(sum(state.time for state in row.states if state.answer == row.replicas)),
        )
        for one in variants
        for row in one.operate.services
    ]
    if rows:
        yield Sheet(("variant", "service", "replicas", "load", "all up"), rows)


def _latencies(row: ServiceRow, name: str) -> str:
    """Latency with all replicas, and over the run."""
    full = next((getattr(one, name) for one in row.states if one.answer == one.asked == row.replicas), None)
    return " / ".join("queue grows" if one is None else numbers.seconds(one) for one in (full, getattr(row, name)))


def _priced(every: Sequence[OperateVariant]) -> list[tuple[float, OperateVariant]]:
    """Cost of a useful hour and variant, the cheapest first; without those that did no useful work."""
    priced = [(cost, one) for one in every if (cost := _cost(one)) is not None]
    return sorted(priced, key=lambda pair: pair[0])


def verdict(result: Result) -> str:
    """Which variant's useful hour is cheapest, and which costs most.

    With several failure draws this is the mean of the draws, and variants are called equal if the 90 % interval of
    their difference over the same draws includes zero. They are equal, too, where prices are not known well enough to
    rank them.
    """
    every = result.of(OperateVariant)
    priced = _priced(every)
    if len(priced) < 2:
        return _alone(every[0]) if len(every) == 1 else "Too few variants did useful work to compare their costs."
    (low, best), (high, worst) = priced[0], max(priced, key=lambda pair: pair[0])
    others = [one for _, one in priced[1:]]
    chance = [one.name for one in others if _tied(best, one)]
    equal = [one.name for one in others if one.name in chance or _priced_alike(best, one)]
    at = f"${low:.2f} per useful GPU-hour"
    if worst.name in equal:
        within = "the failure draws" if equal == chance else "error"
        return f"{listed([best.name, *equal])} are equal within {within}, at {at}."
    leads = f"{listed([best.name, *equal])} are equal and cost least" if equal else f"{quoted(best.name)} costs least"
    return f"{leads}: {at}; {quoted(worst.name)} costs {numbers.more(high / low - 1)}."


SPENT = {
    "setup": "on setup",
    "contention": "slowed by other jobs",
    "straggler": "slowed by stragglers",
    "checkpoint": "on checkpoints",
    "hang": "in hangs",
    "lost": "on work that failures undo",
    "turnaround": "between runs",
    "idle": "idle",
    "out of service": "out of service",
}
"""Uses of GPU time other than work, in a sentence."""


def why(result: Result) -> list[str]:
    """The share of time in which the cheapest and the most expensive variant differ most, and the window."""
    every = result.of(OperateVariant)
    priced = _priced(every)
    if len(priced) < 2:
        return [*map(_time, every), *(f"{_drained(one.operate)}." for one in every)]
    best, worst = priced[0][1], max(priced, key=lambda pair: pair[0])[1]
    more = {part.name: worst.operate.share(part.name) - part.share for part in best.operate.time[1:]}
    name = max(more, key=lambda part: more[part])
    window = f"Figures are of the {_window(best.operate)}."
    if more[name] < LITTLE:
        return [window]
    part = f"{100 * more[name]:.1f} percentage points more of all GPU time"
    return [f"{quoted(worst.name)} spends {part} {SPENT.get(name, name)}.", window]


def _memo(result: Result) -> DecisionMemo:
    """The page for a decision: price of a useful hour, goodput and waits of the cheapest variant, and the time lost."""
    every = result.of(OperateVariant)
    priced = _priced(every)
    ranked = [one for _, one in priced] or every
    found = ranked[0].operate
    figures = [
        cost_figure("Cost of a useful GPU-hour", found.usd.per_useful_accelerator_hour),
        KeyFigure("Goodput", numbers.percent(found.goodput), f"utilization {numbers.percent(found.utilization)}"),
        KeyFigure(
            "Mean queue",
            _one(found.queue_s, "mean", numbers.seconds),
            f"p99 {_one(found.queue_s, 'p99', numbers.seconds)}",
        ),
    ]
    bars = {
        one.name: {part.name: 100 * part.share for part in one.operate.time[1:] if part.share >= LITTLE}
        for one in ranked
    }
    chart = LossChart.of("Time lost by cause, % of all GPU time", " %", bars, best_first=bool(priced))
    *reasons, window = why(result)
    return DecisionMemo(
        result.name, verdict(result), figures, chart, (), [window], assumptions_of(result), origin_of(result),
        purchase=" ".join(reasons),
    )  # fmt: skip


def _alone(variant: OperateVariant) -> str:
    found, cost = variant.operate, _cost(variant)
    at = "" if cost is None else f", at ${cost:.2f} per useful GPU-hour"
    ends = f"{found.jobs.done:,} of {found.jobs.all:,} jobs end"
    return f"{numbers.percent(found.goodput)} of GPU time is useful work{at}; {ends}."


def _window(found: OperateFigures) -> str:
    """The window that the figures describe."""
    chosen = {"scenario": "steady window as given", "whole run": "whole run"}
    return chosen.get(found.steady.chosen, f"steady window, {found.steady.chosen}")


def _drained(found: OperateFigures) -> str:
    """The window that the figures describe, and what is left out."""
    if found.drain is None:
        return f"Figures are of the {_window(found)}"
    late, used = numbers.seconds(found.drain.end_s - found.drain.start_s), numbers.percent(found.drain.utilization)
    return f"Figures are of the {_window(found)}; the drain of {late} after it, {used} in use, is left out"


def _cost(variant: OperateVariant) -> float | None:
    """Dollars per useful hour at typical prices, averaged over the failure draws."""
    found = variant.operate
    if found.draws is not None:
        band = found.draws.usd_per_useful_accelerator_hour
        return None if band is None else band.mean
    return None if found.usd.per_useful_accelerator_hour is None else found.usd.per_useful_accelerator_hour.typical


def _tied(best: OperateVariant, other: OperateVariant) -> bool:
    """Whether two variants differ by no more than their draws would by chance, from cost ratios per draw."""
    if best.operate.draws is None or other.operate.draws is None:
        return False
    usd = [
        {row.seed: row.usd_per_useful_accelerator_hour for row in one.operate.draws.by_draw}
        for one in (best, other)
        if one.operate.draws is not None
    ]
    apart = [math.log(high / low) for seed, low in usd[0].items() if low and (high := usd[1].get(seed))]
    return len(apart) > 1 and interval(apart)[1] <= 0.0


def _priced_alike(best: OperateVariant, other: OperateVariant) -> bool:
    """Whether two variants differ by no more than what prices are known to."""
    low, high = _cost(best), _cost(other)
    if not low or not high:
        return False
    bands = (one.operate.usd.per_useful_accelerator_hour for one in (best, other))
    return math.log(high / low) <= price_band(*bands)


def _time(variant: OperateVariant) -> str:
    """The useful share of GPU time, and the largest loss."""
    found = variant.operate
    most = max(found.time[1:], key=lambda part: part.share)
    name = quoted(variant.name)
    if most.share < LITTLE:
        return f"{name}: {numbers.percent(found.goodput)} of GPU time is useful work."
    return (
        f"{name}: {numbers.percent(found.goodput)} of GPU time is useful work; the largest loss is {most.name},"
        f" {numbers.percent(most.share)}."
    )


def _card(result: Result, report: Path | None) -> str:
    """One line per variant, and the path of the report."""
    lines = [f"{result.name}: {len(result.of(OperateVariant))} runs of many jobs on one cluster"]
    lines += [
        f"{one.name} ({_window(one.operate)}): utilization {numbers.percent(one.operate.utilization)}, goodput"
        f" {numbers.percent(one.operate.goodput)},"
        f" ${numbers.band(one.operate.usd.per_useful_accelerator_hour)} a useful GPU-hour"
        for one in result.of(OperateVariant)
    ]
    return "\n".join([*lines, f"report      {report if report is not None else 'not written'}"])


_SINGLE = ("span_s", "jct_s", "queue_s", "slowdown", "finish_time_fairness", "utilization", "goodput", "ettr", "usd")
_TABLES = {
    "variants": ResultTable(
        "one row a variant: the figures to compare",
        lambda one: [settings_row(one) | nested_columns({key: one.operate[key] for key in _SINGLE})],
    ),
    "time": ResultTable("where the time of the cluster goes", lambda one: [part.plain() for part in one.operate.time]),
    "tenants": ResultTable(
        "each tenant: jobs, waits, GPU time, dollars",
        lambda one: [nested_columns(row.plain()) for row in one.operate.tenants],
    ),
}
presentations.add("operate", Presentation(verdict, sheets, why, _card, details=details, tables=_TABLES, memo=_memo))
