"""A topology: `topology: {kind: star, spare_ports: 3}`."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from railyard.cluster.topology import clos
from railyard.cluster.topology.wiring import ACCESS_ROW, LEAF_SPINE, Endpoints, Parts, Wiring, impossible, topologies
from railyard.kit.schema import field as f


@dataclass(frozen=True)
class Star:
    """All NICs on one switch.

    [switch]
     |  |  |
    NICs of all servers
    """

    kind: ClassVar[str] = "star"
    spare_ports: int = field(default=0, metadata=f.count("spare_ports", "Ports that stay free"))

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        ports = parts.leaf.ports(parts.link_bps) - self.spare_ports
        if endpoints.ports > ports:
            raise impossible(
                "one switch has too few ports", key="kind", found=endpoints.ports, possible=f"{ports} NICs"
            )
        tree = clos.FoldedClos(endpoints.ports, 0, 1, 1, 0, 0, 0, parts.link_bps, parts.link_bps)
        port = np.arange(endpoints.ports, dtype=np.int32)
        inside = endpoints.servers * endpoints.nics
        look = clos.ClosParts((ACCESS_ROW, LEAF_SPINE), parts.leaf, parts.spine)
        return clos.wire(tree, port[:inside].reshape(endpoints.servers, endpoints.nics), port[inside:], look)


topologies.add(Star.kind, Star)
