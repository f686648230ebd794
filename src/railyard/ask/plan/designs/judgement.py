"""How points of a plan are judged by what is known now: what they miss, what they regret, what they are worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.designs.constraints import Looked, shown
from railyard.ask.plan.designs.objectives import measured_by, regrets
from railyard.work.scenario.load import dump
from railyard.work.study.folder import digest_of, digests_of, key_of
from railyard.work.study.provenance import version
from railyard.work.study.tasks import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.planned import Planned
    from railyard.ask.plan.designs.space import Space
    from railyard.work.scenario.load import Draft
    from railyard.work.study.folder import Journal


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
class Known:
    """Outcomes by their names.

    Attributes:
        draft: The scenario with its plan.
        space: All designs.
        excluded: Names that constraints exclude.
        journal: What is known.
    """

    draft: Draft
    space: Space
    excluded: tuple[str, ...]
    journal: Journal

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as a worker reads it."""
        values = self.draft.tree.plain()
        folder = str(self.draft.folder.resolve())
        return {"values": values, "folder": folder, "digest": key_of(values, folder)}

    def key(
        self, point: int, demand: int, engine: str, layout: Mapping[str, Any] | None = None, budget_hops: float = 0.0
    ) -> str:
        """What an outcome follows from, the contents of files too."""
        changes = {key: node.plain() for key, node in self.space.demands[demand].changes.items()}
        settings = self.space.settings(point)
        named = [self._contents(value) for value in (*settings.values(), *changes.values())]
        names = self.excluded if engine == "analytic" else ()
        more = [budget_hops] if budget_hops else []
        return key_of(self._base, settings, changes, engine, layout, names, [text for text in named if text], *more)

    def kept(self, key: str) -> dict[str, Any] | None:
        """An outcome of this run or an earlier one; None where it is not known."""
        found: dict[str, Any] | None = self.journal.known.get(key)
        return found

    def keep(self, key: str, row: Mapping[str, Any], error: str, *, sync: bool = True) -> None:
        """Puts an outcome on disk, failures too; but for a process that was killed, which may live another time."""
        if error != GONE:
            self.journal.add(key, row, sync=sync)

    @cached_property
    def _base(self) -> str:
        base = self.space.base
        return key_of(version(), dump(base.scenario), digests_of(base), dict(self.space.delivery))

    def _contents(self, value: object) -> str:
        """Of the file that a value names; empty where it names none."""
        if not isinstance(value, str) or not ("/" in value or "." in value):
            return ""
        if value not in self._read:
            self._read[value] = digest_of(self.draft.folder / value)
        return self._read[value]

    @cached_property
    def _read(self) -> dict[str, str]:
        return {}


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
