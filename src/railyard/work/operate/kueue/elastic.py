"""Workloads that grow or shrink while they run: what runs stays, new pods join it, the last go first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import Refusal
from railyard.work.operate.kueue.objects import Assignment
from railyard.work.operate.kueue.seek import booked, shrunk

if TYPE_CHECKING:
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
