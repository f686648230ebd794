"""Runs Kueue's cycles until nothing changes: who is admitted where, who is preempted, who waits and why."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from railyard.kit.errors import SimulationError
from railyard.work.operate.kueue.assigner import Assigner, targets
from railyard.work.operate.kueue.plan import AdmissionMode, WorkloadPlan, explicit, find, keep, needs, topology_only
from railyard.work.operate.kueue.queues import ANY
from railyard.work.operate.kueue.snapshot import Snapshot, WorkloadUsage

if TYPE_CHECKING:
    from railyard.work.operate.kueue.queues import Admission, ClusterQueue, FlavorResource, Workload
    from railyard.work.operate.kueue.snapshot import KueueCluster


def state_of(played: PlayedWorkloads, one: Workload) -> str:
    """State of a workload: `waits`, `preempted`, `has quota`, `moved`, `admitted` or `runs`."""
    if one.admission is None:
        return "preempted" if one.key in played.gone else "waits"
    if not one.admitted:
        return "has quota"
    if one.key in played.moved:
        return "moved"
    return "admitted" if one.key in played.news else "runs"


def why_not(played: PlayedWorkloads, key: str) -> str:
    """Why a workload is not admitted; empty if unknown."""
    if played.gone.get(key):
        return f"for {played.gone[key]}"
    return played.why.get(key, "no replacement for the lost node" if key in played.gone else "")


Pins = dict[str, dict[str, str]]
"""The nominated flavor by pod set and resource."""


@dataclass
class CycleOutcome:
    """The outcome of one cycle.

    Attributes:
        admitted: New admissions, including those that replace a lost node.
        preempted: Workloads to preempt, by the workload that needs their room.
        evicted: Workloads that lost a node and found no replacement.
        left: Waiting workloads that are tried again at once, by queue.
        inadmissible: Workloads that wait until something changes, by queue.
    """

    admitted: dict[str, Admission] = field(default_factory=dict)
    preempted: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    left: dict[str, list[str]] = field(default_factory=dict)
    inadmissible: dict[str, list[str]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)


@dataclass
class _Entry:
    """A workload in a cycle: its plan, the workloads that it would preempt, and its outcome."""

    workload: Workload
    plan: WorkloadPlan
    victims: list[Workload]
    done: bool = False
    at_once: bool = False
    why: str = ""

    @property
    def order(self) -> tuple[bool, int, int, str]:
        """Sort key: workloads with quota first, then least borrowing, highest priority, oldest."""
        one = self.workload
        return one.admission is None, self.plan.borrows, -one.priority, one.created


def cycle(cluster: KueueCluster) -> CycleOutcome:
    """Tries the head of each queue once."""
    return _Cycle(cluster).run()


class _Cycle:
    def __init__(self, cluster: KueueCluster) -> None:
        self.cluster, self.snapshot = cluster, Snapshot(cluster)
        self.gone: dict[str, Workload] = {}  # preempted in this cycle
        self.outcome = CycleOutcome()

    def run(self) -> CycleOutcome:
        heads, behind = self._heads()
        entries = [_Entry(one, *self._plan(one)) for one in heads]
        for entry in sorted(entries, key=lambda one: one.order):
            self._process(entry)
            if not entry.done and not entry.workload.second_pass:
                self._wait(entry, behind)
        for workload in behind:
            self.outcome.left.setdefault(workload.queue, []).append(workload.key)
        return self.outcome

    def _heads(self) -> tuple[list[Workload], list[Workload]]:
        """The workloads to try, and those that wait behind them."""
        found = [one for one in self.cluster.workloads if one.second_pass]
        waiting: list[Workload] = []
        queues = self.cluster.queues
        for name in sorted(queues):
            pending = [one for one in self.cluster.workloads if one.queue == name and one.admission is None]
            pending = [one for one in pending if one.active]
            pending.sort(key=lambda one: (-one.priority, one.created, one.uid))
            ready = 0 if queues[name].stopped else 1
            found += pending[:ready]
            waiting += pending[ready:]
        return found, waiting

    def _wait(self, entry: _Entry, behind: list[Workload]) -> None:
        """Puts a workload back, to be tried again at once or, with workloads like it, when something changes."""
        one, queue = entry.workload, self.cluster.queues[entry.workload.queue]
        self.outcome.why[one.key] = entry.why
        if entry.at_once or queue.strict or entry.plan.flavors_left:
            self.outcome.left.setdefault(one.queue, []).append(one.key)
            return
        alike = [other for other in behind if _shape(other) == _shape(one)]
        behind[:] = [other for other in behind if other not in alike]
        for other in (one, *alike):
            self.outcome.inadmissible.setdefault(one.queue, []).append(other.key)

    def _plan(self, workload: Workload, pinned: Pins | None = None) -> tuple[WorkloadPlan, list[Workload]]:
        """The plan of a workload, and the workloads that it would preempt."""
        plan, victims = self._first_plan(workload, pinned)
        queue, gates = self.cluster.queues[workload.queue], self.snapshot.gates
        asks = any(explicit(pods) for pods in workload.pod_sets) or topology_only(queue, self.snapshot)
        if gates.topology and plan.mode == AdmissionMode.PREEMPT and asks and not workload.lost:
            wanted = needs(plan, workload, self.snapshot)
            self.snapshot.weigh(victims, -1)
            keep(plan, find(self.snapshot, workload, wanted, empty=not victims))
            self.snapshot.weigh(victims, 1)
        return plan, victims

    def _first_plan(self, workload: Workload, pinned: Pins | None) -> tuple[WorkloadPlan, list[Workload]]:
        assigner = Assigner(self.snapshot, workload, pinned)
        plan = assigner.plan()
        victims = self._victims(workload, plan)
        if plan.mode == AdmissionMode.FIT or victims or not self.snapshot.gates.partial:
            return plan, victims
        return self._fewer(workload, assigner) or (plan, [])

    def _victims(self, workload: Workload, plan: WorkloadPlan) -> list[Workload]:
        if plan.mode != AdmissionMode.PREEMPT:
            return []
        short: set[FlavorResource] = {
            (choice.flavor, resource)
            for part in plan.parts
            for resource, choice in part.flavors.items()
            if choice.mode == AdmissionMode.PREEMPT
        }
        places = needs(plan, workload, self.snapshot) if self.snapshot.gates.topology else {}
        return targets(self.snapshot, workload, plan.quota, short, places)

    def _fewer(self, workload: Workload, assigner: Assigner) -> tuple[WorkloadPlan, list[Workload]] | None:
        """The most pods with which a workload that accepts fewer could start."""
        full = [pods.count for pods in workload.pod_sets]
        spare = [pods.count - (pods.minimum or pods.count) for pods in workload.pod_sets]
        found: dict[int, tuple[WorkloadPlan, list[Workload]]] = {}

        def works(step: int) -> bool:
            plan = assigner.plan([most - more * step // sum(spare) for most, more in zip(full, spare, strict=True)])
            victims = self._victims(workload, plan)
            if plan.mode == AdmissionMode.FIT or victims:
                found[step] = plan, victims
            return step in found

        if workload.admission or sum(spare) <= 0:
            return None
        return found.get(bisect_left(range(sum(spare) + 1), True, key=works))

    def _process(self, entry: _Entry) -> None:
        taken, fits = self._renewed(entry)
        mode, workload = entry.plan.mode, entry.workload
        if self.snapshot.gates.fail_fast and workload.lost and mode != AdmissionMode.FIT:
            entry.done = True
            self.outcome.evicted.append(workload.key)
        elif mode == AdmissionMode.NONE or (mode == AdmissionMode.PREEMPT and not entry.victims):
            entry.why = entry.plan.why or "no workload may be preempted for it"
            if mode == AdmissionMode.PREEMPT and self.cluster.queues[workload.queue].preemption.reclaim != ANY:
                self.snapshot.add(workload.queue, self._reserved(entry))
        elif mode == AdmissionMode.DEFERRED:
            entry.why, entry.at_once = "it fits once workloads are gone that others preempt", True
            self.snapshot.add(workload.queue, taken)
        elif not fits or self._contested(entry):
            entry.why, entry.at_once = "others in this cycle took its room, or preempt the same workloads", True
        else:
            self._carry_out(entry, taken)

    def _carry_out(self, entry: _Entry, taken: WorkloadUsage) -> None:
        self.gone |= {one.key: one for one in entry.victims}
        self.snapshot.add(entry.workload.queue, taken)
        if entry.plan.mode == AdmissionMode.FIT:
            entry.done = True
            self.outcome.admitted[entry.workload.key] = entry.plan.admission(entry.workload.queue)
            return
        entry.at_once, entry.why = True, "workloads are preempted for it"
        self.outcome.preempted |= {one.key: entry.workload.key for one in entry.victims if not one.evicted}

    def _contested(self, entry: _Entry) -> bool:
        return any(one.key in self.gone for one in entry.victims)

    def _renewed(self, entry: _Entry) -> tuple[WorkloadUsage, bool]:
        """The plan's usage and whether it still fits; plans again if other admissions changed what it relies on."""
        taken = entry.plan.taken(self.snapshot, entry.workload)
        lacks = self._lacks(entry, taken)
        contested = self._contested(entry) and self.snapshot.gates.recompute_targets
        if not contested and not (lacks == "topology" and self.snapshot.gates.recompute):
            return taken, not lacks
        pinned = {
            part.pods.name: {resource: choice.flavor for resource, choice in part.flavors.items()}
            for part in entry.plan.parts
        }
        away = list(self.gone.values()) if contested else []
        for one in away:
            self.snapshot.remove_workload(one)
        entry.plan, entry.victims = self._plan(entry.workload, pinned)
        for one in away:
            self.snapshot.add_workload(one)
        if contested and entry.plan.mode == AdmissionMode.FIT:
            entry.plan.set_mode(AdmissionMode.DEFERRED)
        taken = entry.plan.taken(self.snapshot, entry.workload)
        return taken, not self._lacks(entry, taken)

    def _lacks(self, entry: _Entry, taken: WorkloadUsage) -> str:
        away = list({**self.gone, **{one.key: one for one in entry.victims}}.values())
        self.snapshot.weigh(away, -1)
        found = self.snapshot.fits(entry.workload.queue, taken)
        self.snapshot.weigh(away, 1)
        return found

    def _reserved(self, entry: _Entry) -> WorkloadUsage:
        """Usage reserved for a workload that waits for others to end: as much as the queue may use of it."""
        account, borrows = self.snapshot.accounts[entry.workload.queue], entry.plan.borrows > 0
        quota: dict[FlavorResource, int] = {}
        for kind, amount in entry.plan.quota.items():
            limits = account.quota(kind)
            left = limits.nominal - account.used.get(kind, 0)
            if not borrows:
                quota[kind] = max(0, min(amount, left))
            else:
                quota[kind] = amount if limits.borrowing is None else min(amount, left + limits.borrowing)
        return entry.plan.taken(self.snapshot, entry.workload, quota)


def _shape(workload: Workload) -> tuple[object, ...]:
    return workload.queue, workload.priority, workload.pod_sets


_ROUNDS = 4
"""Cycles per workload after which the run counts as endless."""


@dataclass
class PlayedWorkloads:
    """The final state.

    Attributes:
        workloads: Workloads in their final state, by key, in file order.
        moved: Keys of workloads that lost a node and got a replacement.
        gone: Preempted workloads and the workload that preempted them; empty: evicted because of a lost node.
    """

    workloads: dict[str, Workload]
    news: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    cycles: int = 0


def play(cluster: KueueCluster) -> PlayedWorkloads:
    """Runs Kueue to the end; preempted workloads leave between two cycles.

    Raises:
        SimulationError: Workloads preempt one another without end.
    """
    played = PlayedWorkloads({one.key: one for one in cluster.workloads})
    held: set[str] = set()
    while True:
        pending = tuple(replace(one, active=False) if one.key in held else one for one in played.workloads.values())
        outcome = cycle(replace(cluster, workloads=pending))
        played.cycles += 1
        moved = _apply(cluster, played, outcome)
        told = {key for keys in outcome.inadmissible.values() for key in keys}
        if not moved and told <= held:
            for key in (key for keys in outcome.left.values() for key in keys):
                played.why.setdefault(key, "it waits behind others of its queue")
            return played
        held = told if outcome.preempted or outcome.evicted else held | told
        if played.cycles > _ROUNDS * (len(pending) + 1):
            raise SimulationError(f"workloads preempt one another without end: {', '.join(outcome.preempted)}")


def _apply(cluster: KueueCluster, played: PlayedWorkloads, outcome: CycleOutcome) -> bool:
    """Applies the outcome of a cycle; returns whether anything changed."""
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
