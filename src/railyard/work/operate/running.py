"""A run between two moments: allocations, promises, and the record of what happened so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappush
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.tenancy import NOBODY
from railyard.work.operate.free import Event
from railyard.work.operate.rules import PPM
from railyard.work.operate.scheduler import Scheduler
from railyard.work.operate.state import WAITING, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.contention.neighbours import Neighbours
    from railyard.work.operate.failures.fault import Effect, NodeFault
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.rules import Rules
    from railyard.work.operate.tree import NodeTree


class LeaveReason(IntEnum):
    """Why a job left its nodes."""

    DONE = 0
    PREEMPTED = 1
    FAILED = 2
    LIMIT = 3
    MOVED = 4
    VAIN = 5
    RUNS = 6


class Away(IntEnum):
    """Why a node is out of service."""

    BROKEN = 0
    SPARE = 1
    WINDOW = 2


ALLOCATIONS = ("job", "start_us", "end_us", "outcome", "first", "count")
SERIES = ("time_us", "waiting", "running", "busy", "free", "idle_nodes", "out_nodes", "broken_free", "broken_idle")
FAULTS = ("time_us", "mode", "effect", "node", "nodes", "jobs", "accelerators")
OUTAGES = ("node", "start_us", "end_us", "why")


class RunLedger:
    """Accounts of a run.

    Attributes:
        busy_us: Accelerator-microseconds in use so far.
        up_us: Accelerator-microseconds in service so far.
        useless_us: Accelerator-microseconds free while a job waited, so far.
        allocations: Rows of `ALLOCATIONS`: nodes are `nodes[first : first + count]`.
        series: Rows of `SERIES`: `broken_free` counts free accelerators of partly used nodes, `broken_idle` idle nodes
            of the narrowest groups that are partly in use.
        faults: Rows of `FAULTS`: accelerators of the affected jobs.
        outages: Finished rows of `OUTAGES`: a node, the start and end of its outage, and the reason (`Away`).
        out: Nodes out of service, with start and reason.
    """

    def __init__(self, state: State, every_us: int) -> None:
        self.state, self.every_us = state, every_us
        self.ended = 0
        self.busy_us = self.up_us = self.useless_us = 0
        self.time_us = self.next_us = 0
        self.allocations: list[tuple[int, ...]] = []
        self.nodes: list[int] = []
        self.series: list[tuple[int, ...]] = []
        self.faults: list[tuple[int, ...]] = []
        self.outages: list[tuple[int, ...]] = []
        self.out: dict[int, tuple[int, int]] = {}

    def advance(self, time_us: int) -> None:
        """Accounts for the time up to the next event, during which nothing changes."""
        while self.next_us <= time_us:
            self.series.append(self._sample(self.next_us))
            self.next_us += self.every_us
        state, span = self.state, time_us - self.time_us
        self.busy_us += state.busy * span
        self.up_us += (state.busy + state.free.accelerators) * span
        self.useless_us += state.free.accelerators * span if state.waiting else 0
        self.time_us = time_us

    @property
    def totals(self) -> tuple[int, int, int]:
        """Accelerator-microseconds in use, in service, and free while jobs wait."""
        return self.busy_us, self.up_us, self.useless_us

    def _sample(self, time_us: int) -> tuple[int, ...]:
        state, free = self.state, self.state.free
        partly = (free.room > 0) & (free.room < state.tree.accelerators)
        return (
            time_us,
            state.waiting,
            len(state.placed),
            state.busy,
            free.accelerators,
            free.idle,
            int(np.count_nonzero(state.broken)),
            int(free.room[partly].sum()),
            self._broken_idle(),
        )

    def _broken_idle(self) -> int:
        free = self.state.free
        if not free.idle_in:
            return 0
        narrow, size = free.idle_in[-1], self.state.tree.size[-1]
        return int(narrow[narrow < size].sum())

    def left(self, job: int, outcome: LeaveReason) -> None:
        """Records that a job leaves its nodes now."""
        state = self.state
        placed = state.placed[job].tolist()
        row = (job, state.begun_us[job], state.now_us, int(outcome), len(self.nodes), len(placed))
        self.allocations.append(row)
        self.nodes += placed

    def faulted(self, fault: NodeFault, nodes: Sequence[int], jobs: Sequence[int]) -> None:
        """Records a fault of nodes in service."""
        hit = sum(self.state.held(job) for job in jobs)
        self.faults.append((self.state.now_us, fault.mode, int(fault.effect), nodes[0], len(nodes), len(jobs), hit))

    def shut(self, nodes: Sequence[int], why: Away) -> None:
        """Records that nodes are out of service from now on."""
        for node in nodes:
            if self.out.get(node, (0, -1))[1] != why:
                self.back([node])
                self.out[node] = (self.state.now_us, int(why))

    def back(self, nodes: Sequence[int]) -> None:
        """Records that nodes are back in service."""
        for node in nodes:
            since, why = self.out.pop(node, (self.state.now_us, 0))
            if since < self.state.now_us:
                self.outages.append((node, since, self.state.now_us, why))

    def columns(self, which: str) -> dict[str, NDArray[np.int64]]:
        """One of the tables: int64[rows] by column name."""
        names = {"allocations": ALLOCATIONS, "series": SERIES, "faults": FAULTS, "outages": OUTAGES}[which]
        rows = np.array(getattr(self, which), np.int64).reshape(-1, len(names))
        return {name: rows[:, number] for number, name in enumerate(names)}


@dataclass
class ActiveFault:
    """A fault that is not over.

    Attributes:
        nodes: Affected nodes that are out of service, or will be.
        jobs: Affected jobs, with the number of their attempt and the work they had done.
        repair_us: Time from detection until the nodes are back.
        slow_ppm: Speed of its nodes until then, in millionths.
    """

    nodes: tuple[int, ...]
    effect: Effect
    mode: int
    began_us: int
    repair_us: int
    slow_ppm: int = PPM
    jobs: list[tuple[int, int, int]] = field(default_factory=list)


class Running:
    """Jobs on the nodes of a cluster.

    Args:
        jobs: The submitted jobs.
        tree: The cluster.
        rules: How it is operated.
        contention: Model of contention between jobs; None: no contention.
        every_us: Time between two samples of the series.

    Attributes:
        active: Faults that are not over, by number.
        known: Number of faults so far.
        pending: Repairs, detections and windows to come; once none is left, no waiting job can start any more.
        started, ended: Jobs that got or lost nodes since speeds were last computed.
        freed: Whether the queue must be checked after this moment.
    """

    def __init__(
        self, jobs: JobTable, tree: NodeTree, rules: Rules, contention: Neighbours | None, every_us: int
    ) -> None:
        self.jobs, self.rules, self.contention = jobs, rules, contention
        self.state = State(jobs, tree, rules)
        self.ledger = RunLedger(self.state, every_us)
        self.scheduler = Scheduler(self.state, self.start, self.preempt)
        self.events: list[tuple[int, int, int, int]] = []
        self.active: dict[int, ActiveFault] = {}
        self.known = self.pending = 0
        self.spares: list[int] = []
        self.started: set[int] = set()
        self.ended: set[int] = set()
        self.freed = False
        self._later = _dependants(jobs)

    def push(self, time_us: int, kind: Event, number: int, version: int = 0) -> None:
        """Schedules an event."""
        heappush(self.events, (time_us, int(kind), number, version))

    def start(self, job: int, nodes: NDArray[np.int32]) -> None:
        """Gives a job its nodes."""
        again = self.state.attempts[job] > 0
        setup = self.rules.recovery.restart_us if again else self.rules.setup_us
        self.state.begin(job, nodes, setup, self.scheduler.promised_us(job), self.cleared_us(job, nodes))
        self.state.straggler_ppm[job] = self.slowest_ppm(nodes)
        self.moved(job)
        self.promise(job)

    def slowest_ppm(self, nodes: NDArray[np.int32]) -> int:
        """Speed of the slowest of some nodes, in millionths: what slows them may not have been detected."""
        slow = [active for active in self.active.values() if active.slow_ppm < PPM]
        return min((one.slow_ppm for one in slow if np.isin(nodes, one.nodes).any()), default=PPM)

    def moved(self, job: int) -> None:
        """Updates the neighbors after a job got other nodes."""
        self.started.add(job)
        if self.contention is not None:
            self.contention.moved(self.state, job)

    def promise(self, job: int) -> None:
        """Schedules the end of a running job again."""
        state = self.state
        state.version[job] += 1
        finish, limit = state.finish_us(job), state.limit_us[job]
        if limit >= 0:
            last = state.begun_us[job] + limit
            finish = last if finish < 0 else min(finish, last)
        if finish >= 0:
            self.push(finish, Event.END, job, state.version[job])

    def leave(self, job: int, outcome: LeaveReason) -> None:
        """Takes a running job off its nodes."""
        self.state.book(job)
        self.ledger.left(job, outcome)
        self.state.release(job)
        if self.contention is not None:
            self.contention.moved(self.state, job)
        self.ended.add(job)
        self.started.discard(job)
        self.freed = True

    def preempt(self, job: int) -> None:
        """Preempts a running job; it goes back to the queue."""
        state, rules = self.state, self.rules.recovery
        state.book(job)
        if not rules.grace or state.hung[job]:
            state.roll_back(job, rules.kept(state.done_us[job], state.nodes[job]))
        state.preempted[job] += 1
        self.leave(job, LeaveReason.PREEMPTED)
        self.scheduler.add(job)

    def over(self, job: int, status: int, outcome: LeaveReason) -> None:
        """Ends a job permanently."""
        self.leave(job, outcome)
        self.state.status[job] = status
        self.state.end_us[job] = self.state.now_us
        self.ledger.ended += 1
        for later in self._later.get(job, ()):
            self.state.met[later] -= 1
            if not self.state.met[later] and self.state.status[later] == WAITING:
                self.scheduler.add(later)

    def service(self, nodes: NDArray[np.int32]) -> None:
        """Puts nodes into service if they are neither broken nor in a window, and the others out of service."""
        closed = self.state.broken.copy()
        for window in self.rules.windows:
            if self.scheduler.open(window):
                closed[list(window.nodes)] = True
        shut = closed[nodes]
        self.state.free.out(nodes[shut])
        self.state.free.back(nodes[~shut])
        self.ledger.back(nodes[~shut].tolist())
        for node in nodes[shut].tolist():
            self.ledger.shut([node], self._why(node))
        self.freed = True

    def replaced(self, job: int, lost: NDArray[np.int32]) -> NDArray[np.int32]:
        """A job's nodes with lost ones replaced by spares, of which there are enough; its tenant now owns them."""
        nodes = self.state.placed[job]
        if not len(lost):
            return nodes
        taken, self.spares = self.spares[: len(lost)], self.spares[len(lost) :]
        found, fresh = nodes.copy(), np.array(taken, np.int32)
        found[np.isin(found, lost)] = fresh
        self.state.broken[fresh] = False
        self.state.hand_over(lost, NOBODY)
        self.state.hand_over(fresh, self.state.owner_of_job(job))
        self.service(fresh)
        return found

    def _why(self, node: int) -> Away:
        if not self.state.broken[node]:
            return Away.WINDOW
        return Away.SPARE if node in self.spares else Away.BROKEN

    def cleared_us(self, job: int, nodes: NDArray[np.int32]) -> int:
        """Records that a job takes over new nodes; returns the microseconds needed to clear them."""
        state, rules = self.state, self.rules.turnaround
        user = job if rules.between == "jobs" else state.tenant[job]
        before = state.used_by[nodes]
        foreign = int(((before >= 0) & (before != user)).sum())
        state.used_by[nodes] = user
        erased = foreign > 0 and rules.erase_us > 0
        state.erased += foreign if erased else 0
        return (rules.erase_us if erased else 0) + rules.attested_us(len(nodes) * state.each[job])


def _dependants(jobs: JobTable) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    owner = np.repeat(np.arange(len(jobs)), np.diff(jobs.after_ptr))
    for later, before in zip(owner.tolist(), jobs.after.tolist(), strict=True):
        found.setdefault(before, []).append(later)
    return found
