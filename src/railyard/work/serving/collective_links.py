"""Links that collectives of the replicas use themselves, where these meet transfers of keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving import Links
    from railyard.work.serving.networks import Networks
    from railyard.work.serving.placing import PlacedPool


def with_collectives(
    links: Links | None, networks: Networks, pools: tuple[PlacedPool, ...], costs: tuple[Any, ...]
) -> Links | None:
    """The links with what collectives of each replica take of its NICs, those of all its ranks alike.

    Links between switches are left out: all ranks of a replica exchange with one another at a time, and lie together.

    Args:
        links: Of transfers; where there are none, nothing meets.
        networks: Of the pools.
        pools: As replicas are numbered.
        costs: Of each pool; replicas whose collectives stay inside a scale-up domain take nothing.
    """
    if links is None or not any(cost.scale_out_bytes_per_token for cost in costs):
        return links
    rows = [
        _nics(networks, pool.home, ranks) if cost.scale_out_bytes_per_token else (np.zeros(0, np.int32), np.zeros(0))
        for pool, cost in zip(pools, costs, strict=True)
        for ranks in pool.ranks
    ]
    return replace(
        links,
        collective_ptr=np.cumsum([0, *(len(row[0]) for row in rows)]).astype(np.int64),
        collective_link=np.concatenate([row[0] for row in rows]),
        collective_share=np.concatenate([row[1] for row in rows]),
    )


def _nics(networks: Networks, home: int, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Links of the NICs of some ranks, out and in, and the wire bytes on each of a byte of them all."""
    cluster = networks.clusters[home]
    network = cluster.back_end
    ports = network.port_of_rank[ranks].ravel().astype(np.int32)
    other = np.roll(ports, 1)
    used = network.endpoints(ports, other)
    link, inverse = np.unique(used.link, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=used.share) / len(ports) / cluster.fabric.payload_efficiency
    return (link + networks.offsets[home]).astype(np.int32), np.asarray(share, np.float64)
