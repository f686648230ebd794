"""Families of designs, of one fabric, topology, server and kind of layout: which may win that no engine has run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.objectives import BuildableDesign, measured_by, regrets
from railyard.ask.plan.space import keys_in_words
from railyard.measure import numbers
from railyard.measure.result.choices import PlanUnverified
from railyard.work.scenario import load, override
from railyard.work.scenario.load import dump
from railyard.work.study.folder import digest_of, digests_of, key_of
from railyard.work.study.provenance import version
from railyard.work.training.fastest import SURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.plan.space import DesignSpace
    from railyard.work.scenario.load import Draft


_BLOCK = 512


def front(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """bool[n], designs of which no other is as good in every objective and better in one.

    Args:
        values: float64[n, objectives], less is better.
    """
    order = np.lexsort(values.T[::-1])
    kept: list[int] = []
    for at in order:
        rows = values[kept]
        if not np.any(np.all(rows <= values[at], axis=1) & np.any(rows < values[at], axis=1)):
            kept.append(int(at))
    found = np.zeros(len(values), bool)
    found[kept] = True
    return found


def promising(values: NDArray[np.float64], count: int) -> list[int]:
    """The designs to look at more closely: most of them the best by the first objective, the rest from the front.

    Args:
        values: float64[n, objectives], less is better.
        count: How many, at most.
    """
    by_first: list[int] = np.lexsort(values.T[::-1]).tolist()
    if values.shape[1] == 1:
        return by_first[:count]
    others = front(values)
    chosen = by_first[: (count + 1) // 2]
    ends = [int(np.argmin(values[:, column])) for column in range(1, values.shape[1])]
    for at in (*ends, *(at for at in by_first if others[at]), *by_first):
        if len(chosen) >= count:
            break
        if at not in chosen:
            chosen.append(at)
    return chosen[:count]


def dominator(values: NDArray[np.float64], at: int) -> int | None:
    """A design as good in every objective and better in one, the best such by the first; None: there is none."""
    over = np.all(values <= values[at], axis=1) & np.any(values < values[at], axis=1)
    return int(np.lexsort((*values.T[::-1], ~over))[0]) if over.any() else None


@dataclass
class DesignKeys:
    """Names of outcomes: equal where all that an outcome follows from is equal.

    Attributes:
        excluded: Names that constraints exclude.
    """

    draft: Draft
    space: DesignSpace
    excluded: tuple[str, ...]

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as a worker reads it."""
        values = self.draft.tree.plain()
        folder = str(self.draft.folder.resolve())
        return {"values": values, "folder": folder, "digest": key_of(values, folder)}

    def key(
        self, point: int, demand: int, engine: str, layout: Mapping[str, Any] | None = None, budget_hops: float = 0.0
    ) -> str:
        """Key of the inputs of an outcome, the contents of files included."""
        changes = {key: node.plain() for key, node in self.space.demands[demand].changes.items()}
        settings = self.space.settings(point)
        named = [self._contents(value) for value in (*settings.values(), *changes.values())]
        names = self.excluded if engine == "analytic" else ()
        more = [budget_hops] if budget_hops else []
        return key_of(self._base, settings, changes, engine, layout, names, [text for text in named if text], *more)

    @cached_property
    def _base(self) -> str:
        base = self.space.base
        return key_of(version(), dump(base.scenario), digests_of(base), dict(self.space.delivery))

    def _contents(self, value: object) -> str:
        """Contents of the file that a value names; empty if it names none."""
        if not isinstance(value, str) or not ("/" in value or "." in value):
            return ""
        if value not in self._read:
            self._read[value] = digest_of(self.draft.folder / value)
        return self._read[value]

    @cached_property
    def _read(self) -> dict[str, str]:
        return {}


def judge(planned: PlannedDesigns) -> None:
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


def sorted_out(planned: PlannedDesigns) -> None:
    """Sorts the points into those that were evaluated and those that fail, with what the possible ones of them miss."""
    closed = sorted(
        (one for one in planned.outcomes.values() if one.engine == "analytic"), key=lambda one: (one.point, one.demand)
    )
    planned.points = sorted({one.point for one in closed})
    planned.layouts = sum(one.tried for one in closed)
    for one in closed:
        if one.error:
            planned.failed.setdefault(one.point, one.error)
    _find_twins(planned)
    judge(planned)


def _find_twins(planned: PlannedDesigns) -> None:
    """Keeps one of the points that build the same cluster for the same work, and the others as its twins."""
    planned.twins.clear()
    planned.twin_of.clear()
    first: dict[object, int] = {}
    for point in planned.points:
        found = [planned.outcomes.get((point, demand, "analytic")) for demand in range(len(planned.space.demands))]
        built = [one.cluster for one in found if one is not None and one.cluster]
        if len(built) < len(found):
            continue
        kept = first.setdefault((*built, planned.space.but(point, "cluster")), point)
        if kept != point:
            planned.twin_of[point] = kept
            planned.twins.setdefault(kept, []).append(point)


def _regret(planned: PlannedDesigns, points: Sequence[int]) -> None:
    planned.regret.clear()
    if len(planned.space.demands) < 2 or not points:
        return
    what = measured_by(planned.objectives)
    table = np.array([[row[what.name] for row in planned.rows(point) or []] for point in points])
    found = regrets(what.sign * table, planned.shares)
    for at, point in enumerate(points):
        planned.regret[point] = {name: float(each[at]) for name, each in found.items()}


def able(planned: PlannedDesigns) -> list[int]:
    """Points that can be, of which every demand is known; one of those that build the same cluster."""
    points = (point for point in planned.points if point not in planned.failed and point not in planned.twin_of)
    return [point for point in points if planned.rows(point) is not None]


def good(planned: PlannedDesigns) -> list[int]:
    """Points that may be chosen: those that keep every constraint.

    Bounds only where nothing else does, designs whose job a fault ends only where no other job finishes.
    """
    return finishing(planned, products(planned, [point for point in able(planned) if point not in planned.missed]))


def finishing(planned: PlannedDesigns, points: Sequence[int]) -> list[int]:
    """The points whose jobs finish; all points if none does."""
    return [point for point in points if not ended(planned, point)] or list(points)


def ended(planned: PlannedDesigns, point: int) -> str:
    """The fault that ends a point's job under some demand, in words; empty where all finish."""
    seen = (planned.seen(point, demand) for demand in range(len(planned.space.demands)))
    return next((one.ended for one in seen if one is not None and one.ended), "")


def products(planned: PlannedDesigns, points: Sequence[int]) -> list[int]:
    """The points that can be bought; all points if none can."""
    return [point for point in points if not is_bound(planned, point)] or list(points)


def pool(planned: PlannedDesigns) -> list[int]:
    """Points that one is chosen from: those that the best engine ran where it ran any, else all that may be chosen."""
    points = good(planned)
    pools = ([point for point in points if planned.ran(point, engine)] for engine in planned.engines[:-1])
    return next((each for each in pools if each), points)


def best_words(planned: PlannedDesigns) -> str:
    """The best design so far, in words; empty where there is none."""
    points = pool(planned)
    if not points:
        return ""
    point = points[int(np.lexsort(values(planned, points).T[::-1])[0])]
    what, figures = planned.objectives[0], planned.figures(point) or {}
    engine = next((name for name in planned.engines if planned.ran(point, name)), "analytic")
    by = "closed form" if engine == "analytic" else engine
    value = numbers.of_unit(figures[what.name], what.unit)
    return f"best so far {planned.name(point)}, {what.words} {value} ({by})"


def is_bound(planned: PlannedDesigns, point: int) -> bool:
    """Whether no product can be as good as a point."""
    found = planned.outcomes.get((point, 0, "analytic"))
    return found is not None and found.bound


def best_bound(planned: PlannedDesigns) -> int | None:
    """The best bound by the first objective read off a design, of those that ran; None where all or none are bounds."""
    bounds = [point for point in able(planned) if is_bound(planned, point) and point not in planned.missed]
    if not bounds or set(bounds) & set(good(planned)):
        return None
    what = measured_by(planned.objectives)
    bounds = [point for point in bounds if planned.ran(point)] or bounds
    return min(bounds, key=lambda point: what.sign * (planned.figures(point) or {})[what.name])


def parts(planned: PlannedDesigns, point: int) -> frozenset[str]:
    """Excluded makers and catalogue names that a point has."""
    found = planned.outcomes.get((point, 0, "analytic"))
    return frozenset() if found is None else frozenset(found.excluded)


def values(planned: PlannedDesigns, points: Iterable[int]) -> NDArray[np.float64]:
    """float64[n, objectives], less is better."""
    rows = [planned.figures(point) or {} for point in points]
    return np.array([[one.sign * row[one.name] for one in planned.objectives] for row in rows])


def looked(planned: PlannedDesigns, point: int) -> BuildableDesign:
    """A point as constraints see it."""
    first = planned.objectives[0]
    what = first if first.of is not None else measured_by(planned.objectives)
    value = what.sign * (planned.figures(point) or {})[what.name]
    return BuildableDesign(planned.name(point), tuple(planned.rows(point) or ()), parts(planned, point), value)


_POOLS = ("workload", "serving", "pools")

_KEYS = (
    ("cluster", "server"),
    ("cluster", "back_end", "fabric"),
    ("cluster", "back_end", "topology"),
    _POOLS,
)
"""Keys whose values are of a kind by themselves; all others are more or less of the same."""

_IN_TIME = frozenset({"cpmt", "jct", "done", "step", "tokens_per_s", "tokens_per_watt", "carbon"})
"""Objectives that the error of a time moves; others are known of a design without an engine."""


_TIED = 1e-9
"""Designs whose values differ by no more than this share are as good as each other."""


def family_of(space: DesignSpace, point: int) -> tuple[str, ...]:
    """Common properties of a point and of its family."""
    settings = space.settings(point)
    full = {override.full_path(key): key for key in settings}
    return tuple(_kind(settings[full[key]]) for key in _KEYS if key in full)


def _kind(value: Any) -> str:
    """A topology by its kind, pools by their mechanisms, anything else as it is."""
    if not isinstance(value, dict):
        return str(value)
    if "kind" in value:
        return str(value["kind"])
    parts = [" and ".join(sorted(value))]
    if any(pool.get("ffn") for pool in value.values()):
        parts.append("separate FFNs")
    if guess := _guess(value):
        parts.append(guess.get("method") or "speculative decoding")
    return ", ".join(parts)


def _guess(pools: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the pool that answers guesses tokens; empty where it does not."""
    return next((pool["speculative"] for pool in pools.values() if pool.get("speculative")), {})


def axes_of(space: DesignSpace, point: int) -> dict[str, str]:
    """What was chosen of a point, in words by axis: keys of the space, of layouts of pools their mechanisms."""
    found: dict[str, str] = {}
    for key, value in space.settings(point).items():
        if override.full_path(key) != _POOLS:
            found[key] = load.name_of({key: value}).removeprefix(f"{key} ")
            continue
        guess = _guess(value)
        found["prefill and decode"] = "one pool" if set(value) == {"both"} else "separate pools"
        found["attention and FFN"] = "separate" if any(pool.get("ffn") for pool in value.values()) else "together"
        found["speculative decoding"] = keys_in_words(guess) if guess else "none"
    return found


def best_by_axis(planned: PlannedDesigns) -> Iterator[tuple[str, str, int]]:
    """For each axis with several values: the axis, each value, and the best eligible point with that value."""
    points = good(planned)
    ran = [point for point in points if planned.ran(point)] or points
    order = np.lexsort(values(planned, points).T[::-1]).tolist()
    found: dict[str, dict[str, int]] = {}
    for point in sorted((points[at] for at in order), key=lambda point: point not in ran):
        for same in (point, *planned.twins.get(point, ())):
            for axis, value in axes_of(planned.space, same).items():
                found.setdefault(axis, {}).setdefault(value, point)
    for axis, chosen in found.items():
        if len(chosen) > 1:
            yield from ((axis, value, point) for value, point in chosen.items())


def rivals_of(planned: PlannedDesigns, points: Sequence[int], hoped: NDArray[np.float64]) -> list[PlanUnverified]:
    """Families without a run that may be better than the best that ran, the nearest first.

    A family may be better where its best by closed form is, were the closed form wrong by twice its spread.
    """
    able = good(planned)
    ran = [point for point in able if planned.ran(point)]
    known = {family_of(planned.space, point) for point in ran}
    best = float(values(planned, ran)[:, 0].min()) if ran else np.inf
    found = _families(planned, points, hoped, best)
    return [one for family, one in found if family and family not in known]


def _families(
    planned: PlannedDesigns, points: Sequence[int], hoped: NDArray[np.float64], best: float
) -> Iterator[tuple[tuple[str, ...], PlanUnverified]]:
    """The nearest point of each family, if it may be better than a value by the closed form's error."""
    what, spread = planned.objectives[0], planned.closed_form[1]
    seen: set[tuple[str, ...]] = set()
    for at in np.argsort(hoped, kind="stable").tolist():
        family, value = family_of(planned.space, points[at]), float(hoped[at])
        least = value - abs(value) * -np.expm1(-SURE * spread) if what.name in _IN_TIME else value
        if family in seen or least >= best:
            continue
        seen.add(family)
        ahead = (best - least) / abs(best) if np.isfinite(best) and best else 0.0
        name = planned.name(points[at])
        words = ", ".join(family) or name
        value *= what.sign
        yield family, PlanUnverified(family=words, variant=name, point=points[at], value=value, ahead=float(ahead))


def unverified(planned: PlannedDesigns) -> list[PlanUnverified]:
    """Families that may win and did not run; where nothing ran, all that the closed form's error leaves open."""
    points = good(planned)
    left = [point for point in points if not planned.ran(point)]
    if not left:
        return []
    hoped = values(planned, left)[:, 0]
    if len(left) < len(points):
        return sorted(rivals_of(planned, left, hoped), key=lambda row: -row.ahead)
    best = float(hoped.min())
    return [one for _, one in _families(planned, left, hoped, best + abs(best) * _TIED)]
