"""A cluster at one moment: quotas, nodes, and who runs; workloads can be taken out of it and put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import total
from railyard.work.operate.kueue.flavor import Flavor, Ground, usage
from railyard.work.operate.kueue.ledger import accounts, charge
from railyard.work.operate.kueue.objects import Gates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.work.operate.kueue.ask import Requests
    from railyard.work.operate.kueue.ledger import Account
    from railyard.work.operate.kueue.objects import Node
    from railyard.work.operate.kueue.queues import ClusterQueue, Cohort, FlavorSpec, Kind, Workload
    from railyard.work.operate.kueue.room import Path


@dataclass
class Usage:
    """What a workload takes: of quotas, and of the domains of flavors.

    Attributes:
        quota: By flavor and resource.
        places: By flavor, by domain.
    """

    quota: dict[Kind, int] = field(default_factory=dict)
    places: dict[str, dict[Path, Requests]] = field(default_factory=dict)

    def book(self, flavor: str, taken: dict[Path, Requests]) -> None:
        """Adds what pods take of domains."""
        known = self.places.setdefault(flavor, {})
        for values, requests in taken.items():
            known[values] = total(known.get(values, {}), requests)


@dataclass(frozen=True)
class Cluster:
    """Everything that decides about admission.

    Attributes:
        nodes: Of the cluster.
        flavors: By name.
        queues: By name.
        cohorts: As they are.
        workloads: All that are not finished.
        other: What pods that Kueue did not place take, by node.
        provisioning: Names of admission checks that provision nodes.
        gates: Of Kueue.
        grounds: See `ground`; another moment of the same nodes and flavors may share them.
    """

    nodes: tuple[Node, ...]
    flavors: dict[str, FlavorSpec]
    queues: dict[str, ClusterQueue]
    cohorts: tuple[Cohort, ...] = ()
    workloads: tuple[Workload, ...] = ()
    other: dict[str, Requests] = field(default_factory=dict)
    provisioning: frozenset[str] = frozenset()
    gates: Gates = field(default_factory=Gates)
    grounds: dict[str, Ground] = field(default_factory=dict, compare=False, repr=False)

    def ground(self, flavor: FlavorSpec) -> Ground:
        """The nodes of a flavor in its topology, made once for all moments of the cluster."""
        if flavor.name not in self.grounds:
            self.grounds[flavor.name] = Ground(flavor.topology, self.nodes, flavor.labels, self.other)
        return self.grounds[flavor.name]


class Snapshot:
    """The cluster as a scheduling cycle sees it.

    Attributes:
        cluster: What it is of.
        accounts: By queue.
        flavors: Nodes of the flavors with a topology, by name.
        running: Workloads with quota, by queue and key.
    """

    def __init__(self, cluster: Cluster) -> None:
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

    def _spread(self, taken: Usage) -> None:
        """Books what runs on every flavor that has the node: flavors overlap."""
        for name, places in taken.places.items():
            shared = self.gates.overlapping and name in self.flavors and self.flavors[name].by_node
            for other, flavor in self.flavors.items():
                if other == name or (shared and flavor.by_node):
                    flavor.take(places)

    def usage(self, workload: Workload) -> Usage:
        """What a workload with quota takes."""
        found = Usage()
        requests = {one.name: one.requests for one in workload.pod_sets}
        for share in workload.admission.shares if workload.admission else ():
            _, held = workload.held(share)
            for resource, flavor in share.flavors.items():
                kind = (flavor, resource)
                found.quota[kind] = found.quota.get(kind, 0) + held.get(resource, 0)
            if share.place and self.gates.topology:
                for flavor in dict.fromkeys(share.flavors.values()):
                    found.book(flavor, usage(share.place, requests.get(share.name, {})))
        return found

    def add(self, queue: str, taken: Usage, sign: int = 1) -> None:
        """Counts usage of a queue, or takes it back."""
        charge(self.accounts[queue], taken.quota, sign)
        for name, places in taken.places.items():
            if name in self.flavors and name in self.cluster.queues[queue].flavors:
                self.flavors[name].take(places, sign)

    def remove_workload(self, workload: Workload) -> None:
        """Takes a workload out."""
        queue = _queue_of(workload)
        del self.running[queue][workload.key]
        self.add(queue, self.usage(workload), -1)

    def add_workload(self, workload: Workload) -> None:
        """Puts it back."""
        queue = _queue_of(workload)
        self.running[queue][workload.key] = workload
        self.add(queue, self.usage(workload))

    def weigh(self, workloads: Iterable[Workload], sign: int) -> None:
        """Takes the usage of workloads out (-1), or puts it back (1); they stay in their queues."""
        for workload in workloads:
            self.add(_queue_of(workload), self.usage(workload), sign)

    def fits(self, queue: str, taken: Usage) -> str:
        """What does not fit: `quota`, `topology`, or nothing."""
        account = self.accounts[queue]
        if any(max(0, account.free(kind)) < amount for kind, amount in taken.quota.items()):
            return "quota"
        for name, places in taken.places.items():
            if not all(self.flavors[name].holds(values, requests) for values, requests in places.items()):
                return "topology"
        return ""


def _queue_of(workload: Workload) -> str:
    return workload.admission.queue if workload.admission else workload.queue
