"""Text about causes of a time, spreads, bytes, and faults in a result: their cost per variant, and what they hit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.variants import StepVariant
from railyard.work.study.deaths import listed, span
from railyard.work.study.presentation import ResultTable, Sheet, nested_columns, settings_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from railyard.measure.result.distributed import CauseRow, SpreadRow
    from railyard.measure.result.network import FaultCost, FaultFigures
    from railyard.measure.result.reading import Result, Variant
    from railyard.work.study.presentation import Row


_LEAST_SEEN = 0.0005
"""Smaller shares would be printed as 0.0 %."""


def ended(variant: StepVariant) -> bool:
    """Whether a fault ended its job."""
    return variant.outcome != "finished"


def lost_s(variant: StepVariant) -> float:
    """Time that faults take from its job once, s."""
    return sum(fault.lost_s for fault in variant.faults or ())


def cell(variant: StepVariant) -> str:
    """Cost of faults to a variant: `9.1 % of tokens, step +200 ms, +$0.12/Mtoken`, behind `died:` where its job did."""
    cost = variant.fault_cost
    said = "nothing" if cost is None or _grown(variant) < _LEAST_SEEN else ", ".join(_parts(cost))
    return f"{variant.outcome}: {said}" if ended(variant) else said


def _parts(cost: FaultCost) -> Iterator[str]:
    if cost.tokens_lost is not None:
        yield f"{numbers.percent(cost.tokens_lost)} of tokens"
    yield f"step +{numbers.seconds(cost.step_s)}"
    if cost.cpmt_usd is not None:
        yield f"+{numbers.dollars(cost.cpmt_usd)}/Mtoken"


def opening(result: Result) -> str:
    """First sentence of a result with faults: which jobs die, or how much longer steps are; else empty."""
    faulty = [
        one for one in result.of(StepVariant) if one.fault_cost and not (one.bound and len(result.of(StepVariant)) > 1)
    ]
    if not faulty:
        return ""
    dead = [variant for variant in faulty if ended(variant)]
    if len(result.of(StepVariant)) == 1:
        return f"{_died(faulty[0]) if dead else _slowed(faulty[0])}{_dearer(faulty[0])}"
    if dead:
        return _some_died(dead, _everybody(result, dead))
    return _all_finished(faulty)


def _everybody(result: Result, dead: Sequence[StepVariant]) -> str:
    """`every variant: ` if all die, `every variant that can be bought: ` if only a bound survives; else empty."""
    if len(dead) < sum(not variant.bound for variant in result.of(StepVariant)):
        return ""
    return "every variant: " if len(dead) == len(result.of(StepVariant)) else "every variant that can be bought: "


def _died(variant: StepVariant) -> str:
    fault = max((one for one in variant.faults or () if one.outcome in _ENDS), key=lambda one: one.lost_s)
    part = max(fault.parts, key=lambda one: one.seconds)
    job = "" if variant.jct is None else f" of a job of {span(variant.jct.seconds)}"
    return (
        f"The job {_DOES[variant.outcome]}: {fault.what} at {span(fault.at_s)} ends it, and"
        f" {span(lost_s(variant))}{job} are lost, {span(part.seconds)} of it {part.cause}."
    )


_ENDS = ("aborted", "stalled")
_DOES = {"died": "dies", "stalled": "stalls"}


def _slowed(variant: StepVariant) -> str:
    """`The step takes 112 ms with degrade-link: ... at 45 % and 96 ms without it, 16.7 % longer`."""
    now_s, grown = variant.step.seconds, _grown(variant)
    cost = _cost(variant)
    it = "them" if " and " in cost.what else "it"
    if grown < _LEAST_SEEN:
        return f"The step takes {numbers.seconds(now_s)} with and without {cost.what}{_once(variant)}."
    lost = "" if cost.tokens_lost is None else f": {numbers.percent(cost.tokens_lost)} of the tokens are lost to {it}"
    return (
        f"The step takes {numbers.seconds(now_s)} with {cost.what} and {numbers.seconds(now_s - cost.step_s)} without"
        f" {it}, {numbers.percent(grown)} longer{lost}{_once(variant)}."
    )


def _cost(variant: StepVariant) -> FaultCost:
    if variant.fault_cost is None:
        raise ValueError(f"{variant.name} has no faults")
    return variant.fault_cost


def _grown(variant: StepVariant) -> float:
    """Growth of a mean step by faults, as a share of the one without them."""
    more_s = _cost(variant).step_s
    return more_s / (variant.step.seconds - more_s)


def _dearer(variant: StepVariant) -> str:
    """` A million tokens costs $0.0067 more because of it, and the job $670`."""
    cost = _cost(variant)
    if cost.cpmt_usd is None or _grown(variant) < _LEAST_SEEN:
        return ""
    job = "" if cost.job_usd is None else f", the job {numbers.dollars(cost.job_usd)}"
    return f" A million tokens costs {numbers.dollars(cost.cpmt_usd)} more because of it{job}."


def _once(variant: StepVariant) -> str:
    """One-off losses, if they exceed a step."""
    lost = lost_s(variant)
    return f"; {span(lost)} of the job are lost once" if lost > variant.step.seconds else ""


def _some_died(dead: Sequence[StepVariant], everybody: str) -> str:
    """`The job dies on roce, uec (switch-down: spine 0), and loses 1.34 d`."""
    whats = [listed(one.what for one in variant.faults or () if one.outcome in _ENDS) for variant in dead]
    if len(set(whats)) == 1:
        named = f"{', '.join(quoted(variant.name) for variant in dead)} ({whats[0]})"
    else:
        named = ", ".join(f"{quoted(variant.name)} ({what})" for variant, what in zip(dead, whats, strict=True))
    where = f"{everybody}{named}"
    does = "stalls" if all(variant.outcome == "stalled" for variant in dead) else "dies"
    most, least = max(map(lost_s, dead)), min(map(lost_s, dead))
    lost = span(least)
    lost = lost if lost == span(most) else f"{lost} to {span(most)}"
    return f"The job {does} on {where}, and loses {lost}."


def _all_finished(faulty: Sequence[StepVariant]) -> str:
    """`degrade-link: ... makes a step 0.4 % (uec) to 12 % (roce) longer`."""
    grown = sorted((_grown(one), one.name) for one in faulty)
    whats = {_cost(one).what for one in faulty}
    what = whats.pop() if len(whats) == 1 else "The faults of each variant"
    verb = "make" if what.startswith("The faults") or " and " in what else "makes"
    (least, low), (most, high) = grown[0], grown[-1]
    if most < _LEAST_SEEN:
        return f"{what} {verb} no variant's step longer."
    return f"{what} {verb} a step {numbers.percent(least)} ({low}) to {numbers.percent(most)} ({high}) longer."


def hits(result: Result) -> list[str]:
    """A line for every fault with the affected links of each variant and their share; a warning if these differ."""
    lines = []
    products = [variant for variant in result.of(StepVariant) if not variant.bound] or list(result.of(StepVariant))
    for what in dict.fromkeys(fault.what for variant in products for fault in variant.faults or ()):
        found = [
            (one.name, fault) for one in products for fault in one.faults or () if fault.what == what and fault.tiers
        ]
        by_hit: dict[str, list[str]] = {}
        for name, fault in found:
            by_hit.setdefault(_hit(fault), []).append(name)
        if by_hit:
            lines.append(f"fault: {what} hits {'; '.join(_on(by_hit, len(products)))}")
        if len(by_hit) > 1:
            shares = {tuple(numbers.percent(row.share) for row in fault.tiers) for _, fault in found}
            differ = "shares of the tier" if len(shares) > 1 else "numbers of links, though not their shares,"
            lines.append(f"warning: {what} does not hit these networks alike: {differ} differ, see above")
    return lines


def _hit(fault: FaultFigures) -> str:
    """`1 of 96 links of leaf-spine (1.0 %)`, by tier."""
    return ", ".join(
        f"{row.links:,} of {row.of:,} links of {row.tier} ({numbers.percent(row.share)})" for row in fault.tiers
    )


def _on(by_hit: dict[str, list[str]], everybody: int) -> Iterator[str]:
    for hit, names in by_hit.items():
        variants = "every variant" if len(names) == everybody > 1 else ", ".join(names)
        yield hit if everybody == 1 else f"{hit} on {variants}"


_LEAST_SHARE = 0.005
DETAILED = 2
"""Maximum number of variants for which groups, sites and exchanges are also shown."""


def two_words(spread: SpreadRow) -> str:
    """`12.3 s / 45.6 s`: median and 99th percentile."""
    return f"{numbers.seconds(spread.p50)} / {numbers.seconds(spread.p99)}"


def matrix(title: str, rows: Sequence[tuple[str, Sequence[CauseRow]]]) -> Sheet:
    """Seconds by cause, one row each; causes that are never more than 0.5 % are left out."""
    most: dict[str, float] = {}
    for _, causes in rows:
        for cause in causes:
            most[cause.name] = max(most.get(cause.name, 0.0), abs(cause.share))
    names = [name for name in sorted(most, key=lambda name: -most[name]) if most[name] >= _LEAST_SHARE]
    cells = []
    for name, causes in rows:
        known = {cause.name: cause.seconds for cause in causes}
        cells.append((name, *(numbers.seconds(known[cause]) if cause in known else "" for cause in names)))
    return Sheet((title, *names), cells)


def size_words(size_bytes: float) -> str:
    """Bytes in a suitable unit, three digits."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= scale:
            return f"{numbers.short(size_bytes / scale)} {unit}"
    return f"{numbers.short(size_bytes)} B"


def causes_words(rows: Sequence[CauseRow]) -> str:
    """`uplink 12.3 s, stragglers: uplink 4.5 s`; causes below 0.5 % are left out."""
    seen = [f"{row.name} {numbers.seconds(row.seconds)}" for row in rows if abs(row.share) >= _LEAST_SHARE]
    return ", ".join(seen)


def first_words(causes: Sequence[CauseRow], unit: str) -> str:
    """`most of a round is uplink, 61.2 %`."""
    most = max(causes, key=lambda row: row.seconds)
    return f"most of a {unit} is {most.name}, {numbers.percent(most.share)}"


def card_of(result: Result, report: Path | None, lines: Sequence[str]) -> str:
    """One line per variant, and the path of the report."""
    many = len(result.variants)
    head = f"{result.name}: {many} variant{'s' if many > 1 else ''}"
    named = [f"{one.name}: {line}" for one, line in zip(result.variants, lines, strict=True)]
    return "\n".join([head, *named, f"report      {report if report is not None else 'not written'}"])


def _plain_rows(rows: Iterable[Row]) -> list[Row]:
    found = (nested_columns(row) for row in rows)
    return [{key: value for key, value in row.items() if not isinstance(value, list | tuple)} for row in found]


def _causes(variant: Variant) -> list[Row]:
    found = variant[variant.kind]
    rows = [{"place": row["name"]} | cause for row in found.get("places", ()) for cause in row["causes"]]
    return rows or list(found["causes"])


def tables_of(name: str, about: str, rows: Callable[[Any], Iterable[Row]]) -> dict[str, ResultTable]:
    """Tables of distributed work: its figures, the causes of its time, and one more.

    Args:
        name: Of the further table.
        about: Its contents.
        rows: Its rows, given the figures of a variant.
    """
    return {
        "variants": ResultTable(
            "one row a variant: the figures to compare",
            lambda one: [settings_row(one) | row for row in _plain_rows([one[one.kind]])],
        ),
        "time": ResultTable("where the time goes, by cause", _causes),
        name: ResultTable(about, lambda one: _plain_rows(rows(one[one.kind]))),
    }
