"""The end of a plan: its front, how sure the first is, what constraints cost; or why there is no design to choose."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan import evaluate  # noqa: F401 - registers kinds of plans
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.confidence import break_even, judged, port_prices
from railyard.ask.plan.judgement import able, front, good, looked, pool, products, unverified, values
from railyard.ask.plan.objectives import contradiction, relaxed
from railyard.ask.plan.outcome import layout_of
from railyard.ask.plan.uncertainty import DesignChoice, Uncertainty, plan_kinds
from railyard.kit.errors import InputError
from railyard.measure.cost.capital import ACCELERATORS, MANAGEMENT, NETWORK_COMPONENTS, SERVERS, STORAGE
from railyard.measure.result.choices import EQUAL, PlanRival, PlanVerified

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from railyard.ask.plan.objectives import DesignObjective
    from railyard.ask.plan.planned import PlannedDesigns


HOPS_PER_S = 5e6
"""Packets times links that a core simulates in a second, about (docs/explanation/packet.md)."""

_LEAST_HOPS = 20e6
"""Fewer say nothing of a step: packets are not run for less."""

_ROOM = 1.5
"""What is allowed for a whole step over its estimate, so that no packet is left out."""


def finalists(planned: PlannedDesigns, rivals: int, refused: Collection[int] = ()) -> list[int]:
    """The best design and its nearest rivals by the first objective, as they are known now."""
    chosen = [point for point in pool(planned) if point not in refused]
    if not chosen:
        return []
    best = chosen[int(np.lexsort(values(planned, chosen).T[::-1])[0])]
    others = [point for point in good(planned) if point != best and point not in refused]
    if not others:
        return [best]
    order = np.argsort(values(planned, others)[:, 0], kind="stable")
    return [best, *(others[int(at)] for at in order[:rivals])]


def verified(planned: PlannedDesigns, rivals: int) -> PlanVerified | None:
    """What ran of the best design and its nearest rivals; None where the best did not run."""
    chosen = finalists(planned, rivals, [point for point in good(planned) if not planned.ran(point)])
    if not chosen:
        return None
    first = planned.choices[0].point
    chosen = [first, *(point for point in chosen if point != first)]
    engine = "packet" if all(planned.ran(point, "packet") for point in chosen) else planned.engine
    runs = [(point, demand) for point in chosen for demand in range(len(planned.shares))]
    what = planned.objectives[0]
    values_of = {point: what.sign * (planned.figures(point, engine) or {})[what.name] for point in chosen}
    best = values_of.pop(first)
    return PlanVerified(
        variant=planned.name(first),
        engine=engine,
        share_of_step=1.0 / max(planned.outcomes[point, demand, engine].sliced for point, demand in runs),
        stands=all(best - EQUAL * abs(best) <= value for value in values_of.values()),
        rivals=tuple(
            PlanRival(
                variant=planned.name(point),
                value=what.sign * value,
                behind=(value - best) / abs(best) if best else value - best,
            )
            for point, value in values_of.items()
        ),
        packets_core_s=None if engine == "packet" else _hops(planned, runs) / HOPS_PER_S or None,
    )


def budget_of(planned: PlannedDesigns, runs: Sequence[tuple[int, int]], time_s: float) -> float:
    """Packets times links that each of some runs may take; 0 where that is too little to say anything."""
    hops = time_s * HOPS_PER_S
    if hops >= _hops(planned, runs):
        return _ROOM * max(planned.outcomes[point, demand, planned.engine].hops for point, demand in runs)
    each = hops / len(runs)
    return each if each >= _LEAST_HOPS else 0.0


def _hops(planned: PlannedDesigns, runs: Sequence[tuple[int, int]]) -> float:
    return sum(planned.outcomes[point, demand, planned.engine].hops for point, demand in runs)


_SHOWN = 3
_LEAST = 0.0005
"""Differences below a twentieth of a percent explain nothing."""

_TIMED = frozenset({"step", "jct", "tokens_per_s", "mfu", "cpmt", "tokens_per_watt", "carbon"})
"""Objectives that a longer step makes worse."""


def why(best: DesignChoice, other: DesignChoice, objectives: Sequence[DesignObjective], shares: Sequence[float]) -> str:
    """Why a design lost to another, in one line."""
    what = objectives[0]
    mine, theirs = best.figures[what.name], other.figures[what.name]
    apart = theirs / mine - 1.0 if mine else 0.0
    better = [
        _label(one.name)
        for one in objectives[1:]
        if one.sign * other.figures[one.name] < one.sign * best.figures[one.name]
    ]
    if mine and abs(apart) < _LEAST:
        return f"{what.name} equal within 0.1 %" + (f"; better in {', '.join(better)}" if better else "")
    terms = _terms(best, other, what.name, shares)
    parts = ", ".join(f"{name} {100 * share:+.1f} %" for name, share in terms[:_SHOWN])
    # Nothing is a share of a figure that is zero, as the best design's regret: then the difference itself is given.
    far = f"{100 * abs(apart):.1f} %" if mine else f"{abs(theirs - mine):.3g}"
    text = f"{_label(what.name)} {far} {'less' if theirs < mine else 'more'}" + (f": {parts}" if parts else "")
    return text + (f"; better in {', '.join(better)}" if better else "")


_LABELS = {"cpmt": "$/Mtoken", "capex": "capital", "usd_per_h": "$/h"}


def _label(objective: str) -> str:
    """An objective as a column heading: `$/Mtoken`, `tokens per s`."""
    return _LABELS.get(objective, objective.replace("_", " "))


def _terms(best: DesignChoice, other: DesignChoice, figure: str, shares: Sequence[float]) -> list[tuple[str, float]]:
    """Differences of two designs, as shares of the first objective."""
    found: dict[str, float] = defaultdict(float)
    if figure in _PARTS and best.priced:
        for name, share in _PARTS[figure](best, other).items():
            found[name] += share
    if figure in _TIMED and not _serves(best):
        for number, weight in enumerate(shares):
            for name, share in _time(best, other, number).items():
                found[name] += weight * share
    if figure in _TIMED and _serves(best):
        found["tokens within the SLO"] = best.figures["tokens_per_s"] / other.figures["tokens_per_s"] - 1.0
    rows = [(name, share) for name, share in found.items() if abs(share) >= _LEAST]
    return sorted(rows, key=lambda row: (-abs(row[1]), row[0]))


def _serves(choice: DesignChoice) -> bool:
    """Whether a design answers requests: then designs differ in goodput, not in steps."""
    return "attainment" in choice.figures


def _money(best: DesignChoice, other: DesignChoice) -> dict[str, float]:
    """Parts of the dollars of an hour, each over all of the best design's."""
    one, two = best.priced[0], other.priced[0]
    total = one.usd_per_h
    hourly = [each.hourly for each in (one, two)]
    paid = [each["capital"] + each["operations"] for each in hourly]
    lines: dict[str, float] = {}
    for name, components in (
        ("accelerators", (ACCELERATORS,)),
        ("servers", (SERVERS, MANAGEMENT)),
        ("network's capital", NETWORK_COMPONENTS),
        ("storage", (STORAGE,)),
    ):
        part = []
        for each, usd in zip((one, two), paid, strict=True):
            capital = math.fsum(each.capex.line(component).typical for component in components)
            all_parts = math.fsum(
                each.capex.line(component).typical
                for component in (ACCELERATORS, SERVERS, MANAGEMENT, STORAGE, *NETWORK_COMPONENTS)
            )
            part.append(usd * capital / all_parts)
        lines[name] = (part[1] - part[0]) / total
    for name in ("energy", "space"):
        lines[name] = (hourly[1][name] - hourly[0][name]) / total
    return lines


def _bought(best: DesignChoice, other: DesignChoice) -> dict[str, float]:
    """Components of the capital, each over all of the best design's."""
    one, two = best.priced[0].capex, other.priced[0].capex
    total = one.total_usd.typical
    names = dict.fromkeys(line.name for line in (*one.lines, *two.lines))
    return {name: (two.line(name).typical - one.line(name).typical) / total for name in names}


def _drawn(best: DesignChoice, other: DesignChoice) -> dict[str, float]:
    """Components of the power, cooling too, each over all of the best design's."""
    one, two = best.priced[0].power, other.priced[0].power
    total = one.total_w.typical
    before = {line.name: line.power_w.typical for line in one.lines}
    return {f"power of {line.name}": (line.power_w.typical - before[line.name]) / total for line in two.lines}


_PARTS = {
    **dict.fromkeys(("cpmt", "usd_per_h"), _money),
    **dict.fromkeys(("capex",), _bought),
    **dict.fromkeys(("power", "tokens_per_watt", "carbon"), _drawn),
}
"""Parts of objectives other than time."""


def _time(best: DesignChoice, other: DesignChoice, demand: int) -> dict[str, float]:
    """Causes of the step, each over all of the best design's; the layouts where they differ."""
    one, two = best.outcomes[demand], other.outcomes[demand]
    found: dict[str, float] = defaultdict(float)
    for outcome, sign in ((two, 1.0), (one, -1.0)):
        for cause, group, _phase, share in outcome.time:
            words = {"compute": "computing", "dependency": "host"}.get(cause, cause)
            label = f"{words} ({group})" if group else words
            found[label] += sign * share * outcome.step_s / one.step_s
    return found


_CHOICES = 24
"""Designs whose chances are worked out."""


def refusal(planned: PlannedDesigns) -> InputError:
    """Why no design can be chosen."""
    points = able(planned)
    if points:
        return InputError(contradiction(planned.constraints, [looked(planned, point) for point in points]), key=_BOUNDS)
    reasons = list(dict.fromkeys(planned.failed.values()))
    more = f"; and {len(reasons) - 3} other reasons" if len(reasons) > 3 else ""
    seen = f"{planned.space.size:,}"
    if len(planned.points) < planned.space.size:
        seen = f"{len(planned.points):,} examined of {seen}"
    return InputError(f"none of the {seen} designs is possible: {'; '.join(reasons[:3])}{more}", key="plan.space")


_BOUNDS = "plan.constraints"


def conclude_at_once(planned: PlannedDesigns, *, rivals: int) -> None:
    """The front and its runners-up as they are known, without chances and what they need; nothing where nothing is."""
    planned.sure, planned.relaxed, planned.even, planned.ports = None, [], (), ()
    planned.choices, planned.on_front, planned.unverified, planned.verified = [], [], [], None
    if good(planned):
        chosen, on_front = _chosen(planned)
        planned.choices = [_unpriced(planned, point) for point in chosen]
        planned.on_front = [point in on_front for point in chosen]
        planned.unverified = unverified(planned)
        planned.verified = verified(planned, rivals)


def conclude(planned: PlannedDesigns, *, draws: int, seed: int, rivals: int) -> None:
    """The front, its runners-up, and how sure they are."""
    chosen, on_front = _chosen(planned)
    bench = DesignBench(planned.space)
    planned.choices = [_choice(planned, bench, point) for point in chosen]
    planned.on_front = [point in on_front for point in chosen]
    doubts = Uncertainty.of(planned.choices, planned.closed_form[:2])
    planned.sure = judged(planned.choices, doubts, planned.objectives, planned.shares, draws=draws, seed=seed)
    planned.choices = [planned.choices[at] for at in planned.sure.order]
    planned.on_front = [at == 0 or planned.choices[at].point in on_front for at in range(len(planned.choices))]
    if planned.objectives[0].name == "cpmt":
        planned.even = break_even(planned.choices, planned.shares)
        planned.ports = port_prices(planned.choices, planned.shares)
    planned.unverified = unverified(planned)
    planned.verified = verified(planned, rivals)
    if planned.constraints:
        every = products(planned, able(planned))
        planned.relaxed = relaxed(planned.constraints, [looked(planned, point) for point in every])


def _chosen(planned: PlannedDesigns) -> tuple[list[int], set[int]]:
    """Points to work chances out of, the best first, and which of them are on the front."""
    points = pool(planned)
    table = values(planned, points)
    kept = front(table)
    order = [points[at] for at in np.lexsort(table.T[::-1])]
    on_front = {points[at] for at in np.flatnonzero(kept)}
    chosen = [point for point in order if point in on_front]
    chosen += [point for point in order if point not in on_front][: max(0, _CHOICES - len(chosen))]
    return sorted(chosen[: max(_CHOICES, len(on_front))], key=order.index), on_front


def _unpriced(planned: PlannedDesigns, point: int) -> DesignChoice:
    """A design with what was found of it and nothing more."""
    found = [planned.seen(point, demand) for demand in range(len(planned.space.demands))]
    outcomes = tuple(one for one in found if one is not None)
    layouts = tuple(str(layout_of(one.layouts[0])) if one.layouts[0] else "" for one in outcomes)
    name, figures = planned.name(point), planned.figures(point) or {}
    return DesignChoice(point, name, (), layouts, outcomes, (), (), figures)


def reason_behind(planned: PlannedDesigns, point: int) -> str:
    """Why a point is worse than the best design, in one line; empty for the best."""
    best = planned.choices[0]
    if point == best.point:
        return ""
    other = next((one for one in planned.choices if one.point == point), None)
    if other is None:
        other = _choice(planned, DesignBench(planned.space), point) if best.priced else _unpriced(planned, point)
    return why(best, other, planned.objectives, planned.shares)


def _choice(planned: PlannedDesigns, bench: DesignBench, point: int) -> DesignChoice:
    """A design with everything that chances are worked out of."""
    kind, seen = plan_kinds.get(planned.space.base.kind), []
    for demand in range(len(planned.space.demands)):
        outcome = planned.seen(point, demand)
        if outcome is None:
            raise AssertionError("only designs with outcomes are chosen")
        seen.append((outcome, *kind.look(bench, (point, demand), outcome)))
    outcomes, hardware, layouts, prices, missed = zip(*seen, strict=True)
    figures = planned.figures(point) or {}
    return DesignChoice(point, planned.name(point), hardware, layouts, outcomes, prices, missed, figures)
