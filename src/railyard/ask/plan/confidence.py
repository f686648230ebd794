"""How sure a choice is: chances of being best, what would change it, what a measurement is worth, break-even prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.objectives import measured_by, regrets
from railyard.ask.plan.price import Goodputs
from railyard.ask.plan.uncertainty import worth
from railyard.measure.cost.capital import NETWORK_COMPONENTS
from railyard.measure.numbers import finite_or_null
from railyard.measure.result.choices import PlanBreakEven, PlanMeasure, PlanPortPrice, PlanSwing
from railyard.measure.result.section import SAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.objectives import DesignObjective
    from railyard.ask.plan.uncertainty import DesignChoice, Uncertainty

    F = NDArray[np.float64]


_BINS = 20
"""Slices of a factor within which the best choice is looked for: a hundred draws each at 2,000."""


@dataclass(frozen=True)
class Confidence:
    """Confidence of a choice.

    Attributes:
        order: Places of the choices as they were given, in the order in which the rest has them.
        regret: Of each choice, the expected share by which it is behind the best of a draw.
        within: Of each choice, the share by which it is behind the best at most, in eight of ten draws.
        best: Chance of each choice to be the best, by objective.
        bands: 10th, 50th and 90th percentile of each choice, by objective: float64[choices, 3].
        tornado: What each factor does to the lead of the first choice.
    """

    order: Sequence[int]
    regret: F
    within: F
    best: Mapping[str, F]
    bands: Mapping[str, F]
    tornado: tuple[PlanSwing, ...]
    measure: tuple[PlanMeasure, ...]


def judged(
    choices: Sequence[DesignChoice],
    doubts: Uncertainty,
    objectives: Sequence[DesignObjective],
    shares: Sequence[float],
    *,
    draws: int,
    seed: int,
) -> Confidence:
    """Confidence in some choices, the best first: in the order given, but for those that are equal within error."""
    values = doubts.sampled(draws, seed)
    best, bands, table = chances(choices, values, objectives, shares)
    late = shortfall(table, share=objectives[0].of is not None)
    order = ranking(late)
    best, bands = ({name: rows[order] for name, rows in each.items()} for each in (best, bands))
    choices, table, late = [choices[at] for at in order], table[order], late[order]
    tornado = _tornado(choices, doubts, objectives, shares)
    within = np.percentile(late, 80, axis=1)
    return Confidence(order, late.mean(axis=1), within, best, bands, tornado, _measure(table, doubts, values))


def shortfall(table: F, *, share: bool) -> F:
    """float64[choices, draws], by how much each choice is behind the best of a draw, as a share of that if asked.

    Args:
        table: float64[choices, draws], less is better.
        share: Whether to divide; regret is a share already, and that of the best may be 0.
    """
    least = table.min(axis=0)
    found: F = (table - least) / np.abs(least) if share and least.all() else table - least
    return found


def ranking(late: F) -> list[int]:
    """The order of choices: those equal to the first within error by expected regret, then the others as they are.

    A choice is equal within error where the 80 % interval of its difference from the first contains 0. The first gives
    way to one that is better by more than twice the standard error of the mean: luck of the draws decides nothing.

    Args:
        late: float64[choices, draws], as of `shortfall`.
    """
    more = late - late[0]
    low, high = np.percentile(more, (10, 90), axis=1)
    mean, error = more.mean(axis=1), more.std(axis=1) / math.sqrt(late.shape[1])
    equal = (low <= 0.0) & (high >= 0.0)
    chosen = int(np.argmin(np.where(equal & (mean < -2 * error), mean, 0.0)))
    return sorted(range(len(late)), key=lambda at: (at != chosen, not equal[at], mean[at] if equal[at] else at))


def chances(
    choices: Sequence[DesignChoice],
    values: Mapping[str, F],
    objectives: Sequence[DesignObjective],
    shares: Sequence[float],
) -> tuple[dict[str, F], dict[str, F], F]:
    """Chances of each choice to be the best and its bands, by objective, for draws of the factors.

    Returns:
        Chances and bands as in `Sure`, and the first objective: float64[choices, draws], less is better.
    """
    draws = len(next(iter(values.values()))) if values else 1
    drawn = compared(choices, values, objectives, shares)
    best, bands = {}, {}
    table = np.empty((0, 0))
    for number, what in enumerate(objectives):
        rows = np.array(
            [
                row[what.name] if what.name in row else np.full(draws, choice.figures[what.name])
                for row, choice in zip(drawn, choices, strict=True)
            ]
        )
        if number == 0:
            table = what.sign * rows
        best[what.name] = _chances(what.sign * rows)
        bands[what.name] = np.percentile(rows, (10, 50, 90), axis=1).T
    return best, bands, table


def compared(
    choices: Sequence[DesignChoice],
    values: Mapping[str, F],
    objectives: Sequence[DesignObjective],
    shares: Sequence[float],
) -> list[dict[str, F]]:
    """Objectives of each choice for values of the factors, those that compare choices too where one is asked for."""
    goodputs = Goodputs()
    found = [worth(choice, values, shares, goodputs) for choice in choices]
    rows = [dict(one.figures) for one in found]
    what = measured_by(objectives)
    if any(one.of is None for one in objectives) and what.name in rows[0]:
        late = regrets([[what.sign * row[what.name] for row in one.by_demand] for one in found], shares)
        for at, row in enumerate(rows):
            row.update({name: each[at] for name, each in late.items()})
    return rows


def _chances(table: F) -> F:
    """Share of the draws in which each choice is the best, draws with several best ones divided among them.

    Args:
        table: float64[choices, draws], less is better.
    """
    winners = table <= table.min(axis=0) * (1 + 1e-12) if (table > 0).all() else table == table.min(axis=0)
    found: F = (winners / winners.sum(axis=0)).mean(axis=1)
    return found


def _tornado(
    choices: Sequence[DesignChoice], doubts: Uncertainty, objectives: Sequence[DesignObjective], shares: Sequence[float]
) -> tuple[PlanSwing, ...]:
    if len(choices) < 2 or not doubts.factors:
        return ()
    what = objectives[0]
    rows = [row.get(what.name) for row in compared(choices, doubts.ends(), objectives, shares)]
    if any(row is None for row in rows):
        return ()
    table = what.sign * np.array(rows)
    others = table[[not np.allclose(row, table[0], rtol=1e-12, atol=0.0) for row in table]]
    if not len(others):
        return ()
    lead = others.min(axis=0) - table[0]
    if what.of is not None:  # regret is a share already, and that of the best may be 0
        lead = lead / np.abs(table[0])
    first = np.argmin(table, axis=0)
    swings = []
    for number, (name, factor) in enumerate(doubts.factors.items()):
        low, high = 1 + 2 * number, 2 + 2 * number
        swing = PlanSwing(
            factor=name,
            kind=factor.kind,
            low=finite_or_null(factor.low),
            high=finite_or_null(factor.high),
            lead_low=float(lead[low]),
            lead_high=float(lead[high]),
            best_low=choices[int(first[low])].name,
            best_high=choices[int(first[high])].name,
        )
        swings.append((abs(swing.lead_high - swing.lead_low), swing))
    moving = [(width, swing) for width, swing in swings if width > 1e-9]
    return tuple(swing for _, swing in sorted(moving, key=lambda one: (-one[0], one[1].factor)))


def _measure(table: F, doubts: Uncertainty, values: Mapping[str, F]) -> tuple[PlanMeasure, ...]:
    """Expected value of knowing one factor, the most worth first.

    By slices of its value (Strong and Oakley 2013). Slices are of finitely many draws, so that the best of their means
    is too good by chance: half of a slice chooses and the other half says what that is worth, so that no gain is
    promised which a new draw would not give. What is within twice its standard error of nothing is left out.
    """
    expected = table.mean(axis=1)
    chosen = int(np.argmin(expected))
    scale = abs(float(expected[chosen]))
    if scale == 0.0 or len(table) < 2:
        return ()
    found = []
    for name, factor in doubts.factors.items():
        gain, error, changes = _sliced(table, np.argsort(values[name], kind="stable"), chosen)
        if gain > 2 * error:
            found.append(PlanMeasure(factor=name, kind=factor.kind, gain=gain / scale, changes=changes))
    return tuple(sorted(found, key=lambda one: (-one.gain, one.factor)))


def _sliced(table: F, order: NDArray[np.int64], chosen: int) -> tuple[float, float, float]:
    """The gain of choosing again in every slice of an order.

    Returns:
        The gain, its standard error, and the share of slices in which it is another choice.
    """
    gains, changes = [], []
    for slice_ in np.array_split(order, _BINS):
        halves = [table[:, part] - table[chosen, part] for part in (slice_[::2], slice_[1::2])]
        for mine, other in (halves, halves[::-1]):
            best = int(np.argmin(mine.mean(axis=1)))
            gains.append(-other[best])
            changes.append(best != chosen)
    each = np.concatenate(gains)
    means = np.array([part.mean() for part in gains])
    within = float(np.mean([part.var() for part in gains]))
    return float(means.mean()), math.sqrt(within / len(each)), float(np.mean(changes))


def break_even(choices: Sequence[DesignChoice], shares: Sequence[float]) -> tuple[PlanBreakEven, ...]:
    """Prices of parts at which a runner-up becomes the cheapest per token, the nearest to today's first.

    A cost is linear in the price of one part, so that two points give the line. Where a third design is cheaper than
    both at the price at which two draw level, neither wins there.
    """
    if len(choices) < 2:
        return ()
    goodputs, found = Goodputs(), []
    differences = [_part_differences(choices[0], other) for other in choices[1:]]
    for name, price in {name: price for rows in differences for name, price, _ in rows}.items():
        at = {f"price of {name}": np.array([price, 2 * price])}
        costs = np.array([worth(each, at, shares, goodputs).figures["cpmt"] for each in choices])
        now, slope = costs[:, 0], (costs[:, 1] - costs[:, 0]) / price
        for number, rows in enumerate(differences, 1):
            gap, steeper = now[number] - now[0], slope[number] - slope[0]
            if gap <= 0 or not steeper or name not in {row[0] for row in rows}:
                continue
            even = float(price - gap / steeper)
            there = now + slope * (even - price)
            if even > 0 and there.min() >= there[0] * (1 - SAME):
                dearer = bool(steeper < 0)
                row = PlanBreakEven(
                    choice=choices[number].name, part=name, price_usd=price, even_usd=even, dearer=dearer
                )
                found.append(row)
    return tuple(sorted(found, key=lambda row: abs(np.log(row.even_usd / row.price_usd))))


def port_prices(choices: Sequence[DesignChoice], shares: Sequence[float]) -> tuple[PlanPortPrice, ...]:
    """What runners-up may cost a port, in their order: all their network's parts moved by one factor.

    The first choice keeps its prices. A cost is linear in the factor, so that two points give the line.
    """
    goodputs, found = Goodputs(), []
    for other in choices[1:]:
        parts = [part for part in other.hardware[0].parts if part.component in NETWORK_COMPONENTS]
        at = {f"price of {part.name}": np.array([1.0, 2.0]) * part.price_usd.typical for part in parts}
        if not at:
            continue
        best = worth(choices[0], {}, shares, goodputs).figures["cpmt"][0]
        once, twice = worth(other, at, shares, goodputs).figures["cpmt"]
        plan = other.hardware[0].cluster.plans["back_end"]
        ports = plan.nics * other.hardware[0].cluster.servers
        today = sum(part.count * part.price_usd.typical for part in parts) / ports
        even = today * (1.0 + float((best - once) / (twice - once)))
        level = even if even >= 0 else None
        found.append(PlanPortPrice(choice=other.name, ports=ports, usd_per_port=today, even_usd_per_port=level))
    return tuple(found)


def _part_differences(one: DesignChoice, other: DesignChoice) -> list[tuple[str, float, float]]:
    """Parts of which two designs have different numbers: name, typical price, difference."""
    counts: dict[str, list[float]] = {}
    prices: dict[str, float] = {}
    for side, choice in enumerate((one, other)):
        for part in choice.hardware[0].parts:
            counts.setdefault(part.name, [0.0, 0.0])[side] += part.count
            prices[part.name] = part.price_usd.typical
    return [
        (name, prices[name], theirs - mine)
        for name, (mine, theirs) in sorted(counts.items())
        if theirs != mine and prices[name] > 0
    ]
