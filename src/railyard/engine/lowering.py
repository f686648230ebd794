"""Lowers the symbolic communications of a graph to fluid entities: each different request once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import railyard._core as _core
from railyard.cluster.links import Entities
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster, LinkTable
    from railyard.collective import EntityTable
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import TaskGraph


def core_of(entities: Entities, alone_bps: NDArray[np.float64] | None = None) -> _core.Entities:
    """The same for the core, which copies nothing.

    Args:
        entities: The rows.
        alone_bps: float64[m], rates with the network to itself; None: what caps and links allow.
    """
    names = ("link_ptr", "link_idx", "link_share", "volume_bytes", "latency_ps", "rate_cap_bps", "fair_weight")
    return _core.Entities(**{name: getattr(entities, name) for name in names}, alone_bps=alone_bps)


YIELDING = 1e-4
"""Weight of copies of state against other traffic: they take the rate that it leaves."""

_WORDS = ("algorithm", "protocol")


def _no_words() -> NDArray[np.str_]:
    return np.empty(0, "U1")


@dataclass(frozen=True)
class LoweredGraph:
    """A graph's communications as fluid entities.

    Attributes:
        entities: The different ones.
        entity: int32[n], the entity of each task, -1 for computations.
        algorithm: str[m], what each entity runs as; see `EntityTable`.
        protocol: str[m].
    """

    entities: Entities
    entity: NDArray[np.int32]
    algorithm: NDArray[np.str_] = field(default_factory=_no_words)
    protocol: NDArray[np.str_] = field(default_factory=_no_words)


def core_graph(
    graph: TaskGraph,
    lowered: LoweredGraph,
    task_key: NDArray[np.int64] | None = None,
    rank_key: NDArray[np.int64] | None = None,
) -> _core.Graph:
    """The tasks for the core, which copies nothing; for the keys see `contract.Keys`."""
    return _core.Graph(
        ranks=graph.ranks,
        kind=graph.kind,
        rank=graph.rank,
        duration_ps=graph.duration_ps,
        stream=graph.stream,
        dep_ptr=graph.dep_ptr,
        dep_idx=graph.dep_idx,
        comm_ptr=graph.communicators.ptr,
        comm_ranks=graph.communicators.ranks,
        entity=lowered.entity,
        release_ps=graph.release_ps,
        delay_ps=graph.delay_ps,
        need=graph.need,
        task_key=task_key,
        rank_key=rank_key,
        **_contention(graph),
    )


def _contention(graph: TaskGraph) -> dict[str, Any]:
    """Slowdowns of computations by communications, for the core; empty without any."""
    if graph.loss_index is None or graph.loss is None:
        return {}
    loss = np.ascontiguousarray(graph.loss, np.float64)
    return {"loss_index": graph.loss_index, "loss": loss.ravel(), "contenders": loss.shape[1]}


Free = Literal["nothing", "scale-out", "all"]
"""Communications between accelerators that take no time: none, those that use no scale-up link, or all."""


def freed(lowered: LoweredGraph, graph: TaskGraph, links: LinkTable, free: Free) -> LoweredGraph:
    """The same where some communications between accelerators take no time; storage and memory pools keep theirs.

    Args:
        lowered: Of the graph.
        graph: The tasks.
        links: That communications use.
        free: Which take no time.
    """
    if free == "nothing":
        return lowered
    between = np.isin(graph.kind, (Kind.COLLECTIVE, Kind.TRANSFER)) & (lowered.entity >= 0)
    entities = lowered.entities
    chosen = np.zeros(len(entities), np.bool_)
    chosen[lowered.entity[between]] = True
    if free == "scale-out":
        owner = np.repeat(np.arange(len(entities)), np.diff(entities.link_ptr))
        chosen[owner[links.tier[entities.link_idx] == links.tiers.index("scale-up")]] = False
    columns = ("volume_bytes", "latency_ps", "even_latency_ps", "even_ps")
    none = {name: np.where(chosen, 0, getattr(entities, name)) for name in columns}
    return replace(lowered, entities=replace(entities, **none))


def lower(graph: TaskGraph, cluster: Cluster, policy: CollectivePolicy | None = None) -> LoweredGraph:
    """Lowers every different communication of a graph once.

    Args:
        graph: The tasks.
        cluster: On whose links.
        policy: What is fixed about collectives; None: everything chosen as the library would.

    Raises:
        InputError: Something has no path, or the cluster has no storage to read from or no memory pool.
    """
    from railyard.collective.policy import CollectivePolicy

    found = _core.unique_requests(
        kind=graph.kind,
        rank=graph.rank,
        peer=graph.peer,
        size_bytes=graph.size_bytes,
        count=graph.count,
        collective=graph.collective,
    )
    first = found.first
    kind = graph.kind[first]
    parts = [
        np.flatnonzero(kind == Kind.COLLECTIVE),
        np.flatnonzero(kind == Kind.TRANSFER),
        np.flatnonzero((kind == Kind.READ) | (kind == Kind.WRITE)),
        np.flatnonzero((kind == Kind.LOAD) | (kind == Kind.STORE)),
    ]
    lowerers = (_collectives, _transfers, _storage, _memory_pool)
    tables = [
        low(graph, cluster, first[part], policy or CollectivePolicy())
        for low, part in zip(lowerers, parts, strict=True)
        if part.size
    ]
    row = np.empty(len(first) + 1, np.int32)
    row[np.concatenate(parts)] = np.arange(len(first), dtype=np.int32)
    row[-1] = -1  # what request -1 finds: a computation
    words = [np.concatenate([np.empty(0, "U1"), *(getattr(table, name) for table in tables)]) for name in _WORDS]
    return LoweredGraph(Entities.stacked(tables), row[found.request], *words)


def _collectives(graph: TaskGraph, cluster: Cluster, tasks: NDArray[np.int32], policy: CollectivePolicy) -> EntityTable:
    from railyard.collective import lower_collectives

    requests = (graph.rank[tasks], graph.collective[tasks], graph.size_bytes[tasks], graph.count[tasks])
    return lower_collectives(cluster, graph.communicators, requests, policy=policy)


def _transfers(graph: TaskGraph, cluster: Cluster, tasks: NDArray[np.int32], policy: CollectivePolicy) -> EntityTable:
    from railyard.collective import lower_transfers

    ends = graph.rank[tasks], graph.peer[tasks]
    table = lower_transfers(cluster, *ends, graph.size_bytes[tasks], graph.count[tasks], policy=policy)
    yields = graph.stream[tasks] == Stream.COPY
    if not yields.any():
        return table
    return replace(table, fair_weight=np.where(yields, YIELDING * table.fair_weight, table.fair_weight))


def _storage(graph: TaskGraph, cluster: Cluster, tasks: NDArray[np.int32], _policy: CollectivePolicy) -> EntityTable:
    from railyard.collective import lower_storage

    writes = graph.kind[tasks] == Kind.WRITE
    return lower_storage(cluster, graph.rank[tasks], writes, graph.size_bytes[tasks], graph.count[tasks])


def _memory_pool(
    graph: TaskGraph, cluster: Cluster, tasks: NDArray[np.int32], _policy: CollectivePolicy
) -> EntityTable:
    from railyard.collective import lower_pool

    return lower_pool(cluster, graph.rank[tasks], graph.kind[tasks] == Kind.STORE, graph.size_bytes[tasks])
