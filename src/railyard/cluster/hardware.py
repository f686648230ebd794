"""The servers of a cluster and their parts: how many there are and what reaches the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster import override
from railyard.cluster.scale_up import ScaleUp, scale_up_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Catalog, Nic, Server
    from railyard.cluster.spec import ClusterSpec


@dataclass(frozen=True, eq=False)
class Hardware:
    """Servers, accelerators and NICs.

    Attributes:
        accelerator: Catalogue entry with the scenario's overrides.
        server: The same.
        nic: The same; back-end NIC.
        front_end_nic: NIC to storage and users.
        ranks: Accelerators in the cluster.
        per_server: Accelerators in use in each server.
        nics: Back-end NICs in use in each server.
        nic_bps: What one back-end NIC can move between the wire and memory, bit/s, one way: its rate or its share of
            PCIe.
        scale_up: Domains, with links counted from 0.
        idle_servers: Servers of the domains that the job leaves unused (see `ClusterSpec.ranks_per_domain`); a domain
            that is not filled to the number asked for has none.
    """

    accelerator: Accelerator
    server: Server
    nic: Nic
    front_end_nic: Nic
    ranks: int
    per_server: int
    nics: int
    nic_bps: float
    scale_up: ScaleUp
    idle_servers: int = 0

    @property
    def servers(self) -> int:
        """Servers in the cluster."""
        return self.ranks // self.per_server

    @property
    def idle(self) -> int:
        """Accelerators of idle servers."""
        return self.idle_servers * self.server.accelerators

    @classmethod
    def of(cls, spec: ClusterSpec, catalog: Catalog) -> Hardware:
        """From the catalogue, with the overrides of the spec.

        Raises:
            InputError: A name is unknown, or the accelerators do not fill whole servers.
        """
        override.check(spec.overrides)
        server = override.overridden(_server(catalog, spec.server), spec.overrides.get("server", {}), "server")
        overrides = spec.overrides.get("accelerator", {})
        accelerator = override.overridden(catalog.accelerator(server.accelerator), overrides, "accelerator")
        nic = override.overridden(catalog.nic(server.nic), spec.overrides.get("nic", {}), "nic")
        per_server = _per_server(spec.accelerators, server)
        nics = max(1, server.nics * per_server // server.accelerators)
        used = spec.ranks_per_domain or server.scale_up_domain
        pcie_share = server.pcie_bps * min(1.0, per_server / nics)
        return cls(
            accelerator=accelerator,
            server=server,
            nic=nic,
            front_end_nic=catalog.nic(server.front_end_nic),
            ranks=spec.accelerators,
            per_server=per_server,
            nics=nics,
            nic_bps=min(nic.rate_bps, pcie_share),
            scale_up=scale_up_of(accelerator, server, spec.accelerators, spec.ranks_per_domain),
            idle_servers=spec.accelerators // used * ((server.scale_up_domain - used) // server.accelerators),
        )


def _server(catalog: Catalog, name: str) -> Server:
    try:
        return catalog.server(name)
    except InputError as error:
        raise error.located(key="server") from None


def _per_server(ranks: int, server: Server) -> int:
    """Accelerators in use in each server: all, or fewer in a cluster of a single one."""
    if ranks < 1:
        raise InputError("a cluster has at least one accelerator", key="accelerators", found=ranks)
    if ranks <= server.accelerators:
        return ranks
    if ranks % server.accelerators:
        below = ranks // server.accelerators * server.accelerators
        raise InputError(
            f"{server.name} holds {server.accelerators} accelerators, and a job takes entire servers",
            key="accelerators",
            found=ranks,
            hint=f"nearest possible: {below} or {below + server.accelerators}",
        )
    return server.accelerators
