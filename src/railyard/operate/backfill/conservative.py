"""`conservative`: nobody delays anybody who came before.

Every job that waits gets the earliest time at which enough nodes have room until its promised end, after those of the
jobs before it, and nodes for it: what it asks of its place counts, by its policy. Who starts earlier keeps off the
nodes that are promised to others before its own promised end. Source: A. Mu'alem, D. Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 2001;
Slurm's sched/backfill keeps nodes by the same rule.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from railyard.operate.discipline import NO_NODES, Backfill, backfills
from railyard.operate.free import Free

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.operate.discipline import Queue


class _Profile:
    """Room of every node from each time on, made when the first job has to wait."""

    def __init__(self, scheduler: Queue) -> None:
        self.scheduler, self.state = scheduler, scheduler.state
        self.times: list[int] = []
        self.room: list[NDArray[np.int32]] = []
        self._searched: dict[tuple[int, int, int], tuple[int, int]] = {}

    def blocked(self, job: int) -> bool:
        if not self.times:
            self._make()
        start, nodes = self._earliest(job)
        if len(nodes):
            self._reserve(start, start + self.scheduler.promise_us(job), nodes, self.state.each[job])
        return True

    def admits(self, job: int) -> bool:
        return not self.times or int((self._low(0, job) >= self.state.each[job]).sum()) >= self._wanted(job)

    def kept(self, job: int) -> NDArray[np.int32]:
        if not self.times:
            return NO_NODES
        each = self.state.each[job]
        return np.flatnonzero((self.room[0] >= each) & (self._low(0, job) < each)).astype(np.int32)

    def started(self, job: int) -> None:
        if self.times:
            now, end = self.state.now_us, self.scheduler.promised_us(job)
            self._reserve(now, end, self.state.placed[job], self.state.each[job])

    def _wanted(self, job: int) -> int:
        return int(self.state.jobs.least_nodes[job])

    def _make(self) -> None:
        """From the ends that running jobs promised."""
        state = self.state
        self.times, self.room = [state.now_us], [state.free.room.copy()]
        for end_us, job in state.ends:
            end = max(end_us, state.now_us)
            if end != self.times[-1]:
                self.times.append(end)
                self.room.append(self.room[-1].copy())
            nodes = state.placed[job]
            self.room[-1][nodes[state.free.up[nodes]]] += state.each[job]

    def _low(self, first: int, job: int) -> NDArray[np.int32]:
        """int32[nodes], the least room of each while a job that started at a place of the profile would run."""
        last = bisect_left(self.times, self.times[first] + self.scheduler.promise_us(job), first + 1)
        return np.asarray(np.min(self.room[first:last], axis=0))

    def _earliest(self, job: int) -> tuple[int, NDArray[np.int32]]:
        """When a job finds nodes until its promised end, and which; none if it never does.

        Room only shrinks in a pass: a job of the same shape that runs as long or longer starts no earlier.
        """
        shape = (self.state.each[job], self._wanted(job), self.state.ask[job])
        long = self.scheduler.promise_us(job)
        known_us, known_long = self._searched.get(shape, (-1, -1))
        first = bisect_left(self.times, known_us) if 0 <= known_long <= long else 0
        for place in range(first, len(self.times)):
            if int((self.room[place] >= shape[0]).sum()) < shape[1]:
                continue
            nodes = self._nodes(job, self._low(place, job))
            if len(nodes):
                self._searched[shape] = (self.times[place], long)
                return self.times[place], nodes
        return self.times[-1], NO_NODES

    def _nodes(self, job: int, low: NDArray[np.int32]) -> NDArray[np.int32]:
        """Nodes for a job among those with room, the tightest first; by its policy where any will not do."""
        wanted, each = self._wanted(job), self.state.each[job]
        fits = np.flatnonzero(low >= each)
        if len(fits) < wanted:
            return NO_NODES
        request = self.state.request(job, wanted)
        if not request.constrained:
            return fits[np.argsort(low[fits], kind="stable")[:wanted]].astype(np.int32)
        trial = Free(self.state.tree)
        trial.take(np.arange(len(low), dtype=np.int32), self.state.tree.accelerators - low)
        found = self.scheduler.policy.place(request, trial)
        return NO_NODES if found is None else found

    def _reserve(self, start: int, end: int, nodes: NDArray[np.int32], each: int) -> None:
        """Takes room of nodes from `start` to `end`."""
        first, last = self._split(start), self._split(end)
        for room in self.room[first:last]:
            room[nodes] -= each

    def _split(self, time: int) -> int:
        place = bisect_right(self.times, time) - 1
        if self.times[place] == time:
            return place
        self.times.insert(place + 1, time)
        self.room.insert(place + 1, self.room[place].copy())
        return place + 1


CONSERVATIVE = backfills.add(
    "conservative", Backfill("conservative", "Who delays nobody that came before may overtake.", _Profile)
)
