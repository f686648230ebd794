"""What a switch or a server is meant to do: one record that every dialect is written from, and read back into."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.deploy.cabling import HOST_MTU, HOSTS6, SWITCH_MTU, addresses_of, interface, ipv4, ipv6, port_names
from railyard.ask.deploy.tenants import NOBODYS, Vrf, shared_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.catalog import Switch
    from railyard.cluster.network_table import Dialect


FRAME = 9216
"""Bytes of the largest frame, one of which has begun when a pause is to be sent."""

EIGHT = 8
"""Lanes of a port that has two halves in a switch."""

SMALLEST = 64
"""Bytes of the smallest packet."""

QUANTUM_BITS = 512

QUANTA = {800: 905, 400: 905, 200: 453, 100: 394, 50: 147, 40: 118, 25: 80, 10: 67, 1: 2}
"""Quanta that a station may take to answer a pause, by Gb/s (IEEE 802.3, annex 31B.3.7, as sonic-swss lists them in
buffer_headroom_mellanox.lua; it takes 800 Gb/s as 400)."""

RESPONSE_S = 905 * QUANTUM_BITS / 400e9
"""The same as a time, for rates that neither names: 1.16 us at 400 Gb/s, as 453 quanta are at 200 Gb/s: from there on
the quanta grow with the rate, since what they allow is time. An estimate for 1.6 Tb/s, whose annex we have not seen.
What SONiC falls back to, 3.8 KiB (asic_table.j2: peer_response_time), is 19 ns there: no station stops so fast."""

INTERFACES_KIB = 0.8
"""Both interfaces of a cable (asic_table.j2: mac_phy_delay)."""

LIGHT_M_PER_S = 198_000_000
"""Speed of light in fibre, as SONiC counts it."""

GRAIN = 1024
"""Sizes are rounded up to it."""


@dataclass(frozen=True)
class Asic:
    """Constants of a switch's ASIC.

    Attributes:
        xon_kib: Until a port resumes (asic_table.j2: pipeline_latency).
    """

    cell_bytes: int
    xon_kib: int = 19
    tile_ns: int = 0
    extra_bytes: int = 0


ASICS = {
    "spectrum-2": Asic(144),
    "spectrum-3": Asic(144),
    "spectrum-4": Asic(192, tile_ns=120),
    "spectrum-5": Asic(192, tile_ns=120),
    "spectrum-6": Asic(192, extra_bytes=18 * 1024),
}
"""Switches whose figures are public (sonic-buildimage, asic_table.j2; sonic-swss, buffer_headroom_mellanox.lua)."""

USUAL_CHIP = "Spectrum-4"

USUAL = ASICS[USUAL_CHIP.lower()]
"""Figures for switches without public ones: of the one that needs most at 800 Gb/s, and a KiB less than most at 400."""

PACKET = 4096 + 82
"""Bytes of a full lossless packet: RoCE's payload and headers."""


@dataclass(frozen=True)
class Headroom:
    """Bytes: for what may still arrive (`xoff`), until a port resumes (`xon`), and for both (`size`)."""

    xon: int
    xoff: int
    size: int


def asic_of(switch: Switch) -> tuple[Asic, str]:
    """A switch's ASIC by its chip, and the chip whose figures these are: another's where its own are not public."""
    own = ASICS.get(switch.chip.lower())
    return (USUAL, USUAL_CHIP) if own is None else (own, switch.chip)


def headroom(
    rate_bps: float, length_m: float, *, asic: Asic = USUAL, lanes: int = 8, frame_bytes: int = FRAME
) -> Headroom:
    """Headroom of a port if all packets are of the smallest size, as SONiC assumes.

    Args:
        rate_bps: Of its cable.
        length_m: Of its cable.
        asic: The switch.
        lanes: Of the port; one with eight has two halves in the switch.
        frame_bytes: Largest frame that may have begun when a pause is to be sent.
    """
    under_way = on_the_way(rate_bps, length_m, frame_bytes) + rate_bps / 1e9 * asic.tile_ns / 8
    xoff = _rounded(PACKET + under_way * _occupancy(asic.cell_bytes)) + asic.extra_bytes
    xon = _rounded(asic.xon_kib * GRAIN * (2 if lanes == EIGHT else 1))
    return Headroom(xon, xoff, _rounded(xoff + xon + (FRAME if lanes == EIGHT else 0)))


def on_the_way(rate_bps: float, length_m: float, frame_bytes: int = FRAME) -> float:
    """Bytes that may still come after a pause: what any switch has to hold, whatever its cells are."""
    quanta = QUANTA.get(round(rate_bps / 1e9), RESPONSE_S * rate_bps / QUANTUM_BITS)
    cable = 2 * length_m * rate_bps / LIGHT_M_PER_S / 8
    return frame_bytes + cable + INTERFACES_KIB * GRAIN + quanta * QUANTUM_BITS / 8


def _occupancy(cell: int) -> int:
    """Bytes of buffer a byte of packets, when all are of the smallest size, or a byte larger than a cell."""
    return math.ceil(cell / SMALLEST if cell > 2 * SMALLEST else 2 * cell / (1 + cell))


def _rounded(size: float) -> int:
    return math.ceil(size / GRAIN) * GRAIN


MAX_PATHS = 128
"""Equal-cost paths that a switch may use: more than any tier of the plan has."""

BFD_MS, BFD_MULTIPLIER = 300, 3
"""Interval of BFD's packets, and how many may be lost before a session is down: FRR's and EOS's own."""

KEEPALIVE_S, HOLD_S = 1, 3
"""BGP's interval of keepalives, and the longest silence of a session."""

LOSSLESS = 3
"""Priority and traffic class of RoCE: what NICs and switches use where nobody says otherwise (DSCP 26)."""

DSCP_ROCE, DSCP_CNP, CNP = 26, 48, 6
"""Code points of RoCE's data and of its congestion notifications, and the traffic class of these."""


@dataclass(frozen=True)
class SwitchPort:
    """A port with a cable: to another switch, with which it routes, or to a server.

    Attributes:
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
class Access(SwitchPort):
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
        loopback: IPv4, its router id too.
        red: First and last mark of the queue, bytes, and the probability at the last, percent.
        alpha: Share of the free buffer that an ingress of RoCE may hold before it pauses.
        mtu: Largest frame, bytes.
        by: What isolates tenants; empty: nobody shares it.
    """

    name: str
    asn: int
    loopback: str
    sessions: tuple[SwitchPort, ...]
    access: tuple[Access, ...]
    pauses: bool
    marks: bool
    red: tuple[int, int, int]
    asic: Asic
    alpha: float = 1.0
    mtu: int = SWITCH_MTU
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
    def ports(self) -> tuple[SwitchPort, ...]:
        """Ports with cables."""
        return (*self.sessions, *self.access)


@dataclass(frozen=True)
class HostIntent:
    """A server.

    Attributes:
        interfaces: Name, own IPv4, gateway, largest packet of each.
    """

    name: str
    interfaces: tuple[tuple[str, str, str, int], ...]
    back_end: tuple[str, ...]
    infiniband: bool


def switches(plan: CablingPlan, network: int, dialect: Dialect) -> Iterator[SwitchIntent]:
    """Switches of an Ethernet network, one after another."""
    key = list(plan.cluster.plans)[network]
    fabric, boxes = plan.cluster.plans[key].fabric, plan.cluster.plans[key].switches
    rows, devices, numbers = plan.cables, plan.devices, addresses_of(plan)
    mine = np.flatnonzero(rows.network == network)
    ports = port_names(plan, mine, dialect)
    ends = rows.ends[mine].T.ravel()
    order = np.argsort(ends, kind="stable")
    first = np.searchsorted(ends[order], np.arange(len(devices) + 1))
    red, alpha = _red(fabric.packets.constants), _alpha(fabric.packets.constants)
    shared = shared_of(plan, network)
    for device in np.flatnonzero((devices.level > 0) & (devices.network == plan.networks[network])).tolist():
        sessions, access = [], []
        for at in order[first[device] : first[device + 1]].tolist():
            side, place = divmod(at, len(mine))
            row, port, there = int(mine[place]), ports[place][side], ports[place][1 - side]
            far = int(rows.ends[row, 1 - side])
            common = int(rows.rate_bps[row]), float(plan.length_m[row]), int(rows.lanes[row, side])
            if devices.level[far]:
                sessions.append(SwitchPort(port, devices.name[far], there, *common, shared.between(row)))
            else:
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
"""Shares of the free buffer that switches can be configured to: SAI's exponents, and Junos' steps 0 to 10."""


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


def hosts(plan: CablingPlan) -> Iterator[HostIntent]:
    """Servers, one after another."""
    from railyard.ask.deploy.cabling import is_infiniband

    rows, numbers = plan.cables, addresses_of(plan)
    own = np.flatnonzero(plan.devices.level[rows.a] == 0)
    order = own[np.lexsort((rows.port[own, 0], rows.network[own], rows.a[own]))]
    owner = rows.a[order]
    first = np.searchsorted(owner, np.arange(plan.devices.servers + 1))
    infiniband = [is_infiniband(plan, number) for number in range(len(plan.networks))]
    for server in range(plan.devices.servers):
        interfaces, back_end = [], []
        for row in order[first[server] : first[server + 1]].tolist():
            network = int(rows.network[row])
            name = interface(plan.networks[network], int(rows.port[row, 0]))
            if plan.networks[network] == "back-end":
                back_end.append(name)
            if not infiniband[network]:
                gateway = int(numbers.access[row])
                interfaces.append((name, ipv4(gateway + 1), ipv4(gateway), HOST_MTU))
        yield HostIntent(plan.devices.name[server], tuple(interfaces), tuple(back_end), infiniband[0])
