"""Three-tier Clos: pods of leafs and spines, with cores between the pods."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from railyard.cluster.topology import clos
from railyard.cluster.topology.wiring import (
    ACCESS_RACK,
    LEAF_SPINE,
    SPINE_CORE,
    Endpoints,
    Parts,
    Wiring,
    impossible,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import PORTS


@dataclass(frozen=True)
class ThreeTier:
    r"""Pods of leaf-spine joined by cores; each tier has its own oversubscription.

          core group 0        core group 1             spine j of every pod to core group j
           /   \    \____      /    \   \___
        spine 0   spine 1     \  spine 0   spine 1
          | \     / |          \   | \     / |
          |  \   /  |              |  \   /  |
        leaf 0   leaf 1          leaf 2   leaf 3
         ||||     ||||            ||||     ||||
        |---- pod 0 ----|       |---- pod 1 ----|

    Consecutive servers share a leaf. There are at least two pods unless one leaf is enough, and no more than needed.
    """

    kind: ClassVar[str] = "three-tier"

    oversubscription: float = clos.ratio()
    spine_oversubscription: float = clos.ratio(
        "spine_oversubscription", "Capacity down to leafs over capacity up to cores, of a spine"
    )
    ports_per_leaf: int | None = field(
        default=None,
        metadata=f.count("ports_per_leaf", "NIC ports of a leaf; as many as there is room for", bounds=PORTS),
    )
    leafs_per_pod: int | None = field(
        default=None,
        metadata=f.count("leafs_per_pod", "Leafs of a pod; as many as there is room for", bounds=PORTS),
    )
    uplink_bps: float | None = clos.uplink_rate()

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        uplink = parts.uplink(self.uplink_bps)
        clos.positive(self.spine_oversubscription, "spine_oversubscription")
        down, leafs, up = clos.leaf_tier(endpoints, parts, self.ports_per_leaf, self.oversubscription, uplink)
        per_pod, pods, upper = self._pods(leafs, up, parts, uplink)
        tree = clos.FoldedClos(down, up, per_pod, pods, *upper, parts.link_bps, uplink)
        look = clos.ClosParts((ACCESS_RACK, LEAF_SPINE, SPINE_CORE), parts.leaf, parts.spine)
        return clos.wire(tree, *clos.consecutive(endpoints), look)

    def _pods(self, leafs: int, up: int, parts: Parts, uplink_bps: float) -> tuple[int, int, tuple[int, int, int]]:
        """Leafs per pod, number of pods, and the tiers above."""
        if leafs == 1:
            return 1, 1, (0, 0, 0)
        radix = parts.spine.ports(uplink_bps)
        if self.leafs_per_pod is not None:
            clos.positive(self.leafs_per_pod, "leafs_per_pod")
            counts = [math.ceil(leafs / min(self.leafs_per_pod, leafs))]
        else:
            counts = sorted({math.ceil(leafs / per_pod) for per_pod in range(1, math.ceil(leafs / 2) + 1)})
        for pods in counts:
            per_pod = self.leafs_per_pod if self.leafs_per_pod is not None else math.ceil(leafs / pods)
            upper = clos.upper_tiers(per_pod, pods, up, self.spine_oversubscription, radix)
            if upper is not None:
                return per_pod, pods, upper
        raise impossible(
            f"three tiers of {parts.spine.name} ({radix} ports) do not join {leafs} leafs of {up} uplinks",
            key="leafs_per_pod" if self.leafs_per_pod is not None else "kind",
            found=self.leafs_per_pod if self.leafs_per_pod is not None else self.kind,
            possible=_possible(leafs, up, self.spine_oversubscription, radix),
        )


def _possible(leafs: int, up: int, oversubscription: float, radix: int) -> str:
    fit = [
        per_pod
        for per_pod in range(1, leafs + 1)
        if clos.upper_tiers(per_pod, math.ceil(leafs / per_pod), up, oversubscription, radix) is not None
    ]
    if fit:
        return f"possible: {fit[0]} to {fit[-1]} leafs per pod"
    return "use a switch of higher radix, a lower link rate, or several planes"


topologies.add(ThreeTier.kind, ThreeTier)
