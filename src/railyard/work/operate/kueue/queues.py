"""Queues of Kueue and what waits or runs in them: quotas, cohorts, flavors, workloads."""

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
    """Of a resource of a flavor; None: no limit.

    Attributes:
        borrowing: How much more it may use of its cohort.
        lending: How much of it others may use.
    """

    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


@dataclass(frozen=True)
class ResourceGroup:
    """Resources of one flavor each.

    Attributes:
        flavors: In the order in which they are tried, with their quotas by resource.
    """

    resources: tuple[str, ...]
    flavors: tuple[tuple[str, dict[str, Quota]], ...]

    def quotas(self) -> dict[FlavorResource, Quota]:
        """By flavor and resource."""
        return {(name, resource): quota for name, limits in self.flavors for resource, quota in limits.items()}


@dataclass(frozen=True)
class FlavorSpec:
    """A ResourceFlavor.

    Attributes:
        topology: Levels of its Topology; empty: none, nodes are not chosen.
    """

    name: str
    labels: Labels
    taints: tuple[tuple[str, str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preemption:
    """Whom a queue may preempt.

    Attributes:
        reclaim: Of workloads of the cohort that borrow.
        borrowing: Whether it may do so while it borrows itself, and from whom: `Never` or `LowerPriority`.
        threshold: Priority above which that does not hold; None: its own.
    """

    within: str = NEVER
    reclaim: str = NEVER
    borrowing: str = NEVER
    threshold: int | None = None


@dataclass(frozen=True)
class ClusterQueue:
    """A ClusterQueue.

    Attributes:
        cohort: To which it belongs; empty: none.
        next_if_preempting: Whether it looks at further flavors where one takes preemption.
        next_if_borrowing: Whether it does where one takes borrowing.
        prefer_local: Whether preemption is better than borrowing.
        checks: (admission check, flavors that it is for; empty: all).
        strict: Whether the head of the queue blocks those behind it (StrictFIFO).
        stopped: Whether it takes no workloads.
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
        """Of all groups."""
        return tuple(name for group in self.groups for name, _ in group.flavors)


@dataclass(frozen=True)
class QueueCohort:
    """A Cohort: queues that lend to one another."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True)
class Share:
    """What a pod set got.

    Attributes:
        used: Of each resource, by all its pods.
        place: Where they go; None: no topology.
        delayed: `Pending` while a provisioning request runs, `Ready` once a place was found; empty: neither.
    """

    name: str
    count: int
    flavors: dict[str, str]
    used: Requests
    place: Assignment | None = None
    delayed: str = ""


@dataclass(frozen=True)
class Admission:
    """What a workload got, by pod set."""

    queue: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Workload:
    """A Workload.

    Attributes:
        queue: The ClusterQueue to which its local queue leads; empty: there is none.
        wanted: What each pod of a set takes of quotas, by set: requests after transformations.
        admission: What it got; None: nothing yet.
        admitted: Whether it may run.
        evicted: Whether it is on its way out.
        reserved: When its quota was reserved, as text that sorts.
        active: Whether it wants to run.
        one_pod: Whether it is one pod's, which cannot move.
        done: Pods that have ended and give their quota back, by set.
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
        """Pods of a share that have not ended, and what they take of quotas; those admitted in part stay as many."""
        asked = next((pods.count for pods in self.pod_sets if pods.name == share.name), share.count)
        left = asked - min(self.done.get(share.name, 0), asked)
        if left >= share.count:
            return share.count, share.used
        return left, {resource: value // share.count * left for resource, value in share.used.items()}

    def share(self, name: str) -> Share | None:
        """What a pod set got."""
        return next((one for one in self.admission.shares if one.name == name), None) if self.admission else None

    @property
    def lost(self) -> bool:
        """Whether pods of it lie on a node that is lost."""
        return self.admitted and any(
            values[-1] in self.unhealthy
            for share in (self.admission.shares if self.admission else ())
            for values, _ in (share.place.domains if share.place else ())
        )

    @property
    def delayed(self) -> bool:
        """Whether all checks are ready and its place is still to be found."""
        pending = any(
            share.place is None and share.delayed == "Pending"
            for share in (self.admission.shares if self.admission else ())
        )
        return bool(self.checks) and set(self.checks.values()) == {"Ready"} and pending and not self.admitted

    @property
    def second_pass(self) -> bool:
        """Whether it has quota and wants a place: of a provisioned node, or in place of a lost one."""
        return self.admission is not None and not self.evicted and (self.lost or self.delayed)
