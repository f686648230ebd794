"""Ways between replicas and the cluster's storage: for weights, and for a store of keys and values that lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.storage import lower_storage
from railyard.engine.serving import Links
from railyard.errors import InputError
from railyard.study.serving.transfer_links import joined, rates

if TYPE_CHECKING:
    from railyard.scenario.serving import ServingSection
    from railyard.study.serving.networks import Networks
    from railyard.study.serving.placing import PlacedPool

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
        InputError: The cluster has no storage, or a pool lies on another network.
    """
    parts = [] if links is None else [links]
    sources = loads_from(serving, pools)
    if "storage" in sources or ("peer" in sources and networks.clusters[0].storage_servers is not None):
        parts.append(_storage_links(networks, pools, _WEIGHTS, write=False))
    store = serving.cache.store
    if store is not None and store.place == "storage":
        parts += [_storage_links(networks, pools, _STORE, write=write) for write in (False, True)]
    return joined(parts) if parts else None


def _storage_links(networks: Networks, pools: tuple[PlacedPool, ...], other: int, *, write: bool) -> Links:
    """From storage to each replica or back; every rank moves its part."""
    away = [pool.role for pool in pools if pool.home != 0]
    if away:
        raise InputError(
            f"the cluster's storage has no way to the pool `{away[0]}`, which has a network of its own",
            key=f"pools.{away[0]}.network",
        )
    cluster = networks.clusters[0]
    ranks = [row for pool in pools for row in pool.ranks]
    counts = np.array([len(row) for row in ranks])
    flat = np.concatenate(ranks).astype(np.int32)
    sizes = np.full(len(flat), _READ_BYTES, np.int64)
    table = lower_storage(cluster, flat, np.full(len(flat), write), sizes)
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
