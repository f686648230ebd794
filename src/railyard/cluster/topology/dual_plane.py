"""Dual-plane, and any number of planes: each NIC is split over independent copies of a network."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from railyard.cluster.topology.compose import side_by_side
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.cluster.topology.wiring import Endpoints, Parts, TopologySpec, Wiring, impossible, taken_bps, topologies
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import limits


@dataclass(frozen=True)
class DualPlane:
    r"""k copies of an inner network; every NIC has one link of 1/k of its rate into each.

          plane 0                 plane 1
        spine   spine           spine   spine
          | \  / |                | \  / |
        leaf    leaf            leaf    leaf
           \      \______________/     /
            \____________   ___________\____
                         \ /            \ /
                        NIC 0          NIC 1        each: half of its rate up, half of it right

    A link of 1/k of the rate means k times the ports of a switch, so two tiers reach as far as three did, and losing a
    switch takes 1/k of a NIC's rate and not all of it. Flows choose their plane as they choose any equal-cost link: a
    single hashed queue pair uses one plane only.
    Sources: K. Qian et al., "Alibaba HPN", SIGCOMM 2024 (dual plane); DeepSeek-V3 hardware paper, ISCA 2025
        (multi-plane).
    """

    kind: ClassVar[str] = "dual-plane"

    planes: int = field(default=2, metadata=f.count("planes", "Number of copies", bounds=limits(1, 16)))
    inner: TopologySpec = field(
        default_factory=RailOptimized,
        metadata=f.topology("inner", "Topology of each plane: a kind, or kind and keys"),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        if self.planes < 1:
            raise impossible("there is at least one plane", key="planes", found=self.planes, possible="write 2")
        if taken_bps(parts.link_bps) == parts.link_bps:  # otherwise limited below its port, in planes too
            parts.leaf.check_rate(parts.link_bps / self.planes, "topology.planes")
        plane = self.inner.build(endpoints, replace(parts, link_bps=parts.link_bps / self.planes))
        access = np.bincount(plane.source[plane.source < plane.ports])
        if not plane.groups or plane.routing.most_records == 0 or access.max(initial=0) > 1:
            raise impossible(
                "planes are made of switches", key="inner", found=self.inner.kind, possible="use a Clos family inside"
            )
        return side_by_side(plane, self.planes, share_ports=True, part="plane")


topologies.add(DualPlane.kind, DualPlane)
