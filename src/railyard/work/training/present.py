"""Text of a result: the comparison's figures, a card of eight lines, and an explanation."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from railyard.kit.quantities import format_memory
from railyard.measure import numbers
from railyard.measure.bottleneck import CONTENTION, SCALE_UP_TIER
from railyard.measure.result.variants import StepVariant, TraceVariant, TrainingVariant
from railyard.work.study import believed
from railyard.work.study import fault_words as faults
from railyard.work.study.presentation import (
    MOST_VARIANTS,
    Presentation,
    ResultTable,
    Sheet,
    html_head,
    plain_rows,
    presentations,
    settings_row,
    warnings,
)
from railyard.work.training.explain_words import lines_of_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.measure.result.step import TaxShares
    from railyard.work.study.presentation import Row
    from railyard.work.training.explain import Explanation


LEAST_SEEN = 0.0005
"""Smaller shares would be printed as 0.0 %."""


def cell(shares: TaxShares, where: Mapping[str, str] | None = None) -> str:
    """`11.7 % (contention at leaf-spine 4.9, slowed kernels 6.7)`.

    Args:
        shares: A tax.
        where: Network tiers by the cause of waiting there; None: none is named.
    """
    tiers = where or {}
    parts = [
        *((str(cause), share) for cause, share in shares.exposed.items()),
        ("slowed kernels", shares.slowed_kernels),
    ]
    seen = [
        f"{cause}{f' at {tiers[cause]}' if cause in tiers else ''} {100 * share:.1f}"
        for cause, share in sorted(parts, key=lambda part: -part[1])
        if share >= LEAST_SEEN
    ]
    total = numbers.percent(shares.tokens_lost)
    return f"{total} ({', '.join(seen)})" if seen else total


def error(variant: StepVariant) -> str:
    """`, 7.9 to 12.9 % within the model's error`; empty if nothing was validated, or nothing is lost."""
    band = believed.band_of(variant, "network_tax")
    known = band != numbers.NOT_APPLICABLE and variant.tax.tokens_lost >= LEAST_SEEN
    return f", {band} within the model's error" if known else ""


def others_cell(variant: StepVariant) -> str:
    """`bubble 9.1 %, straggler 0.2 %`: losses other than computation that no network changes."""
    rest = variant.tax.rest.items()
    waits = [(cause, share) for cause, share in rest if cause != "compute" and share >= LEAST_SEEN]
    return ", ".join(f"{cause} {numbers.percent(share)}" for cause, share in waits) or "none"


def sentence(variant: StepVariant, name: str = "") -> str:
    """The networks' cost in a variant: the first sentence of every answer about steps."""
    tax, what = variant.tax, _what(variant)
    whose = f"of the {what} of {name}" if name else f"of the {what}"
    return (
        f"The scale-out network takes {cell(tax)} {whose}{error(variant)}; scale-up networks take {cell(tax.scale_up)}."
    )


def of_two(best: StepVariant, worst: StepVariant, where: Mapping[str, str]) -> str:
    """The same of two variants, the better one first.

    Args:
        best: The better one.
        worst: The other.
        where: Tiers of the other's network by the cause of waiting there.
    """
    inside = [numbers.percent(one.tax.scale_up.tokens_lost) for one in (best, worst)]
    to_both = inside[0] if inside[0] == inside[1] else f"{inside[0]} and {inside[1]}"
    return (
        f"{best.name} loses {cell(best.tax)} of its {_what(best)} to the scale-out network, {worst.name}"
        f" {cell(worst.tax, where)}{error(worst)}; scale-up networks take {to_both}."
    )


def _what(variant: StepVariant) -> str:
    return "time" if variant.utilization.tokens_per_s_per_gpu is None else "tokens"


HEADINGS = (
    "variant",
    "network tax",
    "scale-up tax",
    "other waits",
    "GPU utilization",
    "MFU",
    "step",
    "tokens/s per GPU",
    "JCT",
    "power",
    "capex",
    "switch ports used",
    "$/Mtoken low/typ/high",
    "model error",
    "bottleneck",
)
RIGHT = (4, 5, 6, 7, 8, 9, 10, 11, 12, 13)


def row(variant: StepVariant) -> list[str]:
    """One variant's cells under `HEADINGS`."""
    return [
        variant.name,
        cell(variant.tax),
        cell(variant.tax.scale_up),
        others_cell(variant),
        numbers.percent(variant.utilization.gpu),
        numbers.percent(variant.utilization.mfu),
        step_words(variant),
        numbers.short(variant.utilization.tokens_per_s_per_gpu),
        numbers.seconds(None if variant.jct is None else variant.jct.seconds),
        numbers.power(variant.power.total_w.typical),
        numbers.dollars(variant.capex.total_usd.typical),
        ports_words(variant),
        numbers.band(variant.cpmt),
        believed.step_band(variant),
        variant.bottleneck.name,
    ]


def step_words(variant: StepVariant) -> str:
    """`13.4 s`, or `13.4 s (11.9 to 15.2 s)` if seeds differ."""
    step = variant.step
    middle, samples = numbers.seconds(step.seconds), step.samples
    low, high = numbers.seconds(min(samples)), numbers.seconds(max(samples))
    if low == high:
        return middle
    value, _, unit = low.rpartition(" ")
    return f"{middle} ({value if high.endswith(f' {unit}') else low} to {high})"


def ports_words(variant: StepVariant) -> str:
    """`72 of 576 (504 stranded)`: ports of the back-end's switches with a link, and empty ones."""
    used, ports, stranded = (
        sum(getattr(row, name) for row in variant.topology.switches) for name in ("used", "ports", "stranded")
    )
    return f"{used:,} of {ports:,} ({stranded:,} stranded)"


def card(result: Result, report: Path | None) -> str:
    """Eight lines on a run."""
    best = best_variant(result)
    variants = result.of(StepVariant)
    title = believed.title(result, "step")
    lines = [
        f"{result.name}: {_many(variants)}, engine {result.provenance.engine}",
        f"{title:<12}{best.name}: step {numbers.seconds(best.step.seconds)}, GPU utilization "
        f"{numbers.percent(best.utilization.gpu)}, MFU {numbers.percent(best.utilization.mfu)}",
        f"network tax {cell(best.tax)}{error(best)}; scale-up tax {cell(best.tax.scale_up)}",
        *believed.lines(best),
        f"other waits {others_cell(best)}",
        f"cost        {_price(best)}, "
        f"capex {numbers.dollars(best.capex.total_usd.typical)}, "
        f"{numbers.power(best.power.total_w.typical)}",
        f"bottleneck  {headline(best)}",
        f"report      {report if report is not None else 'not written'}",
    ]
    return "\n".join(lines)


def _many(variants: Sequence[StepVariant]) -> str:
    return f"{len(variants)} variant{'s' if len(variants) > 1 else ''}"


def _price(variant: StepVariant) -> str:
    """Dollars per million tokens, or per hour of work without tokens."""
    if isinstance(variant, TraceVariant):
        return f"${numbers.band(variant.cost.usd_per_h)} an hour"
    return f"${numbers.band(variant.cpmt)} per million tokens"


def notes(result: Result) -> list[str]:
    """Effects of faults, and warnings."""
    return [*faults.hits(result), *warnings(result)]


def explain(result: Result) -> str:
    """Time shares of every variant's step, and what would help."""
    return "\n\n".join(_explain(variant) for variant in result.of(StepVariant))


def _explain(variant: StepVariant) -> str:
    lines = [f"{variant.name}: {numbers.seconds(variant.step.seconds)} a step", f"  {sentence(variant)}"]
    for part in sorted(variant.time, key=lambda part: -part.seconds)[:8]:
        where = " ".join(word for word in (part.group, part.phase) if word)
        figures = f"{numbers.percent(part.share):>7}  {numbers.seconds(part.seconds):>8}"
        lines.append(f"  {figures}  {part.cause}  {where}".rstrip())
    lost = variant.lockstep.gpu_seconds_lost_to_stragglers
    if lost > 0:
        lines.append(f"  lockstep: stragglers cost the others {numbers.short(lost)} GPU-seconds a step")
    lines.append(f"  {headline(variant)}")
    trials = variant.bottleneck.ranking[:4]
    lines += [f"  {trial.factor:g} x {trial.resource}: step {_changed(-trial.gain)}" for trial in trials]
    return "\n".join(lines)


def _changed(share: float) -> str:
    return numbers.percent(share) if abs(share) >= LEAST_SEEN else "as long"


def why(result: Result) -> str:
    """A few sentences: faults, cost of the networks, the best variant and its lead, and what would help it."""
    variants = result.of(StepVariant)
    best = best_variant(result)
    if len(variants) == 1:
        return " ".join(filter(None, (faults.opening(result), sentence(best), headline(best))))
    if unlike := believed.unlike(result):
        return unlike
    if any(one.utilization.tokens_per_s_per_gpu is None for one in variants):
        said = _fastest(result, best)
    else:
        said = _by_tokens(result, best)
    said = f"{believed.unexercised(result)}{said}{believed.bound(result)}"
    return " ".join(filter(None, (faults.opening(result), _taxed(result, best), said, headline(best))))


def _taxed(result: Result, best: StepVariant) -> str:
    """The networks' cost in the leading variant, and in the one with the largest."""
    worst = max(compared(result), key=lambda one: one.tax.tokens_lost)
    same = numbers.percent(best.tax.tokens_lost) == numbers.percent(worst.tax.tokens_lost)
    return sentence(best, best.name) if same else of_two(best, worst, _where(worst))


def compared(result: Result) -> list[StepVariant]:
    """Variants to compare: those that finished and can be bought, otherwise all."""
    names = () if result.verdict is None or result.verdict.leading is None else result.verdict.ranking
    return [one for one in result.of(StepVariant) if one.name in names and not faults.ended(one)] or list(
        result.of(StepVariant)
    )


def _by_tokens(result: Result, best: StepVariant) -> str:
    """Which variant gets the most tokens for its money, and why; ties are named."""
    variants, verdict = compared(result), result.verdict
    if verdict is not None and verdict.leading is None:
        least = f"{best.name} loses least of what can be bought, at {_price(best)}."
        return least if verdict.ranking else f"Nothing here can be bought: {best.name} is a bound."
    if len(variants) == 1:
        return f"{best.name} is the only variant that finishes and can be bought, at {_price(best)}."
    if not _same_machine(variants):
        return f"{_other_machines(variants)}{believed.ties(result)}"
    worst = min(variants, key=lambda one: (round(_rate(one) / _rate(best), 3), -_price_of(one)))
    if believed.all_tied(result):
        return believed.ties(result).strip()
    if worst.name in believed.peers(result) or worst is best:
        most = numbers.percent(_gain(variants, best))
        least = f"{best.name} costs least; none gets more than {most} more tokens out of a GPU."
        return f"{least}{believed.ties(result)}"
    return f"{_contrast(best, worst)}{believed.ties(result)}"


def _fastest(result: Result, best: StepVariant) -> str:
    """Which variant of work without tokens finishes first, and by how much."""
    variants = compared(result)
    if len(variants) == 1:
        return f"{best.name} is the only variant that can be bought."
    worst = min(variants, key=_rate)
    if believed.all_tied(result):
        return believed.ties(result).strip()
    saved = numbers.percent(1 - best.step.seconds / worst.step.seconds)
    return f"{best.name} takes {saved} less time than {worst.name}.{believed.ties(result)}"


def _same_machine(variants: Sequence[StepVariant]) -> bool:
    """Whether tokens per accelerator can be compared: the accelerators are the same."""
    keys = {key for variant in variants for key in variant.settings}
    return not any(key.rpartition(".")[2] == "server" or key.startswith("cluster.overrides") for key in keys)


def _other_machines(variants: Sequence[StepVariant]) -> str:
    """Comparison of different machines: the cost of a million tokens on each."""
    priced = [(cost, variant.name) for variant in variants if (cost := _cost(variant)) is not None]
    if len(priced) < len(variants):
        return "The variants are different machines, whose tokens per accelerator do not compare."
    (low, cheap), (high, dear) = min(priced), max(priced)
    return (
        f"The variants are different machines: a million tokens costs from ${numbers.short(low)} ({cheap})"
        f" to ${numbers.short(high)} ({dear})."
    )


def _cost(variant: StepVariant) -> float | None:
    return None if variant.cpmt is None else variant.cpmt.typical


def _price_of(variant: StepVariant) -> float:
    """Typical cost for comparisons; infinite if unknown."""
    cost = _cost(variant)
    return math.inf if cost is None else cost


def _rate(variant: StepVariant) -> float:
    """Tokens per accelerator and second; for work without tokens, completions per second."""
    rate = variant.utilization.tokens_per_s_per_gpu
    return float(1 / variant.step.seconds if rate is None else rate)


def _gain(variants: Sequence[StepVariant], other: StepVariant) -> float:
    """Lead of the best of some variants over another one, per accelerator."""
    return max(map(_rate, variants)) / _rate(other) - 1


def _where(variant: StepVariant) -> dict[str, str]:
    """Tiers between servers by the cause of waiting there.

    Contention is at the tier that trying found, where it is one, else at the most loaded. Bandwidth is at a tier only
    where trying found it: the most loaded tier may still be faster than the NICs.
    """
    known = {row.name for row in variant.network.tiers} | {variant.network.saturated_tier}
    known -= {SCALE_UP_TIER}
    name = variant.bottleneck.name
    found = (one for one in (name.removeprefix(CONTENTION), variant.network.saturated_tier) if one in known)
    contended = next(found, None)
    places = {"contention": contended, "bandwidth": name if name in known else None}
    return {cause: tier for cause, tier in places.items() if tier is not None}


def _contrast(best: StepVariant, worst: StepVariant) -> str:
    """How the two differ in tokens, or otherwise in dollars."""
    faster = _gain([best], worst)
    if faster < LEAST_SEEN:
        return f"{best.name} and {worst.name} take the same step{_cheaper(best, worst)}."
    return f"{best.name} gets {numbers.percent(faster)} more tokens out of a GPU than {worst.name}."


def _cheaper(best: StepVariant, worst: StepVariant) -> str:
    low, high = _price_of(best), _price_of(worst)
    return f"; a token costs {numbers.percent(1 - low / high)} less on {best.name}" if low < high < math.inf else ""


def best_variant(result: Result) -> StepVariant:
    """The variant that sentences and card describe: the leading one.

    If none leads, it is the one that loses least; if variants do different work, the first.
    """
    verdict = result.verdict
    if verdict is None or verdict.unlike:
        return result.of(StepVariant)[0]
    named = (verdict.leading, *verdict.ranking, verdict.bound)
    first = next((name for name in named if name), result.of(StepVariant)[0].name)
    return next(variant for variant in result.of(StepVariant) if variant.name == first)


def headline(variant: StepVariant) -> str:
    """The bottleneck search's answer for a variant."""
    return variant.bottleneck.headline


_LAYOUT_HEADINGS = ("layout", "step", "against the chosen", "memory of the fullest rank", "step is")


def _layout_title(variant: StepVariant, *, alone: bool) -> str:
    of = "" if alone else f"{variant.name}: "
    return f"{of}layouts by `auto`, the chosen one first"


def layout_rows(variant: StepVariant) -> list[tuple[str, ...]]:
    """A row per layout under `_LAYOUT_HEADINGS`; none if the layout was given."""
    if not isinstance(variant, TrainingVariant) or not variant.layouts:
        return []
    first = variant.layouts[0].step_seconds
    return [
        (
            row.layout.words,
            numbers.seconds(row.step_seconds),
            f"{100 * (row.step_seconds / first - 1):+.1f} %",
            f"{row.memory_bytes / 2**30:.1f} of {format_memory(row.capacity_bytes)}",
            "simulated" if row.simulated else "estimated",
        )
        for row in variant.layouts
    ]


def sheets(result: Result) -> Iterator[Sheet]:
    """The comparison, layouts that `auto` chose among, and background traffic; what faults cost stands first."""
    every = result.of(StepVariant)
    rows = [row(variant) for variant in every]
    if any(variant.fault_cost for variant in every):
        rows = [[name, faults.cell(variant), *cells] for variant, (name, *cells) in zip(every, rows, strict=True)]
        yield Sheet([HEADINGS[0], "lost to faults", *HEADINGS[1:]], rows, right=[column + 1 for column in RIGHT])
    else:
        yield Sheet(HEADINGS, rows, right=RIGHT)
    for variant in () if "runs" in result.scenario else every:  # kept runs were shown with theirs
        if lines := layout_rows(variant):
            yield Sheet(_LAYOUT_HEADINGS, lines, _layout_title(variant, alone=len(every) == 1), right=(1, 2, 3))
    if background := list(believed.rows(result)):
        yield Sheet(believed.HEADINGS, background, right=believed.RIGHT)


_MOST_PARTS = 8


def html(result: Result) -> str:
    """A row a variant with a bar, and where the step of the best one goes."""
    variants = result.of(StepVariant)[:MOST_VARIANTS]
    rows = "".join(_html_row(variant) for variant in variants)
    hidden = len(result.of(StepVariant)) - len(variants)
    more = f"<p>and {hidden} more: <code>run.table('variants')</code></p>" if hidden else ""
    head = html_head("variant", "network tax", "", "GPU utilization", "step", "tokens/s per GPU", "$/Mtoken")
    return f"<table>{head}{rows}</table>{more}{_html_parts(best_variant(result))}"


def _html_row(variant: StepVariant) -> str:
    lost, kept = variant.tax.tokens_lost, variant.tax.rest.get("compute", 0.0)
    title = escape(f"computing {numbers.percent(kept)}, lost to the scale-out network {numbers.percent(lost)}")
    blue, orange = f"<i style='width:{100 * kept:.1f}%'></i>", f"<b style='width:{100 * lost:.1f}%'></b>"
    bar = f"<span class='track' title='{title}'>{blue}{orange}</span>"
    cells = [
        escape(variant.name),
        numbers.percent(lost),
        bar,
        numbers.percent(variant.utilization.gpu),
        numbers.seconds(variant.step.seconds),
        numbers.short(variant.utilization.tokens_per_s_per_gpu),
        numbers.short(None if variant.cpmt is None else variant.cpmt.typical),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _html_parts(variant: StepVariant) -> str:
    parts = sorted(variant.time, key=lambda part: -part.seconds)[:_MOST_PARTS]
    rows = "".join(
        f"<tr><td>{escape(part.cause)}</td><td>{escape(part.group)}</td><td>{escape(part.phase)}</td>"
        f"<td>{numbers.seconds(part.seconds)}</td><td>{numbers.percent(part.share)}</td></tr>"
        for part in parts
    )
    head = html_head("cause", "group", "phase", "time", "share")
    summary = f"<summary>where the step of {escape(variant.name)} goes</summary>"
    return f"<details>{summary}<table>{head}{rows}</table></details>"


def _figures(variant: StepVariant) -> Iterable[Row]:
    low, typical, high = (None, None, None) if variant.cpmt is None else variant.cpmt.ends
    row = settings_row(variant) | {
        "step_s": variant.step.seconds,
        "network_tax": variant.tax.tokens_lost,
        "scale_up_tax": variant.tax.scale_up.tokens_lost,
        "gpu_utilization": variant.utilization.gpu,
        "mfu": variant.utilization.mfu,
        "tokens_per_s_per_gpu": variant.utilization.tokens_per_s_per_gpu,
        "jct_s": None if variant.jct is None else variant.jct.seconds,
        "cpmt_low_usd": low,
        "cpmt_usd": typical,
        "cpmt_high_usd": high,
        "bottleneck": variant.bottleneck.name,
    }
    shares: dict[str, float] = {}
    for part in variant.time:
        shares[f"share_{part.cause}"] = shares.get(f"share_{part.cause}", 0.0) + part.share
    return [row | shares]


def _tax(variant: StepVariant) -> Iterable[Row]:
    """A row for each part of the step: what each network takes, and what no network changes."""
    tax, rows = variant.tax, list[tuple[str | None, str, float]]()
    for network, lost in (("scale-out", tax), ("scale-up", tax.scale_up)):
        rows += [(network, cause, share) for cause, share in lost.exposed.items()]
        rows.append((network, "slowed kernels", lost.slowed_kernels))
    rows += [(None, cause, share) for cause, share in tax.rest.items()]
    return [{"network": network, "cause": cause, "share": share} for network, cause, share in rows]


def _ranks(variant: StepVariant) -> Iterable[Row]:
    busy = variant.utilization.per_rank
    return ({"index": index, "gpu_utilization": value} for index, value in enumerate(busy))


def _explained(found: Explanation, depth: int, quiet: bool) -> Iterator[str | Sheet]:
    return lines_of_step(found, sentence(found.variant), depth, quiet=quiet)


_TABLES = {
    "variants": ResultTable("one row a variant: the figures to compare", _figures),
    "tax": ResultTable("what each network takes of the step, by cause, and what no network changes", _tax),
    "time": ResultTable("where the step goes, by cause, communicator and phase", lambda one: plain_rows(one.time)),
    "ranks": ResultTable("GPU utilization of each rank (sampled beyond 4,096)", _ranks),
    "tiers": ResultTable("load of each tier of links", lambda one: plain_rows(one.network.tiers)),
    "links": ResultTable("the most loaded links", lambda one: plain_rows(one.network.hot_links)),
    "collectives": ResultTable(
        "each collective: size, algorithm, time alone and as it was", lambda one: plain_rows(one.collectives)
    ),
    "memory": ResultTable("memory of each pipeline stage", lambda one: plain_rows(one.memory.rows)),
    "power": ResultTable("watts by component", lambda one: plain_rows(one.power.components)),
    "capex": ResultTable("dollars by component", lambda one: plain_rows(one.capex.components)),
    "cpmt": ResultTable(
        "cost per million tokens by part", lambda one: plain_rows(() if one.cpmt is None else one.cpmt.breakdown)
    ),
    "bottleneck": ResultTable(
        "what each resource would bring if it were better", lambda one: plain_rows(one.bottleneck.ranking)
    ),
    "tasks": ResultTable(
        "every task of the step with its start and end (from timeline.parquet)", file="timeline.parquet"
    ),
}
PRESENTATION = presentations.add(
    "training",
    Presentation(sheets, why, explain, card, notes=notes, html=html, tables=_TABLES, explained=_explained),
)
