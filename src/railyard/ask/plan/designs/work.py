"""What a worker does: points of a plan on an engine. All that it needs is in the task, its answer is plain values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.designs import service
from railyard.ask.plan.designs.build import Bench
from railyard.ask.plan.designs.simulated import simulated
from railyard.ask.plan.designs.space import space_of
from railyard.ask.plan.designs.sweep import sweep
from railyard.work.scenario import load

if TYPE_CHECKING:
    from collections.abc import Mapping

_BENCHES: dict[str, Bench] = {}
"""Of the plan at hand: a worker meets it task after task."""

SWEEP = "railyard.ask.plan.designs.work:swept"
RUN = "railyard.ask.plan.designs.work:ran"


def swept(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Points in closed form.

    Args:
        task: `plan`, `points` (numbers of points and demands) and `exclude` (names).
    """
    exclude, bench = frozenset(task["exclude"]), _bench(task["plan"])
    of = service.sweep if bench.space.base.kind == "serving" else sweep
    found = of(bench, [tuple(pair) for pair in task["points"]], exclude)
    return [outcome.plain() for outcome in found]


def ran(task: Mapping[str, Any]) -> dict[str, Any]:
    """A point on an engine.

    Args:
        task: `plan`, `point`, `demand`, `engine`, `layout`, and `budget_hops`, which packets may take (0: as written).
    """
    bench = _bench(task["plan"])
    if task["engine"] == "serving":
        return service.served(bench, task["point"], task["demand"]).plain()
    given = (task["point"], task["demand"], task["engine"], task["layout"])
    return simulated(bench, *given, budget_hops=task.get("budget_hops", 0.0)).plain()


def _bench(plan: Mapping[str, Any]) -> Bench:
    """The plan of a task, read once."""
    digest = str(plan["digest"])
    if digest not in _BENCHES:
        _BENCHES.clear()
        draft = load.from_values(plan["values"])
        _BENCHES[digest] = Bench(space_of(replace(draft, folder=Path(plan["folder"]))))
    return _BENCHES[digest]
