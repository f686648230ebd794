"""A plan in the words of a discovery: what `ibnetdiscover` or LLDP would find were everything cabled as planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.asbuilt.ibnetdiscover import PORT_LANES
from railyard.cluster.bill import bill_of, outside_racks
from railyard.cluster.boxes import copper_reach_m
from railyard.cluster.hall.devices import NETWORKS
from railyard.cluster.hall.patching import CONNECTIONS, lost_db_per_m
from railyard.cluster.hall.racks import hall_of, lengths, purchased
from railyard.cluster.network_table import DIALECTS, Dialect, NetworkTable, components
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import capex, parts_of_rows
from railyard.work.scenario.load import blaming
from railyard.work.scenario.packet import PacketSettings, assign
from railyard.work.scenario.packet.settings import differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.catalog import Catalog, Range
    from railyard.cluster import Cluster
    from railyard.cluster.hall.devices import Cables, Devices
    from railyard.cluster.hall.racks import Racks
    from railyard.cluster.plan import NetworkPlan
    from railyard.measure.cost.capital import Capex
    from railyard.work.scenario.load import Draft


def capital_of(draft: Draft, cluster: Cluster) -> Capex:
    """Capital of a cluster with its installation, as a run of the scenario counts it."""
    with blaming(draft, "economics"):
        world = Assumptions.from_catalog(cluster.catalog, draft.scenario.economics.given())
    return capex(parts_of_rows(bill_of(cluster)), world.installation, cluster.ranks)


def as_set(cluster: Cluster, draft: Draft) -> Cluster:
    """The cluster as switches and interfaces are to be set; itself where the scenario sets nothing.

    Raises:
        InputError: A setting is wrong.
    """
    section, network = draft.scenario.packet, cluster.plans["back_end"]
    packets = network.fabric.packets
    if not section.set or packets is None:
        return cluster
    with blaming(draft, "packet"):
        base = PacketSettings(**packets.constants)
        given = assign(base, [f"{key}={value}" for key, value in section.set.items()])
    constants = {**packets.constants, **differences(given, base)}
    fabric = replace(network.fabric, packets=replace(packets, constants=constants))
    plans = {**cluster.plans, "back_end": replace(network, fabric=fabric)}
    return replace(cluster.with_back_end(replace(cluster.back_end, fabric=fabric)), plans=plans)


@dataclass(frozen=True)
class PlannedTier:
    """Cables of one kind.

    Attributes:
        network: `back-end` and so on.
        name: `nic`, `leaf-spine`, ...
        medium: Catalogue name of the copper cable or module; empty where the catalogue has none.
        fibre: Of the fibre between two modules; else empty.
        copper_m: Longest copper cable of the rate.
        budget_db: Loss of light that its modules bear; 0 where not known or of copper.
    """

    network: str
    name: str
    medium: str
    fibre: str
    reach_m: float
    copper_m: float
    access: bool
    budget_db: float = 0.0
    db_per_m: float = 0.0


@dataclass(frozen=True, eq=False)
class CablingPlan:
    """The cluster to build, as devices and cables.

    Attributes:
        length_m: float64[cables], as it is bought.
        order: int32[cables], when it is pulled, from 0: rack by rack, longest first.
    """

    cluster: Cluster
    devices: Devices
    racks: Racks
    cables: Cables
    networks: tuple[str, ...]
    tiers: tuple[PlannedTier, ...]
    length_m: NDArray[np.float64]
    order: NDArray[np.int32]

    @property
    def remarks(self) -> list[str]:
        """What does not fit, in words: racks over their limits, routes longer than their medium reaches, dim ones."""
        out = list(self.racks.remarks)
        if any(plan.long_tier >= 0 for plan in self.cluster.plans.values()):
            out.append("all sites are drawn on one floor; lines between them keep the scenario's length")
        for tier, count, late, longest in self._beyond(self.length_m, self.too_long):
            out.append(
                f"{late:,} of {count:,} cables of {tier.network} {tier.name} are longer than {tier.medium}"
                f" reaches ({tier.reach_m:g} m; the longest: {longest:g} m): with"
                f" `cable_length: {{{tier.name}: {longest:g} m}}` they are bought with another medium"
            )
        lost = self.loss_db
        budget = np.array([tier.budget_db or np.inf for tier in self.tiers])[self.cables.tier]
        for tier, count, late, most in self._beyond(lost, lost > budget + 1e-9):
            out.append(
                f"{late:,} of {count:,} cables of {tier.network} {tier.name} lose up to {most:.2f} dB,"
                f" more than the {tier.budget_db:g} dB that {tier.medium} tolerates: fewer connections, or"
                " `hall.patch_loss` of low-loss ones"
            )
        return out

    def _beyond(
        self, figure: NDArray[np.float64], wrong: NDArray[np.bool_]
    ) -> Iterator[tuple[PlannedTier, int, int, float]]:
        """Tiers with wrong cables, each with how many it has, how many are wrong, and the largest figure of all."""
        for number, tier in enumerate(self.tiers):
            mine = self.cables.tier == number
            if late := int(np.count_nonzero(wrong[mine])):
                yield tier, int(np.count_nonzero(mine)), late, float(figure[mine].max())

    @property
    def loss_db(self) -> NDArray[np.float64]:
        """float64[cables], light lost between the modules: in fibre and at the connections of panels; 0 of copper."""
        rate = np.array([tier.db_per_m for tier in self.tiers])[self.cables.tier]
        lost: NDArray[np.float64] = self.length_m * rate
        if self.racks.patching is not None:
            lost = lost + np.where(self.racks.patching.trunk >= 0, CONNECTIONS * self.racks.spec.patch_db, 0.0)
        return lost

    @property
    def too_long(self) -> NDArray[np.bool_]:
        """bool[cables], whether a cable is longer than the medium reaches with which it is bought."""
        reach = np.array([tier.reach_m if tier.medium else np.inf for tier in self.tiers])
        longer: NDArray[np.bool_] = self.length_m > reach[self.cables.tier] * (1 + 1e-9)
        return longer

    @property
    def beyond_copper(self) -> NDArray[np.bool_]:
        """bool[cables], whether a cable is longer than any of copper is: it needs optics."""
        longest = np.array([tier.copper_m for tier in self.tiers])
        longer: NDArray[np.bool_] = self.length_m > longest[self.cables.tier] * (1 + 1e-9)
        return longer

    @property
    def outside_w(self) -> dict[str, Range]:
        """Power of what has no place in the racks, by what it is; with that of the racks it is the bill's."""
        return outside_racks(bill_of(self.cluster))

    def of_network(self, name: str) -> NDArray[np.int64]:
        """Rows of the cables of a network."""
        return np.flatnonzero(self.cables.network == self.networks.index(name))

    def label(self, row: int) -> str:
        """`be-leaf-spine-000123`: what is written on both ends of a cable."""
        tier = self.tiers[int(self.cables.tier[row])]
        return f"{NETWORKS[tier.network]}-{tier.name}-{int(self.cables.number[row]):06d}"


def plan_of(cluster: Cluster) -> CablingPlan:
    """The plan of a cluster."""
    hall = hall_of(cluster)
    tiers = [tier for plan in purchased(cluster).values() for tier in _tiers(cluster.catalog, plan)]
    names = tuple(plan.name for plan in cluster.plans.values())
    length = _between_sites(cluster, hall.cables.tier, lengths(hall.racks, hall.cables))
    order = _pulled(hall.racks, hall.cables, length)
    return CablingPlan(cluster, hall.devices, hall.racks, hall.cables, names, tuple(tiers), length, order)


def _between_sites(cluster: Cluster, tier: NDArray[np.int16], length_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths with those of lines between sites as the scenario has them: no floor plan says how far away one is."""
    number = 0
    for plan in cluster.plans.values():
        for one, run in zip(plan.wiring.tiers, plan.runs, strict=True):
            if one.kind == "long":
                length_m[tier == number] = run.length_m
            number += 1
    return length_m


def _tiers(catalog: Catalog, plan: NetworkPlan) -> list[PlannedTier]:
    out: list[PlannedTier] = []
    for tier, run in zip(plan.wiring.tiers, plan.runs, strict=True):
        medium, reach = ("", np.inf) if run.cable is None else (run.cable.name, run.cable.reach_m)
        fibre = "" if run.fibre is None else run.fibre.name
        rate = float(plan.wiring.line_bps[plan.wiring.tier == len(out)].max(initial=0.0)) * run.lanes
        copper = copper_reach_m(catalog, rate)
        light = (0.0, 0.0) if run.cable is None or not fibre else (run.cable.budget_db, lost_db_per_m(fibre))
        access = tier.kind == "access"
        out.append(PlannedTier(plan.name, tier.name, medium, fibre, float(reach), copper, access, *light))
    return out


def _pulled(racks: Racks, cables: Cables, length_m: NDArray[np.float64]) -> NDArray[np.int32]:
    order = np.lexsort((cables.link, -length_m, cables.tier, racks.rack[cables.a]))
    return np.argsort(order).astype(np.int32)


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
    """Addresses of devices and of the cables of servers.

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


def addresses_of(plan: CablingPlan) -> Addresses:
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


def _pods(plan: CablingPlan) -> NDArray[np.int64]:
    """int64[devices], a number for the spines that share a leaf."""
    devices, cables = plan.devices, plan.cables
    inner = (devices.level[cables.a] == 1) & (devices.level[cables.b] == 2)
    joined, spines = components(len(devices), cables.ends[inner]), np.unique(cables.b[inner])
    _, first, back = np.unique(joined[spines], return_index=True, return_inverse=True)
    pod = np.arange(len(devices))
    pod[spines] = spines[first][back]
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


SWITCH_MTU = 9216
"""Largest frame that ports of Ethernet switches take, in bytes: jumbo frames; InfiniBand's are not discovered."""

HOST_MTU = 9000
"""MTU of interfaces of servers, without the header."""


def is_infiniband(plan: CablingPlan, network: int) -> bool:
    """Whether a network's switches are InfiniBand's."""
    key = list(plan.cluster.plans)[network]
    return any(switch.family == "infiniband" for switch in plan.cluster.plans[key].switches.values())


def interface(network: str, nic: int) -> str:
    """Name of a server's interface by its number on a network, from 1: `be0`."""
    return f"{NETWORKS[network]}{nic - 1}"


def port_names(plan: CablingPlan, rows: NDArray[np.int64], dialect: Dialect) -> list[tuple[str, str]]:
    """Names of the ports at both ends of some cables; InfiniBand's switches count theirs.

    Args:
        plan: The plan.
        rows: int64[], cables.
        dialect: Of the Ethernet switches.
    """
    cables = plan.cables
    infiniband = [is_infiniband(plan, number) for number in range(len(plan.networks))]

    @cache
    def named(end: tuple[int, bool, int, int, int, int]) -> str:
        network, host, port, cage, lane, lanes = end
        if host:
            return interface(plan.networks[network], port)
        return str(port) if infiniband[network] else dialect.port(cage, None if lanes == 1 else lane, lanes)

    network = cables.network[rows].tolist()
    columns = [plan.devices.level[cables.ends] == 0, cables.port, cables.cage, cables.lane, cables.lanes]
    sides = [zip(network, *(column[rows, side].tolist() for column in columns), strict=True) for side in (0, 1)]
    return [(named(a), named(b)) for a, b in zip(*sides, strict=True)]


def drawn(plan: CablingPlan, network: int, dialect: Dialect) -> NetworkTable:
    """One network of a plan as found, cables in the plan's order.

    Args:
        plan: The plan.
        network: Index into its networks.
        dialect: How ports of Ethernet switches are called. Of InfiniBand each port of a server is a device.
    """
    rows, infiniband = np.flatnonzero(plan.cables.network == network), is_infiniband(plan, network)
    ends, ports = plan.cables.ends[rows], port_names(plan, rows, dialect)
    host = plan.devices.level[ends] == 0
    nic = plan.cables.port[rows] * (host & infiniband)
    _, first, back = np.unique(ends * (nic.max(initial=0) + 1) + nic, return_index=True, return_inverse=True)
    order = np.argsort(first)
    name = [plan.devices.name[one] for one in ends.ravel()[first[order]].tolist()]
    part = [f"mlx5_{one - 1}" if one else "" for one in nic.ravel()[first[order]].tolist()]
    label = [" ".join(filter(None, words)) for words in zip(name, part, strict=True)]
    place = np.argsort(order)[back].reshape(-1, 2).tolist()
    if infiniband:
        ports = [("1" if own else port, far) for (port, far), own in zip(ports, host[:, 0].tolist(), strict=True)]
    return NetworkTable.of(
        "the plan",
        name,
        np.where(host.ravel()[first[order]], "host", "switch").tolist(),
        [(a, port, b, far) for (a, b), (port, far) in zip(place, ports, strict=True)],
        key=label,
        label=label,
        part=part,
        rate_bps=plan.cables.rate_bps[rows].astype(np.int64),
        mtu=np.where(host, HOST_MTU, SWITCH_MTU) * (not infiniband),
        length_m=plan.length_m[rows],
        lanes=np.full(len(rows), PORT_LANES * infiniband),
    )


def dialects(plan: CablingPlan, network: int) -> list[Dialect]:
    """Dialects that a network's switches may have."""
    infiniband = is_infiniband(plan, network)
    return [one for name, one in DIALECTS.items() if (name == "infiniband") == infiniband]
