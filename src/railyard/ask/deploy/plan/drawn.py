"""A plan in the words of a discovery: what `ibnetdiscover` or LLDP would find were everything cabled as planned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.asbuilt.discovery import DIALECTS, Dialect, Discovery, FoundCable, FoundDevice
from railyard.cluster.asbuilt.ibnetdiscover import PORT_LANES
from railyard.cluster.hall.devices import NETWORKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.deploy.plan.cabling import Plan


CORE_AS, SPINE_AS, LEAF_AS = 4_200_000_000, 4_200_100_000, 4_201_000_000
"""First of each tier's numbers, of RFC 6996's 4200000000 to 4294967294."""

LOOPBACKS, LOOPBACKS6 = 0x0A_F0_00_00, 0xFD00_00F0 << 96
"""10.240.0.0/13, one address a switch, and the same in fd00:f0::/96."""

MANAGEMENT, MANAGEMENT6 = 0x0A_F8_00_00, 0xFD00_00F8 << 96
"""10.248.0.0/13, one address the port of management of a switch, and the same in fd00:f8::/96."""

SERVICES = 256
"""First addresses of management, which gateways and servers (DHCP, files) take."""

HOSTS, HOSTS6 = 0x0A_00_00_00, 0xFD00_0001 << 96
"""10.0.0.0/9: each cable of a server is a network of two addresses (RFC 3021), the switch's even; in IPv6 a /127."""


@dataclass(frozen=True, eq=False)
class Addresses:
    """Of devices and of the cables of servers.

    Attributes:
        asn: int64[devices], of switches of Ethernet; 0 for others.
        loopback: int64[devices], IPv4; 0 for servers.
        management: int64[devices], IPv4 of a switch's port of management; 0 for servers.
        access: int64[cables], IPv4 of the switch's end of a server's cable, the server's is one more; 0 for others.
    """

    asn: NDArray[np.int64]
    loopback: NDArray[np.int64]
    management: NDArray[np.int64]
    access: NDArray[np.int64]


def addresses_of(plan: Plan) -> Addresses:
    """Addresses of a plan; those of one network do not depend on the size of another."""
    devices, cables = plan.devices, plan.cables
    asn = np.zeros(len(devices), np.int64)
    loopback = np.zeros(len(devices), np.int64)
    switches = np.flatnonzero(devices.level > 0)
    loopback[switches] = LOOPBACKS + 1 + np.arange(len(switches))
    management = np.zeros(len(devices), np.int64)
    management[switches] = MANAGEMENT + SERVICES + np.arange(len(switches))
    pod = _pods(plan)
    for level, first in ((1, LEAF_AS), (2, SPINE_AS), (3, CORE_AS)):
        mine = devices.level == level
        top = level > 1 and not (devices.level > level).any()
        asn[mine] = first + (np.arange(np.count_nonzero(mine)) if level == 1 else 0 if top else pod[mine])
    access = np.zeros(len(cables), np.int64)
    own = np.flatnonzero(devices.level[cables.a] == 0)
    access[own] = HOSTS + 2 * np.arange(len(own))
    return Addresses(asn, loopback, management, access)


def _pods(plan: Plan) -> NDArray[np.int64]:
    """int64[devices], a number for the spines that share a leaf."""
    devices, cables = plan.devices, plan.cables
    pod = np.arange(len(devices))
    inner = (devices.level[cables.a] == 1) & (devices.level[cables.b] == 2)
    low, high = cables.a[inner], cables.b[inner]
    for _ in range(64):
        least = np.full(len(devices), len(devices))
        np.minimum.at(least, low, pod[high])
        new = pod.copy()
        np.minimum.at(new, high, least[low])
        if np.array_equal(new, pod):
            break
        pod = new
    return np.unique(pod, return_inverse=True)[1].astype(np.int64)


def ipv4(number: int) -> str:
    """`10.0.0.1`."""
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def ipv6(base: int, number: int) -> str:
    """The address of the same number of 32 bits in another family: `fd00:1::a00:1`."""
    high, low = divmod(number, 1 << 16)
    return f"{_start(base)}{high:x}:{low:x}" if high else str(IPv6Address(base | number))


@cache
def _start(base: int) -> str:
    """`fd00:1::`: what all addresses of a family begin with, whose last 96 bits hold zeros and then the number."""
    return str(IPv6Address(base))


MTU = {"infiniband": 0, "ethernet": 9216}
"""Largest frame that ports of switches take, in bytes: jumbo frames; InfiniBand's are not discovered."""

HOST_MTU = 9000
"""Of interfaces of servers, without the header."""


def is_infiniband(plan: Plan, network: int) -> bool:
    """Whether a network's switches are InfiniBand's."""
    key = list(plan.cluster.plans)[network]
    return any(switch.family == "infiniband" for switch in plan.cluster.plans[key].switches.values())


def interface(network: str, nic: int) -> str:
    """Name of a server's interface by its number on a network, from 1: `be0`."""
    return f"{NETWORKS[network]}{nic - 1}"


def drawn(plan: Plan, network: int, dialect: Dialect) -> Discovery:
    """One network of a plan as found, cables in the plan's order.

    Args:
        plan: The plan.
        network: Index into its networks.
        dialect: How ports of switches are called; that of InfiniBand makes each port of a server a device.
    """
    rows = np.flatnonzero(plan.cables.network == network)
    cables, name = plan.cables, plan.networks[network]
    infiniband = dialect.name == "infiniband"
    number: dict[tuple[int, int], int] = {}
    devices: list[FoundDevice] = []
    is_host = plan.devices.level == 0

    def device(one: int, port: int) -> int:
        part = port - 1 if is_host[one] and infiniband else -1
        if (one, part) not in number:
            number[one, part] = len(devices)
            devices.append(_device(plan, one, part))
        return number[one, part]

    columns = (
        getattr(cables, side + key)[rows].tolist() for side in "ab" for key in ("", "_port", "_cage", "_lane", "_lanes")
    )
    listed = []
    frames = MTU["infiniband" if infiniband else "ethernet"]
    rates, lengths = cables.rate_bps[rows].tolist(), cables.length_m[rows].tolist()
    for at, (a, p, cage, lane, lanes, b, q, far, far_lane, far_lanes) in enumerate(zip(*columns, strict=True)):
        one, other = device(a, p), device(b, q)
        own = "1" if infiniband else interface(name, p)
        port = own if is_host[a] else _port(dialect, p, cage, lane, lanes)
        far_port = _port(dialect, q, far, far_lane, far_lanes)
        mine = 0 if infiniband else HOST_MTU if is_host[a] else frames
        width = PORT_LANES if infiniband else 0
        listed.append(FoundCable(one, port, other, far_port, int(rates[at]), 0, mine, frames, lengths[at], width))
    return Discovery("the plan", tuple(devices), tuple(listed))


def _device(plan: Plan, one: int, part: int) -> FoundDevice:
    name = plan.devices.name[one]
    if plan.devices.level[one]:
        return FoundDevice(name, name, "switch")
    label = f"{name} mlx5_{part}" if part >= 0 else name
    return FoundDevice(label, name, "host", f"mlx5_{part}" if part >= 0 else "", label=label)


def _port(dialect: Dialect, number: int, cage: int, lane: int, lanes: int) -> str:
    if dialect.name == "infiniband":
        return str(number)
    return dialect.port(cage, None if lanes == 1 else lane, lanes)


def dialects(plan: Plan, network: int) -> list[Dialect]:
    """Dialects that a network's switches may have."""
    infiniband = is_infiniband(plan, network)
    return [one for name, one in DIALECTS.items() if (name == "infiniband") == infiniband]
