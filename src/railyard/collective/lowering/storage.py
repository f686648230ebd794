"""Reads and writes of storage onto links: the device, the network on which it lies, the server's NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.collective.connections import port_pairs
from railyard.collective.lowering.routes import LinkLoads
from railyard.collective.lowering.table import EntityTable, table
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster, Network, PooledMemory, StorageServers


STRIPES = 8
"""Storage nodes over which one rank's data is spread; the nodes of neighbouring servers differ."""


def lower_storage(
    cluster: Cluster,
    rank: NDArray[np.int32],
    write: NDArray[np.bool_],
    size_bytes: NDArray[np.int64],
    count: NDArray[np.int32] | None = None,
) -> EntityTable:
    """Reads and writes.

    A rank's data is striped evenly over at most 8 storage nodes, whose choice goes round over the servers, so that all
    nodes serve alike when all servers ask alike. Local disks serve their own server.

    Args:
        cluster: Where they run.
        rank: int32[k], who reads or writes.
        write: bool[k].
        size_bytes: int64[k].
        count: int32[k], requests of each to the devices; None: few enough not to count.

    Returns:
        One row a request, in their order.

    Raises:
        InputError: The cluster has no storage, or a rank is not in it.
    """
    servers = cluster.storage_servers
    if servers is None:
        raise InputError("the job reads or writes data, but the cluster has no storage", key="cluster.storage")
    ranks = np.asarray(rank, np.int64)
    if ((ranks < 0) | (ranks >= cluster.ranks)).any():
        raise InputError("a rank is not in the cluster", key="storage", allowed=f"0 to {cluster.ranks - 1}")
    writes = np.asarray(write, np.bool_)
    node, stripes = _nodes(cluster, servers, ranks)
    row = np.repeat(np.arange(len(ranks)), stripes)
    device = np.where(writes[row], servers.write_link[node], servers.read_link[node]).astype(np.int64)
    requests = np.ones(len(ranks)) if count is None else np.asarray(count, np.float64)
    busy = _busy(servers, writes, np.asarray(size_bytes), requests)
    network = None if servers.local else cluster.storage
    loads, path_ps = _over(network, ranks, servers.ports[node], writes, stripes)
    return table(
        LinkLoads.summed(len(ranks), [LinkLoads.single(row, device, busy[row] / stripes), *loads]),
        cluster,
        volume_bytes=np.asarray(size_bytes, np.float64),
        latency_ps=servers.latency_ps + 2 * path_ps,
        rate_cap_bps=np.full(len(ranks), np.inf),
        fair_weight=np.full(len(ranks), float(stripes)),
        algorithm=np.where(writes, "write", "read"),
        protocol=np.full(len(ranks), "simple"),
    )


def _busy(
    servers: StorageServers, write: NDArray[np.bool_], size_bytes: NDArray[np.int64], count: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64[k]: how much longer than its bytes alone a request keeps a device busy, at least 1.

    A device does so many operations a second; small ones take as long as the bytes that it could have moved meanwhile.
    """
    entry = servers.entry
    if entry.iops == 0:
        return np.ones(len(write))
    rate = np.where(write, entry.write_bps, entry.read_bps)
    usual_bytes = rate / 8 / entry.iops
    return np.asarray(np.maximum(1.0, count * usual_bytes / np.maximum(size_bytes, 1)))


def _nodes(cluster: Cluster, servers: StorageServers, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Storage nodes of each request, `stripes` of them one after another."""
    home = ranks // cluster.ranks_per_server
    return (home, 1) if servers.local else _around(home, servers.count)


def _around(home: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], int]:
    """At most `STRIPES` of so many for each server, evenly spaced, from its own number on."""
    stripes = min(count, STRIPES)
    node = (home[:, None] + np.arange(stripes) * (count // stripes)) % count
    return node.ravel(), stripes


def stripes_of(
    cluster: Cluster, ranks: NDArray[np.int64], write: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sending and receiving ports of all stripes of each request, int32[k, stripes x pairs of NICs].

    PRE: The cluster has storage on a network.
    """
    servers, network = cluster.storage_servers, cluster.storage
    if servers is None or network is None:
        raise InputError("the job reads or writes data, but the cluster has no storage", key="cluster.storage")
    node, stripes = _nodes(cluster, servers, ranks)
    return _stripes(network, ranks, servers.ports[node], write, stripes)


def _stripes(
    network: Network, ranks: NDArray[np.int64], far: NDArray[np.int32], write: NDArray[np.bool_], stripes: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sending and receiving ports of each request's stripes; those of a stripe are pairs of NICs side by side.

    Args:
        network: Between them.
        ranks: int64[k], who asks.
        far: int32[k x stripes, ports], of the devices.
        write: bool[k], whether data goes there.
        stripes: Of a request.
    """
    near = np.repeat(network.port_of_rank[ranks], stripes, axis=0)
    pairs = np.arange(max(near.shape[1], far.shape[1]))
    here, there = (ports[:, pairs % ports.shape[1]].reshape(len(ranks), -1) for ports in (near, far))
    writes = write[:, None]
    return np.where(writes, here, there).astype(np.int32), np.where(writes, there, here).astype(np.int32)


def _over(
    network: Network | None, ranks: NDArray[np.int64], far: NDArray[np.int32], write: NDArray[np.bool_], stripes: int
) -> tuple[list[LinkLoads], NDArray[np.int64]]:
    """Loads of a network, and the latency of the path of each request's first stripe; see `_stripes`."""
    if network is None:
        return [], np.zeros(len(ranks), np.int64)
    source, target = _stripes(network, ranks, far, write, stripes)
    row = np.repeat(np.arange(len(ranks)), stripes)
    pairs = (ports.reshape(len(row), -1) for ports in (source, target))
    return network_load(network, row, *pairs), network.path_latency_ps(source[:, 0], target[:, 0])


def network_load(
    network: Network, row: NDArray[np.int64], source: NDArray[np.int32], target: NDArray[np.int32]
) -> list[LinkLoads]:
    """Loads of the stripes; stripe k belongs to request `row[k]`."""
    stripes = np.bincount(row)[row]
    pairs = source.shape[1]
    parts = []
    for pair in range(pairs):
        ports = source[:, pair], target[:, pair]
        usage = network.usage(*ports, port_pairs(*ports))
        share = usage.share / (stripes[usage.rows()] * pairs * network.fabric.payload_efficiency)
        parts.append(LinkLoads(row, CsrWeighted(usage.ptr, usage.link, share), np.ones(len(row))))
    return parts


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
    network, cap_bps = cluster.pool_network, np.inf
    loads, path_ps = _over(network, ranks, pool.ports[unit], stores, stripes)
    if network is None:
        cap_bps = cluster.server.pcie_bps
        loads = [_port_load(cluster, pool, ranks, stores)]
    return table(
        LinkLoads.summed(len(ranks), [LinkLoads.single(row, device, np.full(len(row), 1 / stripes)), *loads]),
        cluster,
        volume_bytes=np.asarray(size_bytes, np.float64),
        latency_ps=pool.latency_ps + 2 * path_ps,
        rate_cap_bps=np.full(len(ranks), cap_bps),
        fair_weight=np.full(len(ranks), float(stripes)),
        algorithm=np.where(stores, "store", "load"),
        protocol=np.full(len(ranks), "simple"),
    )


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
    return _around(home, pool.units)


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
    return _stripes(network, ranks, pool.ports[unit], store, stripes)


def _port_load(cluster: Cluster, pool: PooledMemory, ranks: NDArray[np.int64], stores: NDArray[np.bool_]) -> LinkLoads:
    """Loads of the CXL ports of the ranks' servers; none where the memory is the host's own."""
    home, each = ranks // cluster.ranks_per_server, pool.port_load.shape[1]
    row = np.repeat(np.arange(len(ranks)), each)
    port = np.where(stores[:, None], pool.port_store[home], pool.port_load[home]).ravel().astype(np.int64)
    return LinkLoads.single(row, port, np.full(len(row), 1 / max(each, 1)))
