"""The state of a run: what each job has, has done and has lost; who waits, who runs, what is free.

Time is booked whenever a job's speed changes, split into work and each kind of loss. All of it is in whole
accelerator-microseconds, so that the time of a job is exactly the sum of its parts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.tenancy import NOBODY
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.rules import PPM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.rules import Rules
    from railyard.work.operate.tree import NodeTree

FUTURE, WAITING, RUNNING, DONE, ENDED, STUCK = range(6)
"""Status of a job: not submitted; queued; running; finished; ended early; waiting with nothing that could help."""

LOSSES = ("setup", "contention", "straggler", "checkpoint", "hang", "lost", "turnaround")
"""Uses of accelerator time other than work."""


@dataclass(frozen=True)
class BookedMark:
    """Bookings up to a moment; work that is lost later also counts as lost before it.

    Attributes:
        spent: Accelerator-microseconds of each job: work, then `LOSSES`.
        totals: Accelerator-microseconds in use, in service, and free while jobs wait.
    """

    time_us: int
    done_us: list[int]
    spent: list[list[int]]
    totals: tuple[int, int, int]
    jobs: tuple[int, int]


class State:
    """The state of a run; lists have one entry per job.

    Attributes:
        done_us: Work done, as time at full size and speed.
        first_us: First start; -1: not yet.
        end_us: End; -1: not yet.
        since_us: Time up to which it is booked.
        ready_us: When its work begins or resumes, after setup or restart.
        clear_us: When its nodes are erased and attested.
        version: Counts promises, so that outdated ones are recognized.
        contention_ppm: Speed with its neighbors, in millionths of its speed alone.
        hung: Whether it hangs because of a failure that is not detected yet.
        missing: Replicas of a serving job that have nodes but do not answer; `known_missing`: the detected ones.
        unserved_us: Time of a serving job's requests that were not served.
        live_us: Time of each serving job by replicas that answer and replicas that requests are sent to.
        placed: Nodes of running jobs, in rank order.
        ends: Running jobs by the end that their users or their work promise.
        owner: int32[nodes], owner of each node; -1: unowned, or the cluster is not shared.
        parts: Free nodes by owner, for owners with jobs; empty if the cluster is not shared.
        broken: Whether nodes are waiting for repair or are spares.
        used_by: int64[nodes], the last tenant (or job) on each; -1: none.
        slowed: Speed changes of jobs: time, job, its speed, the neighbor that sends most (-1: none).
        vain: Failures since its last progress; `best_us`: how far it had come.
        spent: Accelerator-microseconds of each job: work, then `LOSSES`.
        marks: Bookings at the ends of the steady window, as far as the run has come.
    """

    def __init__(self, jobs: JobTable, tree: NodeTree, rules: Rules) -> None:
        count = len(jobs)
        self.jobs, self.tree, self.rules = jobs, tree, rules
        self.free = FreeNodes(tree)
        self.share_out(np.full(tree.nodes, NOBODY, np.int32) if tree.owner is None else tree.owner.copy())
        self.now_us = 0
        self.nodes: list[int] = jobs.nodes.tolist()
        self.each: list[int] = jobs.each.tolist()
        self.work_us: list[int] = jobs.work_us.tolist()
        self.limit_us: list[int] = jobs.limit_us.tolist()
        self.accelerators: list[int] = jobs.accelerators.tolist()
        self.tenant: list[int] = jobs.tenant.tolist()
        self.ask: list[int] = jobs.ask.tolist()
        self.replica: list[int] = jobs.replica.tolist()
        self.load_ppm: list[int] = jobs.load_ppm.tolist()
        self._serving = np.flatnonzero(jobs.replica > 0).tolist()
        self.status = [FUTURE] * count
        self.done_us = [0] * count
        self.first_us = [-1] * count
        self.end_us = [-1] * count
        self.begun_us = [-1] * count
        self.since_us = [0] * count
        self.ready_us = [0] * count
        self.clear_us = [0] * count
        self.version = [0] * count
        self.contention_ppm = [PPM] * count
        self.straggler_ppm = [PPM] * count
        self.hung = [False] * count
        self.missing = [0] * count
        self.known_missing = [0] * count
        self.unserved_us = [0] * count
        self.live_us: dict[tuple[int, int, int], int] = {}
        self.attempts = [0] * count
        self.preempted = [0] * count
        self.failed = [0] * count
        self.slowed: list[tuple[int, int, int, int]] = []
        self.vain = [0] * count
        self.best_us = [0] * count
        self.spent = [[0] * (1 + len(LOSSES)) for _ in range(count)]
        self.marks: list[BookedMark] = []
        self.placed: dict[int, NDArray[np.int32]] = {}
        self.ends: list[tuple[int, int]] = []
        self.promise: dict[int, int] = {}
        self.usage = [0.0] * len(jobs.tenants)
        self.usage_us = 0
        self.used = [0] * len(jobs.tenants)
        self.busy = self.waiting = self.erased = 0
        self.used_by = np.full(tree.nodes, -1, np.int64)
        self.broken = np.zeros(tree.nodes, np.bool_)
        self.jobs_of_node: list[list[int]] = [[] for _ in range(tree.nodes)]
        self.met = np.diff(jobs.after_ptr).tolist()

    @cached_property
    def owner_of(self) -> list[int]:
        """The owner of the nodes that each tenant's jobs may use."""
        return [self.tree.owner_of(name) for name in self.jobs.tenants]

    def share_out(self, owner: NDArray[np.int32]) -> None:
        """Tracks the free nodes of each owner separately, based on those of all."""
        self.owner, shared = owner, self.tree.tenancy is not None
        self.parts = {one: self.free.part(self.owner, one) for one in sorted(set(self.owner_of))} if shared else {}

    def owner_of_job(self, job: int) -> int:
        """The owner of the nodes that a job may use."""
        return self.owner_of[self.tenant[job]]

    def free_of(self, job: int) -> FreeNodes:
        """The free nodes that a job may use."""
        return self.parts.get(self.owner_of_job(job), self.free)

    def hand_over(self, nodes: NDArray[np.int32], owner: int) -> None:
        """Transfers nodes to a tenant, or makes them unowned."""
        self.owner[nodes] = owner
        self.free.moved(nodes)

    def surplus(self, node: int) -> bool:
        """Whether a node is unowned, or its tenant has more than it began with."""
        owner = self.owner[node]
        if owner == NOBODY or self.tree.owner is None:
            return True
        return bool((self.owner == owner).sum() > (self.tree.owner == owner).sum())

    def request(self, job: int, nodes: int) -> PlacementRequest:
        """A job's request for a number of nodes; levels required of all jobs apply to jobs of several nodes."""
        ask, rules = self.jobs.asks[self.ask[job]], self.rules
        within = ask.within or (rules.within if nodes > 1 else "")
        asked = {**vars(ask), "within": within}
        return PlacementRequest(nodes, self.each[job], **asked, job=job, seed=rules.seed)

    def short(self) -> list[int]:
        """Serving jobs that run with fewer replicas than requested."""
        return [job for job in self._serving if job in self.placed and len(self.placed[job]) < self.nodes[job]]

    def served_ppm(self, job: int) -> int:
        """Share of a serving job's requests that are served now, in millionths.

        Requests to dead replicas fail until detection; the other replicas serve as many as they can.
        """
        live, asked = self.live(job), self.asked(job)
        answered = live * PPM // max(asked, 1)
        wanted = max(self.nodes[job] // self.replica[job], 1) * max(self.load_ppm[job], 1)
        return min(PPM, answered, live * PPM * PPM // wanted)

    def live(self, job: int) -> int:
        """Replicas of a serving job that answer."""
        return max(len(self.placed[job]) // self.replica[job] - self.missing[job], 0)

    def asked(self, job: int) -> int:
        """Replicas of a serving job that receive requests, including those whose loss is not detected yet."""
        return len(self.placed[job]) // self.replica[job] - self.known_missing[job]

    def held(self, job: int) -> int:
        """Accelerators of a running job."""
        return len(self.placed[job]) * self.each[job]

    def left_us(self, job: int) -> int:
        """Remaining work, as time at full size and speed."""
        return self.work_us[job] - self.done_us[job]

    def pace_ppm(self, job: int) -> int:
        """Work done per microsecond, in millionths of full size and speed."""
        if self.hung[job]:
            return 0
        if self.replica[job]:
            return PPM
        pace = (
            self.contention_ppm[job]
            * self.straggler_ppm[job]
            // PPM
            * self.rules.recovery.pace_ppm(self.nodes[job])
            // PPM
        )
        return pace * len(self.placed[job]) // self.nodes[job]

    def begin(self, job: int, nodes: NDArray[np.int32], setup_us: int, promised_us: int, clear_us: int = 0) -> None:
        """Places a job; its nodes are cleared before its setup."""
        self.placed[job] = nodes
        self.free.take(nodes, self.each[job])
        for node in nodes.tolist():
            self.jobs_of_node[node].append(job)
        had = len(nodes) * self.each[job]
        self.busy += had
        self.used[self.tenant[job]] += had
        self.status[job] = RUNNING
        self.waiting -= 1
        self.attempts[job] += 1
        self.since_us[job] = self.begun_us[job] = self.now_us
        self.clear_us[job] = self.now_us + clear_us
        self.ready_us[job] = self.clear_us[job] + setup_us
        if self.first_us[job] < 0:
            self.first_us[job] = self.now_us
        self.contention_ppm[job] = self.straggler_ppm[job] = PPM
        self.hung[job] = False
        self.missing[job] = self.known_missing[job] = 0
        self.promise[job] = promised_us
        insort(self.ends, (promised_us, job))

    def release(self, job: int) -> NDArray[np.int32]:
        """Takes a job off its nodes; its time must be booked first."""
        nodes = self.placed.pop(job)
        self.free.give(nodes, self.each[job])
        for node in nodes.tolist():
            self.jobs_of_node[node].remove(job)
        had = len(nodes) * self.each[job]
        self.busy -= had
        self.used[self.tenant[job]] -= had
        del self.ends[bisect_left(self.ends, (self.promise.pop(job), job))]
        self.version[job] += 1
        return nodes

    def book(self, job: int) -> None:
        """Books a running job's time up to now."""
        since, now = self.since_us[job], self.now_us
        if now == since:
            return
        done, parts = self._due(job, now)
        self.since_us[job] = now
        self.usage[self.tenant[job]] += self.held(job) * (now - since)
        self.done_us[job] += done
        self.spent[job] = [sum(pair) for pair in zip(self.spent[job], parts, strict=True)]
        if self.replica[job]:
            self.unserved_us[job] += done * (PPM - self.served_ppm(job)) // PPM
            key = job, self.live(job), self.asked(job)
            self.live_us[key] = self.live_us.get(key, 0) + done

    def _due(self, job: int, now_us: int) -> tuple[int, list[int]]:
        """A running job's unbooked work, and the uses of its accelerator time."""
        since, had, parts = self.since_us[job], self.held(job), [0] * (1 + len(LOSSES))
        setup = min(now_us, max(self.ready_us[job], since)) - since
        cleared = min(setup, max(self.clear_us[job] - since, 0))
        parts[7] = cleared * had
        parts[1] = (setup - cleared) * had
        wall = now_us - since - setup
        if self.hung[job]:
            parts[5] = wall * had
            return 0, parts
        done = min(wall * self.pace_ppm(job) // PPM, self.left_us(job))
        if self.replica[job]:
            parts[0] = wall * had
        else:
            self._split(job, parts, wall * had, done * self.accelerators[job])
        return done, parts

    def _split(self, job: int, parts: list[int], total: int, work: int) -> None:
        """Splits a job's time into work and what neighbors, stragglers and checkpoints cost."""
        shared = total - total * self.contention_ppm[job] // PPM
        slow = (total - shared) - (total - shared) * self.straggler_ppm[job] // PPM
        rest = total - work
        shared = min(shared, rest)
        slow = min(slow, rest - shared)
        parts[0] = work
        parts[2:5] = shared, slow, rest - shared - slow

    def mark(self, time_us: int, totals: tuple[int, int, int]) -> None:
        """Marks the bookings at a moment at which nothing has changed since the last event."""
        done, spent = self.done_us.copy(), self.spent.copy()
        for job in self.placed:
            more, parts = self._due(job, time_us)
            done[job] += more
            spent[job] = [sum(pair) for pair in zip(spent[job], parts, strict=True)]
        self.marks.append(
            BookedMark(time_us, done, [row.copy() for row in spent], totals, (len(self.placed), self.waiting))
        )

    def exchange(self, job: int, nodes: NDArray[np.int32]) -> None:
        """Replaces some or all nodes of a running job, possibly with fewer."""
        before = self.placed[job]
        gone, come = np.setdiff1d(before, nodes), np.setdiff1d(nodes, before)
        self.free.give(gone, self.each[job])
        self.free.take(come, self.each[job])
        for node in gone.tolist():
            self.jobs_of_node[node].remove(job)
        for node in come.tolist():
            self.jobs_of_node[node].append(job)
        change = (len(nodes) - len(before)) * self.each[job]
        self.busy += change
        self.used[self.tenant[job]] += change
        self.placed[job] = nodes

    def roll_back(self, job: int, kept_us: int) -> None:
        """Takes back lost work."""
        self._lose(job, self.done_us, self.spent, kept_us)
        for mark in self.marks:
            if mark.done_us[job] > kept_us:
                self._lose(job, mark.done_us, mark.spent, kept_us)

    def _lose(self, job: int, done_us: list[int], spent: list[list[int]], kept_us: int) -> None:
        lost = (done_us[job] - kept_us) * self.accelerators[job]
        done_us[job] = kept_us
        spent[job][0] -= lost
        spent[job][6] += lost

    def finish_us(self, job: int) -> int:
        """When a running job ends if nothing changes; -1: never."""
        pace = self.pace_ppm(job)
        if pace <= 0:
            return -1
        return max(self.now_us, self.ready_us[job]) + -(-self.left_us(job) * PPM // pace)

    def decay(self) -> None:
        """Decays usage up to now."""
        factor = 0.5 ** ((self.now_us - self.usage_us) / self.rules.half_life_us)
        self.usage = [value * factor for value in self.usage]
        self.usage_us = self.now_us
