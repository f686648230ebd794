"""Names of nodes and links for people, made when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.boxes import parts_of
from railyard.cluster.topology.wiring import Endpoints
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.cluster.machine import Cluster
    from railyard.cluster.network import Network
    from railyard.cluster.topology.wiring import Wiring


MOST_SERVERS = 1 << 16


def servers_to_cross(cluster: Cluster) -> int | None:
    """Fewest servers, beyond those of a cluster, whose NICs of one rail no longer fit on one switch.

    The same topology is built for more servers until they do not. None where they do not already, and where they do at
    any size up to `MOST_SERVERS`.
    """
    if _crosses(cluster, cluster.servers):
        return None
    low, high = cluster.servers, 2 * cluster.servers
    while not _crosses(cluster, high):
        low, high = high, 2 * high
        if low >= MOST_SERVERS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _crosses(cluster, middle) else (middle, high)
    return high


def _crosses(cluster: Cluster, servers: int) -> bool:
    """Whether traffic between equal NICs of so many servers crosses links between switches."""
    plan = cluster.plans["back_end"]
    changed = cluster.spec.overrides.get("switch", {})
    parts, _ = parts_of(cluster.catalog, plan.spec, plan.fabric, plan.link_bps, changed)
    try:
        wiring = plan.spec.topology.build(Endpoints(servers, plan.nics, len(plan.wiring.extra)), parts)
    except InputError:  # so many servers cannot be wired
        return False
    return any(not _share_a_switch(wiring, rail) for rail in range(plan.nics))


def _share_a_switch(wiring: Wiring, rail: int) -> bool:
    """Whether some switch has a link of every NIC of a rail."""
    ports = wiring.port_of[:, rail]
    own = np.isin(wiring.source, ports)
    pairs = np.unique(np.stack([wiring.source[own], wiring.target[own]]), axis=1)
    return bool((np.unique(pairs[1], return_counts=True)[1] == len(ports)).any())


def node_name(cluster: Cluster, node: int) -> str:
    """`rank 5`, `scale-up 0`, `back-end server 1 NIC 4`, `back-end leaf 3`, `back-end plane 1 spine 0`, `storage 2`.

    Raises:
        InputError: There is no such node.
    """
    if not 0 <= node < cluster.nodes:
        raise InputError("there is no such node", found=node, allowed=f"0 to {cluster.nodes - 1}")
    if node < cluster.ranks:
        return f"rank {node}"
    if node < cluster.ranks + cluster.scale_up.switches:
        return f"scale-up {node - cluster.ranks}"
    for network in cluster.networks:
        local = node - network.node_offset
        if 0 <= local < network.nodes:
            return f"{network.name} {_local_name(cluster, network, local)}"
    last = max(network.node_offset + network.nodes for network in cluster.networks)
    beyond, stored = node - last, 0 if cluster.storage_servers is None else cluster.storage_servers.count
    return f"storage {beyond}" if beyond < stored else _pool_name(cluster, beyond - stored)


def link_name(cluster: Cluster, link: int) -> str:
    """`back-end leaf 3 -> back-end spine 1`; a bundle says how many links it stands for.

    Raises:
        InputError: There is no such link.
    """
    if not 0 <= link < len(cluster.links):
        raise InputError("there is no such link", found=link, allowed=f"0 to {len(cluster.links) - 1}")
    ends = (cluster.links.source[link], cluster.links.target[link])
    text = " -> ".join(node_name(cluster, int(node)) for node in ends)
    if link < cluster.links.physical:
        return text
    return f"{text} and its like ({int(np.count_nonzero(cluster.links.bundle_of == link))} links)"


def _pool_name(cluster: Cluster, number: int) -> str:
    """Units of the memory pool, first their memory, then what their CXL ports lead to."""
    units = 1 if cluster.memory_pool is None else cluster.memory_pool.units
    return f"memory pool {number % units}" + (" switch" if number >= units else "")


def _local_name(cluster: Cluster, network: Network, node: int) -> str:
    if node < network.ports:
        return _port_name(cluster, network, node)
    for group in network.groups:
        if group.first <= node < group.first + group.count:
            return " ".join(part for part in (group.part, group.role, str(node - group.first)) if part)
    return "crossbar" if node == network.wiring.nodes else f"node {node}"


def _port_name(cluster: Cluster, network: Network, port: int) -> str:
    where = np.argwhere(network.wiring.port_of == port)
    if len(where):
        rank = np.flatnonzero((network.port_of_rank == port).any(axis=1))
        owner = f"server {rank[0] // cluster.ranks_per_server}" if len(rank) else f"place {where[0][0]}"
        return f"{owner} NIC {where[0][1]}"
    extra = np.flatnonzero(network.extra_ports == port)
    return f"extra port {extra[0]}" if len(extra) else f"port {port}"
