"""Reads and writes of storage as flows of a traffic class of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.storage import stripes_of
from railyard.engine.packet.plan import GATE
from railyard.engine.packet.records import AT_RECEIVER
from railyard.engine.packet.task_flows import TaskFlows
from railyard.graph import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.placing import Placed
    from railyard.engine.packet.task_flows import Slicing
    from railyard.graph import TaskGraph

STORAGE_CLASS = 1
"""Traffic class of storage, beside the collectives' class 0."""


def storage_flows(graph: TaskGraph, cluster: Cluster, placed: Placed, slicing: Slicing) -> Iterator[TaskFlows]:
    """Flows of the reads and writes that cross a network, by direction and size; local disks are no network."""
    servers, network = cluster.storage_servers, cluster.storage
    if servers is None or servers.local or network is None:
        return
    for kind in (Kind.READ, Kind.WRITE):
        every = np.flatnonzero(graph.kind == kind)
        for size in np.unique(graph.size_bytes[every]):
            tasks = every[graph.size_bytes[every] == size]
            write = np.full(len(tasks), kind == Kind.WRITE)
            source, target = stripes_of(cluster, graph.rank[tasks].astype(np.int64), write)
            rows = source.shape[1]
            path_ps = network.path_latency_ps(source[:, 0], target[:, 0])
            links_ps = float((path_ps - network.fabric.end_latency_ps).mean())
            fixed_ps = (servers.latency_ps + 2 * float(path_ps.mean())) / slicing.factor
            yield TaskFlows(
                tasks=tasks,
                rows=rows,
                source=source.ravel().astype(np.int64) + placed.storage,
                target=target.ravel().astype(np.int64) + placed.storage,
                size_bytes=_sizes(int(size) / slicing.factor, rows, len(tasks)),
                delay_ps=np.zeros(len(tasks) * rows, np.int64),
                klass=STORAGE_CLASS,
                ptr=np.arange(rows + 1),
                before=np.full(rows, GATE),
                at=np.full(rows, AT_RECEIVER, np.uint8),
                last=np.arange(rows),
                start_ps=max(fixed_ps - links_ps, 0.0),
                surplus_ps=max(links_ps - fixed_ps, 0.0),
                label="storage write" if kind == Kind.WRITE else "storage read",
            )


def _sizes(size_bytes: float, rows: int, tasks: int) -> NDArray[np.int64]:
    return np.full(rows * tasks, max(1, round(size_bytes / rows)), np.int64)
