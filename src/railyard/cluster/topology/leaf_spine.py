"""Leaf-spine: two tiers, every leaf joined to every spine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

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
from railyard.kit.schema.bounds import OVERSUBSCRIPTION, PORTS
from railyard.kit.schema.quantity import LINK_RATE


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

    oversubscription: float = field(
        default=1.0,
        metadata=f.ratio(
            "oversubscription",
            "Capacity down to NICs over capacity up to spines, of a leaf",
            bounds=OVERSUBSCRIPTION,
        ),
    )
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
    uplink_bps: float | None = field(
        default=None,
        metadata=f.rate("uplink_rate", "Rate of a link between switches; that of the NICs", bounds=LINK_RATE),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        uplink = parts.uplink(self.uplink_bps)
        down = leaf_ports(self.ports_per_leaf, self.oversubscription, parts, uplink)
        if self.ports_per_leaf is None:
            down = evenly(endpoints, down)
        leafs = math.ceil(endpoints.ports / down)
        up = clos.uplinks_of(down, self.oversubscription, parts, uplink) if leafs > 1 else 0
        if up and self.spines is None:
            up = clos.even_uplinks(leafs, down, up, parts, uplink)
        spines = self._spines(leafs, up, parts, uplink) if leafs > 1 else 0
        tree = clos.FoldedClos(down, up, leafs, 1, spines, 0, 0, parts.link_bps, uplink)
        numbers = np.arange(endpoints.ports, dtype=np.int32)
        inside = endpoints.servers * endpoints.nics
        port_of = numbers[:inside].reshape(endpoints.servers, endpoints.nics)
        look = clos.Look((ACCESS_RACK, LEAF_SPINE), parts.leaf, parts.spine)
        return clos.wire(tree, port_of, numbers[inside:], look)

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


def leaf_ports(
    asked: int | None, oversubscription: float, parts: Parts, uplink_bps: float, *, key: str = "ports_per_leaf"
) -> int:
    """Ports of a leaf to NICs: as asked if the leaf has them, else as many as the oversubscription leaves room for.

    Raises:
        InputError: The oversubscription is not positive, or the leaf has too few ports.
    """
    clos.positive(oversubscription, "oversubscription")
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
    """Ports per leaf, at most `most`, so that leafs are filled alike and no server is split over two."""
    unit = endpoints.nics if most >= endpoints.nics else 1
    units = math.ceil(endpoints.ports / unit)
    leafs = math.ceil(units / (most // unit))
    return math.ceil(units / leafs) * unit


topologies.add(LeafSpine.kind, LeafSpine)
