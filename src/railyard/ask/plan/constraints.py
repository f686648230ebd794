"""What a design has to keep; which constraints cannot be kept together, and what each of them costs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.plan.objectives import OBJECTIVES, objective
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.plan.objectives import DesignObjective
    from railyard.catalog import Catalog
    from railyard.work.scenario.plan_section import ConstraintsSection


_FIGURES = {
    "budget": "capex",
    "power": "power",
    "provisioned": "provisioned",
    "racks": "racks",
    "deadline": "done",
    "delivered": "delivery",
}
"""Constraints by name, and the objective that each bounds."""

_SLACK = 1e-9
_MADE = ("accelerators", "nics", "switches")
_KINDS = (*_MADE, "servers", "cables")


@dataclass(frozen=True)
class Constraint:
    """A bound of one objective, or parts that a design must not have.

    Attributes:
        name: As written: `budget`, `at_most.step`.
        figure: The objective that it bounds; empty for `exclude`.
        large: Whether values have to be at least as large.
    """

    name: str
    figure: str = ""
    limit: float = 0.0
    large: bool = False
    names: frozenset[str] = frozenset()

    def excess(self, rows: Sequence[Mapping[str, float]], parts: frozenset[str]) -> float:
        """By which share a design misses it under the worst demand; 0 or less where it keeps it."""
        if self.names:
            return math.inf if self.names & parts else 0.0
        if self.large:
            return max(self.limit / max(row[self.figure], 1e-300) - 1.0 for row in rows)
        return max(row[self.figure] / max(self.limit, 1e-300) - 1.0 for row in rows)

    def keeps(self, rows: Sequence[Mapping[str, float]], parts: frozenset[str]) -> bool:
        """Whether a design keeps it."""
        return self.excess(rows, parts) <= _SLACK


def constraints_of(
    section: ConstraintsSection, catalog: Catalog, *, demands: int, lacks: frozenset[str], work: str = "training"
) -> list[Constraint]:
    """All constraints of a plan.

    Raises:
        InputError: One bounds what no engine gives, or excludes what the catalogue does not know.
    """
    found = []
    for name, figure in _FIGURES.items():
        limit = getattr(section, name)
        if limit is not None:
            objective(figure, f"plan.constraints.{name}", demands=demands, lacks=lacks, work=work)
            found.append(Constraint(name, figure, float(limit)))
    for key, large in (("at_most", False), ("at_least", True)):
        for figure, limit in getattr(section, key).items():
            place = f"plan.constraints.{key}.{figure}"
            if objective(figure, place, demands=demands, lacks=lacks, work=work).of is None:
                raise InputError(f"`{figure}` follows of the designs that are left, and bounds none", key=place)
            found.append(Constraint(f"{key}.{figure}", figure, float(limit), large))
    if section.exclude:
        keys = [f"plan.constraints.exclude.{number}" for number in range(len(section.exclude))]
        found.append(Constraint("exclude", names=frozenset(named(section.exclude, keys, catalog))))
    _refuse_crossed(found)
    return found


def named(names: Sequence[str], keys: Sequence[str], catalog: Catalog) -> list[str]:
    """Makers and parts as the catalogue spells them.

    Raises:
        InputError: It does not know one.
    """
    names_of = {kind: catalog.names(kind) for kind in _KINDS}
    makers = {getattr(catalog.entry(kind, name), "vendor", "") for kind in _MADE for name in names_of[kind]} - {""}
    known = {word.lower(): word for word in (*makers, *(name for kind in _KINDS for name in names_of[kind]))}
    for name, key in zip(names, keys, strict=True):
        if name.lower() not in known:
            raise InputError(
                f"the catalogue has no maker and no part `{name}`",
                key=key,
                allowed=sorted(makers),
                hint=did_you_mean(name, known.values()),
            )
    return [known[name.lower()] for name in names]


def _refuse_crossed(constraints: Sequence[Constraint]) -> None:
    """Bounds of one figure that no number keeps.

    Raises:
        InputError: One is at least what another is at most.
    """
    for low, high in itertools.permutations(constraints, 2):
        if low.figure and low.figure == high.figure and low.large and not high.large and low.limit > high.limit:
            raise InputError(
                f"`{low.name}: {low.limit:g}` contradicts `{high.name}: {high.limit:g}`",
                key=f"plan.constraints.{low.name}",
                hint=f"no {OBJECTIVES[low.figure].words} is both",
            )


@dataclass(frozen=True)
class BuildableDesign:
    """A design as constraints see it.

    Attributes:
        parts: Makers and catalogue names of what it has.
        value: Its first objective, all demands together; less is better.
    """

    name: str
    rows: tuple[Mapping[str, float], ...]
    parts: frozenset[str]
    value: float


def contradiction(constraints: Sequence[Constraint], designs: Sequence[BuildableDesign]) -> str:
    """The fewest constraints that no design keeps together, and what comes nearest."""
    kept = {
        one.name: {at for at, each in enumerate(designs) if one.keeps(each.rows, each.parts)} for one in constraints
    }
    for size in range(1, len(constraints) + 1):
        for some in itertools.combinations(constraints, size):
            if not set.intersection(*(kept[one.name] for one in some)):
                return _said(some, designs, kept)
    return ""


def _said(some: Sequence[Constraint], designs: Sequence[BuildableDesign], kept: Mapping[str, set[int]]) -> str:
    if len(some) == 1:
        return f"no design keeps `{some[0].name}`: {_nearest(some[0], designs, range(len(designs)))}"
    names = " and ".join(f"`{one.name}`" for one in some)
    lines = [f"{names} contradict each other: each can be kept, but not together"]
    for one in some:
        others = set.intersection(*(kept[other.name] for other in some if other is not one))
        if others:
            rest = " and ".join(f"`{other.name}`" for other in some if other is not one)
            lines.append(f"with {rest} kept, {_nearest(one, designs, sorted(others))}")
    return "; ".join(lines)


def _nearest(one: Constraint, designs: Sequence[BuildableDesign], among: Sequence[int] | range) -> str:
    best = designs[min(among, key=lambda at: one.excess(designs[at].rows, designs[at].parts))]
    if one.names:
        return f"every design has a part of {', '.join(sorted(one.names))}"
    values = [row[one.figure] for row in best.rows]
    what, value = OBJECTIVES[one.figure], min(values) if one.large else max(values)
    word = "at most" if one.large else "at least"
    return f"{one.figure} is {word} {shown(what, value)} ({best.name}), and the bound is {shown(what, one.limit)}"


def shown(what: DesignObjective, value: float) -> str:
    """A value of an objective for people."""
    if what.unit == "s":
        return f"{value / 86400:.3g} days" if value > 2 * 86400 else f"{value:.4g} s"
    if what.unit == "W":
        return f"{value / 1e6:.4g} MW" if value >= 1e6 else f"{value / 1e3:.4g} kW"
    if what.unit.startswith("USD"):
        per = what.unit.removeprefix("USD")
        for scale, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
            if value >= scale:
                return f"${value / scale:.4g}{letter}{per}"
        return f"${value:.4g}{per}"
    return f"{value:,.4g} {what.unit}".strip()


@dataclass(frozen=True)
class RelaxedConstraint:
    """What a constraint costs.

    Attributes:
        gain: By which share the first objective gets better without it.
        gain_tenth: The same where its bound is a tenth looser.
        best: The design that would be chosen without it.
    """

    name: str
    limit: float
    gain: float
    gain_tenth: float
    best: str


def relaxed(constraints: Sequence[Constraint], designs: Sequence[BuildableDesign]) -> list[RelaxedConstraint]:
    """What each constraint costs, the dearest first."""

    def best(these: Sequence[Constraint]) -> BuildableDesign:
        good = [each for each in designs if all(one.keeps(each.rows, each.parts) for one in these)]
        return min(good, key=lambda each: each.value)

    now = best(constraints).value
    found = []
    for one in constraints:
        others = [other for other in constraints if other is not one]
        looser = Constraint(
            one.name, one.figure, one.limit / 1.1 if one.large else one.limit * 1.1, one.large, one.names
        )
        without = best(others)
        tenth = best([*others, looser]).value if one.figure else now
        gains = [(now - value) / abs(now) if now else 0.0 for value in (without.value, tenth)]
        found.append(RelaxedConstraint(one.name, one.limit, gains[0], gains[1], without.name))
    return sorted(found, key=lambda row: (-row.gain, -row.gain_tenth, row.name))
