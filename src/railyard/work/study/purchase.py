"""What a memo says to buy: the chosen variant, its capital and power, and how its bill differs from the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from railyard.kit.prose import listed, quoted
from railyard.measure import numbers
from railyard.work.study import believed
from railyard.work.study.memo import (
    MOST_BARS,
    DecisionMemo,
    assumptions_of,
    bar_names,
    confidence_of,
    origin_of,
    subject_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from railyard.measure.result.money import CapexFigures
    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import KeyFigure
    from railyard.measure.result.variants import BaseVariant, Bill
    from railyard.work.study.memo import LossChart

V = TypeVar("V", bound="BaseVariant")
_MOST_PARTS = 3
"""Parts of a bill that the line names."""
_MOST_OWN = 2
"""Warnings that the line names."""
_FITTING = "NICs that the fabric needs"
"""A part that no bill contains: the NICs are priced as they were given."""
_LEAST = 0.0005
"""Smaller differences, as a share of the capital, are not named."""


def decided(
    result: Result,
    best: BaseVariant,
    recommendation: str,
    *,
    figures: Sequence[KeyFigure],
    chart: LossChart,
    changes: Iterable[str],
    table: Sequence[Sequence[str]],
) -> DecisionMemo:
    """The page for a decision among variants of tokens that have a price, of which `best` is described."""
    doubts = (believed.unexercised(result), believed.ties(result), believed.same(result))
    return DecisionMemo(
        result.name,
        recommendation,
        figures,
        chart,
        [*filter(None, (*changes, *doubts))],
        list(confidence_of(best.model_error or ())),
        assumptions_of(result, best.bill, [f"left out: {line}" for line in believed.left_out(result)]),
        origin_of(result),
        purchase(result),
        table,
        subject_of(result),
    )


def ranked(result: Result, variants: Sequence[V]) -> list[V]:
    """Variants in the order of the ranking, those outside it last."""
    order = () if result.verdict is None else result.verdict.ranking
    return sorted(variants, key=lambda one: order.index(one.name) if one.name in order else len(order))


def price_table(variants: Sequence[V], heading: str, cell: Callable[[V], str]) -> tuple[tuple[str, ...], ...]:
    """Headings, then price, capital and power of each variant."""
    names, _ = bar_names([one.name for one in variants])
    rows = [
        (
            names[one.name],
            numbers.with_range(bill.usd_per_mtoken),
            numbers.dollars(bill.capex.total_usd.typical),
            numbers.power(bill.power.total_w.typical),
            cell(one),
        )
        for one in variants[:MOST_BARS]
        if (bill := one.bill) is not None
    ]
    return (("variant", "$/Mtoken (low to high)", "capital", "power", heading), *rows) if rows else ()


def recommended(result: Result) -> str | None:
    """The variant to buy: of equal ones the cheapest to build with NICs that fit; None without a choice."""
    verdict = result.verdict
    if verdict is None or verdict.leading is None or len(verdict.ranking) < 2:
        return None
    if believed.undecided(result):
        return verdict.leading
    capital = {one.name: _fitted(one.bill.capex) for one in result.variants if one.bill is not None}
    equal = [name for name in (verdict.leading, *verdict.ties) if name in capital]
    return min(equal, key=capital.__getitem__) if equal else verdict.leading


def purchase(result: Result) -> str:
    """`Buy: uec, $42.3M and 1.53 MW. It costs $0.1M less to build than roce, the next: ...`; empty without a choice."""
    verdict, best = result.verdict, recommended(result)
    if verdict is None or verdict.leading is None or best is None:
        return ""
    bills = {one.name: one.bill for one in result.variants}
    others = [name for name in verdict.ranking if name != best]
    twins = {name for group in verdict.same if best in group for name in group}
    following = next((name for name in others if name not in twins), others[0])
    bill, other = bills[best], bills[following]
    if bill is None or other is None:
        return ""
    said = f"Buy: {quoted(best)}, {_sum(bill)}"
    if believed.undecided(result):
        names = listed(believed.equals(result, best))
        said = f"Buy: cost does not decide between {names}. At typical prices {quoted(best)} costs least: {_sum(bill)}"
    elif following in (verdict.leading, *verdict.ties) and any(_parts(bill.capex, other.capex)):
        said += f", the cheapest to build of the {len(believed.equals(result, verdict.leading))} that are equal"
    return " ".join([f"{said}.", _difference(bill.capex, other.capex, quoted(following)), *_own(result, best)])


def _own(result: Result, name: str) -> list[str]:
    """Warnings of a variant that not all have, as sentences: what is bought is not what others are."""
    said = {one.name: getattr(one, "warnings", ()) for one in result.variants}
    own = [line for line in said[name] if not all(line in lines for lines in said.values())]
    return [f"Of {quoted(name)}: {line}." for line in own[:_MOST_OWN]]


def _sum(bill: Bill) -> str:
    return f"{numbers.dollars(bill.capex.total_usd.typical)} of capital, {numbers.power(bill.power.total_w.typical)}"


def _fitted(capex: CapexFigures) -> float:
    """The typical capital, with what NICs cost more that place packets as the fabric needs, USD."""
    return capex.total_usd.typical + (capex.fitting_nics_usd or 0.0)


def _difference(capex: CapexFigures, other: CapexFigures, name: str) -> str:
    """How the capital differs, with the parts that differ most."""
    more = _fitted(capex) - _fitted(other)
    parts = list(_parts(capex, other))
    if not parts:
        return f"The bill of {name}, the next, is the same."
    amount = f"{numbers.dollars(abs(more))} {'more' if more > 0 else 'less'} to build than"
    return f"It costs {amount} {name}, the next: {', '.join(parts[:_MOST_PARTS])}."


def _parts(capex: CapexFigures, other: CapexFigures) -> Iterator[str]:
    """`switches -$0.36M (18, not 22)`, the largest difference first."""
    mine, theirs = ({row.name: row for row in found.components} for found in (capex, other))
    usd = {
        name: sum(sign * rows[name].typical_usd for sign, rows in ((1, mine), (-1, theirs)) if name in rows)
        for name in mine | theirs
    }
    usd[_FITTING] = (capex.fitting_nics_usd or 0.0) - (other.fitting_nics_usd or 0.0)
    for name in sorted(usd, key=lambda name: -abs(usd[name])):
        if abs(usd[name]) >= _LEAST * capex.total_usd.typical:
            here, there = (rows[name].count if name in rows else 0 for rows in (mine, theirs))
            counts = "" if here == there else f" ({here:,.0f}, not {there:,.0f})"
            yield f"{name} {'+' if usd[name] > 0 else '-'}{numbers.dollars(abs(usd[name]))}{counts}"
