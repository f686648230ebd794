"""The event loop of a run: events in time order, and a pass over the queue after each moment."""

from __future__ import annotations

from heapq import heappop
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate import recovery
from railyard.work.operate.free import Event
from railyard.work.operate.rules import PPM
from railyard.work.operate.running import Away, LeaveReason, Running
from railyard.work.operate.state import DONE, ENDED, STUCK, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.work.operate.contention.neighbours import Neighbours
    from railyard.work.operate.failures.fault import FaultSource
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.rules import Rules
    from railyard.work.operate.tree import NodeTree


class ClusterRun(Running):
    """A run of jobs on a cluster.

    Args:
        jobs: The submitted jobs.
        tree: The cluster.
        rules: How it is operated.
        faults: Faults; None: nothing breaks.
        contention: Model of contention between jobs; None: no contention.
        every_us: Time between two samples of the series.
        until_us: End of the run; -1: when every job has ended.
        steady_us: Start and end of the steady window; None: from the first submission to the last.

    Attributes:
        steady_us: Start and end of the steady window.
        is_cut: Whether it was stopped early.
    """

    def __init__(
        self,
        jobs: JobTable,
        tree: NodeTree,
        rules: Rules,
        *,
        faults: FaultSource | None = None,
        contention: Neighbours | None = None,
        every_us: int = 3_600_000_000,
        until_us: int = -1,
        steady_us: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(jobs, tree, rules, contention, every_us)
        self.faults, self.until_us = faults, until_us
        self.is_cut = False
        self.arrived = 0
        self._submit_us: list[int] = jobs.submit_us.tolist()
        first, last = steady_us or (self._submit_us[0], self._submit_us[-1]) if len(jobs) else (0, 0)
        self.steady_us = first, min(last, until_us) if until_us >= 0 else last
        if contention is not None:
            contention.watch(self.state)
        self._open()

    def _open(self) -> None:
        count = self.rules.recovery.spares
        if count:
            self.spares = self.state.tree.spare(count).tolist()
            nodes = np.array(self.spares, np.int32)
            self.state.broken[nodes] = True
            self.state.free.out(nodes)
            self.ledger.shut(self.spares, Away.SPARE)
        for number, window in enumerate(self.rules.windows):
            self.push(window.start_us, Event.OPEN, number)
            self.push(window.end_us, Event.CLOSE, number)
            self.pending += 2
        if self.scheduler.discipline.renews:
            self.push(self.rules.renew_us, Event.RENEW, 0)
        if self.faults is not None:
            self.push(0, Event.CHUNK, 0)

    def run(self, moments: int = -1, asked: Callable[[], bool] = lambda: False) -> bool:
        """Runs until every job has ended, to the end of the run, or for a number of moments.

        Args:
            moments: Maximum number of moments; -1: no limit.
            asked: Returns True to stop before the next moment.

        Returns:
            Whether the run is complete.
        """
        while moments and not asked():
            moments -= 1
            time = self._next_us()
            if time < 0 or (0 <= self.until_us < time):
                self._close()
                return True
            self._moment(time)
        return False

    def cut(self) -> None:
        """Ends the run now, as if it had been due to end here."""
        self.until_us = self.state.now_us
        self.is_cut = True
        self._close()

    def _next_us(self) -> int:
        """Time of the next event; -1: none that would affect a job."""
        arrival = self._submit_us[self.arrived] if self.arrived < len(self.jobs) else -1
        if arrival < 0 and not self.state.placed and (not self.scheduler.queue or not self.pending):
            return -1
        first = self.events[0][0] if self.events else -1
        return min(first, arrival) if first >= 0 and arrival >= 0 else max(first, arrival)

    def _advance(self, time: int) -> None:
        """Accounts for the time up to the next event; marks the bookings at both ends of the steady window."""
        for end in self.steady_us[len(self.state.marks) :]:
            if end <= time:
                self.ledger.advance(end)
                self.state.mark(end, self.ledger.totals)
        self.ledger.advance(time)

    def _moment(self, time: int) -> None:
        self._advance(time)
        self.state.now_us = time
        while self.events and self.events[0][0] == time:
            _, kind, number, version = heappop(self.events)
            _HANDLERS[kind](self, number, version)
        while self.arrived < len(self.jobs) and self._submit_us[self.arrived] <= time:
            self.submit(self.arrived)
            self.arrived += 1
        if self.freed or self.scheduler.fresh:
            if self.freed:
                recovery.regrow_replicas(self)
            freed, self.freed = self.freed, False
            self.scheduler.run(everything=freed)
        self._slow_down()

    def submit(self, job: int) -> None:
        """Queues a job, or holds it until the jobs it depends on have ended."""
        self.state.status[job] = WAITING
        if not self.state.met[job]:
            self.scheduler.add(job)

    def end(self, job: int, version: int) -> None:
        """Handles a promised end; outdated promises are ignored."""
        state = self.state
        if version != state.version[job] or job not in state.placed:
            return
        state.book(job)
        if state.left_us(job) > 0:
            limit = state.limit_us[job]
            if 0 <= limit <= state.now_us - state.begun_us[job]:
                self.over(job, ENDED, LeaveReason.LIMIT)
            else:
                self.promise(job)
            return
        self.over(job, DONE, LeaveReason.DONE)

    def open_window(self, number: int, _version: int) -> None:
        """Takes the nodes of a window out of service."""
        self.pending -= 1
        window = self.rules.windows[number]
        for job in sorted({job for node in window.nodes for job in self.state.jobs_of_node[node]}):
            if self.jobs.tenants[self.state.tenant[job]] != window.tenant:
                self.preempt(job)
        self.service(np.array(window.nodes, np.int32))

    def close_window(self, number: int, _version: int) -> None:
        """Returns the nodes of a window to service."""
        self.pending -= 1
        self.service(np.array(self.rules.windows[number].nodes, np.int32))

    def fault(self, chunk: int, place: int) -> None:
        """Handles a fault."""
        if self.faults is not None:
            recovery.fault_happens(self, self.faults.chunk(chunk)[place])

    def chunk(self, number: int, _version: int) -> None:
        """Draws the faults of the next stretch of time."""
        if self.faults is None:
            return
        for place, fault in enumerate(self.faults.chunk(number)):
            self.push(fault.time_us, Event.FAULT, number, place)
        self.push((number + 1) * self.faults.chunk_us, Event.CHUNK, number + 1)

    def renew(self, _number: int, _version: int) -> None:
        """Recomputes the sort keys of waiting jobs."""
        if self.scheduler.queue:
            for job in self.state.placed:
                self.state.book(job)
            self.scheduler.renew()
            self.freed = True
        self.push(self.state.now_us + self.rules.renew_us, Event.RENEW, 0)

    def _slow_down(self) -> None:
        """Updates the speeds of jobs whose neighbors started or ended."""
        if self.contention is not None and (self.started or self.ended):
            for job, speed in self.contention.changed(self.state, self.started, self.ended).items():
                if job in self.state.placed and speed != self.state.contention_ppm[job]:
                    self.state.book(job)
                    self.state.contention_ppm[job] = min(speed, PPM)
                    self.promise(job)
        self.started, self.ended = set(), set()

    def _close(self) -> None:
        state = self.state
        if self.until_us >= 0:
            self._advance(self.until_us)
            state.now_us = self.until_us
        for job in sorted(state.placed):
            state.book(job)
            self.ledger.left(job, LeaveReason.RUNS)
        self.ledger.back(sorted(self.ledger.out))
        if self.until_us < 0:
            state.status = [STUCK if one == WAITING else one for one in state.status]


_HANDLERS: dict[int, Callable[[ClusterRun, int, int], None]] = {
    Event.END: ClusterRun.end,
    Event.REPAIR: recovery.fault_repaired,
    Event.CLOSE: ClusterRun.close_window,
    Event.DETECT: recovery.fault_detected,
    Event.FAULT: ClusterRun.fault,
    Event.OPEN: ClusterRun.open_window,
    Event.CHUNK: ClusterRun.chunk,
    Event.RENEW: ClusterRun.renew,
    Event.REPLICA: recovery.replicas_back,
}
