"""What a cluster is asked to be: plain frozen records, in base units, that the scenario fills."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from railyard.cluster.hall.spec import HallSpec
from railyard.cluster.host_path import HostSpec
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.fabric.encryption import Encryption
from railyard.fabric.fabric import FabricSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.cluster.topology.wiring import TopologySpec


Patched = Literal["none", "switches", "all"]
PoolNetwork = Literal["host", "cxl", "back_end", "front_end"]


@dataclass(frozen=True)
class NetworkSpec:
    """One network.

    Attributes:
        topology: Family and its parameters.
        fabric: Fabric and its overrides.
        link_rate_bps: Rate of a NIC's link, bit/s, one way; None takes the NIC's.
        switch: Catalogue name of the switch of the lowest tier; None takes the fabric's usual one for the rate.
        spine_switch: The same for the tiers above; None takes the fabric's partner of `switch`.
        border_switch: Of the ends of long links between sites; None takes the usual one of the upper tiers.
        lengths_m: Cable length by tier (`nic`, `leaf-spine`, `spine-core`, ...), m; tiers left out have the family's
            default.
        seed: Seed of the switches' hashes.
        host: How bytes get from accelerators to the NICs of the back-end.
        encryption: Of its packets.
        patch_panels: Which optical cables go through patch panels: `none`, those between `switches`, or `all`.
    """

    topology: TopologySpec = field(default_factory=LeafSpine)
    fabric: FabricSpec = field(default_factory=lambda: FabricSpec("roce"))
    link_rate_bps: float | None = None
    switch: str | None = None
    spine_switch: str | None = None
    border_switch: str | None = None
    lengths_m: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    host: HostSpec = field(default_factory=HostSpec)
    encryption: Encryption = field(default_factory=Encryption)
    patch_panels: Patched = "none"


@dataclass(frozen=True)
class StorageSpec:
    """A storage system.

    Attributes:
        name: Catalogue name of one of its nodes.
        servers: Number of nodes.
        network: `back_end` (converged), `front_end`, or a network of its own.
    """

    name: str
    servers: int
    network: str | NetworkSpec = "front_end"


@dataclass(frozen=True)
class MemoryPoolSpec:
    """A memory pool.

    Attributes:
        name: Catalogue name of a unit; empty for the hosts' own memory.
        units: Expanders, boxes or hosts that lend memory; the hosts' own memory has one a server.
        network: `host`: each server's own memory; `cxl`: ports of the servers; `back_end` or `front_end`: RDMA.
    """

    name: str = ""
    units: int = 1
    network: PoolNetwork = "cxl"


@dataclass(frozen=True)
class Background:
    """Traffic of others: part of the capacity of a tier is taken.

    Attributes:
        network: `back_end`, `front_end` or `storage`.
        load: Share of the capacity taken, 0 to less than 1.
        tier: Name of the tier within the network; None takes every tier between switches.
    """

    network: str
    load: float
    tier: str | None = None


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster.

    Attributes:
        accelerators: Number of accelerators.
        server: Catalogue name of the server.
        back_end: Network between accelerators.
        front_end: Network between hosts; None leaves it out.
        storage: Storage system; None leaves it out.
        memory_pool: Memory beyond the accelerators' own; None leaves it out.
        overrides: Catalogue values that differ, by record and attribute: `{"accelerator": {"memory_bps": 2.6e13}}`;
            records are `accelerator`, `server`, `nic`, `switch`.
        background: Traffic of others.
        ranks_per_domain: Accelerators in use of each scale-up domain, whole servers; None uses all. The
            others are bought and powered, and idle.
        gateway_ports: Ports of the back-end network that lead to other networks; the last of its extra ports.
        hall: Where it stands.
    """

    accelerators: int
    server: str
    back_end: NetworkSpec = field(default_factory=NetworkSpec)
    front_end: NetworkSpec | None = None
    storage: StorageSpec | None = None
    memory_pool: MemoryPoolSpec | None = None
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    background: tuple[Background, ...] = ()
    ranks_per_domain: int | None = None
    gateway_ports: int = 0
    hall: HallSpec = field(default_factory=HallSpec)


@dataclass(frozen=True)
class Placement:
    """How accelerators are chosen for a job.

    Attributes:
        policy: Name of a placement policy.
        seed: Of what it draws.
    """

    policy: str = "packed"
    seed: int = 0


PACKED = Placement()
"""Server after server, in the order of the racks."""
