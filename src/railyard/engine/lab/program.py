"""Programs of ranks from a task graph: each rank's tasks, its connections, and the ends of which it learns."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.connections import communicators_of, connections_opened, pair_of_ranks
from railyard.collective.lowering.paths import shape_of
from railyard.collective.machine import Shape
from railyard.collective.timing import WIRE
from railyard.engine.lab.blueprint import RankProgram, RankStep, Script
from railyard.graph import CollectiveKind, Kind, Stream
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.cluster import Cluster
    from railyard.collective.algorithm import Schedule, Send
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.lab.wiring import Connections
    from railyard.engine.lowering import LoweredGraph
    from railyard.graph import TaskGraph


MOST_PIECES = 32
"""Into which a message is cut, so that what has come can go on while the rest still comes."""


@dataclass(frozen=True)
class CollectivePart:
    """One member's part of a collective.

    Attributes:
        script: What it does; connections are numbered as in `to` and `of`.
        to: Positions and lanes to which its connections lead.
        of: Positions and lanes from which they come.
    """

    script: Script
    to: tuple[tuple[int, int], ...]
    of: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LibraryCall:
    """A collective as a library sees it.

    Attributes:
        algorithm: What it runs as.
        wire_bytes: Its size with what the protocol adds.
        rounds: Invocations back to back.
        lanes: Connections to a neighbour, which all carry the same.
        piece_bytes: Into which messages are cut, about.
    """

    algorithm: str
    kind: CollectiveKind
    shape: Shape
    wire_bytes: float
    rounds: int
    lanes: int
    piece_bytes: float


@lru_cache(maxsize=256)
def parts(call: LibraryCall) -> tuple[CollectivePart, ...]:
    """The part of each member, by position.

    Raises:
        InputError: The algorithm wants switches that reduce.
    """
    schedule = ALGORITHMS.get(call.algorithm).schedule(call.kind, call.shape)
    if any(send.source < 0 or send.target < 0 for step in schedule.steps for send in step):
        raise InputError(
            f"`{call.algorithm}` wants switches that reduce, and those of the lab do not",
            key="collectives.algorithm",
            found=call.algorithm,
            allowed="an algorithm of ranks alone, such as `ring`",
        )
    members = [_Member() for _ in range(call.shape.ranks)]
    for lane in range(call.lanes):
        _lay_out(members, schedule, call, lane)
    return tuple(member.part(call.rounds) for member in members)


class _Member:
    """The sends and receives of one member while they are laid out."""

    def __init__(self) -> None:
        self.sends: list[tuple[int, int, tuple[int, ...]]] = []
        self.receives: list[tuple[int, int]] = []
        self.to: dict[tuple[int, int], int] = {}
        self.of: dict[tuple[int, int], int] = {}

    def part(self, rounds: int) -> CollectivePart:
        return CollectivePart(Script(tuple(self.sends), tuple(self.receives), rounds), tuple(self.to), tuple(self.of))


def _lay_out(members: list[_Member], schedule: Schedule, call: LibraryCall, lane: int) -> None:
    chunk = schedule.chunk_share * call.wire_bytes / call.lanes
    largest = max((len(send.chunks) for step in schedule.steps for send in step), default=1) * chunk
    pieces = max(1, min(MOST_PIECES, math.ceil(largest / call.piece_bytes)))
    # of each member and chunk: what brought it last, a receive for each piece
    came: list[dict[int, tuple[tuple[int, ...], tuple[int, ...]]]] = [{} for _ in members]
    for step in schedule.steps:
        brought = []
        for send in step:
            waits = _waits(came[send.source], send, pieces)
            receives = _message(members, send, lane, waits, chunk * len(send.chunks))
            brought.append((send, receives))
        for send, receives in brought:
            came[send.target].update(dict.fromkeys(send.chunks, (send.chunks, receives)))


def _waits(came: dict[int, tuple[tuple[int, ...], tuple[int, ...]]], send: Send, pieces: int) -> list[tuple[int, ...]]:
    """The receives that each piece of a message waits for: its like, where the same chunks came together."""
    before = [came[chunk] for chunk in send.chunks if chunk in came]
    together = len(before) == len(send.chunks) and all(chunks == send.chunks for chunks, _ in before)
    if together:
        return [(before[0][1][piece],) for piece in range(pieces)]
    every = tuple(sorted({receive for _, receives in before for receive in receives}))
    return [every] * pieces


def _message(
    members: list[_Member], send: Send, lane: int, waits: list[tuple[int, ...]], size: float
) -> tuple[int, ...]:
    """Adds a message piece by piece to both of its ends; returns the target's receives."""
    source, target = members[send.source], members[send.target]
    out = source.to.setdefault((send.target, lane), len(source.to))
    into = target.of.setdefault((send.source, lane), len(target.of))
    receives, sent = [], 0
    for piece, after in enumerate(waits):
        until = max(piece + 1, round(size * (piece + 1) / len(waits)))
        source.sends.append((out, until - sent, after))
        receives.append(len(target.receives))
        target.receives.append((into, until - sent))
        sent = until
    return tuple(receives)


PS = 1e-12

PIECE_S = 0.004
"""Time that a piece of a message takes on a NIC's link: long against the time slices of few cores (a millisecond or
two), short against a step of a ring of 4 MiB over 8 ranks at 500 Mb/s (8 ms)."""


@dataclass(frozen=True)
class TimeScale:
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
class LabWork:
    """What is to be run.

    Attributes:
        graph: The tasks, by the cluster's ranks.
        lowered: What each communication runs as.
        policy: What is fixed about collectives.
    """

    graph: TaskGraph
    lowered: LoweredGraph
    cluster: Cluster
    policy: CollectivePolicy


def programs(work: LabWork, connections: Connections, pace: TimeScale) -> tuple[RankProgram, ...]:
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

    def __init__(self, work: LabWork, connections: Connections, pace: TimeScale) -> None:
        self.graph, self.lowered, self.cluster, self.policy = work.graph, work.lowered, work.cluster, work.policy
        cluster = work.cluster
        self.connections, self.pace = connections, pace
        self.steps: list[list[RankStep]] = [[] for _ in range(cluster.ranks)]
        self.scripts: list[dict[Script, int]] = [{} for _ in range(cluster.ranks)]
        self.arrives: list[dict[int, tuple[int, int, int]]] = [{} for _ in range(cluster.ranks)]
        self.notes: list[dict[int, list[int]]] = [defaultdict(list) for _ in range(cluster.ranks)]
        self.noted = [0] * cluster.ranks
        self.shapes: dict[int, tuple[int, ...]] = {}

    def written(self) -> tuple[RankProgram, ...]:
        """All programs."""
        for task in range(len(self.graph)):
            for rank, step in self._steps(task):
                self.steps[rank].append(step)
        return tuple(self._program(rank) for rank in range(self.cluster.ranks))

    def _program(self, rank: int) -> RankProgram:
        return RankProgram(
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

    def _steps(self, task: int) -> Iterable[tuple[int, RankStep]]:
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
        """Tasks that each member waits for; the first member gets a note of those that none of them learns of."""
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

    def _step(self, task: int, waits: tuple[int, ...]) -> RankStep:
        graph, slower = self.graph, self.pace.dilation * PS
        need = len(waits) if graph.need is None else min(int(graph.need[task]), len(waits))
        return RankStep(
            task=task,
            stream=-1 if graph.stream[task] == Stream.FREE else int(graph.stream[task]),
            waits=waits,
            need=need,
            seconds=float(graph.duration_ps[task]) * slower if graph.kind[task] == Kind.COMPUTE else 0.0,
            release_s=0.0 if graph.release_ps is None else float(graph.release_ps[task]) * slower,
            delay_s=0.0 if graph.delay_ps is None else float(graph.delay_ps[task]) * slower,
        )

    def _transfer(self, task: int, step: RankStep) -> RankStep:
        graph = self.graph
        source, target = int(graph.rank[task]), int(graph.peer[task])
        if source == target:
            return step
        factor = WIRE.get(str(self.lowered.protocol[self.lowered.entity[task]]), 1.0)
        each = connections_opened(self.cluster, Shape.grid(2, 1), "transfer", self.policy)
        lanes = self.connections.lanes(each) if self._apart(source, target) else 1
        part = max(math.ceil(int(graph.size_bytes[task]) * int(graph.count[task]) * factor / lanes), 1)
        self.arrives[target][task] = (source, part, lanes)
        pair = int(pair_of_ranks(self.cluster, np.array([source]), np.array([target]))[0])
        out = tuple(self.connections.number(source, target, pair, lane, step.stream) for lane in range(lanes))
        return replace(step, out=out, size_bytes=part)

    def _apart(self, source: int, target: int) -> bool:
        return source // self.cluster.ranks_per_server != target // self.cluster.ranks_per_server

    def _collective(
        self, task: int, members: tuple[int, ...], every: dict[int, RankStep]
    ) -> list[tuple[int, RankStep]]:
        graph, entity = self.graph, int(self.lowered.entity[task])
        name = str(self.lowered.algorithm[entity])
        if int(graph.size_bytes[task]) == 0:
            return list(every.items())
        shape = shape_of(self.cluster, np.array(members))
        lanes = self.connections.lanes(connections_opened(self.cluster, shape, name, self.policy))
        call = LibraryCall(
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
        for position, part in enumerate(parts(call)):
            rank = members[position]
            script = self.scripts[rank].setdefault(part.script, len(self.scripts[rank]))
            ends = self._ends(part, position, members, communicator, use)
            found.append((rank, replace(every[rank], script=script, members=members, out=ends[0], into=ends[1])))
        return found

    def _ends(
        self, part: CollectivePart, position: int, members: tuple[int, ...], communicator: int, use: tuple[int, int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the connections out of a member and into it."""
        number = self.connections.number
        mine = members[position]
        out = tuple(number(mine, members[to], communicator, lane, use) for to, lane in part.to)
        return out, tuple(number(members[of], mine, communicator, lane, use) for of, lane in part.of)
