"""Queues of Kueue with their quotas, cohorts, flavors and workloads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.work.operate.kueue.objects import Assignment, Labels, PodSet, Requests, Toleration

FlavorResource = tuple[str, str]
"""A resource of a flavor: (flavor, resource)."""
ANY = "Any"
NEVER = "Never"
LOWER = "LowerPriority"
NEWER_EQUAL = "LowerOrNewerEqualPriority"


@dataclass(frozen=True)
class Quota:
    """Quota of a resource of a flavor; None: no limit.

    Attributes:
        borrowing: How much more it may borrow from its cohort.
        lending: How much of it others may borrow.
    """

    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


@dataclass(frozen=True)
class ResourceGroup:
    """Resources that get the same flavor.

    Attributes:
        flavors: Flavors in the order in which they are tried, with their quotas by resource.
    """

    resources: tuple[str, ...]
    flavors: tuple[tuple[str, dict[str, Quota]], ...]

    def quotas(self) -> dict[FlavorResource, Quota]:
        """Quotas by flavor and resource."""
        return {(name, resource): quota for name, limits in self.flavors for resource, quota in limits.items()}


@dataclass(frozen=True)
class FlavorSpec:
    """A ResourceFlavor.

    Attributes:
        topology: Levels of its Topology; empty: none, so nodes are not chosen.
    """

    name: str
    labels: Labels
    taints: tuple[tuple[str, str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preemption:
    """Which workloads a queue may preempt.

    Attributes:
        reclaim: Policy for workloads of the cohort that borrow.
        borrowing: Policy for preempting while it borrows itself: `Never` or `LowerPriority`.
        threshold: Priority above which it may not do so; None: its own priority.
    """

    within: str = NEVER
    reclaim: str = NEVER
    borrowing: str = NEVER
    threshold: int | None = None


@dataclass(frozen=True)
class ClusterQueue:
    """A ClusterQueue.

    Attributes:
        cohort: Its cohort; empty: none.
        next_if_preempting: Whether it tries further flavors if one requires preemption.
        next_if_borrowing: Whether it tries further flavors if one requires borrowing.
        prefer_local: Whether preemption is better than borrowing.
        checks: (admission check, flavors that it applies to; empty: all).
        strict: Whether the head of the queue blocks the rest (StrictFIFO).
        stopped: Whether it admits no workloads.
    """

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    preemption: Preemption = Preemption()
    next_if_preempting: bool = True
    next_if_borrowing: bool = False
    prefer_local: bool = False
    checks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    strict: bool = False
    stopped: bool = False

    def group(self, resource: str) -> ResourceGroup | None:
        """The group that covers a resource."""
        return next((group for group in self.groups if resource in group.resources), None)

    @property
    def flavors(self) -> tuple[str, ...]:
        """Flavors of all groups."""
        return tuple(name for group in self.groups for name, _ in group.flavors)


@dataclass(frozen=True)
class QueueCohort:
    """A Cohort: queues that lend to one another."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True)
class Share:
    """The admission of a pod set.

    Attributes:
        used: Usage of each resource by all its pods.
        place: Its topology assignment; None: no topology.
        delayed: `Pending` while a provisioning request runs, `Ready` once a place is found; empty: neither.
    """

    name: str
    count: int
    flavors: dict[str, str]
    used: Requests
    place: Assignment | None = None
    delayed: str = ""


@dataclass(frozen=True)
class Admission:
    """The admission of a workload, by pod set."""

    queue: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Workload:
    """A Workload.

    Attributes:
        queue: The ClusterQueue that its local queue points to; empty: none.
        wanted: Quota used by each pod of a set, by set: requests after transformations.
        admission: Its admission; None: none yet.
        admitted: Whether it may run.
        evicted: Whether it is being evicted.
        reserved: Time at which its quota was reserved, as text that sorts.
        active: Whether it is active.
        one_pod: Whether it is a single pod, which cannot move.
        done: Pods that have ended and released their quota, by set.
    """

    key: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    wanted: tuple[Requests, ...]
    priority: int = 0
    created: str = ""
    uid: str = ""
    admission: Admission | None = None
    admitted: bool = False
    evicted: bool = False
    reserved: str = ""
    active: bool = True
    unhealthy: tuple[str, ...] = ()
    checks: dict[str, str] = field(default_factory=dict)
    one_pod: bool = False
    done: dict[str, int] = field(default_factory=dict)

    def held(self, share: Share) -> tuple[int, Requests]:
        """Pods that have not ended, and the quota that they use; a partial admission keeps its number of pods."""
        asked = next((pods.count for pods in self.pod_sets if pods.name == share.name), share.count)
        left = asked - min(self.done.get(share.name, 0), asked)
        if left >= share.count:
            return share.count, share.used
        return left, {resource: value // share.count * left for resource, value in share.used.items()}

    @property
    def shares(self) -> tuple[Share, ...]:
        """The admission of each pod set; empty: none yet."""
        return self.admission.shares if self.admission else ()

    @property
    def quota_queue(self) -> str:
        """The queue that has its quota, or that it is for."""
        return self.admission.queue if self.admission else self.queue

    def share(self, name: str) -> Share | None:
        """The admission of a pod set."""
        return next((one for one in self.shares if one.name == name), None)

    @property
    def lost(self) -> bool:
        """Whether some of its pods are on a lost node."""
        return self.admitted and any(
            values[-1] in self.unhealthy
            for share in self.shares
            for values, _ in (share.place.domains if share.place else ())
        )

    @property
    def delayed(self) -> bool:
        """Whether all checks are ready and it still needs a place."""
        pending = any(share.place is None and share.delayed == "Pending" for share in self.shares)
        return bool(self.checks) and set(self.checks.values()) == {"Ready"} and pending and not self.admitted

    @property
    def second_pass(self) -> bool:
        """Whether it has quota and needs a place: on provisioned nodes, or to replace a lost node."""
        return self.admission is not None and not self.evicted and (self.lost or self.delayed)
