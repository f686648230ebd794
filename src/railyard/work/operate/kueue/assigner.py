"""Which flavors a workload gets: the first that fits, or the one that takes least preemption and borrowing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.ask import times, total
from railyard.work.operate.kueue.plan import Choice, Mode, Part, Plan, explicit, settle, topology_only
from railyard.work.operate.kueue.queues import NEVER
from railyard.work.operate.kueue.room import matches, unborne
from railyard.work.operate.kueue.targets import targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.work.operate.kueue.ask import Requests
    from railyard.work.operate.kueue.objects import PodSet
    from railyard.work.operate.kueue.queues import ClusterQueue, FlavorSpec, Kind, ResourceGroup, Workload
    from railyard.work.operate.kueue.snapshot import Snapshot


class Grade(IntEnum):
    """How well a flavor serves, the worse the smaller."""

    NONE = 0
    NOBODY = 1
    """Preemption would do, but there is nobody to preempt."""
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


_MODES = {Grade.NONE: Mode.NONE, Grade.FIT: Mode.FIT}


@dataclass(frozen=True)
class Rating:
    """A grade, and how far the queue has to go: 0, or the height of a cohort."""

    grade: Grade
    borrows: int

    def better(self, other: Rating, *, prefer_local: bool) -> bool:
        """Whether it is better than another."""
        if Grade.NONE in (self.grade, other.grade):
            return self.grade != Grade.NONE
        if (self.grade == Grade.NOBODY) != (other.grade == Grade.NOBODY):
            return self.grade != Grade.NOBODY
        local = (-self.borrows, self.grade) > (-other.borrows, other.grade)
        return local if prefer_local else (self.grade, -self.borrows) > (other.grade, -other.borrows)


_WORST = Rating(Grade.NONE, 1 << 30)
_BEST = Rating(Grade.FIT, 0)


class Assigner:
    """Flavors for one workload.

    Attributes:
        snapshot: The cluster.
        workload: The workload.
        queue: Its queue.
        pinned: By pod set and resource, the flavor to keep to; empty: any.
    """

    def __init__(
        self, snapshot: Snapshot, workload: Workload, pinned: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.snapshot, self.workload, self.pinned = snapshot, workload, pinned or {}
        self.queue: ClusterQueue = snapshot.cluster.queues[workload.queue]

    def plan(self, counts: Sequence[int] | None = None) -> Plan:
        """Flavors and places, with the pods that are asked for or fewer.

        Args:
            counts: Of pods by set; None: all.
        """
        found, groups = Plan(), dict[str, list[Part]]()
        for number, part in enumerate(self._parts(counts)):
            asks = part.pods.asks
            groups.setdefault(asks.group if asks and asks.group else f"\0{number}", []).append(part)
        for group in groups.values():
            if not self._serve(group, found):
                return found
        if found.mode != Mode.NONE and self.snapshot.gates.topology:
            settle(found, self.workload, self.snapshot)
        return found

    def _parts(self, counts: Sequence[int] | None) -> list[Part]:
        """Pod sets with what they take; of a workload that has quota, with what it got."""
        parts = []
        for number, pods in enumerate(self.workload.pod_sets):
            share = self.workload.share(pods.name)
            if share is not None:
                flavors = {resource: Choice(name, Mode.FIT) for resource, name in share.flavors.items()}
                count, held = self.workload.held(share)
                parts.append(Part(replace(pods, count=count), held, flavors, place=share.place, delayed=share.delayed))
                continue
            count = counts[number] if counts else pods.count - min(self.workload.done.get(pods.name, 0), pods.count)
            wanted = times(self.workload.wanted[number], count)
            if self.queue.group("pods"):
                wanted["pods"] = count
            parts.append(Part(replace(pods, count=count), wanted))
        return parts

    def _serve(self, group: list[Part], plan: Plan) -> bool:
        """Flavors for pod sets that go together; whether all got some."""
        wanted = total(*(part.wanted for part in group))
        chosen: dict[str, Choice] | None = {key: one for part in group for key, one in part.flavors.items()}
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

    def _own(self, part: Part, chosen: Mapping[str, Choice]) -> dict[str, Choice]:
        """Of a group's flavors those that a set asks for; of a set that asks for none, those with a topology."""
        if part.wanted:
            return {resource: one for resource, one in chosen.items() if resource in part.wanted}
        grouped = part.pods.asks is not None and part.pods.asks.group
        with_topology = self.snapshot.flavors.keys() if grouped else ()
        return {resource: one for resource, one in chosen.items() if one.flavor in with_topology}

    def _flavor(
        self, group: list[Part], wanted: Requests, resource: str, before: Mapping[Kind, int]
    ) -> tuple[dict[str, Choice], list[str]]:
        """A flavor for all resources that are covered together with one, and why it does not simply fit."""
        covering = self.queue.group(resource)
        if covering is None:
            return {}, [f"the queue has no {resource}"]
        asked = {key: value for key, value in wanted.items() if key in covering.resources}
        best: dict[str, Choice] = {}
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
        """Whether further flavors are looked at."""
        if rating.grade in (Grade.NONE, Grade.NOBODY):
            return True
        if rating.grade != Grade.FIT and self.queue.next_if_preempting:
            return True
        return rating.borrows > 0 and self.queue.next_if_borrowing

    def _unfit(self, name: str, group: list[Part], covering: ResourceGroup, resource: str) -> str:
        """Why a flavor will not do for the pod sets, whatever its quota."""
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
        """Why a flavor's topology, or its absence, does not suit what pods ask."""
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
        self, name: str, asked: Requests, before: Mapping[Kind, int]
    ) -> tuple[dict[str, Choice], Rating, list[str]]:
        """How a flavor serves all resources: as it serves the worst."""
        choices, worst, why, farthest = dict[str, Choice](), _BEST, list[str](), 0
        for resource, amount in sorted(asked.items()):
            kind = (name, resource)
            rating = self._quota(kind, before.get(kind, 0) + amount)
            if rating.grade != Grade.FIT:
                why.append(f"too little {resource} in {name}")
            farthest = max(farthest, rating.borrows)
            if worst.better(rating, prefer_local=self.queue.prefer_local):
                worst = rating
            if worst.grade != Grade.NONE:
                choices[resource] = Choice(name, _MODES.get(rating.grade, Mode.PREEMPT), rating.borrows)
        return choices, worst, why

    def _quota(self, kind: Kind, amount: int) -> Rating:
        """How a quota serves an amount."""
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

    def _after_preemption(self, kind: Kind, amount: int) -> Rating:
        account = self.snapshot.accounts[self.queue.name]
        victims = targets(self.snapshot, self.workload, {kind: amount}, {kind}, {})
        if not victims:
            return Rating(Grade.NOBODY, account.reach(kind, amount)[0])
        self.snapshot.weigh(victims, -1)
        borrows = account.reach(kind, amount)[0]
        self.snapshot.weigh(victims, 1)
        same = any(one.admission and one.admission.queue == self.queue.name for one in victims)
        return Rating(Grade.PREEMPT if same else Grade.RECLAIM, borrows)
