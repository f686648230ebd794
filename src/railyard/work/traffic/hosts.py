"""A task graph between bare hosts as traffic: a transfer is a flow, a computation local work, a collective its flows.

This is what `railyard packet` runs: no accelerators, no library, a rank is a host with one port. Row by row the traffic
is the graph, but for collectives, whose members begin and end by themselves: what waits for a collective on a rank
waits for that rank's flows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet.records import Traffic
from railyard.graph import AT_RECEIVER, AT_SENDER, CollectiveKind, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]


Wait = tuple[int, int]
"""A row and where it must be done."""


@dataclass
class CollectiveLayout:
    """One collective that is being laid out.

    Attributes:
        size_bytes: As in the graph: the larger of one member's send and receive buffer.
        flows: Source, target, bytes of each.
        waits: What each flow waits for in addition to the entry of its source.
        done: Of each member: the rows after which it is done.
    """

    members: Sequence[int]
    size_bytes: int
    first: int
    flows: list[tuple[int, int, int]] = field(default_factory=list)
    entry: list[int] = field(default_factory=list)
    waits: list[list[Wait]] = field(default_factory=list)
    done: list[list[Wait]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self.members)

    def part(self) -> int:
        """One member's share of the bytes, rounded up; one byte at least."""
        return max(1, -(-self.size_bytes // self.count))

    def send(self, source: int, target: int, size_bytes: int, after: Sequence[Wait] = ()) -> int:
        """A flow between two places, after what is given; returns its row."""
        row = self.first + len(self.flows)
        self.flows.append((self.members[source], self.members[target], max(size_bytes, 1)))
        self.entry.append(source)
        self.waits.append(list(after))
        self.done[source].append((row, AT_SENDER))
        self.done[target].append((row, AT_RECEIVER))
        return row

    def ring(self, steps: int) -> None:
        """Every member passes on what it has just got, so many times."""
        before: list[int] = []
        for _ in range(steps):
            after: list[list[Wait]] = [[(row, AT_RECEIVER)] for row in before[-1:] + before[:-1]]
            before = [
                self.send(place, (place + 1) % self.count, self.part(), after[place] if after else ())
                for place in range(self.count)
            ]

    def direct(self) -> None:
        """Everybody sends a part to everybody, to the next one first."""
        for step in range(1, self.count):
            for place in range(self.count):
                self.send(place, (place + step) % self.count, self.part())

    def tree(self, *, down: bool) -> None:
        """A binomial tree from the first member or, backwards, to it."""
        spans = [1 << level for level in range((self.count - 1).bit_length())]
        edges = [(low, low + span) for span in spans for low in range(span) if low + span < self.count]
        have: dict[int, list[Wait]] = {place: [] for place in range(self.count)}
        for low, high in edges if down else reversed(edges):
            source, target = (low, high) if down else (high, low)
            row = self.send(source, target, self.size_bytes, have[source])
            have[target].append((row, AT_RECEIVER))


LAYOUTS: dict[CollectiveKind, Callable[[CollectiveLayout], None]] = {
    CollectiveKind.ALL_REDUCE: lambda it: it.ring(2 * (it.count - 1)),
    CollectiveKind.REDUCE: lambda it: it.tree(down=False),
    CollectiveKind.ALL_GATHER: lambda it: it.ring(it.count - 1),
    CollectiveKind.BROADCAST: lambda it: it.tree(down=True),
    CollectiveKind.ALL_TO_ALL: lambda it: it.direct(),
    CollectiveKind.REDUCE_SCATTER: lambda it: it.ring(it.count - 1),
}


def laid_out(kind: CollectiveKind, members: Sequence[int], size_bytes: int, first: int) -> CollectiveLayout:
    """The flows of one collective.

    Args:
        kind: What it does.
        members: Hosts, the root first.
        size_bytes: The larger of one member's send and receive buffer.
        first: Row of the first flow.
    """
    layout = CollectiveLayout(members, size_bytes, first, done=[[] for _ in members])
    LAYOUTS[kind](layout)
    return layout


@dataclass(frozen=True, eq=False)
class HostTraffic:
    """Traffic of a graph.

    Attributes:
        task: int64[rows], the task that each row is of.
    """

    traffic: Traffic
    task: Ints


def traffic_of(graph: TaskGraph, hosts: int) -> HostTraffic:
    """The traffic of a graph whose tasks are on the stream `FREE`.

    Args:
        graph: Computations, transfers and collectives.
        hosts: Hosts of the network, at least as many as the graph has ranks.
    """
    if (graph.kind == Kind.COLLECTIVE).any():
        return _Expansion(graph).traffic(hosts)
    every = np.diff(graph.dep_ptr)
    release = np.zeros(len(graph), np.int64) if graph.release_ps is None else graph.release_ps
    travels = graph.kind == Kind.TRANSFER
    traffic = Traffic(
        hosts=hosts,
        source=graph.rank,
        target=np.where(travels, graph.peer, graph.rank).astype(np.int32),
        size_bytes=np.where(travels, graph.size_bytes, 0).astype(np.int64),
        start_ps=np.where((every > 0) & (release == 0), -1, release).astype(np.int64),
        dep_ptr=graph.dep_ptr,
        dep_idx=graph.dep_idx,
        delay_ps=_delays(graph),
        need=every.astype(np.int32) if graph.need is None else graph.need,
        dep_at=np.full(len(graph.dep_idx), AT_RECEIVER, np.uint8) if graph.dep_at is None else graph.dep_at,
        klass=np.zeros(len(graph), np.uint8),
    )
    return HostTraffic(traffic, np.arange(len(graph)))


def _delays(graph: TaskGraph) -> Ints:
    """int64[n], what passes from when a task may start to the start of its flow, or to the end of its work."""
    delay = np.zeros(len(graph), np.int64) if graph.delay_ps is None else graph.delay_ps
    return delay + np.where(graph.kind == Kind.COMPUTE, graph.duration_ps, 0)


@dataclass
class _Expansion:
    """A graph with collectives, row by row."""

    graph: TaskGraph
    first: list[int] = field(default_factory=list)
    host: list[int] = field(default_factory=list)
    layouts: dict[int, CollectiveLayout] = field(default_factory=dict)
    silent: dict[tuple[int, int], int] = field(default_factory=dict)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    waits: list[list[Wait]] = field(default_factory=list)

    def traffic(self, hosts: int) -> HostTraffic:
        """Numbers the rows, then lets them wait."""
        self._add_rows()
        for task, host in enumerate(self.host):
            if task in self.layouts:
                self._let_wait(task, self.layouts[task])
            else:
                dependencies = self._dependencies(task)
                self.waits[self.first[task]] = [wait for dep, at in dependencies for wait in self._ends(dep, at, host)]
        columns = np.array(self.rows, np.int64).reshape(-1, 6).T
        every = np.array([len(waits) for waits in self.waits], np.int64)
        flat = np.array([wait for waits in self.waits for wait in waits], np.int64).reshape(-1, 2)
        traffic = Traffic(
            hosts=hosts,
            source=columns[0].astype(np.int32),
            target=columns[1].astype(np.int32),
            size_bytes=columns[2].copy(),
            start_ps=np.where((every > 0) & (columns[3] == 0), -1, columns[3]),
            dep_ptr=np.concatenate([[0], np.cumsum(every)]).astype(np.int64),
            dep_idx=flat[:, 0].astype(np.int32),
            delay_ps=columns[4].copy(),
            need=every.astype(np.int32),
            dep_at=flat[:, 1].astype(np.uint8),
            klass=np.zeros(len(every), np.uint8),
        )
        return HostTraffic(traffic, columns[5].copy())

    def _add_rows(self) -> None:
        graph = self.graph
        release = np.zeros(len(graph), np.int64) if graph.release_ps is None else graph.release_ps
        for task, (start_ps, delay_ps) in enumerate(zip(release.tolist(), _delays(graph).tolist(), strict=True)):
            self.first.append(len(self.rows))
            members = self._members(task)
            self.host.append(members[0])
            if len(members) > 1:
                self._add_collective(task, members, start_ps, delay_ps)
                continue
            travels = graph.kind[task] == Kind.TRANSFER
            target, size = (int(graph.peer[task]), int(graph.size_bytes[task])) if travels else (members[0], 0)
            self._add(members[0], target, size, start_ps, delay_ps, task)

    def _members(self, task: int) -> list[int]:
        graph, rank = self.graph, int(self.graph.rank[task])
        return graph.communicators.members(rank).tolist() if graph.kind[task] == Kind.COLLECTIVE else [rank]

    def _add_collective(self, task: int, members: list[int], start_ps: int, delay_ps: int) -> None:
        """Adds the flows, and a row of local work for every member that sends none: its end waits for its begin too."""
        what = CollectiveKind(int(self.graph.collective[task]))
        layout = laid_out(what, members, int(self.graph.size_bytes[task]), len(self.rows))
        self.layouts[task] = layout
        for flow in layout.flows:
            self._add(*flow, 0, 0, task)
        for place in sorted(set(range(layout.count)) - set(layout.entry)):
            self.silent[task, place] = self._add(members[place], members[place], 0, start_ps, delay_ps, task)
            layout.done[place].append((self.silent[task, place], AT_SENDER))

    def _add(self, *row: int) -> int:
        self.rows.append(row)
        self.waits.append([])
        return len(self.rows) - 1

    def _let_wait(self, task: int, layout: CollectiveLayout) -> None:
        """The flows of a collective wait for the entry of their source: what their member waits for."""
        gates = [self._gate(task, place, host) for place, host in enumerate(layout.members)]
        for number, (place, after) in enumerate(zip(layout.entry, layout.waits, strict=True)):
            self.waits[layout.first + number] = [gates[place], *after]

    def _gate(self, task: int, place: int, host: int) -> Wait:
        """The row that is done when a member may begin: the one that it waits for, or one of its own."""
        graph = self.graph
        needed = [(dep, at) for dep, at in self._dependencies(task) if self._holds_up(dep, at, task, host)]
        waits = [wait for dep, at in needed for wait in self._ends(dep, at, host)]
        release = 0 if graph.release_ps is None else int(graph.release_ps[task])
        delay = 0 if graph.delay_ps is None else int(graph.delay_ps[task])
        row = self.silent.get((task, place))
        if row is None and len(waits) == 1 and release == delay == 0:
            return waits[0]
        row = self._add(host, host, 0, release, delay, task) if row is None else row
        self.waits[row] = waits
        return row, AT_SENDER

    def _holds_up(self, dep: int, at: int, task: int, host: int) -> bool:
        """Whether a dependency of a collective holds up a member: where it ends, or all if it ends on none of them."""
        ends = self.layouts[dep].members if dep in self.layouts else [self._end(dep, at)]
        return host in ends or not set(ends) & set(self.layouts[task].members)

    def _end(self, task: int, at: int) -> int:
        """The host on which a task ends that is no collective."""
        received = self.graph.kind[task] == Kind.TRANSFER and at == AT_RECEIVER
        return int(self.graph.peer[task]) if received else self.host[task]

    def _ends(self, dep: int, at: int, host: int) -> list[Wait]:
        """What a host waits for when it waits for a task."""
        layout = self.layouts.get(dep)
        if layout is None:
            return [(self.first[dep], at)]
        here = [place for place, member in enumerate(layout.members) if member == host]
        return [wait for place in here or range(layout.count) for wait in layout.done[place]]

    def _dependencies(self, task: int) -> Iterator[Wait]:
        graph = self.graph
        low, high = graph.dep_ptr[task], graph.dep_ptr[task + 1]
        at = [AT_RECEIVER] * int(high - low) if graph.dep_at is None else graph.dep_at[low:high].tolist()
        return zip(graph.dep_idx[low:high].tolist(), at, strict=True)
