"""Cycles of Kueue until nothing more changes: who gets in where, who has to go, who waits and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from railyard.kit.errors import SimulationError
from railyard.work.operate.kueue.cycle import Outcome, cycle

if TYPE_CHECKING:
    from railyard.work.operate.kueue.queues import Admission, ClusterQueue, Workload
    from railyard.work.operate.kueue.snapshot import Cluster

_ROUNDS = 4
"""Cycles for each workload before they count as going in circles."""


@dataclass
class Played:
    """The end of it.

    Attributes:
        workloads: As they are then, by key, in the order of the file.
        news: Keys of those that got something.
        moved: Keys of those that ran and lost a node, and have another.
        gone: Workloads that had to go, and for whom; empty: a node of it is lost and there is no other.
        why: Why the others wait.
        cycles: How many there were.
    """

    workloads: dict[str, Workload]
    news: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    cycles: int = 0


def play(cluster: Cluster) -> Played:
    """Lets Kueue run; workloads that have to go do so between two cycles.

    Args:
        cluster: As it is.

    Raises:
        SimulationError: Workloads chase one another without end.
    """
    played = Played({one.key: one for one in cluster.workloads})
    held: set[str] = set()
    while True:
        pending = tuple(replace(one, active=False) if one.key in held else one for one in played.workloads.values())
        outcome = cycle(replace(cluster, workloads=pending))
        played.cycles += 1
        moved = _apply(cluster, played, outcome)
        told = {key for keys in outcome.inadmissible.values() for key in keys}
        if not moved and told <= held:
            for key in _keys(outcome):
                played.why.setdefault(key, "it waits behind others of its queue")
            return played
        held = told if outcome.preempted or outcome.evicted else held | told
        if played.cycles > _ROUNDS * (len(pending) + 1):
            raise SimulationError(f"workloads preempt one another without end: {', '.join(outcome.preempted)}")


def _keys(outcome: Outcome) -> list[str]:
    return [key for keys in outcome.left.values() for key in keys]


def _apply(cluster: Cluster, played: Played, outcome: Outcome) -> bool:
    """Writes down what a cycle did; whether it did anything."""
    for key, admission in outcome.admitted.items():
        one = played.workloads[key]
        ready = _ready(one, admission, cluster.queues[admission.queue])
        played.workloads[key] = replace(one, admission=admission, admitted=ready, unhealthy=())
        played.news += [] if key in played.news else [key]
        played.moved += [key] if one.lost else []
        played.why.pop(key, None)
        played.gone.pop(key, None)
    for key, reason in [*outcome.preempted.items(), *((key, "") for key in outcome.evicted)]:
        played.workloads[key] = replace(
            played.workloads[key], admission=None, admitted=False, evicted=False, unhealthy=()
        )
        played.gone[key] = reason
        played.news = [one for one in played.news if one != key]
    played.why |= outcome.why
    return bool(outcome.admitted or outcome.preempted or outcome.evicted)


def _ready(workload: Workload, admission: Admission, queue: ClusterQueue) -> bool:
    """Whether a workload with quota may run: all checks of its flavors are ready."""
    used = {flavor for share in admission.shares for flavor in share.flavors.values()}
    needed = [name for name, flavors in queue.checks if not flavors or used & set(flavors)]
    return all(workload.checks.get(name) == "Ready" for name in needed)
