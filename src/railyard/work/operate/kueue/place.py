"""Pod sets of a workload on the nodes of a flavor: leaders with their workers, replacements, elastic slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import Refusal
from railyard.work.operate.kueue.objects import Assignment, TopologyRequest
from railyard.work.operate.kueue.seek import booked, shrunk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.operate.kueue.domains import Path
    from railyard.work.operate.kueue.seek import Search, Wanted


def resized(search: Search, workers: Wanted, leader: Wanted | None) -> dict[str, Assignment | Refusal] | None:
    """Where the pods of the new slice go; None: a node of the old one is gone, all are placed anew.

    Args:
        search: On the flavor.
        workers: The pods, with where they run.
        leader: That goes beside them, with where it runs.
    """
    before, led = workers.previous, leader.previous if leader else None
    if before is None or any(_gone(search, one) for one in (before, led) if one):
        return None
    if workers.pods.count > before.pods:
        return _grown(search, workers, leader, before)
    return booked(search, [(workers, first(before, workers.pods.count)), (leader, led)])


def _gone(search: Search, assignment: Assignment) -> bool:
    return any(search.flavor.leaf(values) is None for values, _ in assignment.domains)


def first(assignment: Assignment, pods: int) -> Assignment:
    """The first so many pods of an assignment."""
    kept = []
    for values, count in assignment.domains:
        if pods > 0:
            kept.append((values, min(count, pods)))
        pods -= count
    return Assignment(assignment.levels, tuple(kept))


def _grown(
    search: Search, workers: Wanted, leader: Wanted | None, before: Assignment
) -> dict[str, Assignment | Refusal]:
    led = leader.previous if leader else None
    booked(search, [(workers, before), (leader, led)])
    new_leader = leader.pods if leader and led is None else None
    found = search.find(shrunk(workers, workers.pods.count - before.pods), new_leader)
    if isinstance(found, Refusal):
        return {workers.pods.name: found}
    booked(search, [(workers, found[0]), (leader, found[1])])
    result: dict[str, Assignment | Refusal] = {workers.pods.name: search.flavor.merged(found[0], before)}
    place = led or found[1]
    if leader and place:
        result[leader.pods.name] = place
    return result


Layer = tuple[str, int]


def replacement(
    search: Search, wanted: Wanted, existing: Assignment, unhealthy: str
) -> tuple[Assignment, Assignment] | Refusal:
    """Where the set runs with the lost pods elsewhere, and the part of it that is new.

    Args:
        search: On the flavor.
        wanted: The pod set.
        existing: Where it runs.
        unhealthy: The node that is lost.
    """
    flavor, asks = search.flavor, wanted.pods.asks or TopologyRequest()
    kept = tuple(one for one in existing.domains if one[0][-1] != unhealthy)
    lost = existing.pods - sum(count for _, count in kept)
    left = Assignment(existing.levels, kept)
    gone = next((values for values, _ in kept if flavor.leaf(values) is None), None)
    if gone:
        return Refusal(f"another node of the workload, `{gone[-1]}`, is gone too")
    within = _within(search, wanted, left, lost)
    if asks.layers and within and lost % asks.layers[0][1]:
        asks = _of_broken(asks, lost)
    found = search.find(shrunk(wanted, lost, asks), None, within)
    if isinstance(found, Refusal):
        return found
    if not found[0].domains:
        return Refusal(f"no node in place of `{unhealthy}`")
    return flavor.merged(found[0], left), found[0]


def _of_broken(asks: TopologyRequest, lost: int) -> TopologyRequest:
    """Slices of the innermost layer that the lost pods fill; none, where they fill none."""
    kept: Layer | None = next((layer for layer in reversed(asks.layers) if lost % layer[1] == 0), None)
    return replace(asks, layers=(kept,) if kept else ())


def _within(search: Search, wanted: Wanted, left: Assignment, lost: int) -> Path:
    """Path of the group in which the replacement has to lie; empty: any."""
    flavor, asks = search.flavor, wanted.pods.asks or TopologyRequest()
    if not left.domains:
        return ()
    if asks.layers and lost % asks.layers[0][1]:
        broken = next(layer for layer in reversed(asks.layers) if lost % layer[1])
        return _incomplete(search, left, lost, broken if len(asks.layers) > 1 else asks.layers[0])
    if not asks.required or asks.required not in flavor.levels:
        return ()
    return flavor.path(left.domains[0][0])[: flavor.levels.index(asks.required) + 1]


def _incomplete(search: Search, left: Assignment, lost: int, layer: Layer) -> Path:
    """The first group of a layer in which the lost pods complete a slice."""
    flavor, (name, size) = search.flavor, layer
    if name not in flavor.levels:
        return ()
    depth, pods = flavor.levels.index(name) + 1, dict[tuple[str, ...], int]()
    for values, count in left.domains:
        path = flavor.path(values)[:depth]
        pods[path] = pods.get(path, 0) + count
    return next((path for path, count in pods.items() if (count + lost) % size == 0), ())


@dataclass(frozen=True)
class Running:
    """A workload that runs, and has lost a node.

    Attributes:
        places: Of its pod sets, by name.
        unhealthy: The node.
        one_pod: Whether it is a pod's, which cannot go elsewhere.
    """

    places: Mapping[str, Assignment]
    unhealthy: str
    one_pod: bool = False


def place(search: Search, wanted: Sequence[Wanted], running: Running | None = None) -> dict[str, Assignment | Refusal]:
    """Of each pod set, by name, where it goes; the first that has to wait ends the search.

    Args:
        search: Where.
        wanted: Pod sets in the order of the workload; those of a group are placed together.
        running: The workload, where it runs and a node is to be replaced.
    """
    groups: dict[str, list[Wanted]] = {}
    for number, one in enumerate(wanted):
        groups.setdefault(one.pods.asks.group if one.pods.asks and one.pods.asks.group else f"\0{number}", []).append(
            one
        )
    result: dict[str, Assignment | Refusal] = {}
    for group in groups.values():
        result |= _replaced(search, group, running) if running else _group(search, group)
        if any(isinstance(one, Refusal) for one in result.values()):
            return result
    return result


def _group(search: Search, group: list[Wanted]) -> dict[str, Assignment | Refusal]:
    workers, leader = group[0], group[1] if len(group) > 1 else None
    if leader and leader.pods.count > workers.pods.count:
        workers, leader = leader, workers
    if search.gates.elastic and workers.previous:
        found = resized(search, workers, leader)
        if found is not None:
            return found
    placed = search.find(workers, leader.pods if leader else None)
    if isinstance(placed, Refusal):
        return {one.pods.name: placed for one in group}
    return booked(search, [(workers, placed[0]), (leader, placed[1])])


def _replaced(search: Search, group: list[Wanted], running: Running) -> dict[str, Assignment | Refusal]:
    result: dict[str, Assignment | Refusal] = {}
    for one in group:
        existing = running.places.get(one.pods.name)
        if existing is None:
            continue
        if running.one_pod and search.gates.keep_pods:
            result[one.pods.name] = existing
            continue
        found = replacement(search, one, existing, running.unhealthy)
        if isinstance(found, Refusal):
            return {**result, one.pods.name: found}
        result[one.pods.name], instead = found
        search.book(instead, one.pods)
    return result
