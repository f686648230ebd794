"""A serving result in words: the comparison's figures, a card, and what the first token waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.prose import listed, quoted
from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure
from railyard.measure.result.variants import ServedVariant, ServingVariant
from railyard.work.study import believed
from railyard.work.study.memo import LossChart, cost_figure
from railyard.work.study.presentation import Presentation, ResultTable, Sheet, plain_rows, presentations, settings_row
from railyard.work.study.purchase import decided, price_table, ranked, recommended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.money import ServingCostFigures
    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import Band
    from railyard.measure.result.serving import (
        CapacityFigures,
        Level,
        Percentiles,
        PoolQueueRow,
        ReplicaTrial,
        ServingFigures,
    )
    from railyard.measure.result.step import ServingTax, ServingTaxShares
    from railyard.work.serving.capacity import ServedExplanation
    from railyard.work.study.memo import DecisionMemo
    from railyard.work.study.presentation import ExplainDepth, Row

    Column = tuple[str, Callable[[ServedVariant], str]]

_LEVELS = "▁▂▃▄▅▆▇█"
_NOBODY = 0.05
"""Requests that wait in the mean of a span; with fewer a pool has no queue."""
_HELPS = 0.01
"""Share by which a trial must differ to be said to help."""
PARTS = (
    ("queue_s", "queue"),
    ("compute_s", "compute"),
    ("collectives_s", "collectives"),
    ("transfer_s", "KV transfer"),
)


def _taxes(variant: ServedVariant) -> ServingTax | None:
    """What networks take of a service; None of a pipeline, which has none."""
    return variant.tax if isinstance(variant, ServingVariant) else None


def _tax(shares: ServingTaxShares | None) -> str:
    """`0.0 % / 2.1 % / 0.4 %`: of goodput, of the 99th percentiles of the first token and of each further one."""
    if shares is None:
        return numbers.NOT_APPLICABLE
    lost = (shares.goodput_lost, shares.ttft.get("p99"), shares.tpot.get("p99"))
    return " / ".join(map(numbers.percent, lost))


def _banded(variant: ServedVariant, name: str = "") -> str:
    """The bands of the medians, `TTFT p50 11.2 to 82.9 ms`, and that the 99th percentiles have none."""
    bands = (believed.band_of(variant, figure) for figure in ("ttft_s", "tpot_s"))
    known = [
        f"{what} p50 {band}"
        for what, band in zip(("TTFT", "TPOT"), bands, strict=True)
        if band != numbers.NOT_APPLICABLE
    ]
    whom = f" of {quoted(name)}" if name else ""
    if not known:
        return f"The latencies{whom} are without a band."
    return f"Model error{whom} (80 % interval): {', '.join(known)}; p99 without a band."


def taxed(variant: ServedVariant, name: str = "") -> str:
    """What networks cost a variant; empty for a pipeline."""
    tax = _taxes(variant)
    if tax is None:
        return ""
    whom = f" {quoted(name)}" if name else ""
    return f"The scale-out network costs{whom} {_parts(tax)}; scale-up networks cost {_parts(tax.scale_up)}."


def _parts(shares: ServingTaxShares) -> str:
    """`0.0 % of goodput, 2.1 % of p99 TTFT and 0.4 % of p99 TPOT`."""
    first, further = shares.ttft.get("p99"), shares.tpot.get("p99")
    lost = f"{numbers.percent(shares.goodput_lost)} of goodput"
    if first is None or further is None:
        return lost
    return f"{lost}, {numbers.percent(first)} of p99 TTFT and {numbers.percent(further)} of p99 TPOT"


def capacity_words(capacity: CapacityFigures | None) -> str:
    """The largest load within the objective; `>` where no load beyond it was found."""
    if capacity is None:
        return numbers.NOT_APPLICABLE
    if capacity.rate_per_s <= 0:
        return "none"
    return f"{'' if capacity.bounded else '> '}{numbers.short(capacity.rate_per_s)}"


def _pair(values: Percentiles) -> str:
    """`129 / 535 ms`; both units where one would be hard to read in the other's."""
    low, high = values.p50, values.p99
    if low is None or high is None or not 0.1 * high <= low <= high:
        return f"{numbers.seconds(low)} / {numbers.seconds(high)}"
    return f"{numbers.seconds(low, like=high).rpartition(' ')[0]} / {numbers.seconds(high)}"


def _in_time(result: Result) -> list[ServedVariant]:
    """Variants that may answer as large a share of the requests in time as was asked for."""
    return [each for each in result.of(ServedVariant) if each.may_win]


def best_variant(result: Result) -> ServedVariant:
    """The variant that leads the comparison: the cheapest in time, or the one with most goodput."""
    name = None if result.verdict is None else result.verdict.leading
    return next((variant for variant in result.of(ServedVariant) if variant.name == name), result.of(ServedVariant)[0])


def first_token(variant: ServedVariant, level: Level = "p99") -> str:
    """`p99 TTFT of 2.1 s: queue 1.2 s, compute 0.7 s, collectives 0.1 s, KV transfer 0.1 s`."""
    serving = variant.serving
    parts = serving.ttft_parts.get(level)
    if not parts:
        return "no request was answered"
    shares = ", ".join(f"{word} {numbers.seconds(getattr(parts, name))}" for name, word in PARTS)
    return f"{level} TTFT of {numbers.seconds(getattr(serving.ttft_s, level))}: {shares}"


def queues(variant: ServedVariant) -> list[str]:
    """One line per pool: how many requests wait for it, when most of them, how long, and a picture over time."""
    return [_queue(row) for row in getattr(variant.serving, "queues", ())]


def _queue(row: PoolQueueRow) -> str:
    if row.waiting_peak < _NOBODY:
        return f"{row.pool}: nobody waits"
    waits = (
        ""
        if row.wait_p99_s is None
        else f"; p50 wait {numbers.seconds(row.wait_p50_s)}, p99 {numbers.seconds(row.wait_p99_s)}"
    )
    most = f"{numbers.short(row.waiting_peak)} when it is longest, at {numbers.seconds(row.peak_s)}"
    picture = "".join(_LEVELS[round(count / row.waiting_peak * (len(_LEVELS) - 1))] for count in row.over_time)
    return f"{row.pool}: {numbers.short(row.waiting_mean)} requests queue on average, {most}{waits}  {picture}"


def trials(variant: ServedVariant) -> list[str]:
    """One line per pool: what one more replica of it gave, simulated."""
    return [_trial(variant.serving, one) for one in getattr(variant.serving, "trials", ())]


def _trial(serving: ServingFigures, one: ReplicaTrial) -> str:
    what = f"one more {_of(one.pool)}replica ({numbers.counted(one.accelerators, 'accelerator')}"
    what += f"; the cluster must grow by {one.bought})" if one.bought else ")"
    if one.tp is not None:
        what = f"{_of(one.pool)}TP {one.tp} on the same accelerators, {numbers.counted(one.replicas, 'replica')}"
    if one.reason:
        return f"{what} was not tried: {one.reason}"
    first = f"TTFT p99 {numbers.seconds(serving.ttft_s.p99)} -> {numbers.seconds(one.ttft_p99_s)}"
    token = f"TPOT p99 {numbers.seconds(serving.tpot_s.p99)} -> {numbers.seconds(one.tpot_p99_s)}"
    in_time = f"SLO attainment {numbers.percent(serving.slo.attainment)} -> {numbers.percent(one.attainment)}"
    return f"{what}: {first}, {token}, {in_time}"


def _of(pool: str) -> str:
    return "" if pool == "both" else f"{pool} "


def bottleneck(variant: ServedVariant) -> str:
    """The pool whose growth helps most, `""` where none was tried: the one that requests wait for.

    More requests in time go before a sooner first token: where few are in time because answers are slow, a pool that
    only brings first tokens forward is not what they wait for.
    """
    serving = variant.serving
    tried = [one for one in getattr(serving, "trials", ()) if one.ttft_p99_s is not None]
    now = serving.ttft_s.p99
    if not tried or now is None:
        untried = getattr(serving, "trials", None) == () and serving.slo.attainment >= serving.slo.target
        return "All SLOs are met and few requests queue: no remedy was tried." if untried else ""
    wider = [one for one in tried if one.tp is not None]  # tried only where compute is most of it
    enough = not wider or serving.slo.attainment >= serving.slo.target
    tried = wider if wider and enough else tried
    best = min(tried, key=lambda one: (-round(one.attainment or 0.0, 2), one.ttft_p99_s))
    more = (best.attainment or 0.0) > serving.slo.attainment + _HELPS
    best = best if more else min(tried, key=lambda one: one.ttft_p99_s)
    sooner = best.ttft_p99_s < (1.0 - _HELPS) * now
    if not more and not sooner:
        if tried == wider:
            return "Compute is the largest part of TTFT p99; no larger TP on the same accelerators shortens it."
        return "One more replica of any pool changes almost nothing: requests do not wait for replicas."
    if best.tp is not None:
        return f"Compute is the largest part of TTFT p99: {_trial(serving, best)}"
    in_time = serving.slo.ttft_s is not None and now <= serving.slo.ttft_s
    what = "First tokens" if sooner and not (more and in_time) else "Answers"
    return f"{what} wait for the {_of(best.pool)}replicas: {_trial(serving, best)}"


def verdict(result: Result) -> str:
    """The answer in a sentence: which service to take, its latency, and what a million tokens costs."""
    best = best_variant(result)
    if len(result.of(ServedVariant)) == 1:
        return f"{_met(best.serving)}: {_latency([best])}, {_price(best)}{_idle(result, best)}{_doubt(best)}."
    if said := believed.unlike(result) or _fewest(result):
        return said
    many, good = len(result.of(ServedVariant)), len(_in_time(result))
    share = f"{100 * best.serving.slo.target:g} % of requests within the SLO"
    if good == 1:
        return f"Of {many} variants only {quoted(best.name)} reaches {share}: {_price(best)}, {_latency([best])}."
    leads = _leads(result, best)
    if good == many:
        return f"{leads}; {'both' if many == 2 else f'all {many}'} variants reach {share}."
    if not good:
        return f"No variant reaches {share}; {leads}."
    return f"{good} of {many} variants reach {share}; of these, {leads}."


def _leads(result: Result, best: ServedVariant) -> str:
    """Which variants lead, with the price of the best and the latencies of all that are equal to it."""
    names, peers = believed.equals(result, best.name), believed.peers(result)
    equal = [one for one in result.of(ServedVariant) if one.name in (best.name, *peers)]
    if len(names) > 1 and believed.undecided(result):
        return f"{listed(names)} cannot be distinguished: {_span(equal)}, {_latency(equal)}"
    alone = f"{quoted(best.name)} {'costs least' if best.serving.cpmt else 'is best'}"
    same = f"{listed([best.name, *peers])} give the same answer" if peers else alone
    leads = f"{listed(names)} are equal within error" if len(names) > 1 else same
    return f"{leads}: {_price(best)}, {_latency(equal)}"


def _span(variants: Sequence[ServedVariant]) -> str:
    """`$0.361 to $0.492 per million tokens within the SLO`: of the cheapest and of the most expensive."""
    costs = [one.serving.cpmt.total.typical for one in variants if one.serving.cpmt is not None]
    if len(costs) < len(variants):
        rates = [one.serving.slo.goodput_rps for one in variants]
        return f"{numbers.from_to(*map(numbers.short, (min(rates), max(rates))))} requests/s within the SLO"
    ends = (min(costs), max(costs))
    return f"{numbers.from_to(*map(numbers.dollars, ends))} per million tokens within the SLO"


_SIZES = ("replicas", "accelerators")


def _fewest(result: Result) -> str:
    """The smallest variant that reaches the SLO, where variants differ in one size alone; else empty."""
    variants = result.of(ServedVariant)
    keys = {key for variant in variants for key in variant.settings}
    key = keys.pop() if len(keys) == 1 else ""
    sizes = {variant.name: variant.settings.get(key) for variant in _in_time(result)}
    if key.rpartition(".")[2] not in _SIZES or not sizes or not all(isinstance(size, int) for size in sizes.values()):
        return ""
    small: Any = min(sizes, key=lambda name: (sizes[name], name))
    variant = next(one for one in variants if one.name == small)
    share = f"{100 * variant.serving.slo.target:g} % of requests within the SLO"
    who = f"{quoted(small)} is the smallest of {len(variants)} that reaches {share}"
    return f"{who}: {_price(variant)}{_idle(result, variant)}{_doubt(variant)}."


def _doubt(variant: ServedVariant) -> str:
    """A median that meets its limit and that the model's error may take beyond it; else empty."""
    slo = variant.serving.slo
    for what, figure, limit in (("TTFT", "ttft_s", slo.ttft_s), ("TPOT", "tpot_s", slo.tpot_s)):
        row = next((one for one in variant.model_error or () if one.figure == figure), None)
        if row is not None and limit is not None and row.typical <= limit < row.high:
            return f"; within the model's error half may miss it, {what} p50 up to {numbers.seconds(row.high)}"
    return ""


def _idle(result: Result, variant: ServedVariant) -> str:
    """`, with 28 of 32 accelerators in no pool`; empty where pools use them all."""
    scenario: Any = result.scenario
    if "serving" not in scenario.get("workload", {}):
        return ""
    set_here = {key.rpartition(".")[2]: value for key, value in variant.settings.items()}
    there: Any = set_here.get("accelerators", scenario.get("cluster", {}).get("accelerators", 0))
    idle = there - sum(pool.accelerators for pool in variant.serving.pools)
    return f", paid with {idle} of {there} accelerators in no pool" if idle > 0 else ""


def _met(serving: ServingFigures) -> str:
    """`All 2,000 simulated requests meet the SLO (most req/s within SLO: 41.2)`."""
    share, count = serving.slo.attainment, serving.requests.count
    late = round((1.0 - share) * count)
    whom = f"All {f'but {late} of ' if late else ''}{count:,} simulated requests"
    if late > 0.0005 * count:
        whom = f"{numbers.percent(share)} of requests"
    most = f" (most req/s within SLO: {capacity_words(serving.capacity)})" if serving.capacity else ""
    return f"{whom} meet the SLO{most}"


def _latency(variants: Sequence[ServedVariant]) -> str:
    """`p99 TTFT 434 to 449 ms, p99 TPOT 20.6 ms`: of one variant, or the range over several."""
    found = [one.serving for one in variants]
    ttft, tpot = ([getattr(one, of).p99 for one in found] for of in ("ttft_s", "tpot_s"))
    return f"p99 TTFT {_range(ttft)}, p99 TPOT {_range(tpot)}"


def _range(seconds: Sequence[float | None]) -> str:
    known = sorted(each for each in seconds if each is not None)
    return (
        numbers.from_to(*(numbers.seconds(pick) for pick in (known[0], known[-1]))) if known else numbers.seconds(None)
    )


def _price(variant: ServedVariant) -> str:
    cost = variant.serving.cpmt
    if cost is None:
        return f"{numbers.short(variant.serving.slo.goodput_rps)} requests/s within the SLO"
    low, typical, high = map(numbers.short, cost.total.ends)
    return f"${typical} per million tokens within the SLO ({low} to {high})"


def why(result: Result) -> list[str]:
    """What networks cost, by how much variants differ, and what the first tokens of the best one wait for."""
    best = best_variant(result)
    if len(result.of(ServedVariant)) == 1:
        return list(filter(None, (taxed(best), _banded(best), f"{first_token(best)}.", bottleneck(best))))
    if believed.unlike(result):
        return []
    said = (
        taxed(best, best.name),
        _banded(best, best.name),
        believed.unexercised(result),
        believed.ties(result),
        believed.same(result),
        believed.bound(result),
        f"{quoted(best.name)}: {first_token(best)}.",
    )
    return list(filter(None, said))


def _memo(result: Result) -> DecisionMemo:
    """The page for a decision: price, SLO attainment and latency of the best variant, and the waits of all."""
    variants, bought = ranked(result, result.of(ServedVariant)), recommended(result)
    best = next((one for one in variants if one.name == bought), best_variant(result))
    serving = best.serving
    figures = [
        cost_figure("Cost of a million tokens within the SLO", None if serving.cpmt is None else serving.cpmt.total),
        KeyFigure("SLO attainment", numbers.percent(serving.slo.attainment), f"target {100 * serving.slo.target:g} %"),
        KeyFigure("p99 TTFT", numbers.seconds(serving.ttft_s.p99), f"p99 TPOT {numbers.seconds(serving.tpot_s.p99)}"),
    ]
    chart = LossChart.of("p99 TTFT by cause, s", " s", {one.name: _waits(one) for one in variants})
    table = price_table(variants, "p99 TTFT", lambda one: numbers.seconds(one.serving.ttft_s.p99))
    changes = [bottleneck(best)]
    return decided(result, best, verdict(result), figures=figures, chart=chart, changes=changes, table=table)


def _waits(variant: ServedVariant) -> dict[str, float]:
    """Seconds of the slowest first tokens by cause."""
    parts = variant.serving.ttft_parts.get("p99")
    return {} if parts is None else {word: getattr(parts, name) for name, word in PARTS}


def explain(result: Result) -> str:
    """What the first tokens of every variant wait for: percentile by percentile, pool by pool, and what would help."""
    return "\n".join(line for variant in result.of(ServedVariant) for line in (variant.name, *explained(variant)))


def explained(variant: ServedVariant) -> list[str]:
    """The same of one variant, without its name."""
    parts = [first_token(variant, level) for level in ("p50", "p90", "p99", "p999")]
    lines = (taxed(variant), *parts, *queues(variant), *trials(variant))
    return [f"  {line}" for line in lines if line]


def card(result: Result, report: Path | None) -> str:
    """Eight lines on a run."""
    best = best_variant(result)
    serving = best.serving
    many = len(result.of(ServedVariant))
    cost = serving.cpmt
    lines = [
        f"{result.name}: {many} variant{'s' if many > 1 else ''}, {serving.requests.count} requests",
        f"{believed.title(result, 'latency'):<12}{best.name}: TTFT {_pair(serving.ttft_s)},"
        f" TPOT {_pair(serving.tpot_s)} (p50 / p99)",
        f"network tax {_tax(_taxes(best))} of goodput, p99 TTFT, p99 TPOT",
        *believed.lines(best),
        f"SLO         {numbers.percent(serving.slo.attainment)},"
        f" goodput {numbers.short(serving.slo.goodput_rps)} requests/s",
        f"waiting     {first_token(best)}",
        f"cost        ${numbers.band(cost.total if cost else None)} per million tokens within the SLO,"
        f" {numbers.power(serving.power.total_w.typical)}",
        f"report      {report if report is not None else 'not written'}",
    ]
    return "\n".join(lines)


def _split(variant: ServedVariant, part: str) -> str:
    cost = variant.serving.cpmt
    return numbers.band(None if cost is None else getattr(cost, part))


_NAME: Column = ("variant", lambda one: one.name)
_MOST: Column = ("most req/s", lambda one: capacity_words(one.serving.capacity))
_GOOD: Column = ("good req/s", lambda one: numbers.short(one.serving.slo.goodput_rps))
_COMPARED: Sequence[Column] = (
    _NAME,
    ("req/s", lambda one: numbers.short(one.serving.requests.rate_per_s)),
    ("TTFT p50 / p99", lambda one: _pair(one.serving.ttft_s)),
    ("TPOT p50 / p99", lambda one: _pair(one.serving.tpot_s)),
    ("SLO met", lambda one: numbers.percent(one.serving.slo.attainment)),
)
_PRICE: Column = ("$/Mtoken (low to high)", lambda one: numbers.with_range(one.price))
_DETAILS: Sequence[Column] = (
    _NAME,
    ("queue p99", lambda one: numbers.seconds(one.serving.queue_s.p99)),
    ("most req/s within SLO", _MOST[1]),
    ("tokens/s per GPU", lambda one: numbers.short(one.serving.throughput.per_gpu)),
    ("tokens/s per user", lambda one: numbers.short(one.serving.throughput.per_user)),
    ("network tax of goodput / p99 TTFT / TPOT", lambda one: _tax(_taxes(one))),
    ("scale-up tax", lambda one: _tax((taxes := _taxes(one)) and taxes.scale_up)),
    ("KV hits", lambda one: numbers.percent(one.serving.kv.hit_rate)),
    ("model error of TTFT p50", lambda one: believed.band_of(one, "ttft_s")),
    ("model error of TPOT p50", lambda one: believed.band_of(one, "tpot_s")),
    ("model error of $/Mtoken", lambda one: believed.band_of(one, "cpmt")),
    ("$/M input tokens", lambda one: _split(one, "split_input")),
    ("$/M output tokens", lambda one: _split(one, "split_output")),
    ("power", lambda one: numbers.power(one.serving.power.total_w.typical)),
)


def sheets(result: Result) -> Iterator[Sheet]:
    """The comparison, one row per variant; the capacity, where it was searched, in place of the goodput."""
    variants = result.of(ServedVariant)
    searched = any(variant.serving.capacity for variant in variants)
    yield Sheet.of((*_COMPARED, _MOST if searched else _GOOD, _PRICE), variants)


def details(result: Result) -> Iterator[Sheet]:
    """Queue, load, networks, cache and prices, one row per variant."""
    yield Sheet.of(_DETAILS, result.of(ServedVariant))


def _figures(variant: ServedVariant) -> Iterable[Row]:
    """The figures of a serving run."""
    serving = variant.serving
    row = settings_row(variant)
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s"):
        values: Percentiles = getattr(serving, name)
        row |= {f"{name}_{level}": value for level, value in values.plain().items()}
    row |= {
        "rate_per_s": serving.requests.rate_per_s,
        "attainment": serving.slo.attainment,
        "goodput_rps": serving.slo.goodput_rps,
        "capacity_rps": None if serving.capacity is None else serving.capacity.rate_per_s,
        "tokens_per_s_per_gpu": serving.throughput.per_gpu,
        "tokens_per_s_per_user": serving.throughput.per_user,
        "tokens_per_s_per_mw": serving.throughput.per_mw,
        "kv_hit_rate": serving.kv.hit_rate,
        "power_w": serving.power.total_w.typical,
    }
    return [row | _prices(serving.cpmt)]


def _prices(cost: ServingCostFigures | None) -> Row:
    names = ("total", "input", "output", "split_input", "split_output")
    bands: dict[str, Band | None] = {name: None if cost is None else getattr(cost, name) for name in names}
    return {f"cpmt_{name}_usd": None if band is None else band.typical for name, band in bands.items()}


def _explained(found: ServedExplanation, _depth: ExplainDepth) -> Iterator[str]:
    """The pool that limits a variant, and its queues."""
    variant = found.variant
    yield bottleneck(variant) or f"{quoted(variant.name)} has no bottleneck."
    yield f"{found.name}: {variant.name}" if variant.name != found.name else found.name
    yield from explained(variant)


_TABLES = {
    "variants": ResultTable("one row a variant: the figures to compare", _figures),
    "power": ResultTable("watts by component", lambda one: plain_rows(one.serving.power.components)),
    "capex": ResultTable("dollars by component", lambda one: plain_rows(one.serving.capex.components)),
    "cpmt": ResultTable(
        "cost per million tokens by part",
        lambda one: plain_rows(() if one.serving.cpmt is None else one.serving.cpmt.breakdown),
    ),
    "capacity": ResultTable(
        "every load that was tried",
        lambda one: plain_rows(() if one.serving.capacity is None else one.serving.capacity.points),
    ),
    "replicas": ResultTable("each replica", lambda one: plain_rows(one.serving.replicas)),
    "requests": ResultTable(
        "every request with its latencies (from requests.parquet, first variant)", file="requests.parquet"
    ),
}
PRESENTATION = presentations.add(
    "serving",
    Presentation(
        verdict, sheets, why, card, explain, details=details, tables=_TABLES, explained=_explained, memo=_memo
    ),
)
