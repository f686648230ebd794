"""One pass over the queue: which jobs start now, and where."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NO_NODES, backfills, disciplines, policies
from railyard.work.operate.rules import PPM
from railyard.work.operate.state import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from railyard.work.operate.discipline import Gate
    from railyard.work.operate.free import FreeNodes, PlacementRequest
    from railyard.work.operate.rules import NodeWindow
    from railyard.work.operate.state import State

    Entry = tuple[tuple[float, ...], int]

NEVER = 2**62
"""A time that never comes."""


@dataclass
class _Lane:
    """Progress of a pass among the jobs that may use the same nodes.

    Attributes:
        waits: Whether one of them is already waiting.
        closed: Whether no other may start.
    """

    gate: Gate
    waits: bool = False
    looked: int = 0
    closed: bool = False


class Scheduler:
    """Keeps the queue and starts jobs.

    Args:
        state: State of the run.
        start: Called with a job and its nodes when it starts.
        stop: Called with a job that is preempted.

    Attributes:
        fresh: Jobs added since the last pass.
    """

    def __init__(
        self, state: State, start: Callable[[int, NDArray[np.int32]], None], stop: Callable[[int], None]
    ) -> None:
        rules = state.rules
        self.state, self._start, self._stop = state, start, stop
        self.discipline = disciplines.get(rules.discipline)
        self.backfill = backfills.get(rules.backfill)
        self.policy = policies.get(rules.policy)
        self.queue: list[Entry] = []
        self.fresh: set[int] = set()
        self.quota = [rules.quotas.get(name, -1) for name in state.jobs.tenants]
        self._full = int(state.tree.accelerators.max())
        self._failing: dict[tuple[int, int, int], int] = {}

    def add(self, job: int) -> None:
        """Puts a job into the queue."""
        self.state.status[job] = WAITING
        self.state.waiting += 1
        insort(self.queue, (self.discipline.key(self.state, job), job))
        self.fresh.add(job)

    def renew(self) -> None:
        """Recomputes the keys of all waiting jobs."""
        self.state.decay()
        self.queue = sorted((self.discipline.key(self.state, job), job) for _, job in self.queue)

    def run(self, *, everything: bool) -> None:
        """Starts all jobs that can start.

        Args:
            everything: Whether something became free or keys changed since the last pass; otherwise only new jobs can
                start.
        """
        fresh, lanes, open_lanes = self.fresh, dict[int, _Lane](), max(len(self.state.parts), 1)
        self.fresh, self._failing = set(), {}
        for entry in self.queue[:] if self.state.parts else self.queue[: self.state.rules.depth]:
            owner = self.state.owner_of_job(entry[1])
            if owner not in lanes:
                lanes[owner] = _Lane(self.backfill.gate(self))
            lane = lanes[owner]
            if lane.closed:
                continue
            self._look(entry, lane, candidate=everything or entry[1] in fresh)
            lane.looked += 1
            lane.closed |= lane.looked == self.state.rules.depth
            open_lanes -= lane.closed
            if not open_lanes:
                break

    def _look(self, entry: Entry, lane: _Lane, *, candidate: bool) -> None:
        """Starts a job of the queue, or lets it wait."""
        job, gate = entry[1], lane.gate
        if candidate and not self._over_quota(job):
            if self._fits(job) and gate.admits(job) and self._try(job, gate.kept(job)):
                gate.started(job)
                self._leave(entry)
                return
            if not lane.waits and self._make_room(entry):
                self._leave(entry)
                return
        lane.waits = True
        lane.closed = not gate.blocked(job)

    def _leave(self, entry: Entry) -> None:
        del self.queue[bisect_left(self.queue, entry)]

    def _fits(self, job: int) -> bool:
        free = self.state.free_of(job)
        each, least = self.state.each[job], int(self.state.jobs.least_nodes[job])
        if each == self._full:
            return least <= free.idle
        return least * each <= free.accelerators

    def _try(self, job: int, kept: NDArray[np.int32]) -> bool:
        """Starts a job if its policy finds nodes for it.

        Args:
            job: The waiting job.
            kept: Nodes that it may not use because they are reserved for others ahead of it.
        """
        free = self.state.free_of(job)
        request = self._request(job, free)
        if request is None:
            return False
        shape = (request.each, self.state.ask[job], self.state.owner_of_job(job))
        if request.nodes >= self._failing.get(shape, NEVER):
            return False
        hidden, opened = self._masks(job, kept)
        nodes = self._place(request, free, hidden, opened)
        if nodes is None:
            if not len(hidden):  # a job restricted to fewer nodes says nothing about others
                self._failing[shape] = request.nodes
            return False
        self._start(job, nodes)
        return True

    def _request(self, job: int, free: FreeNodes) -> PlacementRequest | None:
        """What a job requests now; elastic jobs take what is free."""
        state = self.state
        nodes, each, least = state.nodes[job], state.each[job], int(state.jobs.least_nodes[job])
        if least < nodes:
            nodes = min(nodes, free.count(each))
            if nodes < least:
                return None
        return state.request(job, nodes)

    def _place(
        self, request: PlacementRequest, free: FreeNodes, hidden: NDArray[np.int32], opened: NDArray[np.int32]
    ) -> NDArray[np.int32] | None:
        if not len(hidden) and not len(opened):
            return self.policy.place(request, free)
        free.out(hidden)
        free.back(opened)
        found = self.policy.place(request, free)
        free.back(hidden)
        free.out(opened)
        return found

    def _masks(self, job: int, kept: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Nodes in service that a job may not use, and reserved ones that it may use.

        It may not use what is reserved for others, nor nodes that a window takes before its end.
        """
        state = self.state
        if not state.rules.windows and not len(kept):
            return kept, kept
        hidden, opened = np.zeros(state.tree.nodes, np.bool_), np.zeros(state.tree.nodes, np.bool_)
        hidden[kept] = True
        end, tenant = self.promised_us(job), state.jobs.tenants[state.tenant[job]]
        for window in state.rules.windows:
            nodes = np.array(window.nodes, np.int32)
            if window.tenant == tenant and self.open(window):
                opened[nodes] = True
            elif state.now_us < window.start_us < end and window.tenant != tenant:
                hidden[nodes] = True
        free = state.free_of(job)
        opened &= ~free.up & ~state.broken & ~hidden & (state.owner == state.owner_of_job(job))
        hidden &= free.up
        return np.flatnonzero(hidden).astype(np.int32), np.flatnonzero(opened).astype(np.int32)

    def open(self, window: NodeWindow) -> bool:
        """Whether a window is open now."""
        return window.start_us <= self.state.now_us < window.end_us

    def promise_us(self, job: int) -> int:
        """How long a job promises to use its nodes."""
        state = self.state
        limit = state.limit_us[job]
        pace = state.rules.recovery.pace_ppm(state.nodes[job])
        return limit if limit >= 0 else state.rules.setup_us + -(-state.left_us(job) * PPM // pace)

    def promised_us(self, job: int) -> int:
        """When a job would promise to end if it started now."""
        return self.state.now_us + self.promise_us(job)

    def foreseen(self, job: int) -> tuple[int, int, NDArray[np.int32]]:
        """When a waiting job will start if all promises hold, how many extra nodes will be free then, and its nodes.

        No nodes are named if the job has no placement constraints.
        """
        state = self.state
        each, wanted = state.each[job], int(state.jobs.least_nodes[job])
        request, free = state.request(job, wanted), state.free_of(job)
        have = free.count(each)
        room: dict[int, int] = {}
        trial = free.copy() if request.constrained else None
        for end_us, moment in self._by_end(state.owner_of_job(job)):
            for one in moment:
                have += self._freed(one, each, room)
                if trial is not None:
                    trial.give(state.placed[one], state.each[one])
            if have < wanted:
                continue
            nodes = NO_NODES if trial is None else self.policy.place(request, trial)
            if nodes is not None:
                return max(end_us, state.now_us), have - wanted, nodes
        return NEVER, 0, NO_NODES

    def _by_end(self, owner: int) -> Iterator[tuple[int, list[int]]]:
        moment: list[int] = []
        last = -1
        for end_us, job in self.state.ends:
            if self.state.owner_of_job(job) != owner:
                continue
            if moment and end_us != last:
                yield last, moment
                moment = []
            moment.append(job)
            last = end_us
        if moment:
            yield last, moment

    def _freed(self, job: int, each: int, room: dict[int, int]) -> int:
        """Nodes that get room for `each` accelerators once a job ends; updates `room`."""
        state, gained = self.state, 0
        free, freed = state.free_of(job), state.each[job]
        up = free.up
        for node in state.placed[job].tolist():
            before = room.get(node, int(free.room[node]))
            after = before + freed if up[node] else before
            room[node] = after
            gained += before < each <= after
        return gained

    def _over_quota(self, job: int) -> bool:
        state = self.state
        tenant = state.tenant[job]
        quota = self.quota[tenant]
        return quota >= 0 and not state.rules.borrow and state.used[tenant] + state.accelerators[job] > quota

    def _make_room(self, entry: Entry) -> bool:
        """Starts a job in place of others, if the discipline or a quota entitles it."""
        victims = self._victims(entry)
        if not victims:
            return False
        state, job = self.state, entry[1]
        free = state.free_of(job)
        if free.accelerators + sum(state.held(one) for one in victims) < state.accelerators[job]:
            return False
        request = state.request(job, state.nodes[job])
        trial = free.copy()
        for count, victim in enumerate(victims, 1):
            trial.give(state.placed[victim], state.each[victim])
            nodes = self.policy.place(request, trial) if trial.accelerators >= state.accelerators[job] else None
            if nodes is not None:
                self._evict(victims[:count], nodes)
                self._start(job, nodes)
                return True
        return False

    def _evict(self, victims: list[int], nodes: NDArray[np.int32]) -> None:
        wanted = set(nodes.tolist())
        for victim in victims:
            if not wanted.isdisjoint(self.state.placed[victim].tolist()):
                self._stop(victim)

    def _victims(self, entry: Entry) -> list[int]:
        """Running jobs that a waiting one may preempt, the least entitled and youngest first."""
        state = self.state
        if self.discipline.preempts:
            keys = [(self.discipline.key(state, job), job) for job in self._on_nodes_of(entry[1])]
            found = [(key, state.begun_us[job], job) for key, job in keys if key > entry[0]]
            return [job for _, _, job in sorted(found, reverse=True)]
        tenant, job = state.tenant[entry[1]], entry[1]
        quota = self.quota[tenant]
        if not state.rules.borrow or quota < 0 or state.used[tenant] + state.accelerators[job] > quota:
            return []
        over = {one for one, most in enumerate(self.quota) if 0 <= most < state.used[one]}
        young = [(state.begun_us[one], one) for one in self._on_nodes_of(job) if state.tenant[one] in over]
        return [one for _, one in sorted(young, reverse=True)]

    def _on_nodes_of(self, job: int) -> list[int]:
        state, owner = self.state, self.state.owner_of_job(job)
        return [one for one in state.placed if state.owner_of_job(one) == owner]
