"""Places for the pod sets of a plan, in the topologies of their flavors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import Refusal
from railyard.work.operate.kueue.place import Running, place
from railyard.work.operate.kueue.plan import Mode, Plan, only_topology
from railyard.work.operate.kueue.seek import Search, Wanted

if TYPE_CHECKING:
    from railyard.work.operate.kueue.domains import Path
    from railyard.work.operate.kueue.objects import Assignment, PodSet
    from railyard.work.operate.kueue.quantity import Requests
    from railyard.work.operate.kueue.queues import ClusterQueue, Workload
    from railyard.work.operate.kueue.snapshot import Snapshot

Needs = Mapping[str, list[Wanted]]
"""Pod sets that want a place, by flavor."""


def explicit(pods: PodSet) -> bool:
    """Whether a pod set asks something of the topology itself."""
    asks = pods.asks
    return asks is not None and bool(asks.required or asks.preferred or asks.unconstrained or asks.layers)


def topology_only(queue: ClusterQueue, snapshot: Snapshot) -> bool:
    """Whether all flavors of a queue have a topology: its workloads use it without asking."""
    return all(name in snapshot.flavors for name in queue.flavors)


def needs(plan: Plan, workload: Workload, snapshot: Snapshot) -> Needs:
    """What still wants a place, by flavor; parts for which there is none fail."""
    queue, found = snapshot.cluster.queues[workload.queue], dict[str, list[Wanted]]()
    for part in plan.parts:
        implied = not explicit(part.pods) and topology_only(queue, snapshot)
        if part.failed or not part.pods.count or not (explicit(part.pods) or implied):
            continue
        if part.place is not None and not _lost(part.place, workload):
            continue
        flavor = only_topology(part, snapshot, workload)
        if not flavor:
            part.failed = True
            part.why.append("no flavor with a topology, or several")
            plan.set_mode(Mode.NONE, part)
        elif workload.admission is None and flavor in _provisioned(queue, snapshot):
            part.delayed = "Pending"
        else:
            found.setdefault(flavor, []).append(Wanted(part.pods, implied))
    return found


def _lost(assignment: Assignment, workload: Workload) -> bool:
    return any(values[-1] in workload.unhealthy for values, _ in assignment.domains)


def _provisioned(queue: ClusterQueue, snapshot: Snapshot) -> set[str]:
    """Flavors of a queue whose nodes are provisioned before pods get a place."""
    return {
        flavor
        for check, flavors in queue.checks
        if check in snapshot.cluster.provisioning
        for flavor in (flavors or queue.flavors)
    }


def find(
    snapshot: Snapshot, workload: Workload, wanted: Needs, *, empty: bool = False
) -> dict[str, Assignment | Refusal]:
    """Where the pod sets go, by name.

    Args:
        snapshot: The cluster.
        workload: Whose they are.
        wanted: What wants a place.
        empty: Whether to look as if nothing ran.
    """
    result: dict[str, Assignment | Refusal] = {}
    shared: dict[Path, Requests] = {}
    running = _running(workload)
    for name in sorted(wanted):
        flavor = snapshot.flavors[name]
        assumed = shared if snapshot.gates.overlapping and flavor.by_node else {}
        search = Search(flavor, snapshot.gates, assumed, empty)
        result |= place(search, wanted[name], running)
    return result


def _running(workload: Workload) -> Running | None:
    if not workload.unhealthy:
        return None
    shares = workload.admission.shares if workload.admission else ()
    places = {share.name: share.place for share in shares if share.place}
    return Running(places, workload.unhealthy[0], workload.one_pod)


def failure(result: Mapping[str, Assignment | Refusal]) -> tuple[str, Refusal] | None:
    """The first pod set that has to wait."""
    return next(((name, found) for name, found in result.items() if isinstance(found, Refusal)), None)


def keep(plan: Plan, result: Mapping[str, Assignment | Refusal]) -> None:
    """Writes places into the plan; those that were refused have none."""
    for name, found in result.items():
        part = plan.part(name)
        part.place = None if isinstance(found, Refusal) else found
        if part.place is not None and part.delayed:
            part.delayed = "Ready"


def settle(plan: Plan, workload: Workload, snapshot: Snapshot) -> None:
    """Finds places for a plan whose quotas fit, or sees whether preemption would give it some."""
    wanted = needs(plan, workload, snapshot)
    if plan.mode == Mode.FIT:
        result = find(snapshot, workload, wanted)
        refused = failure(result)
        if refused is None:
            keep(plan, result)
        else:
            part = plan.part(refused[0])
            part.why.append(refused[1].why)
            plan.set_mode(Mode.PREEMPT, part)
    if plan.mode == Mode.PREEMPT and not workload.unhealthy:
        refused = failure(find(snapshot, workload, wanted, empty=True))
        if refused is not None:
            part = plan.part(refused[0])
            part.why.append(f"{refused[1].why} if nothing else ran")
            plan.set_mode(Mode.NONE, part)
        else:
            for one in (one for group in wanted.values() for one in group):
                plan.set_mode(Mode.PREEMPT, plan.part(one.pods.name))
