"""How points of a plan are judged by what is known now: what they miss, what they regret, what they are worth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs.constraints import Looked, shown
from railyard.ask.plan.designs.objectives import measured_by, regrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.planned import Planned


def judge(planned: Planned) -> None:
    """Regret, and which constraints are missed, by what is known now."""
    planned.missed.clear()
    points = able(planned)
    for point in points:
        rows = planned.rows(point) or []
        first = next((one for one in planned.constraints if not one.keeps(rows, parts(planned, point))), None)
        if first is not None:
            excess = first.excess(rows, parts(planned, point))
            planned.missed[point] = first.name + (f" by {excess:.1%}" if math.isfinite(excess) else "")
    _regret(planned, good(planned))


def sorted_out(planned: Planned) -> None:
    """Which points were looked at, which fail, and what those miss that can be, by what is known now."""
    closed = [one for one in planned.outcomes.values() if one.engine == "analytic"]
    planned.points = sorted({one.point for one in closed})
    planned.layouts = sum(one.tried for one in closed)
    for one in closed:
        if one.error:
            planned.failed.setdefault(one.point, one.error)
    judge(planned)


def _regret(planned: Planned, points: Sequence[int]) -> None:
    planned.regret.clear()
    if len(planned.space.demands) < 2 or not points:
        return
    what = measured_by(planned.objectives)
    table = np.array([[row[what.name] for row in planned.rows(point) or []] for point in points])
    found = regrets(what.sign * table, planned.shares)
    for at, point in enumerate(points):
        planned.regret[point] = {name: float(each[at]) for name, each in found.items()}


def able(planned: Planned) -> list[int]:
    """Points that can be, of which every demand is known."""
    return [point for point in planned.points if point not in planned.failed and planned.rows(point) is not None]


def good(planned: Planned) -> list[int]:
    """Points that may be chosen: those that keep every constraint.

    Bounds only where nothing else does, designs whose job a fault ends only where no other job finishes.
    """
    return finishing(planned, products(planned, [point for point in able(planned) if point not in planned.missed]))


def finishing(planned: Planned, points: Sequence[int]) -> list[int]:
    """Of some points those whose jobs finish; all of them where none does."""
    return [point for point in points if not ended(planned, point)] or list(points)


def ended(planned: Planned, point: int) -> str:
    """The fault that ends a point's job under some demand, in words; empty where all finish."""
    seen = (planned.seen(point, demand) for demand in range(len(planned.space.demands)))
    return next((one.ended for one in seen if one is not None and one.ended), "")


def products(planned: Planned, points: Sequence[int]) -> list[int]:
    """Of some points those that can be bought; all of them where none can."""
    return [point for point in points if not is_bound(planned, point)] or list(points)


def pool(planned: Planned) -> list[int]:
    """Points that one is chosen from: those that the best engine ran where it ran any, else all that may be chosen."""
    points = good(planned)
    pools = ([point for point in points if planned.ran(point, engine)] for engine in planned.engines[:-1])
    return next((each for each in pools if each), points)


def best_words(planned: Planned) -> str:
    """The best design so far, in words; empty where there is none."""
    points = pool(planned)
    if not points:
        return ""
    point = points[int(np.lexsort(values(planned, points).T[::-1])[0])]
    what, figures = planned.objectives[0], planned.figures(point) or {}
    engine = next((name for name in planned.engines if planned.ran(point, name)), "analytic")
    by = "closed form" if engine == "analytic" else engine
    return f"best so far {planned.space.name(point)}: {what.name} {shown(what, figures[what.name])} by {by}"


def is_bound(planned: Planned, point: int) -> bool:
    """Whether no product can be as good as a point."""
    found = planned.outcomes.get((point, 0, "analytic"))
    return found is not None and found.bound


def best_bound(planned: Planned) -> int | None:
    """The best bound by the first objective read off a design, of those that ran; None where all or none are bounds."""
    bounds = [point for point in able(planned) if is_bound(planned, point) and point not in planned.missed]
    if not bounds or set(bounds) & set(good(planned)):
        return None
    what = measured_by(planned.objectives)
    bounds = [point for point in bounds if planned.ran(point)] or bounds
    return min(bounds, key=lambda point: what.sign * (planned.figures(point) or {})[what.name])


def parts(planned: Planned, point: int) -> frozenset[str]:
    """Excluded makers and catalogue names that a point has."""
    found = planned.outcomes.get((point, 0, "analytic"))
    return frozenset() if found is None else frozenset(found.excluded)


def values(planned: Planned, points: Iterable[int]) -> NDArray[np.float64]:
    """float64[n, objectives], less is better."""
    rows = [planned.figures(point) or {} for point in points]
    return np.array([[one.sign * row[one.name] for one in planned.objectives] for row in rows])


def looked(planned: Planned, point: int) -> Looked:
    """A point as constraints see it."""
    first = planned.objectives[0]
    what = first if first.of is not None else measured_by(planned.objectives)
    value = what.sign * (planned.figures(point) or {})[what.name]
    return Looked(planned.space.name(point), tuple(planned.rows(point) or ()), parts(planned, point), value)
