"""What communications beside them took from computations, where nobody measured it.

A collective's kernels hold compute units of every rank that takes part; the task graph says what share of its speed
each computation loses to each kind of them. How long they ran at the same time is in the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record, TaskGraph

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST = 0.9
"""Of its speed that a computation loses at most: a kernel is never starved."""


def slowed_ps(record: Record) -> Ints:
    """int64[tasks], how much longer computations took because of communications at the same time; 0 for all others."""
    graph, took = record.graph, record.end_ps - record.start_ps
    if graph.loss_index is None or graph.loss is None:
        return np.zeros(len(graph), np.int64)
    computes = np.flatnonzero(graph.on_accelerator & record.ended & (graph.loss_index >= 0) & (took > 0))
    lost = np.zeros(len(computes))
    talks = np.flatnonzero(~graph.on_accelerator & record.ended & (graph.loss_index >= 0) & (took > 0))
    for column in range(graph.loss.shape[1]):
        rank, task = _on_ranks(graph, talks[graph.loss_index[talks] == column])
        together = _together(record, rank, task, graph.rank[computes], computes)
        lost += graph.loss[graph.loss_index[computes], column] * together
    found = np.zeros(len(graph), np.int64)
    found[computes] = np.minimum(lost, MOST * took[computes]).astype(np.int64)
    return found


def _on_ranks(graph: TaskGraph, talks: Ints) -> tuple[Ints, Ints]:
    """Rank and task of every communication on every rank that its kernels run on."""
    several = graph.peer[talks] < 0
    single, groups = talks[~several], talks[several]
    ptr, members = graph.communicators.ptr, graph.communicators.ranks
    group = graph.rank[groups].astype(np.int64)
    size = np.diff(ptr)[group] if len(groups) else np.empty(0, np.int64)
    first = np.repeat(ptr[group] - np.concatenate([[0], np.cumsum(size)[:-1]]), size) if len(groups) else size
    inside = members[first + np.arange(int(size.sum()))] if len(groups) else size
    return (
        np.concatenate([graph.rank[single].astype(np.int64), inside.astype(np.int64)]),
        np.concatenate([single, np.repeat(groups, size)]),
    )


def _together(record: Record, rank: Ints, talk: Ints, of: NDArray[np.int32], computes: Ints) -> Floats:
    """float64[computations], ps that communications of their rank ran beside them, summed over these."""
    found = np.zeros(len(computes))
    for one in np.unique(of).tolist():
        mine = np.flatnonzero(of == one)
        those = talk[rank == one]
        starts, ends = np.sort(record.start_ps[those]), np.sort(record.end_ps[those])
        upto = [
            _passed(starts, at) - _passed(ends, at)
            for at in (record.end_ps[computes[mine]], record.start_ps[computes[mine]])
        ]
        found[mine] = upto[0] - upto[1]
    return found


def _passed(moments: Ints, at: Ints) -> Floats:
    """float64[len(at)], sum over all moments before `at` of the time since."""
    before = np.searchsorted(moments, at)
    total = np.concatenate([[0.0], np.cumsum(moments, dtype=np.float64)])
    return np.asarray(before * at.astype(np.float64) - total[before], np.float64)
