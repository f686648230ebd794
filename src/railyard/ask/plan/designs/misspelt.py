"""Keys and values of a space that no scenario has: refused before anything is computed.

A value may be impossible beside some values of other keys (a ratio of a topology without tiers) and is then kept as a
design that cannot be. It is misspelt where reading fails at its key with every value of every other key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.cost.assumptions import grid
from railyard.work.scenario import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from railyard.ask.plan.designs.space import Space
    from railyard.catalog import Catalog
    from railyard.work.scenario.model import Scenario

_PARTS = {
    "cluster.server": "servers",
    "cluster.storage.name": "storage",
    "cluster.storage.nic": "nics",
    "cluster.memory_pool.name": "memory-pools",
    **{f"cluster.back_end.{key}": "switches" for key in ("switch", "spine_switch", "border_switch")},
}
"""Keys that name a part, and its kind in the catalogue."""

_MANY = 32
"""Values of a key that are all read."""


def refuse_misspelt(space: Space, catalog: Callable[[int, int], Catalog]) -> None:
    """Reads every value of every key once.

    Args:
        space: The space.
        catalog: The catalogue of a point under a demand.

    Raises:
        InputError: A key is no key of a scenario, or a value is none that it may have; with its line, what is allowed
            and the nearest right spelling.
    """
    for number, values in enumerate(space.values):
        for at in _looked_at(len(values)):
            wrong = _wrong(space, catalog, number, at)
            if wrong is not None:
                node = space.values[number][at]
                problem = wrong.problems[0]
                raise InputError.many(
                    [
                        node.problem(
                            problem.message,
                            key=f"plan.space.{space.keys[number]}",
                            found=problem.found,
                            allowed=problem.allowed,
                            hint=_meant(space.keys[number], problem.message) or problem.hint,
                        )
                    ]
                )


def refuse_misspelt_demands(space: Space, catalog: Callable[[int, int], Catalog]) -> None:
    """Reads every key of every demand beside the first and the last point.

    Raises:
        InputError: One is no key of a scenario, or has a value that it may not have.
    """
    for number, demand in enumerate(space.demands):
        for key, node in demand.changes.items():
            found = [_read(space, catalog, point, key, number) for point in (0, space.size - 1)]
            if all(wrong is not None for wrong in found) and found[0] is not None:
                problem = found[0].problems[0]
                hint = _meant(key, problem.message) or problem.hint
                more = {"found": problem.found, "allowed": problem.allowed, "hint": hint}
                raise InputError.many([node.problem(problem.message, key=f"plan.demand.{number}.set.{key}", **more)])


def _meant(key: str, message: str) -> str | None:
    """The nearest short name of a key that no scenario has; dotted keys were compared where they part."""
    return did_you_mean(key, override.SHORT) if message == f"unknown key `{key}`" else None


def _wrong(space: Space, catalog: Callable[[int, int], Catalog], number: int, at: int) -> InputError | None:
    """Why a value can be read beside no other; None where it can."""
    found = None
    for point in _beside(space, number, at):
        found = _read(space, catalog, point, space.keys[number])
        if found is None:
            return None
    return found


def _owner(keys: Sequence[str], blamed: str) -> str:
    """The key of some that what is blamed lies under, the one that says most of it."""
    found = [key for key in keys if blamed.startswith((".".join(override.full_path(key)), key))]
    return max(found, key=lambda key: len(override.full_path(key)), default="")


def _beside(space: Space, number: int, at: int) -> Iterator[int]:
    """Points with a value: with all other keys at their first, then each of these at each of its own."""
    first = [0] * len(space.keys)
    first[number] = at
    yield space.number(first)
    for other, values in enumerate(space.values):
        for value in _looked_at(len(values)) if other != number else ():
            if value > 0:
                yield space.number([value if at == other else each for at, each in enumerate(first)])


def _looked_at(values: int) -> Sequence[int]:
    """Which of so many values are read: of long ranges the ends."""
    return range(values) if values <= _MANY else (0, values - 1)


def _read(
    space: Space, catalog: Callable[[int, int], Catalog], point: int, key: str, demand: int = 0
) -> InputError | None:
    """What is wrong with a point at a key."""
    path = ".".join(override.full_path(key))
    try:
        scenario = space.draft(point, demand).scenario
    except InputError as error:
        keys = (*space.keys, *space.demands[demand].changes)
        return error if any(_owner(keys, one.key or "") == key for one in error.problems) else None
    try:
        _find_parts(scenario, catalog(point, demand), path)
        if scenario.economics.grid and path in ("economics", "economics.grid"):
            grid(scenario.economics.grid, path)
    except InputError as error:
        return error
    return None


def _find_parts(scenario: Scenario, catalog: Catalog, path: str) -> None:
    """Looks for the parts that a key names.

    Raises:
        InputError: The catalogue does not have one.
    """
    if path == "workload.training.model" and isinstance(scenario.training.model, str):
        catalog.model(scenario.training.model)
    for key, kind in _PARTS.items():
        if not f"{key}.".startswith(f"{path}."):
            continue
        found: Any = scenario
        for step in key.split("."):
            found = getattr(found, step, None)
        if isinstance(found, str):
            catalog.entry(kind, found)
