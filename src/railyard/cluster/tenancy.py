"""Tenants of a cluster: their ports, share and traffic class, and how they are isolated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Switch
    from railyard.cluster.fabric.fabric import Fabric

Spans = tuple[tuple[int, int], ...]
"""First and last of each run of consecutive numbers."""

NOBODY = -1


@dataclass(frozen=True)
class TenancyMechanism:
    """A tenant isolation mechanism: its identifiers, and its packet overhead.

    Attributes:
        identifier: What identifies a tenant; empty if it needs none.
        between_bytes: Bytes added to a packet on links between switches.
        family: Switch family that supports it; empty: any.
        routed: Whether each tenant has separate route tables in switches.
    """

    name: str
    summary: str
    identifier: str = ""
    first: int = 1
    last: int = 2**31
    between_bytes: int = 0
    family: str = ""
    routed: bool = False
    source: str = ""

    @property
    def most(self) -> int:
        """Maximum number of tenants."""
        return self.last - self.first + 1


MECHANISMS = {
    row.name: row
    for row in (
        TenancyMechanism(
            "none",
            "Only the ports: all that is cabled together can be reached; dedicated rails where no switch joins them",
        ),
        TenancyMechanism(
            "acl",
            "One table of routes; leafs drop what a server sends to others' prefixes",
            family="ethernet",
            source="rows of the TCAM as the files have them: tenants' prefixes, aggregated",
        ),
        TenancyMechanism(
            "vrf",
            "A table of routes a tenant in every switch on its way; links between switches carry a VLAN a tenant",
            identifier="VLAN",
            first=101,
            last=4094,
            between_bytes=4,
            family="ethernet",
            routed=True,
            source="IEEE 802.1Q: tag of 4 bytes, identifiers of 12 bits, 4,094 of them usable",
        ),
        TenancyMechanism(
            "evpn",
            "A table of routes a tenant in leafs alone; VXLAN between them, routes by BGP EVPN (type 5)",
            identifier="VNI",
            first=10_001,
            last=2**24 - 1,
            between_bytes=50,
            family="ethernet",
            routed=True,
            source="RFC 7348: Ethernet 14, IPv4 20, UDP 8, VXLAN 8 bytes, identifiers of 24 bits; RFC 9136",
        ),
        TenancyMechanism(
            "pkey",
            "InfiniBand partitions: ports take packets only of keys that they have",
            identifier="partition key",
            first=1,
            last=0x7FFE,
            family="infiniband",
            source="InfiniBand Architecture Specification, volume 1, 10.9: 15 bits in the BTH that is there anyway",
        ),
        TenancyMechanism(
            "job-key",
            "Ultra Ethernet's JobID: NICs take packets only of jobs that they know",
            identifier="JobID",
            first=1,
            last=2**24 - 1,
            source="UE Specification 1.0: 24 bits in the SES header that is there anyway",
        ),
    )
}
"""Mechanisms by name."""


@dataclass(frozen=True)
class TenantSpec:
    """Specification of a tenant.

    Attributes:
        servers: Its servers, counted from 0 in the order of the racks.
        nics: Its NICs in those servers; None: all.
        share: Share of the rate of each of its ports, both ways, at most 1.
        traffic_class: Traffic class of its packets; None: as without tenants.
    """

    name: str
    servers: Spans
    nics: Spans | None = None
    share: float = 1.0
    traffic_class: int | None = None


@dataclass(frozen=True)
class TenancySpec:
    """Specification of all tenants."""

    by: str
    tenants: tuple[TenantSpec, ...]


@dataclass(frozen=True)
class Tenant:
    """A tenant.

    Attributes:
        number: From 0.
        identifier: Its VLAN, VNI, partition key or JobID; from 1 where the mechanism needs none.
        traffic_class: Traffic class of its packets; None: as without tenants.
    """

    name: str
    number: int
    identifier: int
    share: float
    traffic_class: int | None


@dataclass(frozen=True, eq=False)
class Tenancy:
    """Ownership of a cluster's back-end ports.

    Attributes:
        owner: int16[servers, NICs of a server], the tenant of each; -1: none.
    """

    mechanism: TenancyMechanism
    tenants: tuple[Tenant, ...]
    owner: NDArray[np.int16]

    def number(self, name: str) -> int:
        """A tenant's number.

        Raises:
            InputError: The tenant is unknown.
        """
        names = [one.name for one in self.tenants]
        if name not in names:
            hint = did_you_mean(name, names)
            raise InputError("the cluster has no such tenant", key="tenant", found=name, allowed=names, hint=hint)
        return names.index(name)

    def of_nodes(self, port_of: NDArray[np.int32], nodes: int) -> NDArray[np.int32]:
        """int32[nodes], the tenant of each node's port; -1: none.

        Args:
            port_of: int32[servers, NICs], node of each port.
            nodes: Number of nodes of the network.
        """
        found = np.full(nodes, NOBODY, np.int32)
        found[port_of] = self.owner
        return found

    def shares(self, port_of: NDArray[np.int32], nodes: int) -> NDArray[np.float64]:
        """float64[nodes], share of its port's rate that a tenant may use; 1 elsewhere."""
        given = np.array([*(one.share for one in self.tenants), 1.0])
        return given[self.of_nodes(port_of, nodes)]

    def classes_of(self, port_of: NDArray[np.int32], nodes: int) -> NDArray[np.int16]:
        """int16[nodes], traffic class of a port's packets; -1: as without tenants."""
        given = [-1 if one.traffic_class is None else one.traffic_class for one in self.tenants]
        return np.array([*given, -1], np.int16)[self.of_nodes(port_of, nodes)]

    @property
    def classes(self) -> tuple[int, ...]:
        """Traffic classes assigned to tenants."""
        return tuple(sorted({one.traffic_class for one in self.tenants if one.traffic_class is not None}))

    def between_share(self, fabric: Fabric) -> float:
        """Share of the rate of links between switches left by the mechanism, with full packets."""
        full = fabric.mtu_bytes + fabric.header_bytes
        return full / (full + self.mechanism.between_bytes)


def tenancy_of(spec: TenancySpec, servers: int, nics: int) -> Tenancy:
    """The tenants of a cluster.

    Raises:
        InputError: Tenants overlap, are empty or too many, or need what does not exist; keys are relative to the spec.
    """
    if spec.by not in MECHANISMS:
        raise InputError("no such way to separate tenants", key="by", found=spec.by, allowed=list(MECHANISMS))
    mechanism = MECHANISMS[spec.by]
    if len(spec.tenants) > mechanism.most:
        raise InputError(
            f"`{mechanism.name}` has too few numbers ({mechanism.identifier} {mechanism.first} to {mechanism.last})",
            key="tenants",
            found=len(spec.tenants),
            allowed=f"at most {mechanism.most:,}",
        )
    owner = np.full((servers, nics), NOBODY, np.int16 if len(spec.tenants) < 2**15 else np.int32)
    names: dict[str, int] = {}
    for number, one in enumerate(spec.tenants):
        if names.setdefault(one.name, number) != number:
            raise InputError("another tenant has this name", key=f"tenants.{number}.name", found=one.name)
        _take(owner, spec, number)
    tenants = tuple(
        Tenant(one.name, number, mechanism.first + number, one.share, one.traffic_class)
        for number, one in enumerate(spec.tenants)
    )
    return Tenancy(mechanism, tenants, owner)


def check_network(tenancy: Tenancy, fabric: Fabric, switches: Mapping[str, Switch], *, for_all: int) -> None:
    """Rejects a network that cannot isolate these tenants.

    Raises:
        InputError: The network is of another kind, or has shared services that could not be reached.
    """
    mechanism = tenancy.mechanism
    infiniband = any(switch.family == "infiniband" for switch in switches.values())
    if mechanism.family and (mechanism.family == "infiniband") != infiniband:
        other = "InfiniBand" if infiniband else "Ethernet"
        allowed = [
            one.name for one in MECHANISMS.values() if (one.family == "infiniband") == infiniband or not one.family
        ]
        raise InputError(
            f"switches of {other} have no `{mechanism.name}`", key="by", found=fabric.name, allowed=allowed
        )
    if mechanism.name == "job-key" and fabric.packets.constants.get("transport") != "uec":
        raise InputError(
            "only Ultra Ethernet has JobIDs", key="by", found=fabric.name, allowed="a fabric such as `uec`"
        )
    if mechanism.family and for_all:
        raise InputError(
            f"storage or memory on the back-end belongs to no tenant: with `{mechanism.name}` none would reach it",
            key="by",
            found=f"{for_all} ports for all",
            hint="give it a network of its own",
        )


def _take(owner: NDArray[np.int16], spec: TenancySpec, number: int) -> None:
    one = spec.tenants[number]
    servers, nics = owner.shape
    rows = _numbers(one.servers, servers, f"tenants.{number}.servers", "servers")
    columns = np.arange(nics)
    if one.nics is not None:
        columns = _numbers(one.nics, nics, f"tenants.{number}.nics", "NICs of a server")
    there = owner[np.ix_(rows, columns)]
    taken = np.argwhere(there >= 0)
    if len(taken):
        row, column = taken[0]
        other = spec.tenants[int(there[row, column])].name
        raise InputError(
            f"tenants overlap: NIC {columns[column]} of server {rows[row]} is `{other}`'s already",
            key=f"tenants.{number}.servers",
            found=one.name,
            allowed="a port has one tenant",
        )
    owner[np.ix_(rows, columns)] = number


def _numbers(spans: Spans, count: int, key: str, what: str) -> NDArray[np.int64]:
    """The numbers in spans, once each.

    Raises:
        InputError: There are none, or some do not exist.
    """
    found: list[int] = []
    for first, last in spans:
        if not 0 <= first <= last < count:
            raise InputError(f"there are no such {what}", key=key, found=f"{first}-{last}", allowed=f"0-{count - 1}")
        found += range(first, last + 1)
    if not found:
        raise InputError("a tenant needs ports", key=key, found="nothing", allowed=f"some of 0-{count - 1}")
    return np.unique(np.array(found, np.int64))
