"""A task graph on a cluster as traffic: every communication as flows, every computation as local work of a host.

Rows of the traffic, in this order: one for every task (a computation is this row alone; a communication begins with
it), the legs of the communications, and one for the end of each of those. What comes after a task waits for its last
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet.plan import GATE
from railyard.engine.packet.records import AT_RECEIVER, Scalar, Traffic
from railyard.graph import Kind, Stream
from railyard.graph.record import members_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]
    from collections.abc import Sequence

    from railyard.engine.packet.lowering import Lowering
    from railyard.engine.packet.placing import Placed
    from railyard.engine.packet.task_flows import Slicing, TaskFlows

    Floats = NDArray[np.float64]


def predecessors(graph: TaskGraph) -> tuple[Ints, Ints]:
    """Predecessors of every task as CSR (int64[n + 1], int64[]), each once."""
    tasks = len(graph)
    rank, task = _occupied(graph)
    key = rank * len(Stream) + graph.stream[task]
    queued = graph.stream[task] != Stream.FREE
    key, task = key[queued], task[queued]
    order = np.lexsort((task, key))
    key, task = key[order], task[order]
    same = key[1:] == key[:-1]
    after = np.concatenate([task[1:][same], np.repeat(np.arange(tasks), np.diff(graph.dep_ptr))])
    before = np.concatenate([task[:-1][same], graph.dep_idx.astype(np.int64)])
    pairs = np.unique(after * max(tasks, 1) + before)
    ptr = np.searchsorted(pairs, np.arange(tasks + 1) * max(tasks, 1))
    return ptr.astype(np.int64), pairs % max(tasks, 1)


def _occupied(graph: TaskGraph) -> tuple[Ints, Ints]:
    """Every rank that a task occupies a stream of, and the task."""
    shared = np.flatnonzero(graph.kind == Kind.COLLECTIVE)
    single = np.flatnonzero(graph.kind != Kind.COLLECTIVE)
    if not shared.size:
        return graph.rank[single].astype(np.int64), single
    position, member = members_of(graph.communicators, graph.rank[shared])
    rank = np.concatenate([graph.rank[single], member]).astype(np.int64)
    return rank, np.concatenate([single, shared[position]])


@dataclass(frozen=True, eq=False)
class LoweredTraffic:
    """Traffic and which of its rows belong to which task.

    Attributes:
        traffic: For the engine.
        begin: int64[n], first row of each task.
        end: int64[n], last row.
        surplus_ps: float64[n], see `TaskFlows`.
        label_of: int32[rows], index into `labels`, -1 for rows that are no flow through NICs.
        labels: What flows belong to, for people.
    """

    traffic: Traffic
    begin: Ints
    end: Ints
    surplus_ps: Floats
    label_of: NDArray[np.int32]
    labels: tuple[str, ...]


def assemble(
    lowering: Lowering, placed: Placed, blocks: Sequence[TaskFlows], slicing: Slicing, alone_ps: Ints
) -> LoweredTraffic:
    """All rows of a graph.

    Args:
        lowering: The graph and its cluster.
        placed: Hosts.
        blocks: Flows of the communications.
        slicing: What is simulated.
        alone_ps: int64[n], how long communications take that no block sends.
    """
    graph = lowering.graph
    tasks = len(graph)
    sent = np.full(tasks, -1, np.int64)
    surplus = np.zeros(tasks)
    start = np.where(graph.kind == Kind.COMPUTE, lowering.duration_ps, alone_ps) / slicing.factor
    position = tasks
    ends_first = tasks + sum(len(block.source) for block in blocks)
    many = 0
    for block in blocks:
        sent[block.tasks] = ends_first + many + np.arange(len(block.tasks))
        surplus[block.tasks], start[block.tasks] = block.surplus_ps, block.start_ps
        many += len(block.tasks)
    if graph.delay_ps is not None:
        start = start + graph.delay_ps / slicing.factor
    end = np.where(sent >= 0, sent, np.arange(tasks))
    home = placed_home(lowering)
    rows = ends_first + many
    begin_ptr, begin_idx = predecessors(graph)
    lengths = [np.diff(begin_ptr)]
    before = [end[begin_idx]]
    when = [np.full(len(begin_idx), AT_RECEIVER, np.uint8)]
    finals, final_lengths = [], []
    for block in blocks:
        count = len(block.tasks)
        first = position + block.rows * np.arange(count)[:, None]
        before_of = np.where(block.before[None] == GATE, block.tasks[:, None], first + block.before[None])
        lengths.append(np.tile(np.diff(block.ptr), count))
        before.append(before_of.ravel())
        when.append(np.tile(block.at, count))
        finals.append((first + block.last[None]).ravel())
        final_lengths.append(np.full(count, len(block.last)))
        position += block.rows * count
    every = np.concatenate([*lengths, *final_lengths])
    ended = np.concatenate([*(block.tasks for block in blocks), np.empty(0, np.int64)])
    ptr = np.zeros(rows + 1, np.int64)
    np.cumsum(every, out=ptr[1:])
    last = np.concatenate([*finals, np.empty(0, np.int64)])

    def column(name: str, head: NDArray[np.generic], tail: NDArray[np.generic], kind: type[Scalar]) -> NDArray[Scalar]:
        return np.concatenate([head, *(getattr(block, name) for block in blocks), tail]).astype(kind)

    def of_blocks(values: list[float], other: float) -> NDArray[np.float64]:
        counts = [tasks, *(len(block.source) for block in blocks), many]
        return np.repeat(np.array([other, *values, other]), counts)

    waiting = any(block.nic_share < 1 for block in blocks)
    label_of, labels = _labels(blocks, tasks, rows)
    traffic = Traffic(
        hosts=placed.network.hosts,
        source=column("source", home, home[ended], np.int32),
        target=column("target", home, home[ended], np.int32),
        size_bytes=column("size_bytes", np.zeros(tasks, np.int64), np.zeros(many, np.int64), np.int64),
        start_ps=_earliest(graph, every, slicing),
        dep_ptr=ptr,
        dep_idx=np.concatenate([*before, last]).astype(np.int32),
        dep_at=np.concatenate([*when, np.full(len(last), AT_RECEIVER, np.uint8)]),
        need=_need(graph, every),
        delay_ps=column("delay_ps", np.rint(start).astype(np.int64), np.zeros(many, np.int64), np.int64),
        path_key=column("path_key", np.zeros(tasks, np.uint32), np.zeros(many, np.uint32), np.uint32),
        connection=_connections(blocks, tasks, many),
        klass=of_blocks([block.klass for block in blocks], 0).astype(np.uint8),
        nic_share=of_blocks([block.nic_share for block in blocks], 1.0) if waiting else None,
    )
    return LoweredTraffic(traffic, np.arange(tasks), end, surplus, label_of, labels)


def _connections(blocks: Sequence[TaskFlows], tasks: int, ends: int) -> NDArray[np.uint32]:
    """uint32[rows], the number of each row's connection; rows that send nothing have those of the first leg."""
    identity = np.concatenate([np.empty(0, np.uint64), *(block.connection for block in blocks)])
    number = np.unique(identity, return_inverse=True)[1].astype(np.uint32)
    return np.concatenate([np.zeros(tasks, np.uint32), number, np.zeros(ends, np.uint32)])


def _need(graph: TaskGraph, waits: Ints) -> NDArray[np.int32]:
    """int32[rows], for how many of its waits each row waits."""
    need = waits.astype(np.int32)
    if graph.need is not None:
        some = np.flatnonzero(graph.need < np.diff(graph.dep_ptr))
        need[some] = np.minimum(graph.need[some], waits[some])
    return need


def _earliest(graph: TaskGraph, waits: Ints, slicing: Slicing) -> Ints:
    """int64[rows], when each row may start, in the time of the slice; -1 where only other rows decide."""
    start = np.where(waits > 0, -1, 0).astype(np.int64)
    if graph.release_ps is not None:
        late = np.flatnonzero(graph.release_ps > 0)
        start[late] = np.rint(graph.release_ps[late] / slicing.factor).astype(np.int64)
    return start


def placed_home(lowering: Lowering) -> Ints:
    """int64[n], host of each task's own rows: the first port of its rank, or of its communicator's first member."""
    graph = lowering.graph
    rank = graph.rank.astype(np.int64)
    shared = graph.kind == Kind.COLLECTIVE
    rank[shared] = graph.communicators.ranks[graph.communicators.ptr[rank[shared]]]
    home: Ints = lowering.cluster.back_end.port_of_rank[rank, 0].astype(np.int64)
    return home


def _labels(blocks: Sequence[TaskFlows], tasks: int, rows: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    labels = tuple(dict.fromkeys(block.label for block in blocks))
    label_of = np.full(rows, -1, np.int32)
    at = tasks
    for block in blocks:
        label = np.where(block.source != block.target, labels.index(block.label), -1)
        label_of[at : at + len(label)] = label
        at += len(label)
    return label_of, labels
