"""Dragonfly: groups of routers, fully joined inside, with one global link or more between every two groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology.wiring import (
    Detour,
    Endpoints,
    Parts,
    SwitchGroup,
    Tier,
    Wiring,
    cables,
    impossible,
    taken_bps,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LINK_RATE, PORTS, limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes

TIERS = (Tier("nic", 3.0, "access"), Tier("local", 10.0), Tier("global", 60.0))


@dataclass(frozen=True)
class Dragonfly:
    r"""The canonical dragonfly of p ports, a routers and h global links a router.

              group 0                          group 1
        +------------------+             +------------------+
        | r0 --- r1 --- r2 |====global===| r0 --- r1 --- r2 |      every router to every other of its group,
        |  \______________/|             |  \______________/|      every group to every other by a*h / (groups-1) links
        +--|||---|||---|||-+             +--|||---|||---|||-+
          ports              \===== to all other groups =====/

    Balanced with a = 2 p = 2 h. Sizes that are not given follow the cluster: a quarter of a switch's ports to NICs, a
    quarter to other groups and half inside the group, in parallel cables (trunks) where the group has fewer than a = 2p
    routers, so that local and global links carry their share of uniform traffic; of all such sizes the one of fewest
    switches for its balance. What fits half a switch needs one router. With any size given, the others follow from
    a = 2 p = 2 h and links within a group are single. Minimal routes take at most one local, one
    global and one local link. Fabrics that route adaptively send a share of every flow by way of other groups
    (`detour_share`), which is what makes a dragonfly bear adversarial patterns; hashed flows always go minimally. Half
    of a flow is Railyard's choice between the paper's ends: minimal routes alone for uniform traffic, and Valiant's
    alone for traffic from each group to one other, of which at best half the capacity is left.
    Source: J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.
    """

    kind: ClassVar[str] = "dragonfly"

    p: int | None = field(
        default=None,
        metadata=f.count("p", "Ports of a router; at most a quarter of its radix", bounds=PORTS),
    )
    a: int | None = field(
        default=None, metadata=f.count("a", "Routers of a group; by the cluster, or twice p", bounds=PORTS)
    )
    h: int | None = field(
        default=None, metadata=f.count("h", "Global links of a router; about as many as p", bounds=PORTS)
    )
    detour_share: float = field(
        default=0.5,
        metadata=f.fraction("detour_share", "Share of an adaptively routed flow that takes non-minimal routes"),
    )
    detours: int = field(
        default=4, metadata=f.count("detours", "Other groups over which that share is split", bounds=limits(1, 10_000))
    )
    uplink_bps: float | None = field(
        default=None,
        metadata=f.rate("uplink_rate", "Rate of a link between routers; that of the NICs", bounds=LINK_RATE),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        uplink = parts.uplink(self.uplink_bps)
        whole = replace(parts, link_bps=taken_bps(parts.link_bps))
        p, a, h, trunk = self._chosen(endpoints.ports, whole, taken_bps(uplink))
        groups = max(1, math.ceil(endpoints.ports / (a * p)))
        if groups > a * h + 1:
            raise impossible(
                f"{a * h} global links of a group reach {a * h} other groups, and {groups} groups are needed",
                key="h",
                found=h,
                possible=f"at most {(a * h + 1) * a * p} ports with these sizes; raise p, a or h",
            )
        if not 0 <= self.detour_share < 1 or self.detours < 1:
            raise impossible(
                "a share is at least 0 and less than 1, and there is at least one detour",
                key="detour_share",
                found=self.detour_share,
                possible="write for example `30 %`",
            )
        detour = None
        if self.detour_share > 0 and groups > 2:
            detour = Detour(self.detour_share, min(self.detours, groups - 2), a * p, groups)
        plan = _Plan(p, a, h, trunk, groups, endpoints, parts.link_bps, uplink)
        return plan.wire(parts.leaf.name, detour)

    def _chosen(self, ports: int, parts: Parts, uplink_bps: float) -> tuple[int, int, int, int]:
        """Sizes p, a, h and the number of cables between two routers of a group."""
        if self.p is None and self.a is None and self.h is None:
            if ports <= parts.leaf.ports(parts.link_bps) // 2:
                return ports, 1, 1, 1
            found = _fitted(ports, parts, uplink_bps)
            if found is not None:
                return found
        return *self._sizes(parts, uplink_bps), 1

    def _sizes(self, parts: Parts, uplink_bps: float) -> tuple[int, int, int]:
        """p, a and h, given or balanced for the switch."""
        box = parts.leaf
        units = box.capacity_bps / uplink_bps
        p = self.p if self.p is not None else max(1, int((units + 1) / (3 + parts.link_bps / uplink_bps)))
        a = self.a if self.a is not None else 2 * p
        h = self.h if self.h is not None else p
        for key, value in (("p", p), ("a", a), ("h", h)):
            if value < 1:
                raise impossible("expected at least 1", key=key, found=value, possible="write 1 or more")
        need = p * parts.link_bps + (a - 1 + h) * uplink_bps
        if need > box.capacity_bps * (1 + 1e-9) or p + a - 1 + h > box.max_ports:
            raise impossible(
                f"a router needs p + (a - 1) + h ports, {need / 1e12:g} Tb/s in all, and {box.name} has "
                f"{box.capacity_bps / 1e12:g} Tb/s",
                key="p",
                found=p,
                possible=f"balanced for this switch: p = {int((units + 1) / 4)}, a = {int((units + 1) / 4) * 2}",
            )
        return p, a, h


def _fitted(ports: int, parts: Parts, uplink_bps: float) -> tuple[int, int, int, int] | None:
    """p, a, h and local trunk of the balanced dragonfly with the fewest routers; None if there is none."""
    box, ratio = parts.leaf, parts.link_bps / uplink_bps
    radix = min(box.max_ports / (1 + 3 * ratio), box.capacity_bps / (4 * parts.link_bps))
    most = math.floor(radix * (1 + 1e-9))
    if most < 1:
        return None
    found = [
        size
        for a in range(2, min(2 * most, math.ceil(ports / most)) + 1)
        if (size := _of_group(ports, a, most, parts, uplink_bps)) is not None
    ]
    return min(found)[1] if found else None


def _of_group(
    ports: int, a: int, most: int, parts: Parts, uplink_bps: float
) -> tuple[tuple[float, int], tuple[int, int, int, int]] | None:
    """Routers by balance (less is better) for groups of `a` routers, and the sizes."""
    groups = max(2, math.ceil(ports / (a * most)))
    p = math.ceil(ports / (a * groups))
    lanes = p * parts.link_bps / uplink_bps
    # Local links carry a flow once before and once after its global link.
    units = min(parts.leaf.capacity_bps / uplink_bps - lanes, parts.leaf.max_ports - p) * (1 + 1e-9)
    width = max(1, round(a * lanes / (groups - 1)))
    h = math.ceil(width * (groups - 1) / a)
    trunk = min(math.ceil(2 * lanes / (a - 1)), math.floor((units - h) / (a - 1)))
    if trunk < 1:
        return None
    balance = min(1.0, trunk * (a - 1) / (2 * lanes), width * (groups - 1) / (a * lanes))
    return (round(a * groups / balance, 6), abs(a - groups)), (p, a, h, trunk)


@dataclass(frozen=True)
class _Plan:
    """A dragonfly in numbers. Global port `i` of a group is on router `i // h`."""

    p: int
    a: int
    h: int
    trunk: int
    groups: int
    endpoints: Endpoints
    link_bps: float
    uplink_bps: float

    @property
    def ports(self) -> int:
        return self.groups * self.a * self.p

    @property
    def width(self) -> int:
        """Global links between two groups."""
        return self.a * self.h // (self.groups - 1) if self.groups > 1 else 0

    @property
    def radix(self) -> int:
        """Ports of a router in use."""
        return self.p + (self.a - 1) * self.trunk + (self.h if self.groups > 1 else 0)

    @property
    def local_cables(self) -> int:
        return self.a * (self.a - 1) // 2 * self.trunk

    @property
    def used(self) -> int:
        return self.endpoints.ports

    def wire(self, box: str, detour: Detour | None) -> Wiring:
        numbers = np.arange(self.used, dtype=np.int32)
        inside = self.endpoints.servers * self.endpoints.nics
        low, high = self._cable_ends()
        source, target = cables(low, high)
        counts = [2 * len(part) for part in low]
        routers = self.groups * self.a
        return Wiring(
            ports=self.ports,
            port_of=numbers[:inside].reshape(self.endpoints.servers, self.endpoints.nics),
            extra=numbers[inside:],
            nodes=self.ports + routers,
            groups=(SwitchGroup("router", 1, self.ports, routers, self.radix, box),),
            source=source,
            target=target,
            line_bps=np.repeat([self.link_bps, self.uplink_bps, self.uplink_bps], counts),
            tier=np.repeat(np.arange(3, dtype=np.int16), counts),
            tiers=TIERS[: 2 + (self.groups > 1)],
            routing=self._routes(),
            classes=None,
            bisection_bps=self._bisection_bps(),
            pod_ports=self.a * self.p,
            detour=detour,
        )

    def _cable_ends(self) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        used = np.arange(self.used)
        one, other = (np.repeat(ends, self.trunk) for ends in np.triu_indices(self.a, 1))
        base = self.ports + np.arange(self.groups)[:, None] * self.a
        near, far, index = self._global_ends()
        far_port = self._slot(far, near) * self.width + index % max(self.width, 1)
        return (
            [used, (base + one).ravel(), self.ports + near * self.a + index // self.h],
            [
                self.ports + used // self.p,
                (base + other).ravel(),
                self.ports + far * self.a + far_port // self.h,
            ],
        )

    def _global_ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Near group, far group and near global port of every global cable; near is the lower number."""
        one, other = np.triu_indices(self.groups, 1)
        near, far = np.repeat(one, self.width), np.repeat(other, self.width)
        lane = np.tile(np.arange(self.width), len(one))
        return near, far, self._slot(near, far) * self.width + lane

    def _slot(self, here: NDArray[np.int64], there: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of the bundle of global ports that leads to another group: the next group first, and so on around."""
        return (there - here - 1) % self.groups

    def _routes(self) -> Routes:
        builder = RouteBuilder(self.ports)
        used = np.arange(self.used)
        builder.records(used, 0, self.ports, builder.choices(2 * used[:, None]), width=1, stride=self.ports)
        self._router_routes(builder)
        if self.groups > 1:
            self._global_routes(builder)
        return builder.build(self.ports + self.groups * self.a)

    def _router_routes(self, builder: RouteBuilder) -> None:
        """Own ports, and the other routers of the group: before and after."""
        routers = np.arange(self.groups * self.a)
        node, first_port = self.ports + routers, routers * self.p
        port = first_port[:, None] + np.arange(self.p)
        down = np.where(port < self.used, 2 * port + 1, -1)
        builder.records(node, first_port, first_port + self.p, builder.choices(down), width=1, stride=1)
        if self.a > 1:
            links = self._local_links().reshape(self.groups * self.a, self.a * self.trunk)
            first = builder.choices(links)
            group = routers // self.a * self.a * self.p
            builder.records(node, group, first_port, first, width=self.trunk, stride=self.p)
            behind = first + (routers % self.a + 1) * self.trunk
            builder.records(node, first_port + self.p, group + self.a * self.p, behind, width=self.trunk, stride=self.p)

    def _local_links(self) -> NDArray[np.int64]:
        """int64[groups, a, a, trunk], links from a router to another of its group; -1 to itself."""
        one, other = np.triu_indices(self.a, 1)
        lane = np.arange(len(one))[:, None] * self.trunk + np.arange(self.trunk)
        cable = np.full((self.a, self.a, self.trunk), -1, np.int64)
        cable[one, other] = 2 * lane
        cable[other, one] = 2 * lane + 1
        shift = 2 * (self.used + np.arange(self.groups)[:, None, None, None] * self.local_cables)
        return np.where(cable >= 0, cable + shift, -1)

    def _global_links(self) -> NDArray[np.int64]:
        """int64[groups, groups - 1, width], link from a group by bunch and lane."""
        near, far, index = self._global_ends()
        cable = 2 * (self.used + self.groups * self.local_cables + np.arange(len(near)))
        out = np.empty((self.groups, self.groups - 1, self.width), np.int64)
        lane = index % self.width
        out[near, self._slot(near, far), lane] = cable
        out[far, self._slot(far, near), lane] = cable + 1
        return out

    def _global_routes(self, builder: RouteBuilder) -> None:
        """To another group: over this router's own global links, or to the group's routers that have one, evenly."""
        local, outward = self._local_links(), self._global_links()
        group = np.arange(self.groups)
        index = np.arange(self.a * self.h)[: (self.groups - 1) * self.width].reshape(self.groups - 1, self.width)
        owner = index // self.h
        for router in range(self.a):
            node = self.ports + group * self.a + router
            for slot in range(self.groups - 1):
                owned = owner[slot] == router
                links = (
                    outward[:, slot, owned] if owned.any() else local[:, router, owner[slot]].reshape(self.groups, -1)
                )
                there = (group + slot + 1) % self.groups * self.a * self.p
                width = links.shape[1]
                builder.records(
                    node, there, there + self.a * self.p, builder.choices(links), width=width, stride=self.ports
                )

    def _bisection_bps(self) -> float:
        """Half of the groups, or half of the routers of a single group."""
        half = self.endpoints.servers // 2 * self.endpoints.nics * self.link_bps
        if self.groups > 1:
            cut = (self.groups // 2) * (self.groups - self.groups // 2) * self.width
        else:
            cut = (self.a // 2) * (self.a - self.a // 2) * self.trunk
        return min(half, cut * self.uplink_bps) if self.groups * self.a > 1 else half


topologies.add(Dragonfly.kind, Dragonfly)
