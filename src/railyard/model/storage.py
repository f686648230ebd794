"""A storage system in plain numbers, for closed forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRates:
    """A storage system as closed forms see it.

    Attributes:
        read_bps, write_bps: Of all its nodes together, bit/s.
        server_bps: Between one server and the storage system, goodput, bit/s; infinite for its own drives.
        rank_bps: Between one rank and the storage system: the NICs that are its own, or one that it shares.
        back_end_bps: Between accelerators of different servers, of one, bit/s.
        iops: Random reads a second of all nodes; 0 where only bandwidth limits.
        latency_s: To the first byte of a request, network and back.
        host_bps: Between an accelerator and its host, bit/s.
        servers: Of the job.
        ranks_per_server: Accelerators of one.
        cores: Of one server's host; 0 where not known.
    """

    read_bps: float
    write_bps: float
    server_bps: float
    rank_bps: float
    back_end_bps: float
    iops: int
    latency_s: float
    host_bps: float
    servers: int
    ranks_per_server: int
    cores: int = 0

    @classmethod
    def of(cls, cluster: Cluster) -> StorageRates | None:
        """The rates of a cluster; None where it has no storage."""
        found = cluster.storage_servers
        if found is None:
            return None
        entry, network = found.entry, cluster.storage
        server_bps = rank_bps = float("inf")
        if not found.local and network is not None:
            plan = next(plan for plan in cluster.plans.values() if plan.name == network.name)
            nic_bps = plan.link_bps * float(plan.usable.min()) * network.fabric.payload_efficiency
            server_bps, rank_bps = nic_bps * plan.nics, nic_bps * plan.port_of_rank.shape[1]
        return cls(
            read_bps=entry.read_bps * found.count,
            write_bps=entry.write_bps * found.count,
            server_bps=server_bps,
            rank_bps=rank_bps,
            back_end_bps=cluster.nic.rate_bps * cluster.server.nics_per_accelerator * cluster.fabric.payload_efficiency,
            iops=entry.iops * found.count,
            latency_s=entry.latency_ps * 1e-12,
            host_bps=cluster.server.pcie_bps,
            servers=cluster.servers,
            ranks_per_server=cluster.ranks_per_server,
            cores=cluster.server.host_cores,
        )

    def shared_bps(self, total_bps: float, ranks: int, each_server: int) -> float:
        """What each of some ranks gets when all move data at once, bit/s.

        Args:
            total_bps: Of the storage system.
            ranks: That move data.
            each_server: Of them in the fullest server.
        """
        return min(total_bps / max(ranks, 1), self.server_bps / max(each_server, 1), self.rank_bps)
