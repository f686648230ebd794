"""Rail-only: one network per rank's NIC index (rail), without connections between rails."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from railyard.cluster.topology import clos
from railyard.cluster.topology.compose import side_by_side
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.three_tier import ThreeTier
from railyard.cluster.topology.wiring import ACCESS_ROW, LEAF_SPINE, Endpoints, Parts, Wiring, impossible, topologies
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import PORTS


@dataclass(frozen=True)
class RailOnly:
    r"""Rail i connects NIC i of all servers, by one switch or by separate leafs and spines; rails never meet.

        rail 0            rail 1            rail 2
        [leaf] or Clos    [leaf] or Clos    [leaf] or Clos
          | | |             | | |             | | |
        NIC 0 of every    NIC 1 of every    NIC 2 of every server

    Traffic between different rails crosses by scale-up inside a server first; there is no path between NICs of
    different rails, and asking for one is an error. Without the spines that join rails it costs less. Source: W. Wang
    et al., "Rail-only: a low-cost high-performance network for training LLMs with trillion parameters", Hot
    Interconnects 2024 (arXiv 2307.12169).
    """

    kind: ClassVar[str] = "rail-only"

    oversubscription: float = clos.ratio(words="Of a rail's leafs, when one switch a rail is not enough")
    ports_per_leaf: int | None = field(
        default=None,
        metadata=f.count("ports_per_leaf", "Servers of a leaf; all when one switch has room for them", bounds=PORTS),
    )
    uplink_bps: float | None = clos.uplink_rate()

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        if endpoints.extra:
            raise impossible(
                "storage and gateways cannot be reached from every rail of a rail-only network",
                key="kind",
                found=self.kind,
                possible="give storage a network of its own, or use `rail-optimized`",
            )
        rail = self._rail(Endpoints(endpoints.servers, 1), parts)
        joined = side_by_side(rail, endpoints.nics, share_ports=False, part="rail")
        port_of = rail.port_of + np.arange(endpoints.nics, dtype=np.int32) * rail.ports
        return replace(joined, port_of=port_of)

    def _rail(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        single = self.ports_per_leaf is None and endpoints.servers <= parts.leaf.ports(parts.link_bps)
        if not single:
            wired = self._switched(endpoints, parts)
            return replace(wired, tiers=(ACCESS_ROW, *wired.tiers[1:]))
        tree = clos.FoldedClos(endpoints.servers, 0, 1, 1, 0, 0, 0, parts.link_bps, parts.link_bps)
        port_of = np.arange(endpoints.servers, dtype=np.int32)[:, None]
        look = clos.ClosParts((ACCESS_ROW, LEAF_SPINE), parts.leaf, parts.spine)
        return clos.wire(tree, port_of, np.empty(0, np.int32), look)

    def _switched(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Two tiers, or three if two have too few ports."""
        two = LeafSpine(self.oversubscription, self.ports_per_leaf, None, self.uplink_bps)
        try:
            return two.build(endpoints, parts)
        except InputError:
            three = ThreeTier(self.oversubscription, ports_per_leaf=self.ports_per_leaf, uplink_bps=self.uplink_bps)
            return three.build(endpoints, parts)


topologies.add(RailOnly.kind, RailOnly)
