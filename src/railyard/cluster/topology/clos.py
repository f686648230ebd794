"""Wiring of folded Clos networks of one, two or three tiers: leaf-spine, three-tier, fat tree and rails.

Cores join pods (spine j of every pod is cabled to core group j), every leaf of a pod is cabled to every spine of it,
and NICs are cabled to leafs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology.wiring import (
    SwitchGroup,
    Tier,
    Wiring,
    cables,
    divisors,
    impossible,
    links_for,
    taken_bps,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import LINK_RATE, OVERSUBSCRIPTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Box, Endpoints, Parts
    from railyard.kit.schema.quantity import Bounds


@dataclass(frozen=True)
class FoldedClos:
    """Numbering of a folded Clos.

    Attributes:
        pods: Pods; 1 means that there are no cores.
        spines: Spines of a pod; 0 with a single leaf.
        cores: Cores of one core group; spine j of every pod connects to group j.
    """

    leaf_down: int
    leaf_up: int
    leafs_per_pod: int
    pods: int
    spines: int
    spine_up: int
    cores: int
    access_bps: float
    uplink_bps: float

    @property
    def pod_ports(self) -> int:
        """Port numbers of a pod."""
        return self.leafs_per_pod * self.leaf_down

    @property
    def ports(self) -> int:
        """Port numbers in all."""
        return self.pods * self.pod_ports

    @property
    def trunk(self) -> int:
        """Parallel links between a leaf and a spine."""
        return self.leaf_up // self.spines if self.spines else 0

    @property
    def core_trunk(self) -> int:
        """Parallel links between a spine and a core."""
        return self.spine_up // self.cores if self.cores else 0


@dataclass(frozen=True)
class ClosParts:
    """Names of the parts of a Clos: tiers of links and boxes of switches."""

    tiers: tuple[Tier, ...]
    leaf: Box
    spine: Box


def spines_for(leafs: int, leaf_up: int, spine_ports: int) -> int | None:
    """Fewest spines for the leafs with equally many links from each leaf to each spine; None if none fit."""
    return next((count for count in divisors(leaf_up) if leafs * (leaf_up // count) <= spine_ports), None)


def given_spines(spines: int, leafs: int, leaf_up: int, spine_ports: int) -> int:
    """Checks a requested number of spines.

    Raises:
        InputError: Uplinks do not divide evenly over the spines, or these have too few ports.
    """
    if spines < 1 or leaf_up % spines or leafs * (leaf_up // spines) > spine_ports:
        fit = [count for count in divisors(leaf_up) if leafs * (leaf_up // count) <= spine_ports]
        raise impossible(
            f"{leafs} leafs with {leaf_up} uplinks each do not divide evenly over so many spines of {spine_ports}"
            " ports",
            key="spines",
            found=spines,
            possible=f"possible: {', '.join(map(str, fit)) or 'none; use `three-tier`'}",
        )
    return spines


def even_uplinks(leafs: int, down: int, least: int, parts: Parts, uplink_bps: float) -> int:
    """Uplinks of a leaf under one layer of spines: up to an eighth more than requested if that halves the spines.

    A prime number of uplinks would need a spine for each: 31 uplinks on 8 leafs need 31 spines, 32 need four. Saving a
    spine or two is not worth unrequested ports.

    Args:
        leafs: Number of leafs.
        down: Ports of a leaf to NICs.
        least: Uplinks that the oversubscription requires.
        parts: Switches.
        uplink_bps: Rate of an uplink, bit/s.
    """
    if parts.leaf.fabric_bps > 0:
        return least
    spare = parts.leaf.capacity_bps - down * taken_bps(parts.link_bps)
    free = math.floor(spare / taken_bps(uplink_bps) * (1 + 1e-9))
    most = max(least, min(free, parts.leaf.max_ports - down, least + least // 8))
    radix = parts.spine.ports(uplink_bps)
    counts = [(spines, up) for up in range(least, most + 1) if (spines := spines_for(leafs, up, radix)) is not None]
    asked = spines_for(leafs, least, radix)
    return min(counts)[1] if counts and (asked is None or 2 * min(counts)[0] <= asked) else least


def cores_for(pods: int, spine_up: int, core_ports: int) -> int | None:
    """Fewest cores in a group that connect this many pods."""
    return next((count for count in divisors(spine_up) if pods * (spine_up // count) <= core_ports), None)


def upper_tiers(
    leafs_per_pod: int, pods: int, leaf_up: int, oversubscription: float, spine_ports: int
) -> tuple[int, int, int] | None:
    """Spines of a pod, uplinks of a spine and cores of a group; None if no even division exists.

    Uplinks may exceed the oversubscription's requirement by up to an eighth if that divides better: a prime number of
    uplinks would need a core for each.
    """
    for spines in divisors(leaf_up):
        down = leafs_per_pod * (leaf_up // spines)
        if pods == 1 and down <= spine_ports:
            return spines, 0, 0
        least = max(1, links_for(down, 1, oversubscription))
        most = min(spine_ports - down, least + least // 8)
        found = [
            (cores, up) for up in range(least, most + 1) if (cores := cores_for(pods, up, spine_ports)) is not None
        ]
        if pods > 1 and found:
            cores, up = min(found)
            return spines, up, cores
    return None


def positive(value: float, key: str) -> None:
    """Rejects zero and negative values.

    Raises:
        InputError: The value is not more than zero.
    """
    if not value > 0:
        raise impossible("expected more than 0", key=key, found=value, possible="write for example 1")


def uplinks_of(down: int, oversubscription: float, parts: Parts, uplink_bps: float) -> int:
    """Uplinks of a leaf.

    Raises:
        InputError: The oversubscription requires less than one uplink.
    """
    most = down * parts.link_bps / uplink_bps
    up = parts.leaf.up(down, oversubscription, parts.link_bps, uplink_bps)
    if up < 1 or oversubscription > most * (1 + 1e-9):
        raise impossible(
            f"this leaves a leaf of {down} ports no uplink",
            key="oversubscription",
            found=f"{oversubscription:g}:1",
            possible=f"possible: at most {most:g}:1",
        )
    return up


def leaf_ports(
    asked: int | None, oversubscription: float, parts: Parts, uplink_bps: float, *, key: str = "ports_per_leaf"
) -> int:
    """Downlink ports of a leaf: as requested if it has them, otherwise as many as the oversubscription leaves.

    Raises:
        InputError: The oversubscription is not positive, or the leaf has too few ports.
    """
    positive(oversubscription, "oversubscription")
    most = parts.leaf.down(oversubscription, parts.link_bps, uplink_bps)
    if most < 1:
        raise impossible(
            f"{parts.leaf.name} has no port left for a NIC at {parts.link_bps / 1e9:g} Gb/s",
            key="oversubscription",
            found=oversubscription,
            possible="choose a larger switch",
        )
    if asked is None:
        return most
    if not 1 <= asked <= most:
        raise impossible(
            f"{parts.leaf.name} has {most} ports for NICs at this oversubscription",
            key=key,
            found=asked,
            possible=f"possible: 1 to {most}",
        )
    return asked


def evenly(endpoints: Endpoints, most: int) -> int:
    """Ports per leaf, at most `most`, so that leafs are filled evenly and no server is split over two."""
    unit = endpoints.nics if most >= endpoints.nics else 1
    units = math.ceil(endpoints.ports / unit)
    leafs = math.ceil(units / (most // unit))
    return math.ceil(units / leafs) * unit


def leaf_tier(
    endpoints: Endpoints, parts: Parts, ports_per_leaf: int | None, oversubscription: float, uplink_bps: float
) -> tuple[int, int, int]:
    """Ports of a leaf to NICs, leafs, and uplinks of a leaf; 0 if one leaf is enough.

    Raises:
        InputError: A leaf has too few ports for these, or none left for an uplink.
    """
    down = leaf_ports(ports_per_leaf, oversubscription, parts, uplink_bps)
    down = evenly(endpoints, down) if ports_per_leaf is None else down
    leafs = math.ceil(endpoints.ports / down)
    return down, leafs, uplinks_of(down, oversubscription, parts, uplink_bps) if leafs > 1 else 0


def consecutive(endpoints: Endpoints) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """int32[servers, nics] and int32[extra], ports numbered server by server."""
    numbers, inside = np.arange(endpoints.ports, dtype=np.int32), endpoints.servers * endpoints.nics
    return numbers[:inside].reshape(endpoints.servers, endpoints.nics), numbers[inside:]


def ratio(
    key: str = "oversubscription",
    words: str = "Capacity down to NICs over capacity up to spines, of a leaf",
    *,
    default: float = 1.0,
    bounds: Bounds = OVERSUBSCRIPTION,
) -> Any:
    """A topology field: ratio of downlink to uplink capacity."""
    return field(default=default, metadata=f.ratio(key, words, bounds=bounds))


def uplink_rate() -> Any:
    """A topology field: rate of uplinks."""
    words = "Rate of a link between switches; that of the NICs"
    return field(default=None, metadata=f.rate("uplink_rate", words, bounds=LINK_RATE))


def wire(tree: FoldedClos, port_of: NDArray[np.int32], extra: NDArray[np.int32], look: ClosParts) -> Wiring:
    """Links and routes of the Clos; only leafs with a used port are built.

    Args:
        tree: Its numbering.
        port_of: int32[servers, nics], port number of every NIC.
        extra: int32[], further ports.
        look: Names of tiers and boxes.
    """
    plan = _Plan.of(tree, np.sort(np.concatenate([port_of.ravel(), extra])).astype(np.int64))
    source, target = cables(*plan.cable_ends())
    counts = (len(plan.used), plan.uplinks, plan.corelinks)
    rates = (tree.access_bps, tree.uplink_bps, tree.uplink_bps)
    return Wiring(
        ports=tree.ports,
        port_of=port_of.astype(np.int32),
        extra=extra.astype(np.int32),
        nodes=plan.nodes,
        groups=plan.groups(look),
        source=source,
        target=target,
        line_bps=np.repeat(rates, [2 * count for count in counts]),
        tier=np.repeat(np.arange(3, dtype=np.int16), [2 * count for count in counts]),
        tiers=look.tiers[: 1 + bool(plan.uplinks) + bool(plan.corelinks)],
        routing=plan.routes(),
        classes=plan.classes(),
        bisection_bps=plan.bisection_bps(len(port_of) // 2 * port_of.shape[1]),
        pod_ports=tree.pod_ports if tree.pods > 1 else tree.leaf_down,
    )


@dataclass(frozen=True)
class _Plan:
    """A tree with only the existing leafs; numbers nodes and cables."""

    tree: FoldedClos
    used: NDArray[np.int64]
    leafs: NDArray[np.int64]
    leaf_rank: NDArray[np.int64]

    @classmethod
    def of(cls, tree: FoldedClos, used: NDArray[np.int64]) -> _Plan:
        leafs = np.unique(used // tree.leaf_down)
        rank = np.full(tree.pods * tree.leafs_per_pod, -1, np.int64)
        rank[leafs] = np.arange(len(leafs))
        return cls(tree, used, leafs, rank)

    @property
    def first_spine(self) -> int:
        return self.tree.ports + len(self.leafs)

    @property
    def all_spines(self) -> int:
        return self.tree.spines * self.tree.pods

    @property
    def all_cores(self) -> int:
        return self.tree.spines * self.tree.cores if self.tree.pods > 1 else 0

    @property
    def nodes(self) -> int:
        return self.first_spine + self.all_spines + self.all_cores

    @property
    def uplinks(self) -> int:
        return len(self.leafs) * self.tree.leaf_up if self.tree.spines else 0

    @property
    def corelinks(self) -> int:
        return self.all_spines * self.tree.spine_up if self.all_cores else 0

    def cable_ends(self) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        tree = self.tree
        low = [self.used]
        high = [tree.ports + self.leaf_rank[self.used // tree.leaf_down]]
        if self.uplinks:
            pod = self.leafs // tree.leafs_per_pod
            spine = np.arange(tree.leaf_up) // tree.trunk
            low.append(np.repeat(tree.ports + np.arange(len(self.leafs)), tree.leaf_up))
            high.append((self.first_spine + pod[:, None] * tree.spines + spine).ravel())
        if self.corelinks:
            group = np.arange(self.all_spines) % tree.spines
            core = np.arange(tree.spine_up) // tree.core_trunk
            low.append(np.repeat(self.first_spine + np.arange(self.all_spines), tree.spine_up))
            high.append((self.first_spine + self.all_spines + group[:, None] * tree.cores + core).ravel())
        return low, high

    def routes(self) -> Routes:
        builder = RouteBuilder(self.tree.ports)
        self._access_routes(builder)
        if self.uplinks:
            self._spine_routes(builder)
        if self.corelinks:
            self._core_routes(builder)
        return builder.build(self.nodes)

    def _access_routes(self, builder: RouteBuilder) -> None:
        tree, leafs = self.tree, len(self.leafs)
        access = np.arange(len(self.used))
        builder.records(self.used, 0, tree.ports, builder.choices(2 * access[:, None]), width=1, stride=tree.ports)
        down = np.full((leafs, tree.leaf_down), -1, np.int64)
        down[self.leaf_rank[self.used // tree.leaf_down], self.used % tree.leaf_down] = 2 * access + 1
        node, lo = tree.ports + np.arange(leafs), self.leafs * tree.leaf_down
        builder.records(node, lo, lo + tree.leaf_down, builder.choices(down), width=1, stride=1)
        if self.uplinks:
            up = 2 * (len(self.used) + np.arange(self.uplinks).reshape(leafs, -1))
            builder.outside(node, lo, lo + tree.leaf_down, builder.choices(up), width=tree.leaf_up)

    def _spine_routes(self, builder: RouteBuilder) -> None:
        tree = self.tree
        node = self.first_spine + np.arange(self.all_spines)
        pod, spine = np.divmod(np.arange(self.all_spines), tree.spines)
        rank = self.leaf_rank.reshape(tree.pods, tree.leafs_per_pod)[pod]
        cable = rank[:, :, None] * tree.leaf_up + spine[:, None, None] * tree.trunk + np.arange(tree.trunk)
        down = np.where(rank[:, :, None] >= 0, 2 * (len(self.used) + cable) + 1, -1)
        lo = pod * tree.pod_ports
        builder.records(node, lo, lo + tree.pod_ports, builder.choices(down), width=tree.trunk, stride=tree.leaf_down)
        if self.corelinks:
            up = 2 * (len(self.used) + self.uplinks + np.arange(self.corelinks).reshape(self.all_spines, -1))
            builder.outside(node, lo, lo + tree.pod_ports, builder.choices(up), width=tree.spine_up)

    def _core_routes(self, builder: RouteBuilder) -> None:
        tree = self.tree
        group, core = np.divmod(np.arange(self.all_cores), tree.cores)
        spine = np.arange(tree.pods) * tree.spines + group[:, None]
        cable = spine[:, :, None] * tree.spine_up + core[:, None, None] * tree.core_trunk + np.arange(tree.core_trunk)
        down = 2 * (len(self.used) + self.uplinks + cable) + 1
        node = self.first_spine + self.all_spines + np.arange(self.all_cores)
        builder.records(node, 0, tree.ports, builder.choices(down), width=tree.core_trunk, stride=tree.pod_ports)

    def classes(self) -> NDArray[np.int32]:
        """Ports and leafs are classes of their own; all spines of a pod are equivalent, and so are all cores."""
        out = np.arange(self.nodes, dtype=np.int32)
        spine = np.arange(self.all_spines)
        first = self.first_spine
        out[first : first + self.all_spines] = first + spine // max(self.tree.spines, 1) * self.tree.spines
        out[first + self.all_spines :] = first + self.all_spines
        return out

    def groups(self, look: ClosParts) -> tuple[SwitchGroup, ...]:
        tree = self.tree
        leaf_up = tree.leaf_up if tree.spines else 0
        out = [SwitchGroup("leaf", 1, tree.ports, len(self.leafs), tree.leaf_down + leaf_up, look.leaf.name)]
        if self.all_spines:
            up = tree.spine_up if self.all_cores else 0
            ports = min(tree.leafs_per_pod, len(self.leafs)) * tree.trunk + up
            out.append(SwitchGroup("spine", 2, self.first_spine, self.all_spines, ports, look.spine.name))
        if self.all_cores:
            first = self.first_spine + self.all_spines
            out.append(SwitchGroup("core", 3, first, self.all_cores, tree.pods * tree.core_trunk, look.spine.name))
        return tuple(out)

    def bisection_bps(self, half_ports: int) -> float:
        """The smaller of the NIC capacity of half the servers and half of each tier: spines may be on either side."""
        tree = self.tree
        tiers = [half_ports * tree.access_bps]
        if self.uplinks:
            tiers.append(self.uplinks * tree.uplink_bps / 2)
        if self.corelinks:
            tiers.append(self.corelinks * tree.uplink_bps / 2)
        return min(tiers)
