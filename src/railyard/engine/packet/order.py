"""Which tasks must have ended before each task of a graph: its own waits and the order of its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Stream
from railyard.graph.occupancy import members_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]


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
