"""What a result on steps says, in sentences: the answer first, then the reasons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from railyard.kit.prose import quoted, several
from railyard.measure import numbers
from railyard.measure.bottleneck import CONTENTION, NOT_TRIED, SCALE_UP_TIER
from railyard.measure.result.section import KeyFigure
from railyard.measure.result.variants import StepVariant, TrainingVariant
from railyard.work.study import believed
from railyard.work.study import result_words as faults
from railyard.work.study.memo import LossChart, cost_figure
from railyard.work.study.purchase import decided, price_table, ranked, recommended
from railyard.work.training.likely import chosen_keys, chosen_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.measure.result.reading import Result
    from railyard.measure.result.step import TaxShares
    from railyard.work.study.memo import DecisionMemo

LEAST_SEEN = 0.0005
"""Smaller shares would be printed as 0.0 %."""
_WORTH_A_WORD = 0.01
"""Lead in tokens of a variant that costs more, from which on it is named."""


def verdict(result: Result) -> str:
    """The answer in a sentence: what to take or how long a step is, what it costs, and the band."""
    variants, best = result.of(StepVariant), best_variant(result)
    if len(variants) == 1:
        return faults.opening(result) or _alone(best)
    if unlike := believed.unlike(result):
        return unlike
    if any(map(faults.ended, variants)):
        return faults.opening(result)
    if result.verdict is not None and result.verdict.leading is None:
        return f"Nothing here can be bought: {quoted(best.name)} is a bound."
    return _alone(best, best.name) if len(compared(result)) == 1 else _larger(result) or _leads(result, best)


def why(result: Result) -> list[str]:
    """Reasons for the verdict, a sentence each: cost of the networks, differences, what would help."""
    variants, best = result.of(StepVariant), best_variant(result)
    if len(variants) == 1:
        with_faults = _alone(best) if faults.opening(result) else ""
        layout = layout_sentence(result, best)
        return list(filter(None, (with_faults, tax_sentence(best), layout, best.bottleneck.headline)))
    if believed.unlike(result):
        return []
    said = [
        _survivor(result, best) if any(map(faults.ended, variants)) else faults.opening(result),
        _taxed(result, best),
        believed.unexercised(result),
        believed.ties(result),
        believed.same(result),
        _more_tokens(result, best),
        believed.bound(result),
        layout_sentence(result, best, best.name),
        best.bottleneck.headline,
    ]
    return list(filter(None, said))


def _alone(variant: StepVariant, name: str = "") -> str:
    """`A step takes 1.58 s (1.52 to 2.31 s): 10,400 tokens/s per GPU, $0.0694 per million tokens`, as a sentence."""
    band = believed.band_of(variant, "step_s")
    within = "" if band == numbers.NOT_APPLICABLE else f" ({band})"
    rate = variant.utilization.tokens_per_s_per_gpu
    parts = [] if rate is None else [f"{numbers.short(rate)} tokens/s per GPU"]
    takes = f"A step{f' on {quoted(name)}' if name else ''} takes {numbers.seconds(variant.step.seconds)}{within}"
    return f"{takes}: {', '.join([*parts, price(variant)])}."


def _leads(result: Result, best: StepVariant) -> str:
    """`uec and infiniband are equal within error at $0.583 per million tokens; roce costs 2.9 % more`."""
    names, by = believed.equals(result, best.name), _by(result)
    at = price(best) if by == "cpmt" else f"{numbers.seconds(best.step.seconds)} a step"
    if len(names) == 1 and believed.peers(result):
        every = several([best.name, *believed.peers(result)])
        return f"{every} give the same answer: {at}{_others(result, by)}."
    if len(names) == 1:
        first = f"{quoted(best.name)} {'costs least' if by == 'cpmt' else 'is fastest'}: {at}"
        return f"{first}{_others(result, by)}."
    who, lead = several(names), "cheapest" if by == "cpmt" else "fastest"
    last = f", {lead} {quoted(best.name)}" if quoted(best.name) not in who else ""
    if believed.undecided(result):
        within = f"{_span(result, names, by)}{last}; {believed.largest_error(result)} is larger than the difference"
        return f"{who} cannot be distinguished: {within}{_others(result, by)}."
    return f"{who} are equal within error at {at}{last}{_others(result, by)}."


def _larger(result: Result) -> str:
    """The step of the largest cluster against that of the smallest, where variants differ in nothing else."""
    found = compared(result)
    keys = {key for one in found for key in one.settings}
    if keys not in ({"accelerators"}, {"cluster.accelerators"}):
        return ""
    sizes: list[Any] = [next(iter(one.settings.values())) for one in found]
    small, large = (found[sizes.index(pick(sizes))] for pick in (min, max))
    faster = numbers.short(small.step.seconds / large.step.seconds)
    took, takes = numbers.seconds(small.step.seconds), numbers.seconds(large.step.seconds)
    money = f", at {price(large)} against {price(small)}" if _by(result) == "cpmt" else ""
    return (
        f"{quoted(large.name)} is {faster} times as fast as {quoted(small.name)}, {takes} against {took} a step{money}."
    )


def _span(result: Result, names: Sequence[str], by: str) -> str:
    """`$0.361 to $0.492 per million tokens`: the figure of the best and of the worst."""
    found = [one for one in result.of(StepVariant) if one.name in names]
    if by == "cpmt":
        return " to ".join(numbers.dollars(pick(map(_dollars, found))) for pick in (min, max)) + " per million tokens"
    low, high = (numbers.seconds(pick(one.step.seconds for one in found)) for pick in (min, max))
    return f"{numbers.pair(low, high, 'to')} a step"


def _by(result: Result) -> str:
    return "step_s" if result.verdict is None else result.verdict.by


def _others(result: Result, by: str) -> str:
    """`; roce costs 2.9 % more`, or the range of several; empty if there are no others."""
    alive = {one.name for one in compared(result)}
    found = () if result.verdict is None else result.verdict.differences
    rows = [row for row in found if not row.tied and row.variant in alive]
    if not rows:
        return ""
    least, most = (pick(row.difference for row in rows) for pick in (min, max))
    low, high = (numbers.more(share) for share in (least, most))
    unit = " % more" if most < 1.0 else " times as much" if least >= 1.0 else ""
    amount = high if low == high else f"{low.removesuffix(unit) if unit else low} to {high}"
    who = quoted(rows[0].variant) if len(rows) == 1 else "the others"
    does = ("costs" if by == "cpmt" else "takes") if len(rows) == 1 else ("cost" if by == "cpmt" else "take")
    return f"; {who} {does} {amount if by == 'cpmt' else amount.replace('more', 'longer').replace('much', 'long')}"


def price(variant: StepVariant) -> str:
    """`$0.583 per million tokens (0.304 to 1.04)`, or per hour of work without tokens."""
    costs, of = variant.paid
    if costs is None:
        return "no known price"
    low, typical, high = map(numbers.short, costs.ends)
    return f"${typical} per {of.partition(' ')[2]} ({low} to {high})"


def _survivor(result: Result, best: StepVariant) -> str:
    """What remains where jobs died."""
    chosen = result.verdict
    if chosen is not None and chosen.leading is None:
        if not chosen.ranking:
            return ""
        alike = chosen.differences and all(abs(row.difference) <= row.band for row in chosen.differences)
        how = (
            "All that can be bought cost the same within error"
            if alike
            else f"{quoted(best.name)} loses least of what can be bought"
        )
        return f"{how}: {price(best)}."
    if len(compared(result)) == 1:
        return f"{quoted(best.name)} is the only variant that finishes and can be bought: {price(best)}."
    return _leads(result, best)


def tax_cell(shares: TaxShares, where: Mapping[str, str] | None = None) -> str:
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


def tax_error(variant: StepVariant) -> str:
    """`, 7.9 to 12.9 % within the model's error`; empty if nothing was validated, or nothing is lost."""
    band = believed.band_of(variant, "network_tax")
    known = band != numbers.NOT_APPLICABLE and variant.tax.tokens_lost >= LEAST_SEEN
    return f", {band} within the model's error" if known else ""


def tax_sentence(variant: StepVariant, name: str = "") -> str:
    """What the networks cost a variant."""
    tax, what = variant.tax, _what(variant)
    whose = f"of the {what} of {quoted(name)}" if name else f"of the {what}"
    return (
        f"The scale-out network costs {tax_cell(tax)} {whose}{tax_error(variant)};"
        f" scale-up networks cost {tax_cell(tax.scale_up)}."
    )


def _taxed(result: Result, best: StepVariant) -> str:
    """What the networks cost the leading variant, and the one that loses most to them."""
    if layouts := _layouts(result):
        return f"{tax_sentence(best, best.name)} {layouts}"
    worst = max(compared(result), key=lambda one: one.tax.tokens_lost)
    if numbers.percent(best.tax.tokens_lost) == numbers.percent(worst.tax.tokens_lost):
        return tax_sentence(best, best.name)
    inside = [numbers.percent(one.tax.scale_up.tokens_lost) for one in (best, worst)]
    to_both = inside[0] if inside[0] == inside[1] else f"{inside[0]} and {inside[1]}"
    return (
        f"The scale-out network costs {quoted(best.name)} {tax_cell(best.tax)} of its {_what(best)} and"
        f" {quoted(worst.name)} {tax_cell(worst.tax, _where(worst))}{tax_error(worst)};"
        f" scale-up networks cost {to_both}."
    )


def _layouts(result: Result) -> str:
    """A sentence on the layouts that `auto` chose, and how the first two differ; empty if it chose at most one."""
    chosen = [one for one in compared(result) if isinstance(one, TrainingVariant) and one.layouts]
    other = next((one for one in chosen if one.layout != chosen[0].layout), None)
    if other is None:
        return ""
    mine, theirs = (one.layout.parallelism for one in (chosen[0], other))
    key = next(key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key))
    name = key.upper() if len(key) == _SIZE else key.replace("_", "-")
    runs = [f"{name} {keys.get(key, 'none')}" for keys in (mine, theirs)]
    return (
        f"{quoted(chosen[0].name)} runs {runs[0]}, {quoted(other.name)} {runs[1]}: compare their steps and dollars."
        " Network taxes compare on one layout only."
    )


_SIZE = 2
"""Letters of a size of a layout: TP, DP."""


def _what(variant: StepVariant) -> str:
    return "time" if variant.utilization.tokens_per_s_per_gpu is None else "tokens"


def compared(result: Result) -> list[StepVariant]:
    """Variants to compare: those that finished and can be bought, otherwise all."""
    names = () if result.verdict is None or result.verdict.leading is None else result.verdict.ranking
    return [one for one in result.of(StepVariant) if one.name in names and not faults.ended(one)] or list(
        result.of(StepVariant)
    )


def _more_tokens(result: Result, best: StepVariant) -> str:
    """How the leading variant and the slowest one differ in tokens, where that says more than their price."""
    variants = compared(result)
    alone = len(variants) == 1 or (result.verdict is not None and result.verdict.leading is None)
    if alone or best.utilization.tokens_per_s_per_gpu is None or believed.all_tied(result):
        return ""
    if not _same_machine(variants):
        return "The variants are different machines: compare dollars, not tokens per GPU."
    most = max(map(_rate, variants)) / _rate(best) - 1
    if most >= _WORTH_A_WORD:
        return f"None gets more than {numbers.percent(most)} more tokens out of a GPU than {quoted(best.name)}."
    worst = min(variants, key=lambda one: (round(_rate(one) / _rate(best), 3), -_dollars(one)))
    faster = _rate(best) / _rate(worst) - 1
    if worst.name in believed.peers(result) or worst is best:
        return ""
    if faster < LEAST_SEEN:
        return f"{quoted(best.name)} and {quoted(worst.name)} take the same step."
    return f"{quoted(best.name)} gets {numbers.percent(faster)} more tokens out of a GPU than {quoted(worst.name)}."


def _same_machine(variants: Sequence[StepVariant]) -> bool:
    """Whether tokens per accelerator can be compared: the accelerators are the same."""
    keys = {key for variant in variants for key in variant.settings}
    return not any(key.rpartition(".")[2] == "server" or key.startswith("cluster.overrides") for key in keys)


def _dollars(variant: StepVariant) -> float:
    """Typical cost of a million tokens; infinite if unknown."""
    return math.inf if variant.cpmt is None else variant.cpmt.typical


def _rate(variant: StepVariant) -> float:
    """Tokens per accelerator and second; for work without tokens, completions per second."""
    rate = variant.utilization.tokens_per_s_per_gpu
    return float(1 / variant.step.seconds if rate is None else rate)


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


def best_variant(result: Result) -> StepVariant:
    """The variant that sentences and card describe: the leading one.

    If none leads, it is the one that loses least; if variants do different work, the first.
    """
    chosen = result.verdict
    if chosen is None or chosen.unlike:
        return result.of(StepVariant)[0]
    named = (chosen.leading, *chosen.ranking, chosen.bound)
    first = next((name for name in named if name), result.of(StepVariant)[0].name)
    return next(variant for variant in result.of(StepVariant) if variant.name == first)


def layout_sentence(result: Result, variant: StepVariant, name: str = "") -> str:
    """`Layout: TP 1 PP 1 DP 64, fastest of 6; the next takes 0.3 % longer.`; empty if the whole layout was given."""
    if not isinstance(variant, TrainingVariant):
        return ""
    rows, of = variant.layouts, f" of {quoted(name)}" if name else ""
    if not rows:
        chosen = chosen_keys(result, variant)
        vp: Any = variant.layout.parallelism["vp"]
        words = chosen_words(variant.layout.words, vp, chosen).replace("Layout", f"Layout{of}", 1)
        return f"{words}." if chosen else ""
    first, *others = rows
    fastest = min(rows, key=lambda row: row.step_seconds)
    shorter = 1 - fastest.step_seconds / first.step_seconds
    if shorter >= LEAST_SEEN:
        return (
            f"Layout{of}: {first.layout.words}, the surest of {len(rows)} by your own runs. {fastest.layout.words} is"
            f" predicted {numbers.percent(shorter)} shorter, but is less like them."
        )
    longer = others[0].step_seconds / first.step_seconds - 1 if others else 0.0
    slower = f"takes {numbers.percent(longer)} longer" if longer >= LEAST_SEEN else "is as fast"
    after = f"; the next {slower}" if others else ""
    return f"Layout{of}: {first.layout.words}, the fastest of {len(rows)} that `auto` compared{after}."


def memo_of_step(result: Result) -> DecisionMemo:
    """The page for a decision: price, step and network tax of the leading variant, and the losses of all."""
    variants, bought = ranked(result, result.of(StepVariant)), recommended(result)
    best = next((one for one in variants if one.name == bought), best_variant(result))
    step, tax, (cost, of) = best.step.seconds, best.tax.tokens_lost, best.paid
    figures = [
        cost_figure(f"Cost of {of}", cost),
        KeyFigure("Step", numbers.seconds(step), _known(believed.band_of(best, "step_s"))),
        KeyFigure("Scale-out network tax", numbers.percent(tax), _known(believed.band_of(best, "network_tax"))),
    ]
    found = result.verdict
    shown = [one for one in variants if not one.bound] or list(variants)
    bounds = [one for one in variants if found is not None and not found.unlike and one.name == found.bound]
    bound = next((one for one in bounds if getattr(one, "layout", None) == getattr(best, "layout", None)), None)
    chart = LossChart.of(
        "Time lost by cause, % of the step",
        " %",
        {one.name: losses(one) for one in shown},
        None if bound is None or len(shown) == len(variants) else sum(losses(bound).values()),
        "" if bound is None else f"{bound.name}, a crossbar that blocks nothing",
        best_first=found is not None and bool(found.ranking),
    )
    table = price_table(shown, "step", lambda one: numbers.seconds(one.step.seconds))
    changes = [*_changes(best), _layouts(result)]
    return decided(result, best, verdict(result), figures=figures, chart=chart, changes=changes, table=table)


def _known(band: str) -> str:
    return "" if band == numbers.NOT_APPLICABLE else band


def losses(variant: StepVariant) -> dict[str, float]:
    """Percent of the step by cause: networks, then waits that no network changes."""
    tax = variant.tax
    parts = {f"scale-out {cause}": share for cause, share in tax.exposed.items()}
    parts["kernels slowed by scale-out"] = tax.slowed_kernels
    parts |= {f"scale-up {cause}": share for cause, share in tax.scale_up.exposed.items()}
    parts["kernels slowed by scale-up"] = tax.scale_up.slowed_kernels
    parts |= {cause: share for cause, share in tax.rest.items() if cause != "compute"}
    return {cause: 100 * share for cause, share in parts.items() if share >= LEAST_SEEN}


_MOST_CHANGES = 3


def _changes(variant: StepVariant) -> list[str]:
    """Remedies that lower the cost of a token most."""
    rows = [row for row in variant.bottleneck.changes or () if not row.bound and (row.cpmt_gain or 0.0) >= LEAST_SEEN]
    rows.sort(key=lambda row: -(row.cpmt_gain or 0.0))
    said = [
        f"{row.name[:1].upper()}{row.name[1:]} lowers the cost of a token by {numbers.percent(row.cpmt_gain)}"
        f"{f', if {row.assumes}' if row.assumes else ''}."
        for row in rows[:_MOST_CHANGES]
    ]
    return said or [variant.bottleneck.headline.removesuffix(NOT_TRIED).strip()]
