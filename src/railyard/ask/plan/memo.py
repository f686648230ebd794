"""The decision memo of a plan: the design to build, its regret, and what would change the choice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.ask.plan.objectives import FIGURES, OBJECTIVES
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure
from railyard.work.study.memo import DecisionMemo, LossChart, sentence, shortened
from railyard.work.study.presentation import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.measure.result.choices import (
        PlanAnswer,
        PlanConstraint,
        PlanDesign,
        PlanObjective,
        PlanSwing,
        PlanVerified,
    )

_MOST = 2
"""Lines of each kind of change."""

_KNOWN = 0.05
"""Share to which the price of a part is known, without a quote."""

_QUANTITIES = {
    "layout ": "the step time of",
    "step of ": "the time of a",
    "iterations of ": "the time of",
    "collectives on ": "the time of",
}
"""What is measured of a part of the model's error, by how its name begins."""


def memo_of_plan(answer: PlanAnswer) -> DecisionMemo:
    """The page for a decision.

    Raises:
        InputError: The plan found no design.
    """
    if answer.best is None:
        raise InputError("the plan found no design, so there is nothing to decide")
    best, first = answer.front[0], answer.objectives[0]
    figures = [_figure(best, one) for one in answer.objectives[:2]]
    figures.append(
        KeyFigure("Distance to the best", "not drawn")
        if best.within is None
        else KeyFigure("Distance to the best", f"at most {numbers.percent(best.within)}", "in 80 % of draws")
    )
    chart = LossChart.of(
        f"{first.words[:1].upper()}{first.words[1:]} at typical values, % worse than the best",
        " %",
        {one.variant: {first.words: _behind(one, answer.likely, first)} for one in (*answer.front, *answer.runners_up)},
    )
    return DecisionMemo(
        answer.name,
        sentence(answer.sentence()),
        figures,
        chart,
        list(other_winners(answer)),
        list(_confidence(answer)),
        shortened([_limit(row) for row in answer.constraints]),
        f"Railyard {answer.version}, seed {answer.seed}",
    )


def _limit(row: PlanConstraint) -> str:
    """`budget $30M: all designs fit`."""
    figure = FIGURES.get(row.name, row.name.rpartition(".")[2])
    bound = (
        ", ".join(row.limit) if isinstance(row.limit, tuple) else numbers.of_unit(row.limit, OBJECTIVES[figure].unit)
    )
    missed = "all designs fit" if not row.missed_by else f"{numbers.counted(row.missed_by, 'design')} missed it"
    return f"{row.name} {bound}: {missed}"


def _behind(design: PlanDesign, best: PlanDesign, objective: PlanObjective) -> float:
    """By how many percent of the best design an objective is worse."""
    share = design.objectives[objective.name] / best.objectives[objective.name] - 1
    return 100 * max(share if objective.better == "small" else -share, 0.0)


def _figure(design: PlanDesign, objective: PlanObjective) -> KeyFigure:
    band = design.bands.get(objective.name)
    ends = () if band is None else (numbers.of_unit(end, objective.unit) for end in (band.p10, band.p90))
    both = ", model and prices" if objective.name == "cpmt" else ""
    within = f"80 % interval {' to '.join(ends)}{both}" if band else ""
    name = f"{objective.words[:1].upper()}{objective.words[1:]}"
    return KeyFigure(name, numbers.of_unit(design.objectives[objective.name], objective.unit), within)


def other_winners(answer: PlanAnswer) -> Iterator[str]:
    """Prices, factors and constraints that another design would win by, the likeliest first."""
    for row in answer.break_even[:_MOST]:
        words, share = "more" if row.dearer else "less", abs(row.even_usd / row.price_usd - 1.0)
        now = f"{max(share, 0.01):.0%}".replace("%", " %"), words, numbers.dollars(row.price_usd)
        equal = ": treat them as equal" if share < _KNOWN else ""
        yield f"{quoted(row.choice)} wins if one {row.part} costs {now[0]} {now[1]} than today's {now[2]}{equal}."
    for swing in answer.tornado[:_MOST]:
        yield from _swung(answer, swing)
    for limit in answer.constraints[:_MOST]:
        if limit.best_without is not None and (limit.gain_without or 0.0) > 0.0:
            gain = numbers.percent(limit.gain_without)
            yield f"Without the limit on {limit.name}, {quoted(limit.best_without)} is {gain} better."


def _confidence(answer: PlanAnswer) -> Iterator[str]:
    found, looked, bound = answer.verified, answer.looked_at, answer.bound
    if bound is not None:
        yield f"{quoted(bound.variant)}, a bound that nobody sells, is {numbers.percent(bound.ahead)} better."
    if found is None:
        yield "No engine ran the best design: the choice rests on the closed form."
    else:
        yield ran(answer, found) + "."
    error = looked.closed_form
    yield f"The closed form is off by {numbers.percent(error.mean)} on average, over {error.of} designs that also ran."
    if answer.unverified:
        kinds = numbers.counted(len(answer.unverified), "kind")
        spread = numbers.percent(math.expm1(error.spread))
        yield f"{kinds} of design did not run and may win within twice the closed form's standard deviation, {spread}."
    yield from (f"Measure first: {_quantity(row.factor)}." for row in answer.measure_first[:_MOST])


def ran(answer: PlanAnswer, found: PlanVerified) -> str:
    """That an engine ran the chosen design and its rivals, and which of them is better there."""
    words = f"Engine {found.engine} ran the chosen design and its {len(found.rivals)} nearest rivals"
    if found.stands:
        return words
    first = min(found.rivals, key=lambda row: row.behind)
    why = ", with more expected regret" if answer.front[0].expected_regret is not None else ""
    return f"{words}; at typical values {quoted(first.variant)} is {numbers.percent(-first.behind)} better{why}"


def _swung(answer: PlanAnswer, swing: PlanSwing) -> Iterator[str]:
    """The design that wins at an end of a factor's range, if that is another one."""
    for other, end, name in ((swing.best_low, swing.low, "low"), (swing.best_high, swing.high, "high")):
        if other == answer.best or end is None:
            continue
        where = f"at the {name} end of the range of {_quantity(swing.factor)}"
        if swing.kind == "model":
            longer = f"{abs(math.expm1(end)):.0%}".replace("%", " %"), "longer" if end > 0 else "shorter"
            where = f"if {_quantity(swing.factor)} is {longer[0]} {longer[1]} than the model says"
        yield f"{quoted(other)} wins {where}."
        return


def _quantity(factor: str) -> str:
    """What to measure of a factor: the step time of a layout, not the layout."""
    for head, words in _QUANTITIES.items():
        if factor.startswith(head):
            return f"{words} {factor}"
    return f"the {factor}" if factor.startswith(("price ", "power ", "draw ", "cost ")) else factor
