"""Rail-optimized: NIC i of every server goes to the leafs of rail i; leafs of all rails share the spines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.topology import clos
from railyard.cluster.topology.wiring import (
    ACCESS_ROW,
    LEAF_SPINE,
    SPINE_CORE,
    Endpoints,
    Parts,
    Wiring,
    divisors,
    impossible,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import PORTS, limits

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RailOptimized:
    r"""A leaf serves one rail: the NICs of one index of many servers. Neighbours on a rail share a switch.

          spine 0      spine 1      spine 2        [core above, when a pod's spines run out of ports]
            |  \  \__  / |  \   __/  / |
        rail-0 leaf   rail-1 leaf   rail-2 leaf   ...
          |  \ \______/_|_\ \___    / |  \
          |   \______  / |  \___  \/  |   \
        NIC 0 1 2      NIC 0 1 2     NIC 0 1 2
         server 0       server 1      server 2

    Ports are numbered pod by pod, in a pod rail by rail, in a rail server by server. A third tier is added when the
    leafs of all rails do not fit under one layer of spines. Storage and gateway ports get leafs of their own. Where few
    servers would leave most of a leaf empty, several rails may share one (`rails_per_leaf`).
    """

    kind: ClassVar[str] = "rail-optimized"

    oversubscription: float = clos.ratio()
    spine_oversubscription: float = clos.ratio(
        "spine_oversubscription", "Capacity down over capacity up of a spine, with three tiers"
    )
    servers_per_leaf: int | None = field(
        default=None,
        metadata=f.count("servers_per_leaf", "Servers of a rail's leaf; as many as there is room for", bounds=PORTS),
    )
    rails_per_leaf: int = field(
        default=1,
        metadata=f.count(
            "rails_per_leaf", "Rails that share a leaf; a divisor of the NICs of a server", bounds=limits(1, 1024)
        ),
    )
    servers_per_pod: int | None = field(
        default=None,
        metadata=f.count(
            "servers_per_pod",
            "Servers under one layer of spines; as many as there is room for",
            bounds=limits(1, 1_000_000),
        ),
    )
    spines: int | None = field(
        default=None,
        metadata=f.count("spines", "Number of spines under one layer of them; the fewest that do", bounds=PORTS),
    )
    uplink_bps: float | None = clos.uplink_rate()

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        uplink = parts.uplink(self.uplink_bps)
        clos.positive(self.spine_oversubscription, "spine_oversubscription")
        down = self._servers_of_a_leaf(endpoints, parts, uplink)
        pod = self._pod(endpoints, parts, down, uplink)
        sizes = (down * self.rails_per_leaf, pod.up, pod.leafs, pod.pods, *pod.upper)
        tree = clos.FoldedClos(*sizes, parts.link_bps, uplink)
        look = clos.ClosParts((ACCESS_ROW, LEAF_SPINE, SPINE_CORE), parts.leaf, parts.spine)
        return clos.wire(tree, *pod.numbers(endpoints, down, self.rails_per_leaf), look)

    def _servers_of_a_leaf(self, endpoints: Endpoints, parts: Parts, uplink_bps: float) -> int:
        """Servers per leaf, each with as many NICs as rails share the leaf; leafs are filled evenly."""
        shared = self.rails_per_leaf
        if shared < 1 or endpoints.nics % shared:
            raise impossible(
                f"leafs of {shared} rails do not divide the {endpoints.nics} NICs of a server",
                key="rails_per_leaf",
                found=shared,
                possible=", ".join(str(size) for size in divisors(endpoints.nics)),
            )
        asked = None if self.servers_per_leaf is None else self.servers_per_leaf * shared
        most = clos.leaf_ports(asked, self.oversubscription, parts, uplink_bps, key="servers_per_leaf") // shared
        if most < 1:
            raise impossible(
                f"{parts.leaf.name} has too few ports for {shared} rails",
                key="rails_per_leaf",
                found=shared,
                possible="choose fewer rails, or a larger switch",
            )
        if self.servers_per_leaf is not None:
            return most
        return math.ceil(endpoints.servers / math.ceil(endpoints.servers / most))

    def _pod(self, endpoints: Endpoints, parts: Parts, down: int, uplink_bps: float) -> _Pods:
        """The fewest pods that can be wired; a given `servers_per_pod` fixes their number."""
        groups = math.ceil(endpoints.servers / down)
        radix = parts.spine.ports(uplink_bps)
        for per_pod in self._groups_per_pod(groups, down):
            pods = math.ceil(groups / per_pod)
            even = math.ceil(groups / pods)
            extra_leafs = math.ceil(math.ceil(endpoints.extra / pods) / (down * self.rails_per_leaf))
            leafs = endpoints.nics // self.rails_per_leaf * even + extra_leafs
            if leafs == 1 and pods == 1:
                return _Pods(even, 1, 1, 0, (0, 0, 0))
            ports = down * self.rails_per_leaf
            up = clos.uplinks_of(ports, self.oversubscription, parts, uplink_bps)
            if pods == 1 and self.spines is not None:
                return _Pods(even, 1, leafs, up, (clos.given_spines(self.spines, leafs, up, radix), 0, 0))
            if pods == 1:
                up = clos.even_uplinks(leafs, ports, up, parts, uplink_bps)
            upper = clos.upper_tiers(leafs, pods, up, self.spine_oversubscription, radix)
            if upper is not None:
                return _Pods(even, pods, leafs, up, upper)
        raise impossible(
            f"three tiers of {parts.spine.name} ({radix} ports) do not join {endpoints.servers} servers in this way",
            key="servers_per_pod" if self.servers_per_pod else "kind",
            found=self.servers_per_pod or self.kind,
            possible="use a switch of higher radix, a lower link rate, several planes, or other sizes",
        )

    def _groups_per_pod(self, groups: int, down: int) -> list[int]:
        if self.servers_per_pod is None:
            return sorted({math.ceil(groups / pods) for pods in range(1, groups + 1)}, reverse=True)
        if self.servers_per_pod < 1 or self.servers_per_pod % down:
            near = max(1, round(self.servers_per_pod / down)) * down
            raise impossible(
                f"a pod holds whole leafs of {down} servers",
                key="servers_per_pod",
                found=self.servers_per_pod,
                possible=f"nearest possible: {near}",
            )
        return [min(groups, self.servers_per_pod // down)]


@dataclass(frozen=True)
class _Pods:
    """Leafs of one rail in a pod, number of pods, leafs per pod, uplinks per leaf, and the tiers above."""

    rail_leafs: int
    pods: int
    leafs: int
    up: int
    upper: tuple[int, int, int]

    def numbers(self, endpoints: Endpoints, down: int, shared: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Port numbers of NICs and of the further ports.

        Args:
            endpoints: The ports to connect.
            down: Servers per leaf.
            shared: Rails per leaf.
        """
        pod_ports, rail_ports = self.leafs * down * shared, self.rail_leafs * down
        pod, place = np.divmod(np.arange(endpoints.servers), rail_ports)
        leaf, seat = np.divmod(place, down)
        among, rail = np.divmod(np.arange(endpoints.nics), shared)
        server = pod * pod_ports + leaf * down * shared + seat
        port_of = server[:, None] + among * rail_ports * shared + rail * down
        place, pod = np.divmod(np.arange(endpoints.extra), self.pods)
        first = 0 if self.leafs == 1 else endpoints.nics * rail_ports
        extra = pod * pod_ports + first + place
        return port_of.astype(np.int32), extra.astype(np.int32)


topologies.add(RailOptimized.kind, RailOptimized)
