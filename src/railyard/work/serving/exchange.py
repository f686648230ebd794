"""The network between attention and FFN accelerators of a pool: every pair of them, all replicas at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.transfers import lower_transfers
from railyard.work.serving.afd import SideExchange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster

_BULK_BYTES = 1 << 22
"""Size at which the exchange is lowered: its messages are written by the device, without a protocol for few bytes."""


def exchange_of(
    cluster: Cluster,
    sides: tuple[NDArray[np.int64], NDArray[np.int64]],
    rate_bps: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> SideExchange:
    """Seconds per byte of dispatch and combine, where the fullest link has as much as routes and rates give it.

    Args:
        cluster: The network of the pool.
        sides: int64[replicas, ranks of a replica], of attention and of FFNs.
        rate_bps: Of the cluster's links.
        weights: float64[FFN ranks of a replica], share of the bytes that each of them takes.

    Raises:
        InputError: Two accelerators have no path.
    """
    one, other = sides
    replicas, here, there = len(one), one.shape[1], other.shape[1]
    source = np.repeat(one, there, axis=1).ravel()
    target = np.tile(other, (1, here)).ravel()
    share = np.tile(weights / here, replicas * here)
    domain = cluster.scale_up_domain
    away = source // domain != target // domain
    ports = cluster.back_end.port_of_rank[:, 0]
    path_ps = cluster.back_end.path_latency_ps(ports[source[away]], ports[target[away]]) if away.any() else None
    return SideExchange(
        _seconds_per_byte(cluster, source, target, share, rate_bps),
        _seconds_per_byte(cluster, target, source, share, rate_bps),
        (cluster.scale_up.latency_ps if path_ps is None else int(path_ps.max())) * 1e-12,
        far=bool(away.any()),
    )


def _seconds_per_byte(
    cluster: Cluster,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    share: NDArray[np.float64],
    rate_bps: NDArray[np.float64],
) -> float:
    """Of the fullest link, when every pair has its share of a byte."""
    count = len(source)
    table = lower_transfers(
        cluster,
        source.astype(np.int32),
        target.astype(np.int32),
        np.full(count, _BULK_BYTES, np.int64),
        np.ones(count, np.int32),
    )
    pair = np.repeat(np.arange(count), np.diff(table.link_ptr))
    load = np.bincount(table.link_idx, weights=table.link_share * share[pair], minlength=len(rate_bps))
    return float((8.0 * load / rate_bps).max())
