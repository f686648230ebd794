"""From the symbolic communications of a graph to fluid entities: each different request once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

import railyard._core as _core
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster, LinkTable
    from railyard.collective import EntityTable
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import TaskGraph


@dataclass(frozen=True)
class Entities:
    """Fluid entities in columns; m rows.

    Attributes:
        link_ptr: int64[m+1], CSR pointer into the link columns.
        link_idx: int32, links that the entity uses, none twice in a row.
        link_share: float64, bytes on that link for one byte of volume, above 0.
        volume_bytes: float64[m].
        latency_ps: int64[m], fixed part before the volume flows.
        rate_cap_bps: float64[m], bits of volume per second; infinity where none.
        fair_weight: float64[m], rates grow in proportion to it.
        even_latency_ps: int64[m], the part of `even_ps` that does not shrink with bandwidth; more than `latency_ps`
            where a ring hides latency behind an edge whose flows collide.
        even_ps: int64[m], duration with the network to itself and its flows spread evenly, latency included; what the
            timeline calls alone.
    """

    link_ptr: NDArray[np.int64]
    link_idx: NDArray[np.int32]
    link_share: NDArray[np.float64]
    volume_bytes: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    rate_cap_bps: NDArray[np.float64]
    fair_weight: NDArray[np.float64]
    even_latency_ps: NDArray[np.int64]
    even_ps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.volume_bytes)

    def core(self) -> _core.Entities:
        """The same for the core, which copies nothing."""
        return _core.Entities(
            link_ptr=self.link_ptr,
            link_idx=self.link_idx,
            link_share=self.link_share,
            volume_bytes=self.volume_bytes,
            latency_ps=self.latency_ps,
            rate_cap_bps=self.rate_cap_bps,
            fair_weight=self.fair_weight,
        )

    @staticmethod
    def stacked(tables: Sequence[EntityTable | Entities]) -> Entities:
        """The rows of all tables, one table after the other; columns come out contiguous and of the core's types."""
        lengths = [np.diff(np.asarray(table.link_ptr, np.int64)) for table in tables]
        return Entities(
            link_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([*lengths, _EMPTY]))]),
            link_idx=_column([table.link_idx for table in tables], np.dtype(np.int32)),
            link_share=_column([table.link_share for table in tables], np.dtype(np.float64)),
            volume_bytes=_column([table.volume_bytes for table in tables], np.dtype(np.float64)),
            latency_ps=_column([table.latency_ps for table in tables], np.dtype(np.int64)),
            rate_cap_bps=_column([table.rate_cap_bps for table in tables], np.dtype(np.float64)),
            fair_weight=_column([table.fair_weight for table in tables], np.dtype(np.float64)),
            even_latency_ps=_column([table.even_latency_ps for table in tables], np.dtype(np.int64)),
            even_ps=_column([table.even_ps for table in tables], np.dtype(np.int64)),
        )


YIELDING = 1e-4
"""Weight of copies of state beside other traffic: they take what it leaves, as a sender that fills gaps does."""

_EMPTY = np.empty(0, np.int64)
_WORDS = ("algorithm", "protocol")
T = TypeVar("T", bound=np.generic)


def _column(parts: Sequence[NDArray[T]], dtype: np.dtype[T]) -> NDArray[T]:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)


def _no_words() -> NDArray[np.str_]:
    return np.empty(0, "U1")


@dataclass(frozen=True)
class Lowered:
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


Free = Literal["nothing", "scale-out", "all"]
"""Communications between accelerators that take no time: none, those that use no scale-up link, or all."""


def freed(lowered: Lowered, graph: TaskGraph, links: LinkTable, free: Free) -> Lowered:
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


def lower(graph: TaskGraph, cluster: Cluster, policy: CollectivePolicy | None = None) -> Lowered:
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
    return Lowered(Entities.stacked(tables), row[found.request], *words)


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
