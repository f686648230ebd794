"""Reads and writes of storage and of a memory pool on a network, as flows of a traffic class of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.connections import port_pairs
from railyard.collective.lowering.storage import pool_stripes, stripes_of
from railyard.engine.flow import FLOW
from railyard.engine.packet.plan import GATE, TaskFlows
from railyard.engine.packet.records import AT_RECEIVER
from railyard.graph import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from railyard.cluster import Cluster, Network
    from railyard.engine.lowering import LoweredGraph
    from railyard.engine.packet.placing import PlacedNetwork
    from railyard.engine.packet.plan import Slicing
    from railyard.graph import MergedJobs, TaskGraph

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
    """What is read and written.

    Attributes:
        stripes: Sending and receiving ports of requests.
        kinds: What reads and what writes.
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
