"""Whom a workload preempts: few, the least important, those of others that borrow before those of its own queue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from railyard.work.operate.kueue.plan import Needs, failure, find
from railyard.work.operate.kueue.queues import ANY, LOWER, NEVER, NEWER_EQUAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.work.operate.kueue.ledger import Account
    from railyard.work.operate.kueue.queues import Kind, Preemption, Workload
    from railyard.work.operate.kueue.snapshot import Snapshot


class Why(Enum):
    """Why a workload may be preempted."""

    OWN = "of its own queue"
    NEARER = "the quota is nearer to the queue that wants it"
    NOT_BORROWING = "where the queue does not borrow itself"
    BORROWING = "of lower priority, even where the queue borrows itself"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A workload that may be preempted.

    Attributes:
        workload: It.
        why: Why.
        top: The cohort over both queues; None: its own queue.
    """

    workload: Workload
    why: Why
    top: Account | None = None


def targets(
    snapshot: Snapshot, workload: Workload, wanted: Mapping[Kind, int], short: set[Kind], places: Needs
) -> list[Workload]:
    """Who has to go; none: nobody may, or it would not help.

    Args:
        snapshot: The cluster; it is as before afterwards.
        workload: That wants room.
        wanted: What it takes of quotas.
        short: Of which there is too little, or which lies in too small pieces.
        places: What wants a place in topologies.
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
        self, snapshot: Snapshot, workload: Workload, wanted: Mapping[Kind, int], short: set[Kind], places: Needs
    ) -> None:
        self.snapshot, self.workload, self.wanted, self.short, self.places = snapshot, workload, wanted, short, places
        self.account = snapshot.accounts[workload.queue]
        self.rules: Preemption = snapshot.cluster.queues[workload.queue].preemption

    def attempts(self, nearer: list[Candidate], others: list[Candidate]) -> list[bool]:
        """Whether the queue may borrow, in the order in which that is tried."""
        forbidden = self.rules.borrowing == NEVER
        under = all(self.account.quota(kind).nominal > self.account.used.get(kind, 0) for kind in self.short)
        if not (nearer or others) or (forbidden and not under):
            return [True]
        return [False, True] if forbidden and not nearer else [True, False]

    def attempt(self, order: list[Candidate], *, borrowing: bool) -> list[Workload]:
        """Takes candidates out until the workload fits, then puts back whom it can."""
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
        """Whether it may go as things stand: its queue and cohorts, up to the common one, use more than they have."""
        if one.top is None:
            return True
        if borrowing and one.why == Why.NOT_BORROWING:
            return False
        account = self.snapshot.accounts[_queue(one.workload)]
        if account.within(self.short):
            return False
        for above in account.above():
            if above is one.top:
                return True
            if above.within(self.short):
                return False
        return True

    def candidates(self) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """Those to whose quota the queue is nearer, others of the cohort, and those of the queue, each in order."""
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
    def _within_quota(account: Account, wanted: Mapping[Kind, int]) -> tuple[bool, dict[Kind, int]]:
        fits = not any(account.over(kind, amount) for kind, amount in wanted.items())
        return fits, {kind: max(0, amount - account.spare(kind)) for kind, amount in wanted.items()}

    def _collect(
        self, account: Account, top: Account, done: Account | None, into: tuple[bool, list[Candidate]]
    ) -> None:
        """Candidates of queues below a cohort that use more than they have."""
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
            kinds = {
                (flavor, resource)
                for share in (other.admission.shares if other.admission else ())
                for resource, flavor in share.flavors.items()
            }
            if kinds & self.short and self._allowed(other, policy):
                found.append(Candidate(other, self._why(other, top, nearer=nearer), top))
        return found

    def _allowed(self, other: Workload, policy: str) -> bool:
        lower = self.workload.priority > other.priority
        if policy == NEWER_EQUAL:
            equal = self.workload.priority == other.priority
            return lower or (equal and self.workload.created < other.created)
        return lower if policy == LOWER else policy == ANY

    def _why(self, other: Workload, top: Account | None, *, nearer: bool) -> Why:
        if top is None or nearer:
            return Why.OWN if top is None else Why.NEARER
        threshold = self.rules.threshold
        above = other.priority >= self.workload.priority or (threshold is not None and other.priority > threshold)
        return Why.NOT_BORROWING if self.rules.borrowing == NEVER or above else Why.BORROWING

    def _order(self, one: Candidate) -> tuple[bool, bool, int, tuple[int, ...], str]:
        """Evicted first, others before its own, the less important first, the latest first."""
        other = one.workload
        newest = tuple(-ord(letter) for letter in other.reserved) if other.reserved else ()
        return not other.evicted, one.top is None, other.priority, newest, other.uid


def _queue(workload: Workload) -> str:
    return workload.admission.queue if workload.admission else workload.queue
