"""What a switch or a server is meant to do: one record that every dialect is written from, and read back into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.deploy.headroom import Asic, asic_of
from railyard.ask.deploy.plan.drawn import HOST_MTU, HOSTS6, MTU, addresses_of, interface, ipv4, ipv6
from railyard.ask.deploy.plan.shared import NOBODYS, Vrf, shared_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.ask.deploy.plan.cabling import Plan
    from railyard.cluster.asbuilt.discovery import Dialect

MAX_PATHS = 128
"""Equal-cost paths that a switch may use: more than any tier of the plan has."""

BFD_MS, BFD_MULTIPLIER = 300, 3
"""Interval of BFD's packets, and how many may be lost before a session is down: FRR's and EOS's own."""

KEEPALIVE_S, HOLD_S = 1, 3
"""Of BGP: how often a session says that it is there, and how long it may say nothing."""

LOSSLESS = 3
"""Priority and traffic class of RoCE: what NICs and switches use where nobody says otherwise (DSCP 26)."""

DSCP_ROCE, DSCP_CNP, CNP = 26, 48, 6
"""Code points of RoCE's data and of its congestion notifications, and the traffic class of these."""


@dataclass(frozen=True)
class Port:
    """A port with a cable: to another switch, with which it routes, or to a server.

    Attributes:
        port: Its name.
        neighbour: Name of the device at the other end.
        neighbour_port: Port there.
        rate_bps: Of the cable.
        length_m: Of the cable.
        split: Ports that its cage is broken out into.
        vrfs: Of another switch's: tenants whose routes go over it, where each has a VLAN there.
    """

    port: str
    neighbour: str
    neighbour_port: str
    rate_bps: int
    length_m: float
    split: int
    vrfs: tuple[Vrf, ...] = ()


@dataclass(frozen=True)
class Access(Port):
    """A port with a server.

    Attributes:
        address: IPv4 of this end; the server has the next one of a /31.
        address6: IPv6 of this end; the server has the next one of a /127.
        vrf: Name of the tenant's table of routes; empty: that of all.
        permits: Prefixes to which the server may send; empty: to all.
        shaped_bps: What the switch sends to the server at most, bit/s; 0: as much as the port takes.
    """

    address: str = ""
    address6: str = ""
    vrf: str = ""
    permits: tuple[str, ...] = ()
    shaped_bps: int = 0

    @property
    def filter(self) -> str:
        """Name of what says so; ports of a tenant share theirs. Empty where nothing does."""
        return "" if not self.permits else f"to-{self.permits[0].replace('/', '-')}"


@dataclass(frozen=True)
class SwitchIntent:
    """A switch.

    Attributes:
        name: Of the device.
        asn: Its autonomous system.
        loopback: IPv4, its router id too.
        sessions: Ports to other switches.
        access: Ports to servers.
        pauses: Whether the fabric holds back RoCE by PFC.
        marks: Whether it marks by ECN.
        red: First and last mark of the queue, bytes, and the probability at the last, percent.
        alpha: Share of the free buffer that an ingress of RoCE may hold before it pauses.
        asic: What the headroom of its ports depends on.
        mtu: Largest frame, bytes.
        by: What keeps tenants apart; empty: nobody shares it.
        vrfs: Tenants with tables of routes here.
        leaf: Whether servers hang on it.
    """

    name: str
    asn: int
    loopback: str
    sessions: tuple[Port, ...]
    access: tuple[Access, ...]
    pauses: bool
    marks: bool
    red: tuple[int, int, int]
    asic: Asic
    alpha: float = 1.0
    mtu: int = MTU["ethernet"]
    by: str = ""
    vrfs: tuple[Vrf, ...] = ()
    leaf: bool = False

    @property
    def announced(self) -> tuple[str, ...]:
        """Prefixes in the table of all."""
        return (f"{self.loopback}/32", *(f"{one.address}/31" for one in self.access if not one.vrf))

    def access_of(self, vrf: str) -> tuple[Access, ...]:
        """Ports of a tenant."""
        return tuple(one for one in self.access if one.vrf == vrf)

    @property
    def ports(self) -> tuple[Port, ...]:
        """All ports with cables."""
        return (*self.sessions, *self.access)


@dataclass(frozen=True)
class HostIntent:
    """A server.

    Attributes:
        name: Of the device.
        interfaces: Name, own IPv4, gateway, largest packet of each.
        back_end: Names of those between accelerators.
        infiniband: Whether these are InfiniBand's.
    """

    name: str
    interfaces: tuple[tuple[str, str, str, int], ...]
    back_end: tuple[str, ...]
    infiniband: bool


def switches(plan: Plan, network: int, dialect: Dialect) -> Iterator[SwitchIntent]:
    """Switches of an Ethernet network, one after another."""
    key = list(plan.cluster.plans)[network]
    fabric, boxes = plan.cluster.plans[key].fabric, plan.cluster.plans[key].switches
    rows, devices, numbers = plan.cables, plan.devices, addresses_of(plan)
    mine = np.flatnonzero(rows.network == network)
    ends = np.concatenate([rows.a[mine], rows.b[mine]])
    cable = np.concatenate([mine, mine])
    lower = np.concatenate([np.ones(len(mine), np.bool_), np.zeros(len(mine), np.bool_)])
    order = np.argsort(ends, kind="stable")
    first = np.searchsorted(ends[order], np.arange(len(devices) + 1))
    red, alpha = _red(fabric.packets.constants), _alpha(fabric.packets.constants)
    shared = shared_of(plan, network)
    for device in np.flatnonzero((devices.level > 0) & (devices.network == plan.networks[network])).tolist():
        sessions, access = [], []
        for at in order[first[device] : first[device + 1]].tolist():
            row, low = int(cable[at]), bool(lower[at])
            far = int(rows.b[row] if low else rows.a[row])
            port = _port(plan, row, "a" if low else "b", dialect)
            split = int((rows.a_lanes if low else rows.b_lanes)[row])
            common = int(rows.rate_bps[row]), float(rows.length_m[row]), split
            if devices.level[far]:
                there = _port(plan, row, "b" if low else "a", dialect)
                sessions.append(Port(port, devices.name[far], there, *common, shared.between(row)))
            else:
                there = interface(plan.networks[network], int(rows.a_port[row]))
                tenant = shared.tenant(row)
                if tenant is NOBODYS:
                    continue
                number = int(numbers.access[row])
                addresses = ipv4(number), ipv6(HOSTS6, number)
                shaped = round(common[0] * tenant.share) if tenant.share < 1 else 0
                access.append(
                    Access(port, devices.name[far], there, *common, (), *addresses, tenant.vrf, tenant.permits, shaped)
                )
        yield SwitchIntent(
            name=devices.name[device],
            asn=int(numbers.asn[device]),
            loopback=ipv4(int(numbers.loopback[device])),
            sessions=tuple(sessions),
            access=tuple(access),
            pauses=bool(fabric.pauses),
            marks=red[1] > 0,
            red=red,
            asic=asic_of(boxes[devices.box[device]])[0],
            alpha=alpha,
            by=shared.by,
            vrfs=shared.vrfs(device),
            leaf=int(devices.level[device]) == 1,
        )


def _red(constants: Mapping[str, Any]) -> tuple[int, int, int]:
    """Marks of the fabric's own constants; none where it marks nothing."""
    low, high = int(constants.get("marking_low_bytes", 0)), int(constants.get("marking_high_bytes", 0))
    return low, high, round(100 * float(constants.get("marking_most", 0.0)))


ALPHAS = tuple(2.0**power for power in range(-7, 4))
"""Shares of the free buffer that switches can be told: SAI's exponents, and Junos' steps 0 to 10."""


def _alpha(constants: Mapping[str, Any]) -> float:
    """The fabric's own share of the free buffer.

    Raises:
        InputError: Switches have no such share.
    """
    alpha = float(constants.get("pfc_alpha", 1.0))
    if alpha not in ALPHAS:
        allowed = "powers of two from 1/128 to 8"
        raise InputError(
            "switches take certain shares of the buffer", key="pfc_alpha", found=f"{alpha:g}", allowed=allowed
        )
    return alpha


def _port(plan: Plan, row: int, side: str, dialect: Dialect) -> str:
    rows = plan.cables
    cage, lane, lanes = (int(getattr(rows, f"{side}_{key}")[row]) for key in ("cage", "lane", "lanes"))
    return dialect.port(cage, None if lanes == 1 else lane, lanes)


def hosts(plan: Plan) -> Iterator[HostIntent]:
    """Servers, one after another."""
    from railyard.ask.deploy.plan.drawn import is_infiniband

    rows, numbers = plan.cables, addresses_of(plan)
    own = np.flatnonzero(plan.devices.level[rows.a] == 0)
    order = own[np.lexsort((rows.a_port[own], rows.network[own], rows.a[own]))]
    owner = rows.a[order]
    first = np.searchsorted(owner, np.arange(plan.devices.servers + 1))
    infiniband = [is_infiniband(plan, number) for number in range(len(plan.networks))]
    for server in range(plan.devices.servers):
        interfaces, back_end = [], []
        for row in order[first[server] : first[server + 1]].tolist():
            network = int(rows.network[row])
            name = interface(plan.networks[network], int(rows.a_port[row]))
            if plan.networks[network] == "back-end":
                back_end.append(name)
            if not infiniband[network]:
                gateway = int(numbers.access[row])
                interfaces.append((name, ipv4(gateway + 1), ipv4(gateway), HOST_MTU))
        yield HostIntent(plan.devices.name[server], tuple(interfaces), tuple(back_end), infiniband[0])
