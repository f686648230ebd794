"""Families of designs, of one fabric, topology, server and kind of layout: which may win that no engine has run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.designs.judgement import good, values
from railyard.ask.plan.designs.outcome import Unverified
from railyard.work.scenario import override
from railyard.work.training.fastest import SURE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.planned import Planned
    from railyard.ask.plan.designs.space import Space

_KEYS = (
    ("cluster", "server"),
    ("cluster", "back_end", "fabric"),
    ("cluster", "back_end", "topology"),
    ("workload", "serving", "pools"),
)
"""Keys whose values are of a kind by themselves; all others are more or less of the same."""

_IN_TIME = frozenset({"cpmt", "jct", "done", "step", "tokens_per_s", "tokens_per_watt", "carbon"})
"""Objectives that the error of a time moves; others are known of a design without an engine."""


_TIED = 1e-9
"""Designs whose values differ by no more than this share are as good as each other."""


def family_of(space: Space, point: int) -> tuple[str, ...]:
    """What a point has in common with those of its family."""
    settings = space.settings(point)
    full = {override.full_path(key): key for key in settings}
    return tuple(_kind(settings[full[key]]) for key in _KEYS if key in full)


def _kind(value: Any) -> str:
    """A topology by its kind, pools by what they do, anything else as it is."""
    if isinstance(value, dict):
        return str(value.get("kind", " and ".join(sorted(value))))
    return str(value)


def rivals_of(planned: Planned, points: Sequence[int], hoped: NDArray[np.float64]) -> list[Unverified]:
    """Families without a run that may be better than the best that ran, the nearest first.

    A family may be better where its best by closed form is, were the closed form wrong by twice its spread.

    Args:
        planned: What was found so far.
        points: That may be chosen.
        hoped: float64[points], the first objective as it is known, less is better.
    """
    able = good(planned)
    ran = [point for point in able if planned.ran(point)]
    known = {family_of(planned.space, point) for point in ran}
    best = float(values(planned, ran)[:, 0].min()) if ran else np.inf
    found = _families(planned, points, hoped, best)
    return [one for family, one in found if family and family not in known]


def _families(
    planned: Planned, points: Sequence[int], hoped: NDArray[np.float64], best: float
) -> Iterator[tuple[tuple[str, ...], Unverified]]:
    """Of each family the nearest of some points, where it may be better than a value by the closed form's error."""
    what, spread = planned.objectives[0], planned.closed_form[1]
    seen: set[tuple[str, ...]] = set()
    for at in np.argsort(hoped, kind="stable").tolist():
        family, value = family_of(planned.space, points[at]), float(hoped[at])
        least = value - abs(value) * -np.expm1(-SURE * spread) if what.name in _IN_TIME else value
        if family in seen or least >= best:
            continue
        seen.add(family)
        ahead = (best - least) / abs(best) if np.isfinite(best) and best else 0.0
        name = planned.space.name(points[at])
        yield family, Unverified(", ".join(family) or name, name, points[at], what.sign * value, float(ahead))


def unverified(planned: Planned) -> list[Unverified]:
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
