"""Specification of a cluster: plain frozen records in base units, filled from the scenario."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from railyard.catalog.types import Server
from railyard.cluster.fabric.encryption import Encryption
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.hall.spec import HallSpec
from railyard.cluster.host_path import HostSpec
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import TIME, bounded, limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Entry
    from railyard.cluster.scale_up.fabric import ScaleUpSpec
    from railyard.cluster.tenancy import TenancySpec
    from railyard.cluster.topology.wiring import TopologySpec


E = TypeVar("E", bound="Entry")

RECORDS = ("accelerator", "server", "nic", "switch")


def check(overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Rejects overrides of unknown records.

    Raises:
        InputError: A record is unknown.
    """
    for name in overrides:
        if name not in RECORDS:
            raise InputError(
                f"there is no record `{name}` to override",
                key=f"overrides.{name}",
                allowed=RECORDS,
                hint=did_you_mean(name, RECORDS),
            )


def overridden(entry: E, values: Mapping[str, Any], record: str) -> E:
    """The entry with some attributes replaced; values are in base units.

    A mapping is merged into the entry's own: `{"flops": {"bf16": 9e14}}` leaves the other datatypes as they are.

    Raises:
        InputError: An attribute is unknown.
    """
    if not values:
        return entry
    known = {field.name for field in fields(entry)} - {"name", "provenance"}
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            key = f"overrides.{record}.{name}"
            raise InputError(
                f"{record} has no `{name}`", key=key, allowed=sorted(known), hint=did_you_mean(name, known)
            )
        default = getattr(entry, name)
        changed[name] = {**default, **value} if isinstance(default, dict) and isinstance(value, dict) else value
    return _with_domains(replace(entry, **changed))


def _with_domains(entry: E) -> E:
    """Memory domains for more or fewer accelerators and NICs than the entry has, distributed as in the entry.

    Raises:
        InputError: A named domain does not exist in the server, or none is named.
    """
    if not isinstance(entry, Server):
        return entry
    for key, domains in (("accelerator_numa", entry.accelerator_numa), ("nic_numa", entry.nic_numa)):
        if not domains or max(domains) >= entry.numa_nodes:
            raise InputError(
                f"the server has {entry.numa_nodes} memory domains",
                key=f"overrides.server.{key}",
                found=list(domains),
                allowed=f"a list of 0 to {entry.numa_nodes - 1}",
            )
    return replace(
        entry,
        accelerator_numa=_dealt(entry.accelerator_numa, entry.accelerators),
        nic_numa=_dealt(entry.nic_numa, entry.nics),
    )


def _dealt(domains: tuple[int, ...], count: int) -> tuple[int, ...]:
    return tuple(domains[number * len(domains) // count] for number in range(count))


Optics = Literal["dsp", "lro", "lpo", "cpo"]
Patched = Literal["none", "switches", "all"]
PoolNetwork = Literal["host", "cxl", "back_end", "front_end"]


@dataclass(frozen=True)
class NetworkSpec:
    """One network.

    Attributes:
        topology: Family and its parameters.
        fabric: Fabric and its overrides.
        link_rate_bps: Rate of a NIC's link, bit/s, one way; None takes the NIC's.
        switch: Catalog name of the switch of the lowest tier; None takes the fabric's usual one for the rate.
        spine_switch: The same for the tiers above; None takes the fabric's partner of `switch`.
        border_switch: Switch at the ends of long links between sites; None takes the usual one of the upper tiers.
        lengths_m: Cable length by tier (`nic`, `leaf-spine`, `spine-core`, ...), m; tiers left out have the family's
            default.
        seed: Seed of the switches' hashes.
        host: How bytes get from accelerators to the NICs of the back-end.
        encryption: Encryption of its packets.
        optics: Kind of its optical modules; None: modules with a signal processor, or what its switches have in them.
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
    optics: Optics | None = None


@dataclass(frozen=True)
class StorageSpec:
    """A storage system.

    Attributes:
        name: Catalogue name of one of its nodes.
        servers: Number of nodes.
        network: `back_end` (converged), `front_end`, or a network of its own.
        nic: Catalogue name of the servers' NICs on its own network; None takes those of the front-end.
        nics: NICs of each server, on its own network.
    """

    name: str
    servers: int
    network: str | NetworkSpec = "front_end"
    nic: str | None = None
    nics: int = 1


@dataclass(frozen=True)
class ManagementSpec:
    """Management networks, fabric managers, racks and their power: bought and powered, their traffic not modelled.

    Attributes:
        servers: Management servers.
        server: One of them, from the catalogue.
        file_servers: Servers of home directories that it leads to, not priced.
        fabric_manager: Fabric manager; each InfiniBand network has a pair of them.
        in_band: Switch of the in-band network.
        in_band_cable: Its cables.
        core_links: Cables from an in-band leaf to each of two cores, and from a core to the site.
        peer_links: Cables between the two leafs of a pair.
        out_of_band: Switch of management ports.
        out_of_band_cable: Its cables.
        pdu: Power distribution unit; a rack has one more than its power needs.
        rack: Rack.
    """

    servers: int = field(default=4, metadata=bounded(limits(1, 2**31 - 1)))
    server: str = "management-server"
    file_servers: int = 0
    fabric_manager: str = "ufm-appliance"
    in_band: str = "spectrum-3-sn4600c"
    in_band_cable: str = "aoc-100g"
    core_links: int = field(default=2, metadata=bounded(limits(1, 64)))
    peer_links: int = field(default=2, metadata=bounded(limits(1, 64)))
    out_of_band: str = "spectrum-1-sn2201"
    out_of_band_cable: str = "cat5e"
    pdu: str = "pdu-34-kva"
    rack: str = "rack-42u"


@dataclass(frozen=True)
class MemoryPoolSpec:
    """A memory pool.

    Attributes:
        name: Catalogue name of a unit; empty for the hosts' own memory.
        units: Expanders, boxes or hosts that lend memory; the hosts' own memory has one unit per server.
        network: `host`: each server's own memory; `cxl`: ports of the servers; `back_end` or `front_end`: RDMA.
    """

    name: str = ""
    units: int = 1
    network: PoolNetwork = "cxl"


@dataclass(frozen=True, kw_only=True)
class OcsSpec:
    """How the cubes of a torus are joined.

    Attributes:
        relink_ps: From the new light path until the link carries data. 5.67 s is the mean of 100 Gb/s NICs, 6.33 s the
            99th percentile (MixNet, SIGCOMM 2025, appendix C); nobody published that of a scale-up port.
    """

    wiring: str = field(
        default="switched",
        metadata=f.choice(
            "wiring",
            "Whether optical circuit switches join any cubes, or fixed fibre each with its neighbours",
            ("switched", "static"),
        ),
    )
    switch: str = field(default="palomar", metadata=f.text("switch", "The optical circuit switch, from the catalogue"))
    cube: int = field(
        default=64,
        metadata=f.count("cube", "Accelerators of a cube, joined by copper", bounds=limits(1, 1_000_000)),
    )
    relink_ps: int = field(
        default=5_670_000_000_000,
        metadata=f.time(
            "relink",
            "From a new light path until its link carries data again",
            "5.67 s",
            bounds=TIME.within("0 s", "1 h", usual=("1 us", "10 s"), source="burst-mode receivers to NICs of today"),
        ),
    )


@dataclass(frozen=True)
class Background:
    """Other traffic, which takes part of a tier's capacity.

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
        management: Networks for management, fabric managers, power distribution; None leaves them out.
        overrides: Catalogue values that differ, by record and attribute: `{"accelerator": {"memory_bps": 2.6e13}}`;
            records are `accelerator`, `server`, `nic`, `switch`.
        background: Other traffic.
        ranks_per_domain: Accelerators in use per scale-up domain, in whole servers; None uses all. The others are
            bought, powered and idle.
        gateway_ports: Ports of the back-end network that lead to other networks; the last of its extra ports.
        tenancy: Tenants that share the back-end; None: a single user.
        ocs: How cubes of a scale-up torus are joined; None: the torus is one piece.
        scale_up: What joins the accelerators of a domain; None: the server's own fabric.
    """

    accelerators: int
    server: str
    back_end: NetworkSpec = field(default_factory=NetworkSpec)
    front_end: NetworkSpec | None = None
    storage: StorageSpec | None = None
    memory_pool: MemoryPoolSpec | None = None
    management: ManagementSpec | None = None
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    background: tuple[Background, ...] = ()
    ranks_per_domain: int | None = None
    gateway_ports: int = 0
    hall: HallSpec = field(default_factory=HallSpec)
    tenancy: TenancySpec | None = None
    ocs: OcsSpec | None = None
    scale_up: ScaleUpSpec | None = None


@dataclass(frozen=True)
class Placement:
    """Rule that chooses accelerators for a job.

    Attributes:
        policy: Name of a placement policy.
        seed: Seed of its random choices.
    """

    policy: str = "packed"
    seed: int = 0


PACKED = Placement()
"""Server by server, in rack order."""
