"""Other paths for communications while links are dead: the same requests lowered on the routes that are left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import hashing
from railyard.engine.faults import REROUTED
from railyard.engine.lowering import Entities, lower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.faults import Row
    from railyard.engine.lowering import Lowered
    from railyard.engine.outages import Outage
    from railyard.graph import TaskGraph


@dataclass(frozen=True)
class Rerouted:
    """Communications with the rows that they take while links are dead.

    Attributes:
        lowered: With further rows, which no task names.
        rows: When which entity flows by which row.
    """

    lowered: Lowered
    rows: tuple[Row, ...] = ()


def rerouted(
    lowered: Lowered, outages: Sequence[Outage], graph: TaskGraph, cluster: Cluster, policy: CollectivePolicy | None
) -> Rerouted:
    """Finds the rows of all that changes its path, each time that routes change.

    Args:
        lowered: On the healthy cluster.
        outages: Of dead links.
        graph: The tasks.
        cluster: The machine.
        policy: What is fixed about collectives.
    """
    times = sorted({time for one in outages for time in (one.withdrawn_ps, one.restored_ps) if time is not None})
    own = np.arange(len(lowered.entities))
    by_links: dict[tuple[int, ...], NDArray[np.int64]] = {(): own}
    tables, current, size = [lowered.entities], own, len(own)
    rows: list[Row] = []
    for at in times:
        gone = sorted({int(link) for one in outages if one.is_withdrawn(at) for link in one.link})
        if tuple(gone) not in by_links:
            other = lower(graph, cluster.without(np.array(gone, np.int64)), policy).entities
            moved = np.flatnonzero(_prints(other) != _prints(lowered.entities))
            now = own.copy()
            now[moved] = size + np.arange(len(moved))
            tables.append(_some(other, moved))
            size += len(moved)
            by_links[tuple(gone)] = now
        after = by_links[tuple(gone)]
        rows += [(at, REROUTED, int(entity), float(after[entity]), -1) for entity in np.flatnonzero(after != current)]
        current = after
    return Rerouted(replace(lowered, entities=Entities.stacked(tables)) if len(tables) > 1 else lowered, tuple(rows))


def _prints(entities: Entities) -> NDArray[np.uint64]:
    """uint64[m]: a number for the links and shares of each entity; different ones as good as always differ."""
    mixed = hashing.mix(entities.link_idx.astype(np.uint64)) * (
        2 * hashing.mix(entities.link_share.view(np.uint64)) + 1
    )
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    found: NDArray[np.uint64] = total[entities.link_ptr[1:]] - total[entities.link_ptr[:-1]]
    return found


def _some(entities: Entities, index: NDArray[np.int64]) -> Entities:
    """Some rows of a table."""
    lengths = np.diff(entities.link_ptr)[index]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entry = np.repeat(entities.link_ptr[index] - ptr[:-1], lengths) + np.arange(ptr[-1])
    return Entities(
        link_ptr=ptr,
        link_idx=entities.link_idx[entry],
        link_share=entities.link_share[entry],
        volume_bytes=entities.volume_bytes[index],
        latency_ps=entities.latency_ps[index],
        rate_cap_bps=entities.rate_cap_bps[index],
        fair_weight=entities.fair_weight[index],
        even_latency_ps=entities.even_latency_ps[index],
        even_ps=entities.even_ps[index],
    )
