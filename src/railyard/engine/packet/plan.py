"""Plans of sends: those of one collective on one shape, and reads and writes of storage or of a memory pool.

Plans name positions of a communicator, not ranks, so one plan serves every communicator of a shape and every size. A
send stands for one or more *steps* of the algorithm that would follow one another over the same edge: fewer, larger
sends keep the bytes and (by their delays) the latencies, and lose only how finely work is interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from railyard.collective.connections import port_pairs
from railyard.collective.lowering.storage import pool_stripes, stripes_of
from railyard.engine.flow import FLOW
from railyard.engine.packet.records import AT_RECEIVER
from railyard.graph import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from railyard.cluster import Cluster, Network
    from railyard.engine.lowering import LoweredGraph
    from railyard.engine.packet.placing import PlacedNetwork
    from railyard.graph import MergedJobs, TaskGraph

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Slicing:
    """How much of the run is simulated, and how finely.

    Attributes:
        factor: Bytes and times are divided by this; 1 is everything.
        coarser: Further factor on how many steps are merged into one send.
        packets: Whether scale-up is made of packets.
        packet_bytes: Payload of a full packet.
    """

    factor: float = 1.0
    coarser: float = 1.0
    packets: bool = False
    packet_bytes: int = 4096


@dataclass(frozen=True, eq=False)
class TaskFlows:
    """The flows of all tasks of one class, task by task.

    Attributes:
        tasks: int64[tasks].
        rows: Flows of a task.
        source: int64[tasks x rows], host.
        target: int64[tasks x rows].
        size_bytes: int64[tasks x rows].
        delay_ps: int64[tasks x rows].
        path_key: uint32[tasks x rows], what switches hash of each.
        connection: uint64[tasks x rows], identity of the connection over which each is sent.
        klass: Traffic class.
        nic_share: Share of their rate that NICs reach with these flows.
        ptr: int64[rows + 1], waits of one task's flows.
        before: int64[], flow of the task, or `GATE`.
        at: uint8[].
        last: int64[], flows that end the task.
        start_ps: Local work at the begin of each task.
        surplus_ps: What latencies that cannot be divided add to each task of a slice, in the slice's time.
    """

    tasks: Ints
    rows: int
    source: Ints
    target: Ints
    size_bytes: Ints
    delay_ps: Ints
    path_key: NDArray[np.uint32]
    connection: NDArray[np.uint64]
    klass: int
    nic_share: float
    ptr: Ints
    before: Ints
    at: NDArray[np.uint8]
    last: Ints
    start_ps: float
    surplus_ps: float
    label: str


_KINDS: dict[str, type[np.generic]] = {
    **{"source": np.int64, "target": np.int64, "share": np.float64, "steps": np.float64, "posted": np.float64},
    **{"lanes": np.float64, "channel": np.int64},
}

GATE = -1
"""Index in `Edges.before` of the collective's own start."""


class Edges(NamedTuple):
    """Waits: row `after[i]` waits for row `before[i]`, done at its sender or its receiver."""

    after: Ints
    before: Ints
    at: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class SendPlan:
    """s sends.

    Attributes:
        source: int64[s], position, or a reducing switch when negative (see `railyard.collective.algorithm`).
        target: int64[s], the same; equal to the source for a join, which moves nothing.
        share: float64[s], bytes per byte of the collective's size.
        steps: float64[s], steps of the algorithm that a send stands for; 0 for a join.
        posted: float64[s], messages that a join posts: a group of sends is launched when all are posted.
        lanes: float64[s], sends that share their sender's scale-up links at the same time.
        channel: int64[s], which of the connections between its two ends a send takes, counted in channels.
        edges: Waits for other sends, or for `GATE`.
        last: int64[], sends after which the collective is done, at their receivers.
    """

    source: Ints
    target: Ints
    share: Floats
    steps: Floats
    posted: Floats
    lanes: Floats
    channel: Ints
    edges: Edges
    last: Ints

    def __len__(self) -> int:
        return len(self.source)


class Planner:
    """Collects sends and waits."""

    def __init__(self) -> None:
        self._columns: list[dict[str, NDArray[Any]]] = []
        self._count = 0
        self._edges: list[Edges] = []

    def sends(
        self,
        source: ArrayLike,
        target: ArrayLike,
        share: ArrayLike,
        *,
        steps: ArrayLike = 1.0,
        posted: ArrayLike = 0.0,
        lanes: ArrayLike = 1.0,
        channel: ArrayLike = 0,
    ) -> Ints:
        """Adds sends, whose columns are broadcast; their numbers, in the shape of the columns."""
        columns = np.broadcast_arrays(*map(np.asarray, (source, target, share, steps, posted, lanes, channel)))
        kinds = zip(_KINDS.items(), columns, strict=True)
        self._columns.append({name: part.ravel().astype(kind) for (name, kind), part in kinds})
        count = columns[0].size
        ids = self._count + np.arange(count).reshape(columns[0].shape)
        self._count += count
        return ids

    def joins(self, at: ArrayLike, *, posted: ArrayLike = 0.0) -> Ints:
        """Adds one join at each position, after which it has posted so many messages."""
        return self.sends(at, at, 0.0, steps=0.0, posted=posted)

    def wait(self, after: Ints, before: Ints, *, at: int = AT_RECEIVER) -> None:
        """Row by row: `after` waits for `before`; both are broadcast."""
        first, second = np.broadcast_arrays(after, before)
        self._edges.append(
            Edges(first.ravel().astype(np.int64), second.ravel().astype(np.int64), np.full(first.size, at, np.uint8))
        )

    def build(self) -> SendPlan:
        """The plan; what waits for nothing waits for the collective's start."""
        columns: dict[str, Any] = {
            name: np.concatenate([np.empty(0, kind), *(part[name] for part in self._columns)])
            for name, kind in _KINDS.items()
        }
        edges = joined_edges(self._edges)
        waiting = np.zeros(self._count, np.bool_)
        waiting[edges.after] = True
        free = np.flatnonzero(~waiting)
        edges = joined_edges([edges, Edges(free, np.full(len(free), GATE), np.ones(len(free), np.uint8))])
        passed = np.zeros(self._count, np.bool_)
        passed[edges.before[(edges.at == AT_RECEIVER) & (edges.before >= 0)]] = True
        return SendPlan(**columns, edges=edges, last=np.flatnonzero(~passed))


def joined_edges(parts: list[Edges]) -> Edges:
    """Waits of several lists."""
    if not parts:
        return Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8))
    return Edges(*(np.concatenate([part[column] for part in parts]) for column in range(3)))


def cuts(steps: int, sends: int) -> Floats:
    """How many of `steps` steps each of so many sends stands for, as even as integers go."""
    edges = np.rint(np.linspace(0, steps, max(1, min(steps, sends)) + 1))
    return np.diff(edges)


STORAGE_CLASS = 1
"""Traffic class of storage; collectives use class 0."""


def storage_flows(graph: TaskGraph, cluster: Cluster, placed: PlacedNetwork, slicing: Slicing) -> Iterator[TaskFlows]:
    """Flows of the reads and writes that cross a network, by direction and size; local disks are no network."""
    servers, pool = cluster.storage_servers, cluster.memory_pool
    if servers is not None and cluster.storage is not None:
        about = _StorageTraffic(cluster.storage, stripes_of, servers.latency_ps, "storage", (Kind.READ, Kind.WRITE))
        yield from _flows(graph, cluster, placed, slicing, about)
    if pool is not None and cluster.pool_network is not None:
        about = _StorageTraffic(
            cluster.pool_network, pool_stripes, pool.latency_ps, "memory pool", (Kind.LOAD, Kind.STORE)
        )
        yield from _flows(graph, cluster, placed, slicing, about)


def unsent_ps(
    merged: MergedJobs, lowered: LoweredGraph, cluster: Cluster, alone_ps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """int64[n], how long communications take that no packet carries: loads by CXL or from the host as flows do."""
    pooled = np.isin(merged.graph.kind, (Kind.LOAD, Kind.STORE))
    if not pooled.any() or cluster.pool_network is not None:
        return alone_ps
    timeline = FLOW.run(merged, lowered, cluster.links)
    return np.where(pooled, timeline.end_ps - timeline.start_ps, alone_ps)


@dataclass(frozen=True)
class _StorageTraffic:
    """Storage requests as flows.

    Attributes:
        stripes: Gives the sending and receiving ports of requests.
        kinds: Kind of the tasks that read, and of those that write.
    """

    network: Network
    stripes: Callable[..., tuple[NDArray[np.int32], NDArray[np.int32]]]
    latency_ps: int
    name: str
    kinds: tuple[Kind, Kind]


def _flows(
    graph: TaskGraph, cluster: Cluster, placed: PlacedNetwork, slicing: Slicing, about: _StorageTraffic
) -> Iterator[TaskFlows]:
    network, first = about.network, 0 if about.network is cluster.back_end else placed.storage
    for kind in about.kinds:
        every = np.flatnonzero(graph.kind == kind)
        for size in np.unique(graph.size_bytes[every]):
            tasks = every[graph.size_bytes[every] == size]
            write = np.full(len(tasks), kind == about.kinds[1])
            source, target = about.stripes(cluster, graph.rank[tasks].astype(np.int64), write)
            rows = source.shape[1]
            path_ps = network.path_latency_ps(source[:, 0], target[:, 0])
            links_ps = float((path_ps - network.fabric.end_latency_ps).mean())
            fixed_ps = (about.latency_ps + 2 * float(path_ps.mean())) / slicing.factor
            yield TaskFlows(
                tasks=tasks,
                rows=rows,
                source=source.ravel().astype(np.int64) + first,
                target=target.ravel().astype(np.int64) + first,
                size_bytes=np.full(source.size, max(1, round(int(size) / slicing.factor / rows)), np.int64),
                delay_ps=np.zeros(len(tasks) * rows, np.int64),
                path_key=network.path_keys(source.ravel(), target.ravel(), port_pairs(source.ravel(), target.ravel())),
                connection=port_pairs(source.ravel() + np.int32(first), target.ravel() + np.int32(first)),
                klass=STORAGE_CLASS,
                nic_share=1.0,
                ptr=np.arange(rows + 1),
                before=np.full(rows, GATE),
                at=np.full(rows, AT_RECEIVER, np.uint8),
                last=np.arange(rows),
                start_ps=max(fixed_ps - links_ps, 0.0),
                surplus_ps=max(links_ps - fixed_ps, 0.0),
                label=f"{about.name} {kind.name.lower()}",
            )
