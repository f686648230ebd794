"""Regret: how far each choice is behind the best of all in each future, and what to make of several futures.

Several futures are judged by the largest regret over them (Savage 1951: choose the least of these), or by the mean.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from railyard.ask.plan.price import DesignPrice
    from railyard.catalog import Catalog
    from railyard.work.scenario.plan_section import ConstraintsSection

    F = NDArray[np.float64]


def excess(costs: ArrayLike) -> F:
    """float64[choices, futures, ...] of costs of that shape, 0 for the best choice of a future."""
    table = np.asarray(costs, np.float64)
    found: F = table - table.min(axis=0)
    return found


def relative(costs: ArrayLike) -> F:
    """The excess as a share of the least cost."""
    table = np.asarray(costs, np.float64)
    found: F = excess(table) / np.abs(table.min(axis=0))
    return found


@dataclass(frozen=True)
class DesignObjective:
    """One figure of a design.

    Attributes:
        of: Reads it, None where what it needs is missing; None: it comes of comparing designs.
        needs: Of `NEEDED`, a key of the scenario without which no engine gives it.
    """

    name: str
    words: str
    unit: str
    of: Callable[[Any], float | None] | None
    large: bool = False
    needs: str = ""
    work: tuple[str, ...] = ("training", "serving")

    @property
    def sign(self) -> float:
        """Factor of values so that less is better."""
        return -1.0 if self.large else 1.0


_STEPS = ("training",)
_REQUESTS = ("serving",)
_LATENCIES = {
    "ttft": "time to the first token",
    "tpot": "mean time per output token of a request",
    "e2e": "time to the last token",
}
_SHARES = (("p50", "median"), ("p90", "90th percentile"), ("p99", "99th percentile"))


def _read(name: str, words: str, unit: str, path: str, **more: Any) -> DesignObjective:
    """Reads a dotted name off a `DesignPrice`."""
    return DesignObjective(name, words, unit, attrgetter(path), **more)


def _latency(name: str, share: str, words: str) -> DesignObjective:
    return DesignObjective(f"{name}_{share}", words, "s", lambda priced: priced.latencies[name, share], work=_REQUESTS)


_ORDERED = "time from the order until"
_IN_TIME = "that meet every limit of `slo`"
_ALL = (
    _read("cpmt", "cost per million goodput tokens", "USD", "cpmt"),
    _read("jct", "time until the job is done", "s", "jct_s", needs="tokens", work=_STEPS),
    _read("done", f"{_ORDERED} the job is done, deliveries included", "s", "done_s", needs="tokens", work=_STEPS),
    _read("delivery", f"{_ORDERED} the last part is there", "s", "delivery_s"),
    _read("step", "mean step", "s", "step_s", work=_STEPS),
    _read("tokens_per_s", "goodput tokens a second", "1/s", "tokens_per_s", large=True),
    _read("tokens_per_watt", "goodput tokens per joule drawn", "tokens/J", "tokens_per_watt", large=True),
    _read("capex", "capital, with installation", "USD", "capex.total_usd.typical"),
    _read("power", "drawn by the site at work, with cooling", "W", "power.total_w.typical"),
    _read("provisioned", "nameplate IT power", "W", "power.provisioned_w.typical"),
    _read("racks", "racks by nameplate power", "", "racks"),
    _read("usd_per_h", "dollars an hour", "USD/h", "usd_per_h"),
    _read("mfu", "model FLOP/s over the dense peak", "", "mfu", large=True, work=_STEPS),
    _read("utilization", "share of a step in which accelerators compute", "", "busy", large=True, work=_STEPS),
    _read("attainment", f"share of the requests {_IN_TIME}", "", "attainment", large=True, work=_REQUESTS),
    _read("goodput", f"requests a second {_IN_TIME}", "1/s", "goodput_per_s", large=True, work=_REQUESTS),
    *(_latency(name, pair[0], f"{what}, {pair[1]}") for name, what in _LATENCIES.items() for pair in _SHARES),
    _read("network_capex_share", "the network's share of the capital", "", "network_capex_share"),
    _read("network_power_share", "share of NICs, switches and optics in the IT power", "", "power.data_movement_share"),
    _read("carbon", "CO2 equivalent of the electricity for a million goodput tokens", "g", "carbon", needs="grid"),
    DesignObjective("regret", "largest excess over the best design for a demand", "", None),
    DesignObjective("expected_regret", "mean excess over the best design for each demand", "", None),
)
OBJECTIVES: Mapping[str, DesignObjective] = {one.name: one for one in _ALL}

NEEDED: Mapping[str, tuple[str, str]] = {
    "tokens": ("of a job without end", "write `tokens: 15 T` under `workload.training`"),
    "grid": ("without a grid", "write `grid: Norway` under `economics`, or with each of its `sites`"),
}
"""Needs of objectives: what a scenario is without it, and what to write."""

_OF_OTHERS = {
    **dict.fromkeys(("ttft", "tpot", "e2e", "attainment", "goodput"), "serving"),
    "fct": "packets",
    **dict.fromkeys(("convergence", "accuracy", "loss"), "learning"),
}


def objective(
    name: str, key: str, *, demands: int, lacks: frozenset[str] = frozenset(), work: str = "training"
) -> DesignObjective:
    """An objective by its name.

    Raises:
        InputError: No engine gives it.
    """
    found = OBJECTIVES.get(name)
    if found is None or work not in found.work:
        allowed = sorted(one.name for one in OBJECTIVES.values() if work in one.work)
        about = next((what for word, what in _OF_OTHERS.items() if name.startswith(word)), "")
        about = about if found is None else " and ".join(found.work)
        hint = did_you_mean(name, allowed) if about in ("", work) else f"it is a figure of {about}"
        raise InputError(f"no engine gives the objective `{name}` of {work}", key=key, allowed=allowed, hint=hint)
    if found.needs in lacks:
        without, write = NEEDED[found.needs]
        raise InputError(f"no engine gives `{name}` {without}", key=key, hint=write)
    if found.of is None and demands < 2:
        raise InputError(f"`{name}` compares demands, and the plan has one", key=key, hint="write two under `demand`")
    return found


def measured_by(objectives: Sequence[DesignObjective]) -> DesignObjective:
    """What regret is an excess of: the first objective that is read off a design, else dollars per token."""
    return next((one for one in objectives if one.of is not None), OBJECTIVES["cpmt"])


def regrets(costs: ArrayLike, shares: Sequence[float]) -> dict[str, NDArray[np.float64]]:
    """Objectives that compare designs, each float64[designs, ...], of costs by design and demand."""
    behind = relative(costs)
    return {"regret": behind.max(axis=1), "expected_regret": np.tensordot(np.asarray(shares), behind, axes=(0, 1))}


def figures_of(priced: DesignPrice, work: str = "training") -> dict[str, float]:
    """Every objective of a kind of work that is read off one design."""
    read = {name: one.of(priced) for name, one in OBJECTIVES.items() if one.of is not None and work in one.work}
    return {name: float(value) for name, value in read.items() if value is not None}


def merged(rows: Sequence[Mapping[str, float]], shares: Sequence[float]) -> dict[str, float]:
    """Figures under all demands together: the mean by their shares."""
    return {name: math.fsum(row[name] * share for row, share in zip(rows, shares, strict=True)) for name in rows[0]}


FIGURES = {
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
        """Share by which a design misses it under the worst demand; 0 or less if it meets it."""
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
    """Constraints of a plan.

    Raises:
        InputError: One bounds what no engine gives, or excludes what the catalogue does not know.
    """
    found = []
    for name, figure in FIGURES.items():
        limit = getattr(section, name)
        if limit is not None:
            objective(figure, f"plan.constraints.{name}", demands=demands, lacks=lacks, work=work)
            found.append(Constraint(name, figure, float(limit)))
    for key, large in (("at_most", False), ("at_least", True)):
        for figure, limit in getattr(section, key).items():
            place = f"plan.constraints.{key}.{figure}"
            if objective(figure, place, demands=demands, lacks=lacks, work=work).of is None:
                raise InputError(f"`{figure}` depends on the remaining designs, so it cannot be a bound", key=place)
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
    found, bound = (numbers.of_unit(one_value, what.unit) for one_value in (value, one.limit))
    return f"{one.figure} is {word} {found} ({best.name}), and the bound is {bound}"


@dataclass(frozen=True)
class RelaxedConstraint:
    """Cost of a constraint.

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
    """Costs of constraints, the most expensive first."""

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
