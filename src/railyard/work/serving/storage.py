"""Ways between replicas and the cluster's storage or memory pool: for weights, and for a store of keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.storage import lower_pool, lower_storage
from railyard.engine.serving import Links
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_size
from railyard.work.serving.links import joined, rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import EntityTable
    from railyard.work.serving.networks import Networks
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.section import ServingSection

    Lowerer = Callable[[Cluster, NDArray[np.int32], NDArray[np.bool_], NDArray[np.int64]], EntityTable]

_STORE, _WEIGHTS = -1, -2
_READ_BYTES = 1 << 30
"""Size at which ways are lowered: large enough that devices are bound by their rate."""


def loads_from(serving: ServingSection, pools: tuple[PlacedPool, ...]) -> set[str]:
    """Where replicas that start take their weights from."""
    rules = {pool.section.autoscale.load_from for pool in pools if pool.section.autoscale is not None}
    return rules | {row.load_from for row in serving.outages if row.load_from is not None}


def with_storage(
    links: Links | None, networks: Networks, pools: tuple[PlacedPool, ...], serving: ServingSection
) -> Links | None:
    """The links with ways to storage, where something goes over them.

    Args:
        links: Between replicas.
        networks: Storage is on the scenario's own cluster.
        pools: As replicas are numbered.
        serving: As written.

    Raises:
        InputError: The cluster has no storage or memory pool, or a pool lies on another network.
    """
    parts = [] if links is None else [links]
    sources = loads_from(serving, pools)
    if "storage" in sources or ("peer" in sources and networks.clusters[0].storage_servers is not None):
        parts.append(_storage_links(networks, pools, _WEIGHTS, write=False))
    store = serving.cache.store
    if store is not None and store.place != "apart":
        lower = lower_storage if store.place == "storage" else _pool_lowerer(networks.clusters[0], store.capacity)
        parts += [_storage_links(networks, pools, _STORE, write=write, lower=lower) for write in (False, True)]
    return joined(parts) if parts else None


def _pool_lowerer(cluster: Cluster, capacity_bytes: int) -> Lowerer:
    """How reads and writes of the memory pool are lowered.

    Raises:
        InputError: There is none, its units serve different servers, or it is smaller than the store.
    """
    pool, key = cluster.memory_pool, "cache.store"
    if pool is None:
        raise InputError("the cluster has no memory pool", key=f"{key}.place", found="memory_pool")
    if not pool.shared:
        raise InputError(
            "the memory pool is in units that serve different servers, and all replicas read one store",
            key=f"{key}.place",
            found="memory_pool",
            hint="take one unit that has ports for all servers, or `cache.host` for each host's own memory",
        )
    if capacity_bytes > pool.units * pool.capacity_bytes:
        raise InputError(
            "the store is larger than the memory pool",
            key=f"{key}.capacity",
            found=format_size(capacity_bytes),
            allowed=f"at most {format_size(pool.units * pool.capacity_bytes)}",
        )
    return lower_pool


def _storage_links(
    networks: Networks, pools: tuple[PlacedPool, ...], other: int, *, write: bool, lower: Lowerer = lower_storage
) -> Links:
    """From storage or the memory pool to each replica or back; every rank moves its part."""
    away = [pool.role for pool in pools if pool.home != 0]
    if away:
        place = "storage" if lower is lower_storage else "memory pool"
        raise InputError(
            f"the cluster's {place} has no way to the pool `{away[0]}`, which has a network of its own",
            key=f"pools.{away[0]}.network",
        )
    cluster = networks.clusters[0]
    ranks = [row for pool in pools for row in pool.ranks]
    counts = np.array([len(row) for row in ranks])
    flat = np.concatenate(ranks).astype(np.int32)
    sizes = np.full(len(flat), _READ_BYTES, np.int64)
    table = lower(cluster, flat, np.full(len(flat), write), sizes)
    home = np.repeat(np.arange(len(ranks)), counts)
    entry = np.repeat(np.arange(len(flat)), np.diff(table.link_ptr))
    width = networks.width
    keys, inverse = np.unique(home[entry] * width + table.link_idx, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=table.link_share / counts[home[entry]], minlength=len(keys))
    latency = np.zeros(len(ranks), np.int64)
    np.maximum.at(latency, home, table.latency_ps)
    here, there = np.arange(len(ranks), dtype=np.int32), np.full(len(ranks), other, np.int32)
    return Links(
        rate_bps=rates(networks, pools),
        from_replica=here if write else there,
        to_replica=there if write else here,
        ptr=np.searchsorted(keys // width, np.arange(len(ranks) + 1)).astype(np.int64),
        link=(keys % width).astype(np.int32),
        share=np.asarray(share, np.float64),
        latency_ps=latency,
    )
