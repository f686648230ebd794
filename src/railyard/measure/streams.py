"""Which tasks occupy the compute stream of each rank, in order: the backbone of every per-rank figure.

Computations of the stream `FREE`, which may overlap, count as well: what is busy is the union of their times.

A computation, transfer, read or write on the compute stream occupies it on one rank; a collective there occupies it on
every member of its communicator. One 64-bit key an entry, (rank, task), sorts both kinds at once: tasks of a stream run
in the order of their index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Stream
from railyard.graph.record import members_of
from railyard.measure.causes import PIPELINE_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.graph import TaskGraph


def stages(graph: TaskGraph) -> NDArray[np.int64]:
    """int64[ranks]: ranks of one pipeline stage share a number."""
    communicators = graph.communicators
    sizes = np.diff(communicators.ptr)
    owner = np.repeat(np.arange(len(communicators), dtype=np.int64), sizes)
    pipeline = _connected(graph.ranks, *_pipeline_edges(graph))
    within = ~_holds_twice(owner, pipeline[communicators.ranks], graph.ranks, len(communicators))
    inside = within[owner]
    first = communicators.ranks[np.repeat(communicators.ptr[:-1], sizes)]
    return _connected(graph.ranks, first[inside], communicators.ranks[inside])


def _pipeline_edges(graph: TaskGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pipelined = np.array([label.group == PIPELINE_GROUP for label in graph.labels], np.bool_)
    chosen = np.flatnonzero(graph.kind == Kind.TRANSFER)
    chosen = chosen[pipelined[graph.label[chosen]]] if chosen.size else chosen
    pairs = np.unique(graph.rank[chosen].astype(np.int64) * graph.ranks + graph.peer[chosen])
    return pairs // graph.ranks, pairs % graph.ranks


def _holds_twice(
    owner: NDArray[np.int64], pipeline: NDArray[np.int64], ranks: int, communicators: int
) -> NDArray[np.bool_]:
    """Whether a communicator holds two ranks of one pipeline."""
    keys = np.sort(owner * ranks + pipeline)
    twice = np.zeros(communicators, np.bool_)
    twice[keys[1:][keys[1:] == keys[:-1]] // ranks] = True
    return twice


def _connected(nodes: int, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.int64]:
    """The smallest node of each node's component: labels spread along edges, with pointer jumping between rounds."""
    label = np.arange(nodes, dtype=np.int64)
    while True:
        least = np.minimum(label[a], label[b])
        spread = label.copy()
        np.minimum.at(spread, a, least)
        np.minimum.at(spread, b, least)
        # The component of a node's label is its own component, so its label may be taken over too.
        np.minimum.at(spread, label, spread)
        spread = spread[spread]
        if np.array_equal(spread, label):
            return label
        label = spread


_TASK_BITS = 32
_TASK_MASK = (1 << _TASK_BITS) - 1


@dataclass(frozen=True)
class StreamBlock:
    """The compute streams of the ranks `first_rank` to `last_rank` (exclusive).

    Attributes:
        rank: int64[m]; rank of each entry minus `first_rank`, ascending.
        task: int64[m]; task of each entry, ascending within a rank.
    """

    first_rank: int
    last_rank: int
    rank: NDArray[np.int64]
    task: NDArray[np.int64]

    @property
    def ranks(self) -> int:
        """Number of ranks in the block."""
        return self.last_rank - self.first_rank


def compute_keys(graph: TaskGraph) -> NDArray[np.int64]:
    """One key a place on a compute stream, sorted: rank in the upper 32 bits, task in the lower."""
    free = (graph.stream == Stream.FREE) & graph.on_accelerator
    tasks = np.flatnonzero((graph.stream == Stream.COMPUTE) | free)
    collective = graph.kind[tasks] == Kind.COLLECTIVE
    single = tasks[~collective]
    keys = [(graph.rank[single].astype(np.int64) << _TASK_BITS) | single]
    shared = tasks[collective]
    if shared.size:
        position, member = members_of(graph.communicators, graph.rank[shared])
        keys.append((member.astype(np.int64) << _TASK_BITS) | shared[position])
    joined = np.concatenate(keys)
    joined.sort()
    return joined


def blocks(keys: NDArray[np.int64], ranks: int, *, entries: int = 1 << 20) -> Iterator[StreamBlock]:
    """Cuts sorted keys into blocks of whole ranks, so that memory stays bounded whatever the graph.

    Args:
        keys: From `compute_keys`.
        ranks: Number of ranks; ranks without any entry belong to a block too.
        entries: Wanted entries a block; a block holds at least one rank.
    """
    pointer = np.searchsorted(keys, np.arange(ranks + 1, dtype=np.int64) << _TASK_BITS)
    first = 0
    while first < ranks:
        last = int(np.searchsorted(pointer, pointer[first] + entries, side="right")) - 1
        last = min(max(last, first + 1), ranks)
        chunk = keys[pointer[first] : pointer[last]]
        yield StreamBlock(first, last, (chunk >> _TASK_BITS) - first, chunk & _TASK_MASK)
        first = last


def last_tasks(graph: TaskGraph, end_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[ranks]: the task on any of its streams with which a rank's own work ends; -1 for a rank without tasks."""
    latest = np.full(graph.ranks, -1, np.int64)
    task = np.full(graph.ranks, -1, np.int64)
    collective = graph.kind == Kind.COLLECTIVE
    single = np.flatnonzero(~collective)
    _keep_latest(latest, task, graph.rank[single], end_ps[single], single)
    shared = np.flatnonzero(collective)
    if shared.size:
        groups = len(graph.communicators)
        group_latest, group_task = np.full(groups, -1, np.int64), np.full(groups, -1, np.int64)
        _keep_latest(group_latest, group_task, graph.rank[shared], end_ps[shared], shared)
        used = np.flatnonzero(group_task >= 0)
        position, member = members_of(graph.communicators, used)
        _keep_latest(latest, task, member, group_latest[used][position], group_task[used][position])
    return task


def _keep_latest(
    latest: NDArray[np.int64],
    task: NDArray[np.int64],
    place: NDArray[np.int32],
    end_ps: NDArray[np.int64],
    candidate: NDArray[np.int64],
) -> None:
    """Writes into `task[place]` the candidate that ends last, where it ends later than what stands there."""
    before = latest.copy()
    np.maximum.at(latest, place, end_ps)
    wins = (end_ps == latest[place]) & (end_ps > before[place])
    task[place[wins]] = candidate[wins]
