"""A memory pool in plain numbers, for closed forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.cluster import Cluster, PooledMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRates:
    """A memory pool as closed forms see it, with all ranks of the cluster at work at once.

    Attributes:
        load_bps: Of one rank, bit/s, while nothing is stored.
        store_bps: Of one rank, bit/s, while nothing is loaded.
        together_bps: Of one rank, loads and stores together, where they share what they cross; infinite elsewhere.
        latency_s: Of a load or store, without the network.
    """

    load_bps: float
    store_bps: float
    together_bps: float
    latency_s: float

    @classmethod
    def of(cls, cluster: Cluster) -> PoolRates | None:
        """The rates of a cluster; None where it has no memory pool."""
        pool = cluster.memory_pool
        if pool is None:
            return None
        load_bps, store_bps = (_of_rank(cluster, pool, rate) for rate in (pool.load_bps, pool.store_bps))
        together_bps = pool.load_bps / cluster.ranks_per_server if pool.network == "host" else float("inf")
        return cls(
            load_bps=load_bps,
            store_bps=store_bps,
            together_bps=together_bps,
            latency_s=pool.latency_ps * 1e-12,
        )


def _of_rank(cluster: Cluster, pool: PooledMemory, unit_bps: float) -> float:
    """What a rank gets of units of that rate when all ranks ask at once."""
    network, per_server = cluster.pool_network, cluster.ranks_per_server
    if network is None:
        each, sharing = int(pool.unit.shape[1]), pool.servers_of_unit(cluster.servers)
        server_bps = each * min(unit_bps / sharing, pool.port_bps)
        return float(min(server_bps / per_server, cluster.server.pcie_bps))
    plan = next(plan for plan in cluster.plans.values() if plan.name == network.name)
    nic_bps = plan.link_bps * float(plan.usable.min()) * network.fabric.payload_efficiency
    lent_bps = min(unit_bps, plan.link_bps * pool.ports.shape[1] * network.fabric.payload_efficiency) * pool.units
    return float(min(lent_bps / cluster.ranks, nic_bps * plan.nics / per_server, nic_bps * plan.port_of_rank.shape[1]))
