"""Queue disciplines and backfill rules, and the interface of placement policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from railyard.kit.registry import Registry
from railyard.work.operate.free import FreeNodes, PlacementRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.operate.state import State


Place = Callable[[PlacementRequest, FreeNodes], NDArray[np.int32] | None]
"""From a request and the free nodes to int32[nodes] in rank order, or None if the job waits. It changes nothing."""


@dataclass(frozen=True)
class NodePolicy:
    """A placement policy; creating the record registers it.

    Attributes:
        summary: One sentence on which nodes it chooses.
        source: The scheduler and version whose behavior it reproduces; empty for a bound.
        seeded: Whether the seed matters.
    """

    name: str
    summary: str
    place: Place
    source: str = ""
    seeded: bool = False


policies: Registry[NodePolicy] = Registry("placement policy", package="railyard.work.operate.placement")


NO_NODES = np.empty(0, np.int32)
"""Reserved nodes of rules that reserve only time."""


def first_nodes(room: NDArray[np.bool_], wanted: int) -> NDArray[np.int32] | None:
    """int32[wanted], the first nodes with room; None: too few have."""
    found = np.flatnonzero(room)[:wanted].astype(np.int32)
    return found if len(found) == wanted else None


def nodes_in(
    groups: Iterable[int], members: Sequence[NDArray[np.int32]], room: NDArray[np.bool_], wanted: int
) -> NDArray[np.int32]:
    """int32[wanted or less], the first nodes with room of some groups, group by group."""
    return np.concatenate([NO_NODES, *(members[one][room[members[one]]] for one in groups)])[:wanted]


def placement_policy(name: str, summary: str, *, source: str = "", seeded: bool = False) -> Callable[[Place], Place]:
    """Decorator that registers a placement function; see `NodePolicy`."""

    def add(place: Place) -> Place:
        policies.add(name, NodePolicy(name, summary, place, source, seeded))
        return place

    return add


Key = Callable[["State", int], tuple[float, ...]]
"""Sort key of a job from the state of a run and the job, smallest first. Submission order breaks ties."""


@dataclass(frozen=True)
class Discipline:
    """A queue discipline; creating the record registers it.

    Attributes:
        renews: Whether keys change while jobs wait; they are then recomputed every `renew_us` of the rules.
        preempts: Whether a waiting job may preempt running jobs with larger keys.
    """

    name: str
    summary: str
    key: Key
    renews: bool = False
    preempts: bool = False


class Queue(Protocol):
    """The scheduler as a backfill rule sees it."""

    state: State
    policy: NodePolicy

    def promise_us(self, job: int) -> int:
        """How long a job promises to use its nodes."""

    def promised_us(self, job: int) -> int:
        """When a job would promise to end if it started now."""

    def foreseen(self, job: int) -> tuple[int, int, NDArray[np.int32]]:
        """When a waiting job will start if all promises hold, how many extra nodes will be free then, and its nodes.

        No nodes are named if the job has no placement constraints.
        """


class Gate:
    """Decides in one pass over the queue which jobs that share a set of nodes may still start: here, all of them."""

    def __init__(self, scheduler: Queue) -> None:
        self.scheduler, self.state = scheduler, scheduler.state

    def blocked(self, _job: int) -> bool:
        """Records a job that cannot start now; False ends the pass."""
        return True

    def admits(self, _job: int) -> bool:
        """Whether a job may start now although others ahead of it wait."""
        return True

    def kept(self, _job: int) -> NDArray[np.int32]:
        """Nodes that an admitted job may not use because they are reserved for others before its end."""
        return NO_NODES

    def started(self, _job: int) -> None:
        """Records a job that has started."""


@dataclass(frozen=True)
class Backfill:
    """A backfill rule; creating the record registers it."""

    name: str
    summary: str
    gate: Callable[[Queue], Gate]


disciplines: Registry[Discipline] = Registry("queue discipline")
backfills: Registry[Backfill] = Registry("backfill", package="railyard.work.operate.discipline")


def _discipline(name: str, summary: str, *, renews: bool = False, preempts: bool = False) -> Callable[[Key], Key]:
    def add(key: Key) -> Key:
        disciplines.add(name, Discipline(name, summary, key, renews, preempts))
        return key

    return add


@_discipline("fair-share", "The tenant that recently used least of its share goes first.", renews=True)
def _fair_share(state: State, job: int) -> tuple[float, ...]:
    """Usage divided by share of the job's tenant.

    Slurm's classic fair-share factor 2^(-usage / share) gives the same order. Usage halves every
    `half_life_us` of the rules (Slurm: PriorityDecayHalfLife, 7 days).
    Source: https://slurm.schedmd.com/priority_multifactor.html
    """
    tenant = int(state.jobs.tenant[job])
    return (state.usage[tenant] / state.rules.share_of(state.jobs.tenants[tenant]),)


@_discipline("fifo", "In the order of submission.")
def _fifo(_state: State, _job: int) -> tuple[float, ...]:
    return ()


@_discipline(
    "least-attained",
    "Jobs with little service so far first; they preempt those with much.",
    renews=True,
    preempts=True,
)
def _least_attained(state: State, job: int) -> tuple[float, ...]:
    """Tiresias' discretized two-dimensional least attained service with two queues.

    Source: J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 4.2.
    """
    return (float(state.done_us[job] * state.accelerators[job] >= state.rules.attained_us),)


@_discipline("priority", "Larger priorities first; they preempt smaller ones.", preempts=True)
def _priority(state: State, job: int) -> tuple[float, ...]:
    return (-int(state.jobs.priority[job]),)


@_discipline("shortest", "The fewest remaining accelerator-hours first; a bound, since nobody knows them.")
def _shortest(state: State, job: int) -> tuple[float, ...]:
    return (float(state.left_us(job) * state.accelerators[job]),)


STRETCH = 32
"""Candidate start times tested at a time; most jobs find one early."""


class _Profile(Gate):
    """`conservative`: room on every node over time, built when the first job has to wait.

    Every waiting job gets the earliest time at which enough nodes have room until its promised end, after the
    reservations of the jobs ahead of it, and nodes for that time (its policy chooses them if the job has placement
    constraints). A job that starts earlier stays off nodes reserved for others before its own promised end.
    Source: A. Mu'alem, D. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling
    the IBM SP2 with backfilling", IEEE TPDS 2001; Slurm's sched/backfill reserves nodes by the same rule.
    """

    def __init__(self, scheduler: Queue) -> None:
        super().__init__(scheduler)
        self.rows = 0
        self._times = np.empty(0, np.int64)
        self._room = np.empty((0, 0), np.int32)
        self._searched: dict[tuple[int, int, int], tuple[int, int]] = {}

    @property
    def times(self) -> NDArray[np.int64]:
        """int64[rows], times at which room changes."""
        return self._times[: self.rows]

    @property
    def room(self) -> NDArray[np.int32]:
        """int32[rows, nodes]."""
        return self._room[: self.rows]

    def blocked(self, job: int) -> bool:
        if not self.rows:
            self._make(job)
        start, nodes = self._earliest(job)
        if len(nodes):
            self._reserve(start, start + self.scheduler.promise_us(job), nodes, self.state.each[job])
        return True

    def admits(self, job: int) -> bool:
        return not self.rows or int(np.count_nonzero(self._low(0, job) >= self.state.each[job])) >= self._wanted(job)

    def kept(self, job: int) -> NDArray[np.int32]:
        if not self.rows:
            return NO_NODES
        each = self.state.each[job]
        return np.flatnonzero((self.room[0] >= each) & (self._low(0, job) < each)).astype(np.int32)

    def started(self, job: int) -> None:
        if self.rows:
            now, end = self.state.now_us, self.scheduler.promised_us(job)
            self._reserve(now, end, self.state.placed[job], self.state.each[job])

    def _wanted(self, job: int) -> int:
        return int(self.state.jobs.least_nodes[job])

    def _make(self, job: int) -> None:
        """Builds the profile from the promised ends of running jobs, over the nodes that the job may use."""
        state, free = self.state, self.state.free_of(job)
        ends = np.maximum(np.array([end_us for end_us, _ in state.ends], np.int64), state.now_us)
        times, row = np.unique(np.concatenate([[state.now_us], ends]), return_inverse=True)
        self.rows = len(times)
        self._times = np.empty(2 * self.rows + 64, np.int64)
        self._room = np.zeros((2 * self.rows + 64, state.tree.nodes), np.int32)
        self.times[:], self.room[0] = times, free.room
        if len(ends):
            running = [state.placed[job] for _, job in state.ends]
            sizes = [len(nodes) for nodes in running]
            nodes = np.concatenate(running)
            each = np.repeat([state.each[job] for _, job in state.ends], sizes) * free.up[nodes]
            np.add.at(self.room, (np.repeat(row[1:], sizes), nodes), each)
        np.cumsum(self.room, axis=0, out=self.room)

    def _low(self, first: int, job: int) -> NDArray[np.int32]:
        """int32[nodes], the least room of each node while a job that starts at this row of the profile would run."""
        end = self.times[first] + self.scheduler.promise_us(job)
        last = max(int(self.times.searchsorted(end)), first + 1)
        found: NDArray[np.int32] = self._room[first:last].min(axis=0)
        return found

    def _earliest(self, job: int) -> tuple[int, NDArray[np.int32]]:
        """The earliest time at which a job finds nodes until its promised end, and those nodes; none if it never does.

        Room only shrinks within a pass, so a job of the same shape that runs at least as long starts no earlier.
        """
        shape = (self.state.each[job], self._wanted(job), self.state.ask[job])
        long = self.scheduler.promise_us(job)
        known_us, known_long = self._searched.get(shape, (-1, -1))
        first = int(self.times.searchsorted(known_us)) if 0 <= known_long <= long else 0
        for place in self._possible(first, long, shape[0], shape[1]):
            nodes = self._nodes(job, self._low(place, job))
            if len(nodes):
                start = int(self.times[place])
                self._searched[shape] = (start, long)
                return start, nodes
        return int(self.times[-1]), NO_NODES

    def _possible(self, first: int, long: int, each: int, wanted: int) -> Iterator[int]:
        """Rows of the profile, from `first` on, at which enough nodes have room for that long."""
        while first < self.rows:
            last = min(first + STRETCH, self.rows)
            ends = np.maximum(self.times.searchsorted(self._times[first:last] + long), np.arange(first + 1, last + 1))
            number = np.arange(first, int(ends[-1]))[:, None]
            until = np.where(self._room[first : ends[-1]] < each, number, self.rows)
            until = np.minimum.accumulate(until[::-1], axis=0)[::-1]  # per node: when it next runs out of room
            enough = np.count_nonzero(until[: last - first] >= ends[:, None], axis=1) >= wanted
            yield from (first + enough.nonzero()[0]).tolist()
            first = last

    def _nodes(self, job: int, low: NDArray[np.int32]) -> NDArray[np.int32]:
        """Nodes for a job among those with room, tightest fit first; its policy chooses if the job has constraints."""
        wanted, each = self._wanted(job), self.state.each[job]
        fits = np.flatnonzero(low >= each)
        if len(fits) < wanted:
            return NO_NODES
        request = self.state.request(job, wanted)
        if not request.constrained:
            return fits[np.argsort(low[fits], kind="stable")[:wanted]].astype(np.int32)
        trial = FreeNodes(self.state.tree)
        trial.take(np.arange(len(low), dtype=np.int32), self.state.tree.accelerators - low)
        found = self.scheduler.policy.place(request, trial)
        return NO_NODES if found is None else found

    def _reserve(self, start: int, end: int, nodes: NDArray[np.int32], each: int) -> None:
        first, last = self._split(start), self._split(end)
        self.room[first:last, nodes] -= each

    def _split(self, time: int) -> int:
        """The row of a time; adds a row if there is none."""
        place = int(self.times.searchsorted(time, side="right")) - 1
        if self.times[place] == time:
            return place
        if self.rows == len(self._times):
            self._times = np.concatenate([self._times, np.empty_like(self._times)])
            self._room = np.concatenate([self._room, np.empty_like(self._room)])
        self.rows += 1
        for column in (self.times, self.room):
            column[place + 2 :] = column[place + 1 : -1].copy()
        self.times[place + 1], self.room[place + 1] = time, self.room[place]
        return place + 1


class _Easy(Gate):
    """No job may delay the first job that waits.

    Its start is predicted from the promised ends of running jobs, counting nodes and accelerators. If it has placement
    constraints (one leaf, segments), its policy is run on the nodes that will be free then, and jobs that would not end
    in time stay off those nodes. Source: D. Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
    """

    def __init__(self, scheduler: Queue) -> None:
        super().__init__(scheduler)
        self.first = -1
        self.shadow_us = -1
        self.extra = 0
        self.nodes = NO_NODES

    def blocked(self, job: int) -> bool:
        if self.first < 0:
            self.first = job
        return True

    def admits(self, job: int) -> bool:
        if self.first < 0:
            return True
        if self.shadow_us < 0:
            self.shadow_us, self.extra, self.nodes = self.scheduler.foreseen(self.first)
        return self._in_time(job) or bool(len(self.nodes)) or self.scheduler.state.nodes[job] <= self.extra

    def kept(self, job: int) -> NDArray[np.int32]:
        return NO_NODES if self._in_time(job) else self.nodes

    def started(self, job: int) -> None:
        if self.shadow_us >= 0 and not self._in_time(job):
            self.extra -= self.scheduler.state.nodes[job]

    def _in_time(self, job: int) -> bool:
        return self.scheduler.promised_us(job) <= self.shadow_us


class _Closed(Gate):
    def blocked(self, _job: int) -> bool:
        return False


for _rule in (
    Backfill("any", "Whatever fits starts; large jobs may wait forever.", Gate),  # Kueue calls it BestEffortFIFO
    Backfill("conservative", "A job may overtake if it delays no earlier job.", _Profile),
    Backfill("easy", "A job may overtake if it does not delay the first waiting job.", _Easy),
    Backfill("none", "No job overtakes: a waiting job blocks all behind it.", _Closed),
):
    backfills.enter(_rule)
