"""The plan of a workload: flavors and places of its pod sets, and the quota that they use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.flavor import usage
from railyard.work.operate.kueue.objects import Refusal
from railyard.work.operate.kueue.place import Places, PlaceSearch, RunningPods, Wanted, place
from railyard.work.operate.kueue.queues import Admission, Share
from railyard.work.operate.kueue.snapshot import WorkloadUsage

if TYPE_CHECKING:
    from railyard.work.operate.kueue.objects import Assignment, PodSet, Requests
    from railyard.work.operate.kueue.queues import ClusterQueue, FlavorResource, Workload
    from railyard.work.operate.kueue.room import Path
    from railyard.work.operate.kueue.snapshot import Snapshot


class AdmissionMode(IntEnum):
    """How a workload could be admitted; smaller is worse."""

    NONE = 0
    PREEMPT = 1
    DEFERRED = 2
    FIT = 3


@dataclass
class FlavorChoice:
    """A flavor chosen for a resource.

    Attributes:
        mode: Whether it fits.
        borrows: How far the queue has to borrow: 0, or the height of a cohort.
        last: Whether all flavors were tried.
    """

    flavor: str
    mode: AdmissionMode
    borrows: int = 0
    last: bool = True


@dataclass
class PodSetPlan:
    """The plan of a pod set.

    Attributes:
        pods: The set, with the planned number of pods.
        wanted: Quota that all its pods use.
        why: Why it does not fit as it is; empty: it fits.
        failed: Whether planning failed.
    """

    pods: PodSet
    wanted: Requests
    flavors: dict[str, FlavorChoice] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    failed: bool = False
    place: Assignment | None = None
    delayed: str = ""

    @property
    def mode(self) -> AdmissionMode:
        """The worst mode of its resources."""
        if not (self.why or self.failed):
            return AdmissionMode.FIT
        if self.failed or not self.flavors:
            return AdmissionMode.NONE
        return min(choice.mode for choice in self.flavors.values())


@dataclass
class WorkloadPlan:
    """The plan of a workload.

    Attributes:
        borrows: How far its queue has to borrow at most.
    """

    parts: list[PodSetPlan] = field(default_factory=list)
    quota: dict[FlavorResource, int] = field(default_factory=dict)
    borrows: int = 0
    _mode: AdmissionMode | None = None

    @property
    def mode(self) -> AdmissionMode:
        """The worst mode of its parts when first read, or the mode set last."""
        if not self.parts:
            return AdmissionMode.NONE
        if self._mode is None:
            self._mode = min(part.mode for part in self.parts)
        return self._mode

    def set_mode(self, mode: AdmissionMode, part: PodSetPlan | None = None) -> None:
        """Sets the mode of one part and its flavors, or of all."""
        self._mode = mode
        for one in [part] if part else self.parts:
            for choice in one.flavors.values():
                choice.mode = mode

    def part(self, name: str) -> PodSetPlan:
        """The plan of a pod set by name."""
        return next(part for part in self.parts if part.pods.name == name)

    def append(self, part: PodSetPlan) -> None:
        """Adds a pod set and its usage."""
        self.parts.append(part)
        for resource, choice in part.flavors.items():
            self.borrows = max(self.borrows, choice.borrows)
            kind = (choice.flavor, resource)
            self.quota[kind] = self.quota.get(kind, 0) + part.wanted.get(resource, 0)

    @property
    def flavors_left(self) -> bool:
        """Whether some flavors have not been tried."""
        return any(not choice.last for part in self.parts for choice in part.flavors.values())

    @property
    def why(self) -> str:
        """Why the workload does not fit."""
        return "; ".join(f"{part.pods.name}: {', '.join(dict.fromkeys(part.why))}" for part in self.parts if part.why)

    def taken(
        self, snapshot: Snapshot, workload: Workload, quota: dict[FlavorResource, int] | None = None
    ) -> WorkloadUsage:
        """Usage beyond what the workload already has."""
        found = WorkloadUsage({} if workload.admission else dict(self.quota if quota is None else quota))
        for part in self.parts:
            flavor = only_topology(part, snapshot, workload)
            if part.place is None or not flavor:
                continue
            before = workload.share(part.pods.name)
            had = dict(before.place.domains) if before and before.place else {}
            more = tuple((values, count - had.get(values, 0)) for values, count in part.place.domains)
            kept = tuple((values, count) for values, count in more if count > 0)
            found.book(flavor, usage(type(part.place)(part.place.levels, kept), part.pods.requests))
        return found

    def admission(self, queue: str) -> Admission:
        """The plan as an admission."""
        shares = tuple(
            Share(
                part.pods.name,
                part.pods.count,
                {resource: choice.flavor for resource, choice in sorted(part.flavors.items())},
                {resource: part.wanted.get(resource, 0) for resource in sorted(part.flavors)},
                part.place,
                part.delayed,
            )
            for part in self.parts
        )
        return Admission(queue, shares)


def only_topology(part: PodSetPlan, snapshot: Snapshot, workload: Workload) -> str:
    """The only flavor with a topology in a part; empty: there is none, or several."""
    queue = snapshot.cluster.queues[workload.queue]
    found = {choice.flavor for choice in part.flavors.values()} & snapshot.flavors.keys() & set(queue.flavors)
    return next(iter(found)) if len(found) == 1 else ""


Needs = Mapping[str, list[Wanted]]
"""Pod sets that need a place, by flavor."""


def explicit(pods: PodSet) -> bool:
    """Whether a pod set requests a topology itself."""
    asks = pods.asks
    return asks is not None and bool(asks.required or asks.preferred or asks.unconstrained or asks.layers)


def topology_only(queue: ClusterQueue, snapshot: Snapshot) -> bool:
    """Whether all flavors of a queue have a topology: its workloads then use it without a request."""
    return all(name in snapshot.flavors for name in queue.flavors)


def needs(plan: WorkloadPlan, workload: Workload, snapshot: Snapshot) -> Needs:
    """Pod sets that still need a place, by flavor; parts that cannot have one fail."""
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
            plan.set_mode(AdmissionMode.NONE, part)
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


def find(snapshot: Snapshot, workload: Workload, wanted: Needs, *, empty: bool = False) -> Places:
    """The places of pod sets by name.

    Args:
        snapshot: The cluster.
        workload: The workload that they belong to.
        wanted: Pod sets that need a place.
        empty: Whether to ignore everything that is running.
    """
    result: Places = {}
    shared: dict[Path, Requests] = {}
    running = _running(workload)
    for name in sorted(wanted):
        flavor = snapshot.flavors[name]
        assumed = shared if snapshot.gates.overlapping and flavor.by_node else {}
        search = PlaceSearch(flavor, snapshot.gates, assumed, empty)
        result |= place(search, wanted[name], running)
    return result


def _running(workload: Workload) -> RunningPods | None:
    if not workload.unhealthy:
        return None
    places = {share.name: share.place for share in workload.shares if share.place}
    return RunningPods(places, workload.unhealthy[0], workload.one_pod)


def failure(result: Places) -> tuple[str, Refusal] | None:
    """The first pod set that has to wait, and why."""
    return next(((name, found) for name, found in result.items() if isinstance(found, Refusal)), None)


def keep(plan: WorkloadPlan, result: Places) -> None:
    """Stores places in the plan; refused pod sets have none."""
    for name, found in result.items():
        part = plan.part(name)
        part.place = None if isinstance(found, Refusal) else found
        if part.place is not None and part.delayed:
            part.delayed = "Ready"


def settle(plan: WorkloadPlan, workload: Workload, snapshot: Snapshot) -> None:
    """Finds places for a plan that fits its quotas, or checks whether preemption would free some."""
    wanted = needs(plan, workload, snapshot)
    if plan.mode == AdmissionMode.FIT:
        result = find(snapshot, workload, wanted)
        refused = failure(result)
        if refused is None:
            keep(plan, result)
        else:
            part = plan.part(refused[0])
            part.why.append(refused[1].why)
            plan.set_mode(AdmissionMode.PREEMPT, part)
    if plan.mode == AdmissionMode.PREEMPT and not workload.unhealthy:
        refused = failure(find(snapshot, workload, wanted, empty=True))
        if refused is not None:
            part = plan.part(refused[0])
            part.why.append(f"{refused[1].why} if nothing else ran")
            plan.set_mode(AdmissionMode.NONE, part)
        else:
            for one in (one for group in wanted.values() for one in group):
                plan.set_mode(AdmissionMode.PREEMPT, plan.part(one.pods.name))
