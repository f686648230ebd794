"""Tables of a result on steps, a card of eight lines, and an explanation; its sentences are in `conclusion.py`."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from railyard.kit.quantities import format_memory
from railyard.measure import numbers
from railyard.measure.result.variants import StepVariant, TrainingVariant
from railyard.work.study import believed
from railyard.work.study import result_words as faults
from railyard.work.study.memo import warnings
from railyard.work.study.presentation import (
    MOST_VARIANTS,
    Presentation,
    ResultTable,
    Sheet,
    html_head,
    plain_rows,
    presentations,
    settings_row,
)
from railyard.work.training.conclusion import (
    LEAST_SEEN,
    best_variant,
    memo_of_step,
    price,
    tax_cell,
    tax_error,
    tax_sentence,
    verdict,
    why,
)
from railyard.work.training.explain_words import lines_of_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.work.study.presentation import ExplainDepth, Row
    from railyard.work.training.explain import Explanation

    Column = tuple[str, Callable[[StepVariant], str]]


def _other_waits(variant: StepVariant) -> str:
    """`bubble 9.1 %, straggler 0.2 %`: losses other than computation that no network changes."""
    rest = variant.tax.rest.items()
    waits = [(cause, share) for cause, share in rest if cause != "compute" and share >= LEAST_SEEN]
    return ", ".join(f"{cause} {numbers.percent(share)}" for cause, share in waits) or "none"


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


_NAME: Column = ("variant", lambda one: one.name)
_STEP: Column = ("step", lambda one: numbers.seconds(one.step.seconds))
_TAX: Column = ("network tax", lambda one: numbers.percent(one.tax.tokens_lost))
_PRICE: Column = ("$/Mtoken (low to high)", lambda one: numbers.with_range(one.cpmt))
_COMPARED: Sequence[Column] = (
    _NAME,
    _STEP,
    _TAX,
    ("scale-up tax", lambda one: numbers.percent(one.tax.scale_up.tokens_lost)),
    ("MFU", lambda one: numbers.percent(one.utilization.mfu)),
    ("tokens/s/GPU", lambda one: numbers.short(one.utilization.tokens_per_s_per_gpu)),
    ("JCT", lambda one: numbers.seconds(None if one.jct is None else one.jct.seconds)),
    _PRICE,
)
_FAULTY: Sequence[Column] = (_NAME, ("lost to faults", faults.cell), _STEP, _TAX, _PRICE)
"""Columns where the scenario has faults."""
_DETAILS: Sequence[Column] = (
    _NAME,
    ("step of each seed", step_words),
    ("model error", believed.step_band),
    ("network tax by cause", lambda one: tax_cell(one.tax)),
    ("scale-up tax by cause", lambda one: tax_cell(one.tax.scale_up)),
    ("other waits", _other_waits),
    ("GPU utilization", lambda one: numbers.percent(one.utilization.gpu)),
    ("power", lambda one: numbers.power(one.power.total_w.typical)),
    ("capital", lambda one: numbers.dollars(one.capex.total_usd.typical)),
    ("switch ports used", ports_words),
    ("bottleneck", lambda one: one.bottleneck.name),
)


def card(result: Result, report: Path | None) -> str:
    """Eight lines on a run."""
    best = best_variant(result)
    variants = result.of(StepVariant)
    title = believed.title(result, "step")
    lines = [
        f"{result.name}: {len(variants)} variant{'s' if len(variants) > 1 else ''}, engine {result.provenance.engine}",
        f"{title:<12}{best.name}: step {numbers.seconds(best.step.seconds)}, GPU utilization "
        f"{numbers.percent(best.utilization.gpu)}, MFU {numbers.percent(best.utilization.mfu)}",
        f"network tax {tax_cell(best.tax)}{tax_error(best)}; scale-up tax {tax_cell(best.tax.scale_up)}",
        *believed.lines(best),
        f"other waits {_other_waits(best)}",
        f"cost        {price(best)}, "
        f"capex {numbers.dollars(best.capex.total_usd.typical)}, "
        f"{numbers.power(best.power.total_w.typical)}",
        f"bottleneck  {best.bottleneck.headline}",
        f"report      {report if report is not None else 'not written'}",
    ]
    return "\n".join(lines)


def notes(result: Result) -> list[str]:
    """Effects of faults, and warnings."""
    return [*faults.hits(result), *warnings(result)]


def explain(result: Result) -> str:
    """Time shares of every variant's step, and what would help."""
    return "\n\n".join(_explain(variant) for variant in result.of(StepVariant))


def _explain(variant: StepVariant) -> str:
    lines = [f"{variant.name}: {numbers.seconds(variant.step.seconds)} a step", f"  {tax_sentence(variant)}"]
    for part in sorted(variant.time, key=lambda part: -part.seconds)[:8]:
        where = " ".join(word for word in (part.group, part.phase) if word)
        figures = f"{numbers.percent(part.share):>7}  {numbers.seconds(part.seconds):>8}"
        lines.append(f"  {figures}  {part.cause}  {where}".rstrip())
    lost = variant.lockstep.gpu_seconds_lost_to_stragglers
    if lost > 0:
        lines.append(f"  lockstep: stragglers cost the others {numbers.short(lost)} GPU-seconds a step")
    lines.append(f"  {variant.bottleneck.headline}")
    trials = variant.bottleneck.ranking[:4]
    lines += [f"  {trial.factor:g} x {trial.resource}: step {_changed(-trial.gain)}" for trial in trials]
    return "\n".join(lines)


def _changed(share: float) -> str:
    return numbers.percent(share) if abs(share) >= LEAST_SEEN else "as long"


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
    """The comparison, with what faults cost where there are any, and background traffic."""
    every = result.of(StepVariant)
    if any(variant.fault_cost for variant in every):
        yield Sheet.of(_FAULTY, every, right=(2, 3, 4))
    else:
        yield Sheet.of(_COMPARED, every)
    if background := list(believed.rows(result)):
        yield Sheet(believed.HEADINGS, background, right=believed.RIGHT)


def details(result: Result) -> Iterator[Sheet]:
    """Bands, causes, parts of the cluster, and the layouts that `auto` chose among."""
    every = result.of(StepVariant)
    if any(variant.fault_cost for variant in every):
        yield Sheet.of(_COMPARED, every)
    yield Sheet.of(_DETAILS, every, right=(1, 6, 7, 8))
    trained = [one for one in every if isinstance(one, TrainingVariant)]
    if trained:
        yield Sheet(("variant", "layout to paste below `training`"), [(one.name, _written(one)) for one in trained])
    for variant in () if "runs" in result.scenario else every:  # kept runs were shown with theirs
        if lines := layout_rows(variant):
            yield Sheet(_LAYOUT_HEADINGS, lines, _layout_title(variant, alone=len(every) == 1), right=(1, 2, 3))


def _written(variant: TrainingVariant) -> str:
    """The layout as a scenario writes it, `parallelism: {tp: 4, pp: 2}`."""
    kept = {key: value for key, value in variant.layout.parallelism.items() if value not in (None, ())}
    return f"parallelism: {json.dumps(kept).replace(chr(34), '')}"


_MOST_PARTS = 8


def html(result: Result) -> str:
    """One row per variant with a bar, and where the step of the best one goes."""
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


def _explained(found: Explanation, depth: ExplainDepth) -> Iterator[str | Sheet]:
    return lines_of_step(found, tax_sentence(found.variant), depth)


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
    Presentation(
        verdict, sheets, why, card, explain, details=details, notes=notes, html=html, tables=_TABLES,
        explained=_explained, memo=memo_of_step,
    ),
)  # fmt: skip
