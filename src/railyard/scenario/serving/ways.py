"""Ways between replicas: which links of the cluster keys and values take, and with what share on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.transfers import lower_transfers
from railyard.engine.serving import Links

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.scenario.serving.deploy import Placed

_KV_TRANSFER_BYTES = 1 << 28
"""Size at which ways are lowered: large enough that the protocol is that of bulk data."""


def ways(cluster: Cluster, pools: tuple[Placed, ...]) -> Links | None:
    """Links between replicas that compute prompts only and those that compute answers; None where there are none.

    Each rank of one side sends its part of the cache to its partner of the other side, over its own NIC or inside a
    scale-up domain. NICs of a pool with servers of its own run at the slower of its rate and the network's.
    """
    by_role = {pool.role: pool for pool in pools}
    if "prefill" not in by_role:
        return None
    send, take = by_role["prefill"], by_role["decode"]
    first = {pool.role: sum(other.replicas for other in pools[:number]) for number, pool in enumerate(pools)}
    pairs = [(a, b) for a in range(send.replicas) for b in range(take.replicas)]
    lanes = max(send.ranks.shape[1], take.ranks.shape[1])
    lane = np.arange(lanes)
    source = np.concatenate([send.ranks[a][lane * send.ranks.shape[1] // lanes] for a, _ in pairs])
    target = np.concatenate([take.ranks[b][lane * take.ranks.shape[1] // lanes] for _, b in pairs])
    table = lower_transfers(
        cluster,
        source.astype(np.int32),
        target.astype(np.int32),
        np.full(len(source), _KV_TRANSFER_BYTES, np.int64),
        np.ones(len(source), np.int32),
    )
    way = np.repeat(np.arange(len(source)) // lanes, np.diff(table.link_ptr))
    width = len(cluster.links)
    keys, inverse = np.unique(way * width + table.link_idx, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=table.link_share / lanes, minlength=len(keys))
    return Links(
        rate_bps=_rates(cluster, pools),
        from_replica=np.array([first["prefill"] + a for a, _ in pairs], np.int32),
        to_replica=np.array([first["decode"] + b for _, b in pairs], np.int32),
        ptr=np.searchsorted(keys // width, np.arange(len(pairs) + 1)).astype(np.int64),
        link=(keys % width).astype(np.int32),
        share=np.asarray(share, np.float64),
        latency_ps=table.latency_ps.reshape(-1, lanes).max(axis=1).astype(np.int64),
    )


def _rates(cluster: Cluster, pools: tuple[Placed, ...]) -> NDArray[np.float64]:
    """Rates of all links; those at the NICs of a pool with servers of its own are at most those NICs' rates."""
    rate = np.array(cluster.links.rate_bps, np.float64)
    network = cluster.back_end
    for pool in pools:
        slower = pool.cluster.nic.rate_bps / cluster.nic.rate_bps
        if pool.section.server is None or slower >= 1 or pool.cluster.spec.back_end.link_rate_bps is not None:
            continue
        ports = np.unique(network.port_of_rank[pool.ranks.ravel()].ravel())
        used = network.endpoints(ports.astype(np.int32), np.roll(ports, 1).astype(np.int32))
        rate[np.unique(used.link)] *= slower
    return rate
