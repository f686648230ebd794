"""Flavor assignment: which flavors a workload gets, and which workloads it preempts for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.objects import placed_together, times, total
from railyard.work.operate.kueue.plan import (
    AdmissionMode,
    FlavorChoice,
    Needs,
    PodSetPlan,
    WorkloadPlan,
    explicit,
    failure,
    find,
    settle,
    topology_only,
)
from railyard.work.operate.kueue.queues import ANY, LOWER, NEVER, NEWER_EQUAL
from railyard.work.operate.kueue.room import matches, unborne

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.operate.kueue.objects import PodSet, Requests
    from railyard.work.operate.kueue.queues import (
        ClusterQueue,
        FlavorResource,
        FlavorSpec,
        Preemption,
        ResourceGroup,
        Workload,
    )
    from railyard.work.operate.kueue.snapshot import Account, Snapshot


class PreemptionReason(Enum):
    """Why a workload may be preempted."""

    OWN = "of its own queue"
    NEARER = "the quota is nearer to the queue that wants it"
    NOT_BORROWING = "where the queue does not borrow itself"
    BORROWING = "of lower priority, even where the queue borrows itself"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A workload that may be preempted.

    Attributes:
        top: The lowest cohort above both queues; None: it is in the same queue.
    """

    workload: Workload
    why: PreemptionReason
    top: Account | None = None


def targets(
    snapshot: Snapshot,
    workload: Workload,
    wanted: Mapping[FlavorResource, int],
    short: set[FlavorResource],
    places: Needs,
) -> list[Workload]:
    """Workloads to preempt; empty: none may be preempted, or it would not help.

    Args:
        snapshot: The cluster; it is unchanged afterwards.
        workload: The workload that needs room.
        wanted: The quota that it uses.
        short: Resources that are short, or free only in pieces that are too small.
        places: Pod sets that need a place in a topology.
    """
    search = _Search(snapshot, workload, wanted, short, places)
    nearer, others, own = search.candidates()
    order = [*nearer, *others, *own]
    order = [one for one in order if one.workload.evicted] + [one for one in order if not one.workload.evicted]
    for borrowing in search.attempts(nearer, others):
        found = search.attempt(order, borrowing=borrowing)
        if found:
            return found
    return []


class _Search:
    def __init__(
        self,
        snapshot: Snapshot,
        workload: Workload,
        wanted: Mapping[FlavorResource, int],
        short: set[FlavorResource],
        places: Needs,
    ) -> None:
        self.snapshot, self.workload, self.wanted, self.short, self.places = snapshot, workload, wanted, short, places
        self.account = snapshot.accounts[workload.queue]
        self.rules: Preemption = snapshot.cluster.queues[workload.queue].preemption

    def attempts(self, nearer: list[Candidate], others: list[Candidate]) -> list[bool]:
        """Whether the queue may borrow, for each attempt in order."""
        forbidden = self.rules.borrowing == NEVER
        under = all(self.account.quota(kind).nominal > self.account.used.get(kind, 0) for kind in self.short)
        if not (nearer or others) or (forbidden and not under):
            return [True]
        return [False, True] if forbidden and not nearer else [True, False]

    def attempt(self, order: list[Candidate], *, borrowing: bool) -> list[Workload]:
        """Removes candidates until the workload fits, then restores those that can stay."""
        gone: list[Workload] = []
        for one in order:
            if not self._valid(one, borrowing=borrowing):
                continue
            self.snapshot.remove_workload(one.workload)
            gone.append(one.workload)
            if self._fits(borrowing=borrowing):
                gone = self._put_back(gone, borrowing=borrowing)
                self._restore(gone)
                return gone
        self._restore(gone)
        return []

    def _put_back(self, gone: list[Workload], *, borrowing: bool) -> list[Workload]:
        for place in range(len(gone) - 2, -1, -1):
            self.snapshot.add_workload(gone[place])
            if self._fits(borrowing=borrowing):
                gone[place] = gone[-1]
                gone.pop()
            else:
                self.snapshot.remove_workload(gone[place])
        return gone

    def _restore(self, gone: list[Workload]) -> None:
        for one in gone:
            self.snapshot.add_workload(one)

    def _fits(self, *, borrowing: bool) -> bool:
        for kind, amount in self.wanted.items():
            if not borrowing and self.account.over_nominal(kind, amount):
                return False
            if amount > max(0, self.account.free(kind)):
                return False
        return failure(find(self.snapshot, self.workload, self.places)) is None

    def _valid(self, one: Candidate, *, borrowing: bool) -> bool:
        """Whether it may be preempted now: its queue and cohorts, up to the common one, are over their quota."""
        if one.top is None:
            return True
        if borrowing and one.why == PreemptionReason.NOT_BORROWING:
            return False
        account = self.snapshot.accounts[one.workload.quota_queue]
        if account.within(self.short):
            return False
        for above in account.above():
            if above is one.top:
                return True
            if above.within(self.short):
                return False
        return True

    def candidates(self) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """Candidates whose quota is closer to the queue, others of the cohort, those of the queue; each in order."""
        own = self._of(self.account, None, nearer=False) if self.rules.within != NEVER else []
        nearer, others = list[Candidate](), list[Candidate]()
        if self.account.parent is not None and self.rules.reclaim != NEVER:
            self._reclaim(nearer, others)
        return sorted(nearer, key=self._order), sorted(others, key=self._order), sorted(own, key=self._order)

    def _reclaim(self, nearer: list[Candidate], others: list[Candidate]) -> None:
        advantage, left = self._within_quota(self.account, self.wanted)
        before: Account | None = None
        for top in self.account.above():
            self._collect(top, top, before, (advantage, nearer if advantage else others))
            fits, left = self._within_quota(top, left)
            advantage, before = advantage or fits, top

    @staticmethod
    def _within_quota(account: Account, wanted: Mapping[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
        fits = not any(account.over(kind, amount) for kind, amount in wanted.items())
        return fits, {kind: max(0, amount - account.spare(kind)) for kind, amount in wanted.items()}

    def _collect(
        self, account: Account, top: Account, done: Account | None, into: tuple[bool, list[Candidate]]
    ) -> None:
        """Candidates in queues below a cohort that are over their quota."""
        for child in account.cohorts:
            if child is not done and not child.within(self.short):
                self._collect(child, top, done, into)
        for queue in account.queues:
            if queue is not self.account and not queue.within(self.short):
                into[1].extend(self._of(queue, top, nearer=into[0]))

    def _of(self, account: Account, top: Account | None, *, nearer: bool) -> list[Candidate]:
        policy = self.rules.within if top is None else self.rules.reclaim
        found = []
        for other in self.snapshot.running[account.name].values():
            kinds = {(flavor, resource) for share in other.shares for resource, flavor in share.flavors.items()}
            if kinds & self.short and self._allowed(other, policy):
                found.append(Candidate(other, self._why(other, top, nearer=nearer), top))
        return found

    def _allowed(self, other: Workload, policy: str) -> bool:
        lower = self.workload.priority > other.priority
        if policy == NEWER_EQUAL:
            equal = self.workload.priority == other.priority
            return lower or (equal and self.workload.created < other.created)
        return lower if policy == LOWER else policy == ANY

    def _why(self, other: Workload, top: Account | None, *, nearer: bool) -> PreemptionReason:
        if top is None or nearer:
            return PreemptionReason.OWN if top is None else PreemptionReason.NEARER
        threshold = self.rules.threshold
        above = other.priority >= self.workload.priority or (threshold is not None and other.priority > threshold)
        return PreemptionReason.NOT_BORROWING if self.rules.borrowing == NEVER or above else PreemptionReason.BORROWING

    def _order(self, one: Candidate) -> tuple[bool, bool, int, tuple[int, ...], str]:
        """Sort key: evicted first, then other queues, then lowest priority, then most recent."""
        other = one.workload
        newest = tuple(-ord(letter) for letter in other.reserved) if other.reserved else ()
        return not other.evicted, one.top is None, other.priority, newest, other.uid


class Grade(IntEnum):
    """How well a flavor fits; smaller is worse."""

    NONE = 0
    NOBODY = 1
    """Preemption would help, but there is no candidate."""
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


_MODES = {Grade.NONE: AdmissionMode.NONE, Grade.FIT: AdmissionMode.FIT}


@dataclass(frozen=True)
class Rating:
    """A grade, and how far the queue has to borrow: 0, or the height of a cohort."""

    grade: Grade
    borrows: int

    def better(self, other: Rating, *, prefer_local: bool) -> bool:
        """Whether it is better than another rating."""
        if Grade.NONE in (self.grade, other.grade):
            return self.grade != Grade.NONE
        if (self.grade == Grade.NOBODY) != (other.grade == Grade.NOBODY):
            return self.grade != Grade.NOBODY
        local = (-self.borrows, self.grade) > (-other.borrows, other.grade)
        return local if prefer_local else (self.grade, -self.borrows) > (other.grade, -other.borrows)


_WORST = Rating(Grade.NONE, 1 << 30)
_BEST = Rating(Grade.FIT, 0)


class Assigner:
    """Assigns flavors to one workload.

    Attributes:
        pinned: The flavor to keep, by pod set and resource; empty: any.
    """

    def __init__(
        self, snapshot: Snapshot, workload: Workload, pinned: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.snapshot, self.workload, self.pinned = snapshot, workload, pinned or {}
        self.queue: ClusterQueue = snapshot.cluster.queues[workload.queue]

    def plan(self, counts: Sequence[int] | None = None) -> WorkloadPlan:
        """Flavors and places for the requested pods, or for fewer.

        Args:
            counts: Pods by set; None: all.
        """
        found = WorkloadPlan()
        for group in placed_together(self._parts(counts), lambda part: part.pods):
            if not self._serve(group, found):
                return found
        if found.mode != AdmissionMode.NONE and self.snapshot.gates.topology:
            settle(found, self.workload, self.snapshot)
        return found

    def _parts(self, counts: Sequence[int] | None) -> list[PodSetPlan]:
        """Pod sets with their requests; for a workload with quota, with what it has."""
        parts = []
        for number, pods in enumerate(self.workload.pod_sets):
            share = self.workload.share(pods.name)
            if share is not None:
                flavors = {resource: FlavorChoice(name, AdmissionMode.FIT) for resource, name in share.flavors.items()}
                count, held = self.workload.held(share)
                parts.append(
                    PodSetPlan(replace(pods, count=count), held, flavors, place=share.place, delayed=share.delayed)
                )
                continue
            count = counts[number] if counts else pods.count - min(self.workload.done.get(pods.name, 0), pods.count)
            wanted = times(self.workload.wanted[number], count)
            if self.queue.group("pods"):
                wanted["pods"] = count
            parts.append(PodSetPlan(replace(pods, count=count), wanted))
        return parts

    def _serve(self, group: list[PodSetPlan], plan: WorkloadPlan) -> bool:
        """Assigns flavors to pod sets of one group; returns whether all got some."""
        wanted = total(*(part.wanted for part in group))
        chosen: dict[str, FlavorChoice] | None = {key: one for part in group for key, one in part.flavors.items()}
        why: list[str] = []
        for resource in sorted(wanted):
            if chosen is None or resource in chosen or (not self.queue.group(resource) and not wanted[resource]):
                continue
            found, reasons = self._flavor(group, wanted, resource, plan.quota)
            why += reasons
            chosen = {**chosen, **found} if found else None
        served = True
        for part in group:
            part.flavors = self._own(part, chosen or {})
            part.why = list(why)
            plan.append(part)
            served &= bool(part.flavors) or not part.wanted
        return served

    def _own(self, part: PodSetPlan, chosen: Mapping[str, FlavorChoice]) -> dict[str, FlavorChoice]:
        """The flavors of a group that a set requests; if it requests none, those with a topology."""
        if part.wanted:
            return {resource: one for resource, one in chosen.items() if resource in part.wanted}
        grouped = part.pods.asks is not None and part.pods.asks.group
        with_topology = self.snapshot.flavors.keys() if grouped else ()
        return {resource: one for resource, one in chosen.items() if one.flavor in with_topology}

    def _flavor(
        self, group: list[PodSetPlan], wanted: Requests, resource: str, before: Mapping[FlavorResource, int]
    ) -> tuple[dict[str, FlavorChoice], list[str]]:
        """A flavor for all resources covered together with this one, and why it does not simply fit."""
        covering = self.queue.group(resource)
        if covering is None:
            return {}, [f"the queue has no {resource}"]
        asked = {key: value for key, value in wanted.items() if key in covering.resources}
        best: dict[str, FlavorChoice] = {}
        rated, why, last = _WORST, list[str](), False
        for name, _ in covering.flavors:
            unfit = self._unfit(name, group, covering, resource)
            if unfit:
                why.append(unfit)
                continue
            choices, rating, reasons = self._rate(name, asked, before)
            why += reasons
            last = not self._go_on(rating)
            if last or rating.better(rated, prefer_local=self.queue.prefer_local):
                best, rated = choices, rating
            if last:
                break
        for choice in best.values():
            choice.last = not last or name == covering.flavors[-1][0]
        return best, [] if rated.grade == Grade.FIT else why

    def _go_on(self, rating: Rating) -> bool:
        if rating.grade in (Grade.NONE, Grade.NOBODY):
            return True
        if rating.grade != Grade.FIT and self.queue.next_if_preempting:
            return True
        return rating.borrows > 0 and self.queue.next_if_borrowing

    def _unfit(self, name: str, group: list[PodSetPlan], covering: ResourceGroup, resource: str) -> str:
        """Why a flavor is not usable for the pod sets, whatever its quota."""
        flavor = self.snapshot.cluster.flavors.get(name)
        if flavor is None:
            return f"there is no flavor {name}"
        pinned = [self.pinned.get(part.pods.name, {}).get(resource) for part in group] if self.pinned else []
        if pinned and name not in pinned:
            return f"{name} is not what was nominated"
        for part in group:
            why = self._mismatch(part.pods, flavor, covering) if self.snapshot.gates.topology else ""
            taint = unborne(flavor.taints, (*part.pods.selection.tolerations, *flavor.tolerations))
            if why or taint:
                return why or f"{name} has the taint {taint}"
            keys = set(flavor.labels)
            chosen = part.pods.selection.labels
            wrong = any(flavor.labels[key] != value for key, value in chosen.items() if key in keys)
            if wrong or (part.pods.selection.terms and not matches(flavor.labels, part.pods.selection.terms, keys)):
                return f"{name} does not match the selector or affinity"
        return ""

    def _mismatch(self, pods: PodSet, flavor: FlavorSpec, covering: ResourceGroup) -> str:
        """Why a flavor's topology, or its absence, does not match the pods' request."""
        if not explicit(pods):
            if topology_only(self.queue, self.snapshot):
                return ""
            return f"{flavor.name} is for pods that ask for a topology" if flavor.topology else ""
        if not flavor.topology:
            covered = set(pods.requests) & set(covering.resources)
            return f"{flavor.name} has no topology" if covered else ""
        asks = pods.asks
        names = [asks.required or asks.preferred, *(name for name, _ in asks.layers)] if asks else []
        missing = next((name for name in names if name and name not in flavor.topology), "")
        return f"{flavor.name} has no level {missing}" if missing else ""

    def _rate(
        self, name: str, asked: Requests, before: Mapping[FlavorResource, int]
    ) -> tuple[dict[str, FlavorChoice], Rating, list[str]]:
        """Rating of a flavor over all resources: that of the worst one."""
        choices, worst, why, farthest = dict[str, FlavorChoice](), _BEST, list[str](), 0
        for resource, amount in sorted(asked.items()):
            kind = (name, resource)
            rating = self._quota(kind, before.get(kind, 0) + amount)
            if rating.grade != Grade.FIT:
                why.append(f"too little {resource} in {name}")
            farthest = max(farthest, rating.borrows)
            if worst.better(rating, prefer_local=self.queue.prefer_local):
                worst = rating
            if worst.grade != Grade.NONE:
                choices[resource] = FlavorChoice(name, _MODES.get(rating.grade, AdmissionMode.PREEMPT), rating.borrows)
        return choices, worst, why

    def _quota(self, kind: FlavorResource, amount: int) -> Rating:
        account = self.snapshot.accounts[self.queue.name]
        if amount > account.most(kind):
            return Rating(Grade.NONE, 0)
        borrows, others = account.reach(kind, amount)
        if amount <= max(0, account.free(kind)):
            return Rating(Grade.FIT, borrows)
        allowed = self.queue.preemption.borrowing != NEVER
        if account.quota(kind).nominal < amount and not others and not allowed:
            return Rating(Grade.NONE, borrows)
        return self._after_preemption(kind, amount)

    def _after_preemption(self, kind: FlavorResource, amount: int) -> Rating:
        account = self.snapshot.accounts[self.queue.name]
        victims = targets(self.snapshot, self.workload, {kind: amount}, {kind}, {})
        if not victims:
            return Rating(Grade.NOBODY, account.reach(kind, amount)[0])
        self.snapshot.weigh(victims, -1)
        borrows = account.reach(kind, amount)[0]
        self.snapshot.weigh(victims, 1)
        same = any(one.admission and one.admission.queue == self.queue.name for one in victims)
        return Rating(Grade.PREEMPT if same else Grade.RECLAIM, borrows)
