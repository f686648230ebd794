"""Other paths for communications while links are dead: the same requests lowered on the routes that are left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import routes
from railyard.cluster.steering import Steering
from railyard.engine.contract import joint
from railyard.engine.faults import REROUTED
from railyard.engine.lowering import Entities, lower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.faults import Outage, Row
    from railyard.engine.lowering import Lowered
    from railyard.graph import Job, TaskGraph


def steered(jobs: Sequence[Job], cluster: Cluster, order: Sequence[int], share: Sequence[float]) -> Cluster:
    """The cluster on which each connection of the jobs has a path that was chosen for it.

    Only fabrics that hash have paths to choose; on others nothing changes.

    Args:
        jobs: As they will run.
        cluster: The machine.
        order: Their numbers, who chooses first in front.
        share: Of the time that each job sends, in the order of `jobs`.
    """
    network = cluster.back_end
    if not (network.fabric.hashed and network.fabric.tells_queue_pairs_apart):
        return cluster
    group = np.full(network.ports, -1, np.int64)
    for place, number in enumerate(order):
        group[network.port_of_rank[jobs[number].accelerators]] = place
    steering = Steering(group, np.array([share[number] for number in order]))
    found = cluster.steered(steering)
    merged, arranged = joint(jobs, found)
    lower(merged.graph, arranged)
    steering.settle(network.by_port, cluster.links.rate_bps, network.routing.widest)
    return found


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
    mixed = routes.mix(entities.link_idx.astype(np.uint64)) * (2 * routes.mix(entities.link_share.view(np.uint64)) + 1)
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
