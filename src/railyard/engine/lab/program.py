"""From a task graph to what each rank does: its tasks, its connections, and of whose ends it learns."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.connections import communicators_of, opened, pair_of_ranks
from railyard.collective.lowering.groups import shape_of
from railyard.collective.shape import Shape
from railyard.collective.timing import WIRE
from railyard.engine.lab.blueprint import Program, Script, Step
from railyard.engine.lab.scripts import Asked, Part, parts
from railyard.graph import CollectiveKind, Kind, Stream
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.lab.connections import Connections
    from railyard.engine.lowering import Lowered
    from railyard.graph import TaskGraph

PS = 1e-12

PIECE_S = 0.004
"""Of a NIC's link, what a piece of a message takes: long against the turns of processes on few cores (a millisecond or
two), short against a step of a ring of 4 MiB over 8 ranks at 500 Mb/s (8 ms)."""


@dataclass(frozen=True)
class Pace:
    """How the lab's time stands to the cluster's.

    Attributes:
        dilation: Seconds of the lab for one of the cluster.
        piece_bytes: Into which messages are cut, about.
        slower: Of each rank, what its computations are multiplied by.
        late_s: Of each rank, moments and lengths, in the lab.
    """

    dilation: float
    piece_bytes: float
    slower: dict[int, float] = field(default_factory=dict)
    late_s: dict[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Work:
    """What is to be run.

    Attributes:
        graph: The tasks, by the cluster's ranks.
        lowered: What each communication runs as.
        cluster: Where.
        policy: What is fixed about collectives.
    """

    graph: TaskGraph
    lowered: Lowered
    cluster: Cluster
    policy: CollectivePolicy


def programs(work: Work, connections: Connections, pace: Pace) -> tuple[Program, ...]:
    """What each rank does.

    Args:
        work: What is to be run.
        connections: Filled with what they use.
        pace: Of the lab.

    Raises:
        InputError: The graph has what a lab cannot do.
    """
    _check(work.graph)
    return _Writer(work, connections, pace).written()


def _check(graph: TaskGraph) -> None:
    stored = np.isin(graph.kind, (Kind.READ, Kind.WRITE, Kind.LOAD, Kind.STORE))
    if stored.any():
        raise InputError(
            "the lab has no storage and no memory pool",
            key="engine",
            found=Kind(int(graph.kind[int(np.argmax(stored))])).name.lower(),
            allowed="computations, transfers and collectives",
        )


class _Writer:
    """The programs of all ranks while they are written."""

    def __init__(self, work: Work, connections: Connections, pace: Pace) -> None:
        self.graph, self.lowered, self.cluster, self.policy = work.graph, work.lowered, work.cluster, work.policy
        cluster = work.cluster
        self.connections, self.pace = connections, pace
        self.steps: list[list[Step]] = [[] for _ in range(cluster.ranks)]
        self.scripts: list[dict[Script, int]] = [{} for _ in range(cluster.ranks)]
        self.arrives: list[dict[int, tuple[int, int, int]]] = [{} for _ in range(cluster.ranks)]
        self.notes: list[dict[int, list[int]]] = [defaultdict(list) for _ in range(cluster.ranks)]
        self.noted = [0] * cluster.ranks
        self.shapes: dict[int, tuple[int, ...]] = {}

    def written(self) -> tuple[Program, ...]:
        """All programs."""
        for task in range(len(self.graph)):
            for rank, step in self._steps(task):
                self.steps[rank].append(step)
        return tuple(self._program(rank) for rank in range(self.cluster.ranks))

    def _program(self, rank: int) -> Program:
        return Program(
            rank=rank,
            host=rank // self.cluster.ranks_per_server,
            steps=tuple(self.steps[rank]),
            scripts=tuple(self.scripts[rank]),
            arrives=self.arrives[rank],
            notes={task: tuple(by) for task, by in self.notes[rank].items()},
            noted=self.noted[rank],
            slower=self.pace.slower.get(rank, 1.0),
            late_s=self.pace.late_s.get(rank, ()),
        )

    def _members(self, task: int) -> tuple[int, ...]:
        """Ranks at which a task waits and runs."""
        graph = self.graph
        if graph.kind[task] != Kind.COLLECTIVE:
            return (int(graph.rank[task]),)
        number = int(graph.rank[task])
        if number not in self.shapes:
            self.shapes[number] = tuple(sorted(graph.communicators.members(number).tolist()))
        return self.shapes[number]

    def _learn(self, task: int) -> tuple[int, ...]:
        """Ranks that learn of a task's end without a note."""
        peer = int(self.graph.peer[task])
        return (*self._members(task), peer) if self.graph.kind[task] == Kind.TRANSFER else self._members(task)

    def _steps(self, task: int) -> Iterable[tuple[int, Step]]:
        members = self._members(task)
        waits = self._waits(task, members)
        every = {rank: self._step(task, tuple(waits[rank])) for rank in members}
        kind = Kind(int(self.graph.kind[task]))
        if kind is Kind.TRANSFER:
            return [(members[0], self._transfer(task, every[members[0]]))]
        if kind is Kind.COLLECTIVE and len(members) > 1:
            return self._collective(task, members, every)
        return list(every.items())

    def _waits(self, task: int, members: tuple[int, ...]) -> dict[int, list[int]]:
        """For what each member waits: of tasks that none of them learns of, the first one is sent a note."""
        waits: dict[int, list[int]] = {rank: [] for rank in members}
        for before in self.graph.dependencies(task).tolist():
            there = self._learn(before)
            known = [rank for rank in members if rank in there]
            for rank in known:
                waits[rank].append(before)
            if not known:
                self._note(before, there[-1], members[0])
                waits[members[0]].append(before)
        return waits

    def _note(self, task: int, source: int, target: int) -> None:
        if target not in self.notes[source][task]:
            self.notes[source][task].append(target)
            self.noted[target] += 1

    def _step(self, task: int, waits: tuple[int, ...]) -> Step:
        graph, slower = self.graph, self.pace.dilation * PS
        need = len(waits) if graph.need is None else min(int(graph.need[task]), len(waits))
        return Step(
            task=task,
            stream=-1 if graph.stream[task] == Stream.FREE else int(graph.stream[task]),
            waits=waits,
            need=need,
            seconds=float(graph.duration_ps[task]) * slower if graph.kind[task] == Kind.COMPUTE else 0.0,
            release_s=0.0 if graph.release_ps is None else float(graph.release_ps[task]) * slower,
            delay_s=0.0 if graph.delay_ps is None else float(graph.delay_ps[task]) * slower,
        )

    def _transfer(self, task: int, step: Step) -> Step:
        graph = self.graph
        source, target = int(graph.rank[task]), int(graph.peer[task])
        if source == target:
            return step
        factor = WIRE.get(str(self.lowered.protocol[self.lowered.entity[task]]), 1.0)
        each = opened(self.cluster, Shape.grid(2, 1), "transfer", self.policy)
        lanes = self.connections.lanes(each) if self._apart(source, target) else 1
        part = max(math.ceil(int(graph.size_bytes[task]) * int(graph.count[task]) * factor / lanes), 1)
        self.arrives[target][task] = (source, part, lanes)
        pair = int(pair_of_ranks(self.cluster, np.array([source]), np.array([target]))[0])
        out = tuple(self.connections.number(source, target, pair, lane, step.stream) for lane in range(lanes))
        return _replaced(step, out=out, size_bytes=part)

    def _apart(self, source: int, target: int) -> bool:
        return source // self.cluster.ranks_per_server != target // self.cluster.ranks_per_server

    def _collective(self, task: int, members: tuple[int, ...], every: dict[int, Step]) -> list[tuple[int, Step]]:
        graph, entity = self.graph, int(self.lowered.entity[task])
        name = str(self.lowered.algorithm[entity])
        if int(graph.size_bytes[task]) == 0:
            return list(every.items())
        shape = shape_of(self.cluster, np.array(members))
        lanes = self.connections.lanes(opened(self.cluster, shape, name, self.policy))
        asked = Asked(
            name,
            CollectiveKind(int(graph.collective[task])),
            shape,
            float(graph.size_bytes[task]) * WIRE.get(str(self.lowered.protocol[entity]), 1.0),
            int(graph.count[task]),
            lanes,
            self.pace.piece_bytes,
        )
        communicator = int(communicators_of(np.array([graph.rank[task]]), name)[0])
        use = (int(graph.stream[task]), task if every[members[0]].stream < 0 else -1)
        found = []
        for position, part in enumerate(parts(asked)):
            rank = members[position]
            script = self.scripts[rank].setdefault(part.script, len(self.scripts[rank]))
            ends = self._ends(part, position, members, communicator, use)
            found.append((rank, _replaced(every[rank], script=script, members=members, out=ends[0], into=ends[1])))
        return found

    def _ends(
        self, part: Part, position: int, members: tuple[int, ...], communicator: int, use: tuple[int, int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the connections out of a member and into it."""
        number = self.connections.number
        mine = members[position]
        out = tuple(number(mine, members[to], communicator, lane, use) for to, lane in part.to)
        return out, tuple(number(members[of], mine, communicator, lane, use) for of, lane in part.of)


def _replaced(step: Step, **values: object) -> Step:
    return Step(**{**step.__dict__, **values})
