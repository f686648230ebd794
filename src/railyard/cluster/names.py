"""Human-readable names of nodes and links, made on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.boxes import parts_of
from railyard.cluster.topology.wiring import Endpoints, taken_bps
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.machine import Cluster
    from railyard.cluster.network import Network
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.topology.wiring import Wiring


def numbered(stem: str, count: int) -> list[str]:
    """Names of like devices: `node00` to `node11` of twelve; all have as many digits as the last number needs."""
    width = len(str(count - 1))
    return [f"{stem}{number:0{width}d}" for number in range(count)]


@dataclass(frozen=True, eq=False)
class Sockets:
    """Link ends at switches.

    Attributes:
        number: int32[ends], ports of the device counted consecutively from 1, as InfiniBand does.
        cage: int32[ends], from 1.
        lane: int32[ends], from 0.
        lanes: int32[ends], ports that the cage is broken out into; 1: not broken out.
    """

    number: NDArray[np.int32]
    cage: NDArray[np.int32]
    lane: NDArray[np.int32]
    lanes: NDArray[np.int32]


def ends_of(plan: NetworkPlan) -> NDArray[np.int32]:
    """int32[2 x links]: node at the lower end of every link, then at the upper; no switch where less than its ports."""
    return np.concatenate([plan.wiring.source[0::2], plan.wiring.target[0::2]]).astype(np.int32)


def sockets(plan: NetworkPlan) -> Sockets:
    """Switch ports in cable order, downlinks first; a new rate begins with a new cage.

    Returns:
        In the order of `ends_of`; devices that are not switches have one port per cage.
    """
    switch, rate = ends_of(plan), np.tile(plan.wiring.line_bps[0::2], 2)
    up = np.arange(len(switch)) < len(switch) // 2
    order = np.lexsort((np.arange(len(switch)), up, switch))
    node, upper = switch[order], up[order]
    new_node = np.concatenate([[True], node[1:] != node[:-1]])
    start = np.maximum.accumulate(np.where(new_node, np.arange(len(node)), 0))
    number = np.arange(len(node)) - start + 1
    lanes = _lanes(plan, node, rate[order])
    new_half = new_node | np.concatenate([[True], (upper[1:] != upper[:-1]) & (lanes[1:] != lanes[:-1])])
    half = np.maximum.accumulate(np.where(new_half, np.arange(len(node)), 0))
    inside = np.arange(len(node)) - half
    cages_before = _cages_before(new_node, new_half, half, inside, lanes)
    cage = cages_before + inside // lanes + 1
    out = np.empty((4, len(node)), np.int32)
    out[:, order] = number, cage, inside % lanes, lanes
    return Sockets(*out)


def _lanes(plan: NetworkPlan, node: NDArray[np.int32], rate: NDArray[np.float64]) -> NDArray[np.int64]:
    """Ports of a rate that a cage of the switch can be broken out into."""
    whole = np.zeros(plan.wiring.nodes)
    for group in plan.wiring.groups:
        box = plan.switches[group.box]
        whole[group.first : group.first + group.count] = box.port_rate_bps * box.cage_ports
    return np.maximum((whole[node] / np.maximum(rate, 1.0) * (1 + 1e-9)).astype(np.int64), 1)


def _cages_before(
    new_node: NDArray[np.bool_],
    new_half: NDArray[np.bool_],
    half: NDArray[np.int64],
    inside: NDArray[np.int64],
    lanes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Cages that a switch's downlink ports take before its uplink ports, if these begin with a new cage."""
    before = np.zeros(len(half), np.int64)
    for begin in np.flatnonzero(new_half & ~new_node):
        last = begin - 1
        before[begin] = inside[last] // lanes[last] + 1
    return before[half]


@dataclass(frozen=True)
class Ports:
    """Switches of one role and box.

    Attributes:
        role: `leaf`, `spine`, `core`, `router`, `border`.
        free: Unused ports at the highest rate of its links: what the remaining capacity would give.
    """

    role: str
    box: str
    count: int
    used: int
    free: int

    @property
    def ports(self) -> int:
        """Ports bought."""
        return self.used + self.free

    @property
    def stranded(self) -> int:
        """Ports bought but unused."""
        return self.free


def ports_of(plan: NetworkPlan) -> list[Ports]:
    """A row for each role and box of a network; planes, rails and sites together."""
    wiring = plan.wiring
    line, back = np.unique(wiring.line_bps, return_inverse=True)
    rates = np.array([taken_bps(float(rate)) for rate in line])[back]
    found: dict[tuple[str, str], list[int]] = {}
    for group in wiring.groups:
        mine = (wiring.source >= group.first) & (wiring.source < group.first + group.count)
        used = int(np.count_nonzero(mine))
        box = plan.switches[group.box]
        capacity = group.count * (box.capacity_bps + box.fabric_bps)
        left = max(capacity - float(rates[mine].sum()), 0.0)
        free = math.floor(left / float(rates[mine].max()) * (1 + 1e-9)) if used else group.count * box.ports
        free = min(free, group.count * box.max_ports - used) if box.fabric_bps == 0 else free
        row = found.setdefault((group.role, group.box), [0, 0, 0])
        for place, number in enumerate((group.count, used, max(free, 0))):
            row[place] += number
    return [Ports(role, box, *numbers) for (role, box), numbers in found.items()]


MOST_SERVERS = 1 << 16


def servers_to_cross(cluster: Cluster) -> int | None:
    """Fewest additional servers for which NICs of one rail no longer fit on one switch.

    The same topology is built for more servers. None if they do not fit already, or still fit at `MOST_SERVERS`.
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
    """Whether traffic between equal NICs of this many servers crosses links between switches."""
    plan = cluster.plans["back_end"]
    changed = cluster.spec.overrides.get("switch", {})
    parts, _ = parts_of(cluster.catalog, plan.spec, plan.fabric, plan.link_bps, changed)
    try:
        wiring = plan.spec.topology.build(Endpoints(servers, plan.nics, len(plan.wiring.extra)), parts)
    except InputError:  # this many servers cannot be wired
        return False
    return any(not _share_a_switch(wiring, rail) for rail in range(plan.nics))


def _share_a_switch(wiring: Wiring, rail: int) -> bool:
    ports = wiring.port_of[:, rail]
    own = np.isin(wiring.source, ports)
    pairs = np.unique(np.stack([wiring.source[own], wiring.target[own]]), axis=1)
    return bool((np.unique(pairs[1], return_counts=True)[1] == len(ports)).any())


def node_name(cluster: Cluster, node: int) -> str:
    """`rank 5`, `scale-up 0`, `back-end server 1 NIC 4`, `back-end leaf 3`, `back-end plane 1 spine 0`, `storage 2`.

    Raises:
        InputError: The cluster has no such node.
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
    """`back-end leaf 3 -> back-end spine 1`; for a bundle, with the number of its links.

    Raises:
        InputError: The cluster has no such link.
    """
    if not 0 <= link < len(cluster.links):
        raise InputError("there is no such link", found=link, allowed=f"0 to {len(cluster.links) - 1}")
    ends = (cluster.links.source[link], cluster.links.target[link])
    text = " -> ".join(node_name(cluster, int(node)) for node in ends)
    if link < cluster.links.physical:
        return text
    return f"{text} and its like ({int(np.count_nonzero(cluster.links.bundle_of == link))} links)"


def _pool_name(cluster: Cluster, number: int) -> str:
    """Units of the memory pool: first their memory, then the far ends of their CXL ports."""
    units = 1 if cluster.memory_pool is None else cluster.memory_pool.units
    return f"memory pool {number % units}" + (" switch" if number >= units else "")


def _local_name(cluster: Cluster, network: Network, node: int) -> str:
    if node < network.ports:
        return _port_name(cluster, network, node)
    for group in network.wiring.groups:
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
