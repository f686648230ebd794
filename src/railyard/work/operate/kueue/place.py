"""Pod sets of a workload on the nodes of a flavor: leaders with their workers, replacements, elastic slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import Refusal
from railyard.work.operate.kueue.elastic import resized
from railyard.work.operate.kueue.replace import replacement
from railyard.work.operate.kueue.seek import booked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.operate.kueue.objects import Assignment
    from railyard.work.operate.kueue.seek import Search, Wanted


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
