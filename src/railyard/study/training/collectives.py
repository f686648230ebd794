"""The collectives of a step as a table: what runs, as which algorithm, how long alone and how long as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import lower_collectives
from railyard.collective.policy import kind_word
from railyard.graph import CollectiveKind, Kind
from railyard.result.network import CollectiveRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.graph import Record, TaskGraph

MOST_ROWS = 60


def collective_rows(timeline: Record, cluster: Cluster, policy: CollectivePolicy) -> tuple[CollectiveRow, ...]:
    """One row for each group, kind, size and count; the most time-consuming first."""
    timeline.require("the table of collectives", "alone_ps", graph=True)
    graph = timeline.graph
    tasks = np.flatnonzero(graph.kind == Kind.COLLECTIVE)
    if not tasks.size:
        return ()
    first, inverse, times = _alike(graph, tasks)
    took_ps = (timeline.end_ps - timeline.start_ps)[tasks]
    mean_s = np.bincount(inverse, took_ps) / times * 1e-12
    alone_s = np.bincount(inverse, timeline.column("alone_ps")[tasks]) / times * 1e-12
    order = np.argsort(-mean_s * times, kind="stable")[:MOST_ROWS]
    chosen = tasks[first[order]]
    requests = (graph.rank[chosen], graph.collective[chosen], graph.size_bytes[chosen], graph.count[chosen])
    table = lower_collectives(cluster, graph.communicators, requests, policy=policy)
    return tuple(
        CollectiveRow(
            group=graph.communicators.group[graph.rank[task]],
            kind=kind_word(CollectiveKind(int(graph.collective[task]))),
            ranks=len(graph.communicators.members(int(graph.rank[task]))),
            size_bytes=int(graph.size_bytes[task]),
            count=int(graph.count[task]),
            times=int(times[row]),
            algorithm=str(table.algorithm[position]),
            protocol=str(table.protocol[position]),
            alone_s=float(alone_s[row]),
            mean_s=float(mean_s[row]),
        )
        for position, (row, task) in enumerate(zip(order.tolist(), chosen.tolist(), strict=True))
    )


def _alike(
    graph: TaskGraph, tasks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First task, class of each task, and number of tasks of each class of equal (group, kind, size, count)."""
    names = {name: number for number, name in enumerate(dict.fromkeys(graph.communicators.group))}
    group = np.array([names[name] for name in graph.communicators.group], np.int64)[graph.rank[tasks]]
    columns = (group, graph.collective[tasks], graph.size_bytes[tasks], graph.count[tasks])
    keys = np.stack([column.astype(np.int64) for column in columns])
    _, first, inverse, times = np.unique(keys, axis=1, return_index=True, return_inverse=True, return_counts=True)
    return first, inverse.ravel(), times
