"""The collectives of a step as a table: what runs, as which algorithm, how long alone and how long as it was."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import lower_collectives
from railyard.collective.model_error import band_of
from railyard.collective.policy import kind_word
from railyard.graph import CollectiveKind, Kind
from railyard.measure.result.network import CollectiveRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.graph import Record, TaskGraph

MOST_ROWS = 60

FELT = 0.02
"""Share of the time of all collectives from which one is worth a warning."""


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
    rows = []
    for position, (row, task) in enumerate(zip(order.tolist(), chosen.tolist(), strict=True)):
        kind, algorithm = kind_word(CollectiveKind(int(graph.collective[task]))), str(table.algorithm[position])
        ranks = len(graph.communicators.members(int(graph.rank[task])))
        size, architecture = int(graph.size_bytes[task]), cluster.accelerator.architecture
        band = band_of(kind, size, ranks=ranks, algorithm=algorithm, architecture=architecture)
        rows.append(
            CollectiveRow(
                group=graph.communicators.group[graph.rank[task]],
                kind=kind,
                ranks=ranks,
                size_bytes=size,
                count=int(graph.count[task]),
                times=int(times[row]),
                algorithm=algorithm,
                protocol=str(table.protocol[position]),
                alone_s=float(alone_s[row]),
                mean_s=float(mean_s[row]),
                low_s=float(alone_s[row]) * band.low,
                high_s=float(alone_s[row]) * band.high,
                beyond=band.beyond,
            )
        )
    return tuple(rows)


def beyond_logs(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """A warning of the collectives that nobody measured and that a step feels."""
    total_s = math.fsum(row.mean_s * row.times for row in rows)
    felt: dict[tuple[str, str, int], CollectiveRow] = {}
    for row in rows:
        if row.beyond and row.mean_s * row.times > FELT * total_s:
            felt.setdefault((row.group, row.kind, row.ranks), row)
    if felt:
        named = ", ".join(f"{row.kind} of {row.group} ({'; '.join(row.beyond)}; {_band(row)})" for row in felt.values())
        yield f"beyond published logs, so that their bands are wider: {named}"


def _band(row: CollectiveRow) -> str:
    """`-21 to +94 %`: the band of a time."""
    low, high = (100 * (end / row.alone_s - 1) for end in (row.low_s, row.high_s))
    return f"{low:+.0f} to {high:+.0f} %"


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
