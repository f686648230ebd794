"""Counters and samples of links by the core."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import routes
from railyard.cluster.links import Entities
from railyard.cluster.steering import Steering
from railyard.engine.contract import joint
from railyard.engine.faults import LINK_FACTOR, REROUTED
from railyard.engine.lowering import lower
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    import railyard._core as _core
    from railyard.cluster import Cluster
    from railyard.cluster.links import LinkTable
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.contract import Probes
    from railyard.engine.faults import FaultColumns, Outage, Row
    from railyard.engine.lowering import LoweredGraph
    from railyard.engine.symmetric import CopiesRun
    from railyard.graph import Job, TaskGraph
    from railyard.graph.record import Table


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
    steering.settle(network.by_port, cluster.links.rate_bps, network.wiring.routing.widest)
    return found


@dataclass(frozen=True)
class ReroutedTraffic:
    """Communications with the rows that they take while links are dead.

    Attributes:
        lowered: With further rows, which no task names.
        rows: When which entity flows by which row.
    """

    lowered: LoweredGraph
    rows: tuple[Row, ...] = ()


def rerouted(
    lowered: LoweredGraph,
    outages: Sequence[Outage],
    graph: TaskGraph,
    cluster: Cluster,
    policy: CollectivePolicy | None,
) -> ReroutedTraffic:
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
            tables.append(other.take(moved))
            size += len(moved)
            by_links[tuple(gone)] = now
        after = by_links[tuple(gone)]
        rows += [(at, REROUTED, int(entity), float(after[entity]), -1) for entity in np.flatnonzero(after != current)]
        current = after
    return ReroutedTraffic(
        replace(lowered, entities=Entities.stacked(tables)) if len(tables) > 1 else lowered, tuple(rows)
    )


def _prints(entities: Entities) -> NDArray[np.uint64]:
    """uint64[m]: a number for the links and shares of each entity; different ones as good as always differ."""
    mixed = routes.mix(entities.link_idx.astype(np.uint64)) * (2 * routes.mix(entities.link_share.view(np.uint64)) + 1)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    found: NDArray[np.uint64] = total[entities.link_ptr[1:]] - total[entities.link_ptr[:-1]]
    return found


PS_PER_S = 1e12
EVEN = 0.999
"""Share of the rate of the fastest member of a bundle from which others are as fast."""


def chosen(probes: Probes, links: LinkTable) -> NDArray[np.int32]:
    """The physical links that a user wants to see.

    Raises:
        InputError: One does not exist.
    """
    if probes.links is None:
        return np.arange(links.physical, dtype=np.int32)
    link = np.asarray(probes.links, np.int64).ravel()
    bad = link[(link < 0) | (link >= links.physical)]
    if bad.size:
        raise InputError(
            "there is no such link", key="probes.links", found=bad[0], allowed=f"0 to {links.physical - 1}"
        )
    return link.astype(np.int32)


def wanted(probes: Probes, links: LinkTable) -> NDArray[np.int32]:
    """The links that the core has to record: the chosen ones and the bundles that they are part of."""
    if probes.windows:
        return np.arange(len(links.rate_bps), dtype=np.int32)
    if probes.samples == 0:
        return np.empty(0, np.int32)
    link = chosen(probes, links)
    bundle = links.bundle_of[link]
    return np.unique(np.concatenate([link, bundle[bundle >= 0]])).astype(np.int32)


def counters(result: _core.Result | CopiesRun, changes: FaultColumns, links: LinkTable) -> Table:
    """Counters of ports over the run: bytes and, if asked for, the time for which a link was full.

    Of a bundle those members are full that are slower than the others, for these have room; all where none is slower.
    """
    table = {"bytes": result.link_bytes}
    full = result.link_full_ps
    if not len(full):
        return table
    least, most = np.ones(len(full)), np.zeros(len(full))
    rows = changes.kind == LINK_FACTOR
    np.minimum.at(least, changes.target[rows], changes.value[rows])
    member = np.flatnonzero(links.bundle_of >= 0)
    bundle = links.bundle_of[member]
    np.minimum.at(least, bundle, least[member])
    np.maximum.at(most, bundle, least[member])
    uneven = least[bundle] < EVEN * most[bundle]
    spread = full.copy()
    spread[member] += np.where(~uneven | (least[member] < EVEN * most[bundle]), full[bundle], 0)
    return {**table, "full_ps": spread}


def series(result: _core.Result | CopiesRun, probes: Probes, links: LinkTable) -> dict[str, Table]:
    """Utilization of the chosen links as tables: their own load and their part of their bundle's, over their rate."""
    if probes.samples == 0 and probes.windows == 0:
        return {}
    recorded, link = wanted(probes, links), chosen(probes, links)
    interval = result.probe_interval_ps
    used = -(-int(result.end_ps.max(initial=0)) // interval)
    load = result.probe_bytes.reshape(-1, max(len(recorded), 1))[:used] * (8 * PS_PER_S / interval)
    share = np.divide(load, links.rate_bps[recorded], out=np.zeros_like(load), where=links.rate_bps[recorded] > 0)
    utilization = share[:, np.searchsorted(recorded, link)]
    bundle = links.bundle_of[link]
    member = np.flatnonzero(bundle >= 0)
    utilization[:, member] += share[:, np.searchsorted(recorded, bundle[member])]
    time_ps = np.arange(len(load), dtype=np.int64) * interval
    if probes.windows:
        return {"link_windows": {"time_ps": time_ps, "load": in_bytes(utilization)}}
    return {
        "sampled_links": {"link": link},
        "link_series": {"time_ps": time_ps, "utilization": utilization.astype(np.float32)},
    }


FULL = 255
"""Load of a full link, in a byte."""


def in_bytes(utilization: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Shares from 0 to 1 as bytes, rounded."""
    return np.clip(np.rint(utilization * FULL), 0, FULL).astype(np.uint8)
