"""Leaf-spine: two tiers, every leaf joined to every spine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.cluster.topology import clos
from railyard.cluster.topology.wiring import (
    ACCESS_RACK,
    LEAF_SPINE,
    Endpoints,
    Parts,
    Wiring,
    impossible,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import PORTS


@dataclass(frozen=True)
class LeafSpine:
    r"""Two tiers; consecutive servers share a leaf, all NICs of a server are on the same one.

        spine 0    spine 1    spine 2
          | \  \__   / | \   __/  / |        every leaf to every spine, trunks of equal width
          |  \    \ /  |  \ /    /  |
        leaf 0     leaf 1     leaf 2
         ||||       ||||       ||||
        server 0   server 1   server 2        (consecutive servers)

    A cluster that fits on one leaf has no spine. Leafs are filled evenly. The number of spines is the smallest that
    divides a leaf's uplinks and has ports for all leafs; uplinks may be up to an eighth more than asked where that
    at least halves the spines.
    """

    kind: ClassVar[str] = "leaf-spine"

    oversubscription: float = clos.ratio()
    ports_per_leaf: int | None = field(
        default=None,
        metadata=f.count(
            "ports_per_leaf",
            "NIC ports of a leaf; as many as the oversubscription leaves room for",
            bounds=PORTS,
        ),
    )
    spines: int | None = field(
        default=None, metadata=f.count("spines", "Number of spines; the fewest that do", bounds=PORTS)
    )
    uplink_bps: float | None = clos.uplink_rate()

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        uplink = parts.uplink(self.uplink_bps)
        down, leafs, up = clos.leaf_tier(endpoints, parts, self.ports_per_leaf, self.oversubscription, uplink)
        if up and self.spines is None:
            up = clos.even_uplinks(leafs, down, up, parts, uplink)
        spines = self._spines(leafs, up, parts, uplink) if leafs > 1 else 0
        tree = clos.FoldedClos(down, up, leafs, 1, spines, 0, 0, parts.link_bps, uplink)
        look = clos.ClosParts((ACCESS_RACK, LEAF_SPINE), parts.leaf, parts.spine)
        return clos.wire(tree, *clos.consecutive(endpoints), look)

    def _spines(self, leafs: int, up: int, parts: Parts, uplink_bps: float) -> int:
        radix = parts.spine.ports(uplink_bps)
        if self.spines is None:
            found = clos.spines_for(leafs, up, radix)
            if found is None:
                raise impossible(
                    f"two tiers of {parts.spine.name} join at most {radix} leafs",
                    key="kind",
                    found=f"{leafs} leafs",
                    possible="use `three-tier`, a switch of higher radix, or more ports per leaf",
                )
            return found
        return clos.given_spines(self.spines, leafs, up, radix)


topologies.add(LeafSpine.kind, LeafSpine)
