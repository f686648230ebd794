"""Loads and stores of the memory pool onto links: a unit's memory, the server's CXL port or the network to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.collective.lowering.routes import LinkLoads
from railyard.collective.lowering.storage import STRIPES, directed, network_load
from railyard.collective.lowering.table import EntityTable, Limits, table
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster, PooledMemory


def lower_pool(
    cluster: Cluster, rank: NDArray[np.int32], store: NDArray[np.bool_], size_bytes: NDArray[np.int64]
) -> EntityTable:
    """Loads and stores.

    By CXL a rank's data lies evenly in the units of its server, interleaved; on a network in at most 8 units, whose
    choice goes round over the servers. What does not come by a NIC crosses the accelerator's PCIe link, which is its
    own, one way for each direction.

    Args:
        cluster: Where they run.
        rank: int32[k], who loads or stores.
        store: bool[k].
        size_bytes: int64[k].

    Returns:
        One row a request, in their order.

    Raises:
        InputError: The cluster has no memory pool, or a rank is not in it.
    """
    pool = pool_of(cluster)
    ranks, stores = np.asarray(rank, np.int64), np.asarray(store, np.bool_)
    if ((ranks < 0) | (ranks >= cluster.ranks)).any():
        raise InputError("a rank is not in the cluster", key="memory_pool", allowed=f"0 to {cluster.ranks - 1}")
    unit, stripes = units_of(cluster, pool, ranks)
    row = np.repeat(np.arange(len(ranks)), stripes)
    device = np.where(stores[row], pool.store_link[unit], pool.load_link[unit]).astype(np.int64)
    load, path_ps = LinkLoads.without_edges(row, device, np.full(len(row), 1 / stripes)), np.zeros(len(ranks), np.int64)
    network, cap_bps = cluster.pool_network, np.inf
    if network is not None:
        near, far = network.port_of_rank[ranks][row], pool.ports[unit]
        source, target = directed(near, far, stores[row])
        load = LinkLoads.joined([load, network_load(network, row, source, target)])
        path_ps = network.path_latency_ps(source[::stripes, 0], target[::stripes, 0])
    else:
        cap_bps = cluster.server.pcie_bps
        load = LinkLoads.joined([load, _port_load(cluster, pool, ranks, stores)])
    limits = Limits(
        volume_bytes=np.asarray(size_bytes, np.float64),
        latency_ps=pool.latency_ps + 2 * path_ps,
        rate_cap_bps=np.full(len(ranks), cap_bps),
        fair_weight=np.full(len(ranks), float(stripes)),
        algorithm=np.where(stores, "store", "load"),
        protocol=np.full(len(ranks), "simple"),
    )
    return table(CsrWeighted.gathered(len(ranks), load.entity, load.link, load.share), limits, cluster)


def pool_of(cluster: Cluster) -> PooledMemory:
    """The cluster's memory pool.

    Raises:
        InputError: There is none.
    """
    if cluster.memory_pool is None:
        raise InputError("state is kept in a memory pool, but the cluster has none", key="cluster.memory_pool")
    return cluster.memory_pool


def units_of(cluster: Cluster, pool: PooledMemory, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Units of each request, `stripes` of them one after another."""
    home = ranks // cluster.ranks_per_server
    if pool.unit.size:
        return pool.unit[home].ravel().astype(np.int64), pool.unit.shape[1]
    stripes = min(pool.units, STRIPES)
    unit = (home[:, None] + np.arange(stripes)[None, :] * (pool.units // stripes)) % pool.units
    return unit.ravel(), stripes


def pool_stripes(
    cluster: Cluster, ranks: NDArray[np.int64], store: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sending and receiving ports of all stripes of each request, int32[k, stripes x pairs of NICs].

    Raises:
        InputError: The cluster has no memory pool on a network.
    """
    pool, network = pool_of(cluster), cluster.pool_network
    if network is None:
        raise InputError("the memory pool lies on no network", key="cluster.memory_pool.network")
    unit, stripes = units_of(cluster, pool, ranks)
    row = np.repeat(np.arange(len(ranks)), stripes)
    source, target = directed(network.port_of_rank[ranks][row], pool.ports[unit], store[row])
    return source.reshape(len(ranks), -1), target.reshape(len(ranks), -1)


def _port_load(cluster: Cluster, pool: PooledMemory, ranks: NDArray[np.int64], stores: NDArray[np.bool_]) -> LinkLoads:
    """Loads of the CXL ports of the ranks' servers; none where the memory is the host's own."""
    home, each = ranks // cluster.ranks_per_server, pool.port_load.shape[1]
    row = np.repeat(np.arange(len(ranks)), each)
    port = np.where(stores[:, None], pool.port_store[home], pool.port_load[home]).ravel().astype(np.int64)
    return LinkLoads.without_edges(row, port, np.full(len(row), 1 / max(each, 1)))
