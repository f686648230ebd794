"""A cluster at one moment: quotas, nodes and running workloads, which can be removed and added back.

A queue's usage counts first against the part of its own quota that it does not lend. The excess counts in the cohort,
and so on up to the root. Borrowing limits bound what a queue or cohort takes from above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.operate.kueue.flavor import Flavor, FlavorNodes, usage
from railyard.work.operate.kueue.objects import Gates, total
from railyard.work.operate.kueue.queues import Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from railyard.work.operate.kueue.objects import KubernetesNode, Requests
    from railyard.work.operate.kueue.queues import (
        ClusterQueue,
        FlavorResource,
        FlavorSpec,
        QueueCohort,
        ResourceGroup,
        Workload,
    )
    from railyard.work.operate.kueue.room import Path


_NONE = Quota()


@dataclass(eq=False)
class Account:
    """A queue or a cohort.

    Attributes:
        subtree: Quota of it and of everything below it, as far as they lend it.
    """

    name: str
    quotas: dict[FlavorResource, Quota]
    parent: Account | None = None
    cohorts: list[Account] = field(default_factory=list)
    queues: list[Account] = field(default_factory=list)
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    used: dict[FlavorResource, int] = field(default_factory=dict)

    def quota(self, kind: FlavorResource) -> Quota:
        """Quota of a resource of a flavor; zero if none."""
        return self.quotas.get(kind, _NONE)

    def kept(self, kind: FlavorResource) -> int:
        """Quota that it does not lend."""
        lending = self.quota(kind).lending
        return 0 if lending is None else max(0, self.subtree.get(kind, 0) - lending)

    def spare(self, kind: FlavorResource) -> int:
        """Unused part of that."""
        return max(0, self.kept(kind) - self.used.get(kind, 0))

    def free(self, kind: FlavorResource) -> int:
        """What it may still use including borrowing; negative if usage is over the limit."""
        if self.parent is None:
            return self.subtree.get(kind, 0) - self.used.get(kind, 0)
        above = self.parent.free(kind)
        limit = self.quota(kind).borrowing
        if limit is not None:
            beyond = max(0, self.used.get(kind, 0) - self.kept(kind))
            above = min(above, self.subtree.get(kind, 0) - self.kept(kind) - beyond + limit)
        return self.spare(kind) + above

    def most(self, kind: FlavorResource) -> int:
        """What it could use if nothing were in use."""
        if self.parent is None:
            return self.subtree.get(kind, 0)
        found, limit = self.kept(kind) + self.parent.most(kind), self.quota(kind).borrowing
        return found if limit is None else min(found, self.subtree.get(kind, 0) + limit)

    def add(self, kind: FlavorResource, amount: int) -> None:
        """Adds usage; what exceeds the quota it does not lend counts in the cohort."""
        spare = self.spare(kind)
        self.used[kind] = self.used.get(kind, 0) + amount
        if self.parent is not None and amount > spare:
            self.parent.add(kind, amount - spare)

    def remove(self, kind: FlavorResource, amount: int) -> None:
        """Removes usage."""
        beyond = self.used.get(kind, 0) - self.kept(kind)
        self.used[kind] = self.used.get(kind, 0) - amount
        if self.parent is not None and beyond > 0:
            self.parent.remove(kind, min(amount, beyond))

    def over(self, kind: FlavorResource, more: int = 0) -> bool:
        """Whether it is over its quota with `more` added."""
        return self.subtree.get(kind, 0) < self.used.get(kind, 0) + more

    def over_nominal(self, kind: FlavorResource, more: int = 0) -> bool:
        """Whether it is over its nominal quota with `more` added, which means that it borrows."""
        return self.quota(kind).nominal < self.used.get(kind, 0) + more

    def within(self, kinds: Iterable[FlavorResource]) -> bool:
        """Whether it is within its quota for all of these resources."""
        return not any(self.over(kind) for kind in kinds)

    def above(self) -> Iterator[Account]:
        """Its cohorts, from its own to the root."""
        account = self.parent
        while account is not None:
            yield account
            account = account.parent

    @property
    def height(self) -> int:
        """Number of levels below it."""
        return max([min(len(self.cohorts) + len(self.queues), 1), *(one.height + 1 for one in self.cohorts)])

    def reach(self, kind: FlavorResource, amount: int) -> tuple[int, bool]:
        """How far it has to borrow for an amount: height of the lowest cohort that has it; whether more are above.

        Zero: its own quota is enough.
        """
        if self.parent is None or not self.over_nominal(kind, amount):
            return 0, self.parent is not None
        left = amount - self.spare(kind)
        account = self.parent
        while account.over(kind, left) and account.parent is not None:
            left -= account.spare(kind)
            account = account.parent
        return account.height, account.parent is not None


def accounts(queues: Iterable[ClusterQueue], cohorts: Iterable[QueueCohort]) -> dict[str, Account]:
    """The account of each queue in the tree of cohorts.

    Raises:
        InputError: Cohorts form a cycle.
    """
    queues, cohorts = list(queues), list(cohorts)
    specs = {cohort.name: cohort for cohort in cohorts}
    names = dict.fromkeys([*specs, *(one.parent for one in cohorts), *(one.cohort for one in queues)])
    tree = {name: Account(name, _quotas(specs[name].groups if name in specs else ())) for name in names if name}
    for cohort in cohorts:
        if cohort.parent:
            tree[cohort.name].parent = tree[cohort.parent]
            tree[cohort.parent].cohorts.append(tree[cohort.name])
    found = {}
    for queue in queues:
        account = found[queue.name] = Account(queue.name, _quotas(queue.groups))
        account.subtree = {kind: quota.nominal for kind, quota in account.quotas.items()}
        if queue.cohort:
            account.parent = tree[queue.cohort]
            tree[queue.cohort].queues.append(account)
    for account in tree.values():
        _refuse_circle(account)
        if account.parent is None:
            _fill(account)
    return found


def _quotas(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {kind: quota for group in groups for kind, quota in group.quotas().items()}


def _refuse_circle(account: Account) -> None:
    seen = [account.name]
    for one in account.above():
        if one.name in seen:
            raise InputError("cohorts contain one another", found=" > ".join([*seen, one.name]))
        seen.append(one.name)


def _fill(account: Account) -> None:
    account.subtree = {kind: quota.nominal for kind, quota in account.quotas.items()}
    for child in account.cohorts:
        _fill(child)
    for child in (*account.cohorts, *account.queues):
        for kind, amount in child.subtree.items():
            account.subtree[kind] = account.subtree.get(kind, 0) + amount - child.kept(kind)


def charge(account: Account, usage: Mapping[FlavorResource, int], sign: int = 1) -> None:
    """Adds usage of a queue, or removes it."""
    for kind, amount in usage.items():
        (account.add if sign > 0 else account.remove)(kind, amount)


@dataclass
class WorkloadUsage:
    """Usage of a workload: quotas, and domains of flavors."""

    quota: dict[FlavorResource, int] = field(default_factory=dict)
    places: dict[str, dict[Path, Requests]] = field(default_factory=dict)

    def book(self, flavor: str, taken: dict[Path, Requests]) -> None:
        """Adds the usage of pods by domain."""
        known = self.places.setdefault(flavor, {})
        for values, requests in taken.items():
            known[values] = total(known.get(values, {}), requests)


@dataclass(frozen=True)
class KueueCluster:
    """Everything that decides admission.

    Attributes:
        other: Usage of pods that Kueue did not place, by node.
        provisioning: Names of admission checks that provision nodes.
        grounds: See `ground`; snapshots of the same nodes and flavors may share it.
    """

    nodes: tuple[KubernetesNode, ...]
    flavors: dict[str, FlavorSpec]
    queues: dict[str, ClusterQueue]
    cohorts: tuple[QueueCohort, ...] = ()
    workloads: tuple[Workload, ...] = ()
    other: dict[str, Requests] = field(default_factory=dict)
    provisioning: frozenset[str] = frozenset()
    gates: Gates = field(default_factory=Gates)
    grounds: dict[str, FlavorNodes] = field(default_factory=dict, compare=False, repr=False)

    def ground(self, flavor: FlavorSpec) -> FlavorNodes:
        """The nodes of a flavor in its topology, built once for all snapshots of the cluster."""
        if flavor.name not in self.grounds:
            self.grounds[flavor.name] = FlavorNodes(flavor.topology, self.nodes, flavor.labels, self.other)
        return self.grounds[flavor.name]


class Snapshot:
    """The cluster as a scheduling cycle sees it.

    Attributes:
        flavors: Nodes of the flavors with a topology, by name.
        running: Workloads with quota, by queue and key.
    """

    def __init__(self, cluster: KueueCluster) -> None:
        self.cluster, self.gates = cluster, cluster.gates
        self.accounts: dict[str, Account] = accounts(cluster.queues.values(), cluster.cohorts)
        with_topology = [one for one in cluster.flavors.values() if one.topology and cluster.gates.topology]
        self.flavors = {one.name: Flavor(cluster.ground(one), one.tolerations) for one in with_topology}
        self.running: dict[str, dict[str, Workload]] = {name: {} for name in cluster.queues}
        for workload in cluster.workloads:
            if workload.admission and workload.admission.queue in self.running:
                self.running[workload.admission.queue][workload.key] = workload
                taken = self.usage(workload)
                charge(self.accounts[workload.admission.queue], taken.quota)
                self._spread(taken)

    def _spread(self, taken: WorkloadUsage) -> None:
        """Adds running usage to every flavor that contains the node, because flavors overlap."""
        for name, places in taken.places.items():
            shared = self.gates.overlapping and name in self.flavors and self.flavors[name].by_node
            for other, flavor in self.flavors.items():
                if other == name or (shared and flavor.by_node):
                    flavor.take(places)

    def usage(self, workload: Workload) -> WorkloadUsage:
        """Usage of a workload with quota."""
        found = WorkloadUsage()
        requests = {one.name: one.requests for one in workload.pod_sets}
        for share in workload.shares:
            _, held = workload.held(share)
            for resource, flavor in share.flavors.items():
                kind = (flavor, resource)
                found.quota[kind] = found.quota.get(kind, 0) + held.get(resource, 0)
            if share.place and self.gates.topology:
                for flavor in dict.fromkeys(share.flavors.values()):
                    found.book(flavor, usage(share.place, requests.get(share.name, {})))
        return found

    def add(self, queue: str, taken: WorkloadUsage, sign: int = 1) -> None:
        """Adds usage of a queue, or removes it."""
        charge(self.accounts[queue], taken.quota, sign)
        for name, places in taken.places.items():
            if name in self.flavors and name in self.cluster.queues[queue].flavors:
                self.flavors[name].take(places, sign)

    def remove_workload(self, workload: Workload) -> None:
        """Removes a workload."""
        del self.running[workload.quota_queue][workload.key]
        self.weigh([workload], -1)

    def add_workload(self, workload: Workload) -> None:
        """Adds a workload back."""
        self.running[workload.quota_queue][workload.key] = workload
        self.weigh([workload], 1)

    def weigh(self, workloads: Iterable[Workload], sign: int) -> None:
        """Removes the usage of workloads (-1) or adds it back (1); they stay in their queues."""
        for workload in workloads:
            self.add(workload.quota_queue, self.usage(workload), sign)

    def fits(self, queue: str, taken: WorkloadUsage) -> str:
        """What does not fit: `quota`, `topology`, or nothing."""
        account = self.accounts[queue]
        if any(max(0, account.free(kind)) < amount for kind, amount in taken.quota.items()):
            return "quota"
        for name, places in taken.places.items():
            if not all(self.flavors[name].holds(values, requests) for values, requests in places.items()):
                return "topology"
        return ""
