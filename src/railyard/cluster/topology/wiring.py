"""Interface of topology families: end points and switch boxes in, links and routes out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes


@dataclass(frozen=True)
class Endpoints:
    """The ports to connect.

    Attributes:
        extra: Additional single ports: storage servers, gateways.
    """

    servers: int
    nics: int
    extra: int = 0

    @property
    def ports(self) -> int:
        """All ports that are to be wired."""
        return self.servers * self.nics + self.extra


PORT_GBPS = (1, 10, 25, 40, 50, 100, 200, 400, 800, 1600, 3200)
"""Rates of ports, Gb/s: IEEE 802.3 and the InfiniBand roadmap."""


MOST_BUNDLED = 8
"""Maximum number of ports that one NIC link can represent."""

BUNDLED_GBPS = 100
"""Slowest ports that a NIC bundles (Gaudi 2 and 3), Gb/s."""


def is_port(rate_bps: float) -> bool:
    """Whether a standard defines ports of that rate."""
    return any(abs(rate_bps / (1e9 * gbps) - 1) < 1e-6 for gbps in PORT_GBPS)


def ports_of(rate_bps: float) -> int:
    """Ports per link: one, or the fewest of a standard rate that add up to it (300 Gb/s: three)."""
    most = min(MOST_BUNDLED, int(rate_bps * (1 + 1e-9) / (BUNDLED_GBPS * 1e9)))
    return next((count for count in range(1, most + 1) if is_port(rate_bps / count)), 1)


def taken_bps(rate_bps: float) -> float:
    """Switch capacity that a link uses: a link limited below its port's rate still takes the whole port."""
    if is_port(rate_bps / ports_of(rate_bps)):
        return rate_bps
    return next((gbps * 1e9 for gbps in PORT_GBPS if gbps * 1e9 > rate_bps), rate_bps)


def links_for(capacity_bps: float, link_bps: float, oversubscription: float = 1.0) -> int:
    """Fewest links whose capacity is at least `1 / oversubscription` of what is below them."""
    return math.ceil(capacity_bps / (oversubscription * link_bps) * (1 - 1e-9))


@dataclass(frozen=True)
class Box:
    """A switch as topologies see it: a capacity to be divided into ports.

    Attributes:
        capacity_bps: Total of all network ports, bit/s, one way.
        port_rate_bps: Highest rate of a port, bit/s.
        fabric_bps: Separate fabric side of a scheduled leaf, bit/s; 0 for an ordinary switch.
    """

    name: str
    capacity_bps: float
    port_rate_bps: float
    max_ports: int
    fabric_bps: float = 0.0

    def check_rate(self, rate_bps: float, key: str) -> None:
        """Rejects port rates that no standard defines; a port can be broken out into halves, quarters and eighths.

        Raises:
            InputError: The port does not exist; the key is relative to the network.
        """
        if is_port(rate_bps):
            return
        near = [gbps for gbps in PORT_GBPS if gbps * 1e9 <= self.port_rate_bps * (1 + 1e-9)]
        raise InputError(
            f"{self.name} has no ports of this rate",
            key=key,
            found=f"{rate_bps / 1e9:.4g} Gb/s",
            allowed=f"{', '.join(str(gbps) for gbps in near)} Gb/s",
        )

    def ports(self, rate_bps: float) -> int:
        """Links of that rate: each takes one port, or several if it represents the ports of one NIC."""
        return min(
            self.max_ports // ports_of(rate_bps), math.floor(self.capacity_bps / taken_bps(rate_bps) * (1 + 1e-9))
        )

    def down(self, oversubscription: float, down_bps: float, up_bps: float) -> int:
        """Maximum downlink ports if the uplinks have `1 / oversubscription` of their capacity.

        A scheduled leaf has separate fabric-side uplinks, so all its network ports are downlinks.
        """
        if self.fabric_bps > 0:
            return self.ports(down_bps)
        share = oversubscription / (1 + oversubscription)
        most = math.floor(self.capacity_bps * share / taken_bps(down_bps) * (1 + 1e-9))
        each = ports_of(down_bps)
        most = min(most, self.max_ports // each)
        while most > 0 and most * each + self.up(most, oversubscription, down_bps, up_bps) > self.max_ports:
            most -= 1
        return most

    def up(self, down: int, oversubscription: float, down_bps: float, up_bps: float) -> int:
        """Uplinks for this many downlinks: as the oversubscription requires, plus a scheduled leaf's speed-up."""
        speed_up = self.fabric_bps / self.capacity_bps if self.fabric_bps > 0 else 1.0
        wanted = links_for(down * down_bps * speed_up, up_bps, oversubscription)
        spare = (self.capacity_bps - down * taken_bps(down_bps)) if self.fabric_bps <= 0 else self.fabric_bps
        return max(0, min(wanted, math.floor(spare / taken_bps(up_bps) * (1 + 1e-9))))


@dataclass(frozen=True)
class Parts:
    """The parts that a topology is built from.

    Attributes:
        link_bps: Rate of a NIC's link, bit/s.
        border: Switch at the ends of long links; None: as in the tiers above, or a scheduled leaf.
    """

    link_bps: float
    leaf: Box
    spine: Box
    border: Box | None = None

    def uplink(self, asked_bps: float | None) -> float:
        """Rate of the links between switches: as requested, otherwise that of the NICs, limited by the ports."""
        rate = asked_bps or self.link_bps
        most = min(self.leaf.port_rate_bps, self.spine.port_rate_bps)
        if asked_bps and asked_bps > most:
            raise InputError(
                f"the ports of {self.spine.name} are slower than this",
                key="topology.uplink_rate",
                found=f"{asked_bps / 1e9:g} Gb/s",
                allowed=f"at most {most / 1e9:g} Gb/s",
            )
        if not asked_bps:
            return min(rate / ports_of(rate), most)
        self.leaf.check_rate(rate, "topology.uplink_rate")
        return rate


@dataclass(frozen=True)
class Tier:
    """One kind of link.

    Attributes:
        name: `nic`, `leaf-spine`, `spine-core`, ...
        length_m: Default length of its cables; an assumption about the hall that the user can change.
        kind: `access` (a NIC's own link), `fabric` (between switches) or `long` (between sites).
        fibre: The only fibre that its cables may be, by catalogue name; empty: any, or copper.
    """

    name: str
    length_m: float
    kind: str = "fabric"
    fibre: str = ""


ACCESS_RACK = Tier("nic", 3.0, "access")
ACCESS_CROSSBAR = Tier("nic", 0.0, "access")
ACCESS_ROW = Tier("nic", 15.0, "access")
LEAF_SPINE = Tier("leaf-spine", 30.0)
SPINE_CORE = Tier("spine-core", 100.0)


@dataclass(frozen=True)
class SwitchGroup:
    """Switches of one role with consecutive numbers.

    Attributes:
        role: `leaf`, `spine`, `core`, `router`, `border`.
        tier: 1 next to the NICs, ascending.
        part: `plane 2`, `rail 5`, `site 1`, or empty.
    """

    role: str
    tier: int
    first: int
    count: int
    ports: int
    box: str
    part: str = ""


@dataclass(frozen=True, eq=False)
class ServerCircuits:
    """Circuits between NICs of servers; a server sends by its NICs that have a circuit to the other server.

    Attributes:
        port_of: int32[servers, nics], port number of every NIC.
        packet_nics: The first NICs of a server, which are on a packet network and send where no circuit leads.
        peer: int32[ports], the port at the other end of a NIC's circuit; -1 for other ports.
        joined: int64[region, region], circuits between any two servers of a region.
    """

    port_of: NDArray[np.int32]
    packet_nics: int
    peer: NDArray[np.int32]
    joined: NDArray[np.int64]

    def ends(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """int32[flows] twice, the ports by which flows between two ports' servers go.

        The NICs of a server share its circuits to another server, and its packet NICs, by their numbers. Ports that are
        no NIC of a server stay.
        """
        server, nic = self._places
        here, there = server[source], server[target]
        number = here * len(self.port_of) + there
        keys, first, near = self._pairs
        at = np.minimum(np.searchsorted(keys, number), max(len(keys) - 1, 0))
        circuit = (here >= 0) & (there >= 0) & (keys[at] == number)
        chosen = near[(first[at] + nic[source] % (first[at + 1] - first[at])) * circuit]
        chosen = np.where(self.peer[source] == target, source, chosen)
        packet = self._packet_port
        return (
            np.where(circuit, chosen, packet[source]).astype(np.int32),
            np.where(circuit, self.peer[chosen], packet[target]).astype(np.int32),
        )

    def server_of(self, port: NDArray[np.int32]) -> NDArray[np.int64]:
        """Servers of ports; -1 for those of none."""
        return self._places[0][port]

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64[ports] twice, server and NIC of each port; -1 and 0 for other ports."""
        server, nic = np.full(len(self.peer), -1, np.int64), np.zeros(len(self.peer), np.int64)
        server[self.port_of] = np.arange(len(self.port_of))[:, None]
        nic[self.port_of] = np.arange(self.port_of.shape[1])
        return server, nic

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of servers with circuits, ascending; where each begins among the ports that send by them; these."""
        server, _ = self._places
        near = np.flatnonzero(self.peer >= 0)
        number = server[near] * len(self.port_of) + server[self.peer[near]]
        order = np.argsort(number, kind="stable")
        keys, first = np.unique(number[order], return_index=True)
        return keys, np.append(first, len(near)), near[order]

    @cached_property
    def _packet_port(self) -> NDArray[np.int64]:
        """int64[ports], the packet NIC that sends for each NIC; packet NICs and other ports send for themselves."""
        out = np.arange(len(self.peer))
        out[self.port_of] = self.port_of[:, np.arange(self.port_of.shape[1]) % self.packet_nics]
        return out


@dataclass(frozen=True)
class Circuits:
    """Optical circuit switches between switches of packets, or between servers.

    Attributes:
        switch: Catalogue name of the optical switch.
        fibres: Fibres that end in these switches: two for every circuit.
        servers: The circuits that end in servers' NICs; None: they end in leafs.
        dead_ps: How long circuits that follow demand are dark when they change; None: they stay for the job.
        joined: Leafs or servers between which any circuit is possible: each has a fibre to every switch.
    """

    switch: str
    fibres: int
    servers: ServerCircuits | None = None
    dead_ps: int | None = None
    joined: int = 0


@dataclass(frozen=True, eq=False)
class Wiring:
    """A wired network. Nodes `0..ports-1` are ports, the rest switches; cable `c` is links `2 c` and `2 c + 1`.

    Attributes:
        ports: Size of the range of port numbers; some may be unused.
        port_of: int32[servers, nics], port number of every NIC.
        extra: int32[extra], port numbers of the additional ports.
        source: int32[links].
        target: int32[links].
        line_bps: float64[links].
        tier: int16[links], index into `tiers`.
        tiers: Kinds of links, from the NIC up.
        classes: int32[nodes], nodes of one class are equivalent for a fabric that sprays evenly; None if bundling is
            not exact.
        bisection_bps: Capacity between the best-chosen halves of the servers, bit/s, one way.
        pod_ports: Ports of the largest unit below the top tier.
        detour: Port numbers and traffic share of non-minimal routes; None if all routes are minimal.
        ports_forward: Whether ports forward other ports' traffic that reaches them through switches.
        circuits: Optical circuit switches that some links lead through; None: there are none.
    """

    ports: int
    port_of: NDArray[np.int32]
    extra: NDArray[np.int32]
    nodes: int
    groups: tuple[SwitchGroup, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    line_bps: NDArray[np.float64]
    tier: NDArray[np.int16]
    tiers: tuple[Tier, ...]
    routing: Routes
    classes: NDArray[np.int32] | None
    bisection_bps: float
    pod_ports: int
    detour: Detour | None = None
    ports_forward: bool = False
    circuits: Circuits | None = None

    @property
    def links(self) -> int:
        """Directed links."""
        return len(self.source)

    @property
    def joins_ports(self) -> bool:
        """Whether ports are connected directly, so that one's outgoing link is another's incoming link."""
        return bool(((self.source < self.ports) & (self.target < self.ports)).any())

    @property
    def routes_through_ports(self) -> bool:
        """Whether paths go through ports that are not their ends."""
        return self.ports_forward or (self.joins_ports and self.circuits is None)

    def oversubscription(self) -> dict[str, float]:
        """Capacity below a tier over the capacity of the tier, by tier name.

        Between switches: relative to the tier below. To and between sites: relative to all NICs.
        """
        capacity = [float(self.line_bps[self.tier == index].sum()) / 2 for index in range(len(self.tiers))]
        out = {}
        for index, tier in enumerate(self.tiers):
            if index == 0 or not capacity[index] or (self.circuits is not None and tier.kind == "access"):
                continue
            below = capacity[0] / 2 if tier.kind == "long" else capacity[index - 1 if tier.name != "border" else 0]
            out[tier.name] = below / capacity[index]
        return out

    def ends(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """int32[flows] twice, the ports by which flows go: their own, or those that `ServerCircuits.ends` chooses."""
        servers = None if self.circuits is None else self.circuits.servers
        return (source, target) if servers is None else servers.ends(source, target)

    @property
    def used(self) -> NDArray[np.int32]:
        """The connected ports, sorted."""
        return np.sort(np.concatenate([self.port_of.ravel(), self.extra])).astype(np.int32)


@dataclass(frozen=True)
class Detour:
    """Non-minimal routes: part of a flow goes through other groups.

    Attributes:
        share: Share of the bytes that take a detour.
        intermediates: Intermediate groups among which that share is split.
        groups: Number of groups.
    """

    share: float
    intermediates: int
    group_ports: int
    groups: int


class TopologySpec(Protocol):
    """A topology family: a frozen dataclass with this class attribute and this method is all that is needed."""

    kind: ClassVar[str]

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the end points.

        Raises:
            InputError: It cannot be built; the key is relative to the network (`topology.oversubscription`).
        """
        ...


topologies: Registry[type[TopologySpec]] = Registry("topology", package="railyard.cluster.topology")


def cables(low: list[NDArray[np.int64]], high: list[NDArray[np.int64]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sources and targets of both directions of every cable, from its lower and upper ends."""
    below, above = np.concatenate(low), np.concatenate(high)
    source, target = np.empty(2 * len(below), np.int32), np.empty(2 * len(below), np.int32)
    source[0::2], target[0::2] = below, above
    source[1::2], target[1::2] = above, below
    return source, target


def impossible(message: str, *, key: str, found: object, possible: str) -> InputError:
    """The error for a topology that cannot be built: what was requested and what is possible."""
    return InputError(message, key=f"topology.{key}", found=found, hint=possible)


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [value for value in range(1, math.isqrt(number) + 1) if number % value == 0]
    return sorted({*small, *(number // value for value in small)})
