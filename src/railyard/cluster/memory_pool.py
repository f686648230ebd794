"""Memory beyond the accelerators' own: host memory, CXL expanders and boxes, other hosts.

A unit is one host, expander or box. CXL units serve the servers that their ports lead to, which are neighbors in rack
order; units on a network serve all servers. Every byte crosses a unit's memory, and its server's CXL port or the
network.
Loads and stores use the two directions of a port, but share one link of a host's memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Catalog, MemoryPool, Server
    from railyard.cluster.spec import ClusterSpec, MemoryPoolSpec, PoolNetwork

TIERS = ("memory pool load", "memory pool store", "memory pool port")
_HOST_PS = 100_000
"""Load latency of a host's own memory: 100 ns, as for DDR5 on two sockets (Liu et al., ASPLOS 2025: 90 to 120 ns)."""


@dataclass(frozen=True, eq=False)
class PooledMemory:
    """A memory pool in the cluster.

    Attributes:
        entry: Catalogue entry of a unit; None for the hosts' own memory.
        load_bps: Load rate of a unit, over all servers.
        store_bps: Store rate of a unit; the hosts' own memory has one rate for both together.
        load_link: int32[units], link that every byte loaded from a unit crosses.
        store_link: int32[units].
        ports: int32[units, ports each] on the network; none if there is none.
        unit: int32[servers, units each] by CXL or in the host; none on a network.
        port_load: int32[servers, units each], link of a server's CXL port towards the server; none without CXL.
        port_bps: Rate of a CXL port, or of all NICs of a unit.
    """

    entry: MemoryPool | None
    network: PoolNetwork
    capacity_bytes: int
    latency_ps: int
    load_bps: float
    store_bps: float
    load_link: NDArray[np.int32]
    store_link: NDArray[np.int32]
    ports: NDArray[np.int32]
    unit: NDArray[np.int32]
    port_load: NDArray[np.int32]
    port_store: NDArray[np.int32]
    port_bps: float

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.load_link)

    @property
    def shared(self) -> bool:
        """Whether all servers reach the same memory."""
        return self.network in {"back_end", "front_end"} or (self.network == "cxl" and self.units == 1)

    def servers_of_unit(self, servers: int) -> int:
        """Servers of the most shared unit."""
        if not self.unit.size:
            return servers
        return int(np.bincount(self.unit[:servers].ravel(), minlength=1).max())


@dataclass(frozen=True)
class PoolPlan:
    """The requested pool with its catalog entry, checked.

    Attributes:
        entry: None for the hosts' own memory.
        unit: int32[servers, units each]; none on a network.
    """

    network: PoolNetwork
    entry: MemoryPool | None
    unit: NDArray[np.int32]
    units: int


def plan_pool(spec: ClusterSpec, catalog: Catalog, servers: int) -> PoolPlan | None:
    """The pool of a cluster; None if it has none.

    Raises:
        InputError: A name is unknown, or the network does not exist or does not connect such units.
    """
    asked = spec.memory_pool
    if asked is None:
        return None
    if asked.network == "host":
        return _of_hosts(asked, servers)
    entry = _entry(asked, catalog)
    _check_network(asked, entry, spec)
    if asked.network == "cxl":
        return PoolPlan("cxl", entry, _attached(asked, entry, servers), asked.units)
    return PoolPlan(asked.network, entry, np.empty((servers, 0), np.int32), asked.units)


def _of_hosts(asked: MemoryPoolSpec, servers: int) -> PoolPlan:
    if asked.name:
        raise InputError(
            "the hosts' own memory is that of the server",
            key="memory_pool.name",
            found=asked.name,
            hint="leave `name` out, or write another `network`",
        )
    return PoolPlan("host", None, np.arange(servers, dtype=np.int32)[:, None], servers)


def _entry(asked: MemoryPoolSpec, catalog: Catalog) -> MemoryPool:
    if not asked.name:
        raise InputError(
            "a memory pool has a name, unless it is the hosts' own memory",
            key="memory_pool.name",
            allowed=catalog.names("memory-pools"),
        )
    if asked.units < 1:
        raise InputError("a memory pool has at least one unit", key="memory_pool.units", found=asked.units)
    try:
        return catalog.memory_pool(asked.name)
    except InputError as error:
        raise error.located(key="memory_pool.name") from None


def _check_network(asked: MemoryPoolSpec, entry: MemoryPool, spec: ClusterSpec) -> None:
    if (entry.attachment == "cxl") != (asked.network == "cxl"):
        raise InputError(
            f"{entry.name} is reached by {'CXL' if entry.attachment == 'cxl' else 'a network'}",
            key="memory_pool.network",
            found=asked.network,
            allowed="cxl" if entry.attachment == "cxl" else "back_end, front_end",
        )
    if asked.network == "front_end" and spec.front_end is None:
        raise InputError(
            "the memory pool lies on the front-end network, and there is none",
            key="memory_pool.network",
            found=asked.network,
            hint="add `front_end`, or write `network: back_end`",
        )


def _attached(asked: MemoryPoolSpec, entry: MemoryPool, servers: int) -> NDArray[np.int32]:
    """int32[servers, units each]: several units per server, or neighbors that share one."""
    if asked.units * entry.servers < servers:
        raise InputError(
            f"a unit of {entry.name} has CXL ports for {entry.servers} servers, and there are {servers}",
            key="memory_pool.units",
            found=asked.units,
            allowed=f"{-(-servers // entry.servers)} or more",
        )
    if asked.units > servers and asked.units % servers:
        raise InputError(
            f"{asked.units} units cannot be shared out evenly among {servers} servers",
            key="memory_pool.units",
            found=asked.units,
            allowed=f"at most {servers}, or a multiple of it",
        )
    each = max(1, asked.units // servers)
    link = np.arange(servers * each, dtype=np.int64).reshape(servers, each)
    return (link * asked.units // (servers * each)).astype(np.int32)


def host_rates(server: Server) -> tuple[float, int, int]:
    """Rate in bit/s, capacity in bytes and latency in ps of a host's own memory."""
    return server.host_memory_bps, server.host_memory_bytes, _HOST_PS
