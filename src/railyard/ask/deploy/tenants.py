"""The tenant of each cable of a plan, and whose routes go over it, as configurations isolate them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.deploy.cabling import addresses_of, ipv4
from railyard.cluster.tenancy import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.tenancy import Tenancy


TARGET_AS = 64_512
"""First half of route targets: a private number (RFC 6996), since those of switches take 32 bits and leave too few."""

FIRST_VLAN = 101
"""First VLAN of tenants, inside switches and between them."""


@dataclass(frozen=True)
class Vrf:
    """A tenant's table of routes.

    Attributes:
        row: Its number among all tenants, from 0.
    """

    name: str
    number: int
    row: int

    @property
    def target(self) -> str:
        """Route target of its routes in EVPN."""
        return f"{TARGET_AS}:{self.number}"

    @property
    def vlan(self) -> int:
        """VLAN that carries it inside a switch."""
        return FIRST_VLAN + self.row


@dataclass(frozen=True)
class Holder:
    """Routing table and permissions of a server's port, in the words of its leaf.

    Attributes:
        vrf: Name of the table of routes; empty: that of all.
        permits: Prefixes to which it may send; empty: to all.
    """

    vrf: str = ""
    permits: tuple[str, ...] = ()
    share: float = 1.0


EVERYBODYS = Holder()
NOBODYS = Holder("nobody")
"""Holder of a port without a tenant if tenants are isolated: it gets no address, and leads nowhere."""


@dataclass(frozen=True, eq=False)
class NetworkOwners:
    """A network's tenants.

    Attributes:
        tenancy: Who shares the network; None: nobody.
        owner: int32[cables], of servers' cables their tenant; -1: nobody's, or no server's.
        carried: bool[devices, tenants], whose routes a switch has to have.
    """

    plan: CablingPlan
    tenancy: Tenancy | None
    owner: NDArray[np.int32]
    carried: NDArray[np.bool_]
    prefixes: tuple[tuple[str, ...], ...] = ()

    @property
    def by(self) -> str:
        """Mechanism that isolates tenants in switches; empty without one."""
        return self.tenancy.mechanism.name if self.tenancy is not None and self.tenancy.mechanism.family else ""

    def tenant(self, row: int) -> Holder:
        """Tenant of a server's cable."""
        if self.tenancy is None:
            return EVERYBODYS
        owner = int(self.owner[row])
        if owner == NOBODY:
            return NOBODYS if self.by else EVERYBODYS
        tenant = self.tenancy.tenants[owner]
        permits = self.prefixes[owner] if self.by == "acl" else ()
        return Holder(tenant.name if self.tenancy.mechanism.routed else "", permits, tenant.share)

    def between(self, row: int) -> tuple[Vrf, ...]:
        """Tenants whose routes go over a cable between switches, each in a VLAN."""
        return self.vrfs(int(self.plan.cables.a[row])) if self.by == "vrf" else ()

    def vrfs(self, device: int) -> tuple[Vrf, ...]:
        """Tenants that have tables of routes in a switch."""
        if self.tenancy is None or not self.tenancy.mechanism.routed:
            return ()
        if self.by == "evpn" and self.plan.devices.level[device] > 1:
            return ()
        mine = np.flatnonzero(self.carried[device]).tolist()
        return tuple(Vrf(self.tenancy.tenants[one].name, self.tenancy.tenants[one].identifier, one) for one in mine)

    def second_file(self, device: int, system: str) -> bool:
        """Whether a switch needs a second file: routing in SONiC, devices and shares with FRR."""
        mine = (self.plan.cables.b == device) & (self.owner >= 0)
        shares = [self.tenancy.tenants[one].share < 1 for one in self.owner[mine].tolist()] if self.tenancy else []
        return (system in ("sonic", "frr") and bool(self.vrfs(device))) or (system == "frr" and any(shares))


def shared_of(plan: CablingPlan, network: int) -> NetworkOwners:
    """Owners of the cables of a network."""
    cables, devices = plan.cables, plan.devices
    key = list(plan.cluster.plans)[network]
    tenancy = plan.cluster.plans[key].tenancy
    owner = np.full(len(cables), NOBODY, np.int32)
    if tenancy is None:
        return NetworkOwners(plan, None, owner, np.zeros((len(devices), 0), np.bool_))
    servers = len(tenancy.owner)
    mine = np.flatnonzero((cables.network == network) & (cables.a < servers) & (devices.level[cables.a] == 0))
    owner[mine] = tenancy.owner[cables.a[mine], cables.port[mine, 0] - 1]
    carried = np.zeros((len(devices), len(tenancy.tenants)), np.bool_)
    had = mine[owner[mine] >= 0]
    carried[cables.b[had], owner[had]] = True
    for level in range(1, int(devices.level.max(initial=1)) + 1):
        up = np.flatnonzero((cables.network == network) & (devices.level[cables.a] == level))
        np.logical_or.at(carried, cables.b[up], carried[cables.a[up]])
    return NetworkOwners(plan, tenancy, owner, carried, _prefixes(plan, owner, len(tenancy.tenants)))


def _prefixes(plan: CablingPlan, owner: NDArray[np.int32], tenants: int) -> tuple[tuple[str, ...], ...]:
    """Prefixes of each tenant's servers, put together where they lie side by side."""
    access = addresses_of(plan).access
    found = []
    for number in range(tenants):
        nets = [IPv4Network(f"{ipv4(int(one))}/31") for one in access[owner == number].tolist()]
        found.append(tuple(str(one) for one in collapse_addresses(nets)))
    return tuple(found)


TABLES = ("routes", "neighbours", "vrfs", "vnis", "rules", "partition_keys")


@dataclass(frozen=True)
class Demand:
    """The fullest table of its kind among switches of a role.

    Attributes:
        role: `leaf`, `spine`, ...
        table: One of `TABLES`.
        rows: Needed, IPv4.
        most: That the box has; None: none is published.
    """

    role: str
    box: str
    table: str
    rows: int
    switch: str
    most: int | None
    source: str

    @property
    def fits(self) -> bool:
        """Whether there are so many, as far as is known."""
        return self.most is None or self.rows <= self.most


def demands(plan: CablingPlan) -> list[Demand]:
    """The fullest tables by role of the back-end; nothing where nobody shares it."""
    number = list(plan.cluster.plans).index("back_end")
    shared, network = shared_of(plan, number), plan.cluster.plans["back_end"]
    if shared.tenancy is None:
        return []
    found: dict[tuple[str, str], Demand] = {}
    for device, rows in _rows(plan, number, shared):
        role, box = str(plan.devices.role[device]), network.switches[str(plan.devices.box[device])]
        for table, count in rows.items():
            old = found.get((role, table))
            if count and (old is None or count > old.rows):
                origin = box.provenance.get("tables") or box.provenance.get(f"tables.{table}")
                source = "" if origin is None else origin.source
                found[role, table] = Demand(
                    role, box.name, table, count, plan.devices.name[device], box.tables.get(table), source
                )
    return list(found.values())


def _rows(plan: CablingPlan, number: int, shared: NetworkOwners) -> Iterator[tuple[int, dict[str, int]]]:
    cables, devices = plan.cables, plan.devices
    mine = cables.network == number
    switches = np.flatnonzero((devices.level > 0) & (devices.network == plan.networks[number]))
    access = mine & (devices.level[cables.a] == 0)
    ports = Counter(cables.b[access & (shared.owner >= 0)].tolist())
    lanes: Counter[int] = Counter()
    for row in np.flatnonzero(mine & (devices.level[cables.a] > 0)).tolist():
        ways = 1 + len(shared.between(row))
        lanes.update({int(cables.a[row]): ways, int(cables.b[row]): ways})
    tenants = 0 if shared.tenancy is None else len(shared.tenancy.tenants)
    prefixes = np.bincount(shared.owner[shared.owner >= 0], minlength=tenants)
    leafs = shared.carried[devices.level == 1].sum(axis=0) if tenants else np.zeros(0, np.int64)
    for device in switches.tolist():
        yield device, _of_switch(shared, device, (len(switches), prefixes.tolist(), leafs.tolist()), ports, lanes)


def _of_switch(
    shared: NetworkOwners,
    device: int,
    totals: tuple[int, list[int], list[int]],
    ports: Counter[int],
    lanes: Counter[int],
) -> dict[str, int]:
    switches, prefixes, leafs = totals
    here, leaf = [vrf.row for vrf in shared.vrfs(device)], shared.plan.devices.level[device] == 1
    if shared.by == "pkey":
        return {"partition_keys": 2 if leaf else 1}
    evpn = shared.by == "evpn"
    routed = sum(prefixes[row] for row in here) if shared.vrfs(device) or evpn else sum(prefixes)
    own = np.flatnonzero(shared.carried[device]).tolist() if shared.by == "acl" and leaf else []
    return {
        "routes": switches + routed,
        "neighbours": ports[device] + lanes[device] + (sum(leafs[row] - 1 for row in here) if evpn else 0),
        "vrfs": len(here),
        "vnis": len(here) if evpn else 0,
        "rules": sum(len(shared.prefixes[row]) + 1 for row in own),
    }
