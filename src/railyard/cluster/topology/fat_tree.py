"""k-ary fat tree: three tiers of equal switches of k ports, non-blocking."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from railyard.cluster.topology import clos
from railyard.cluster.topology.three_tier import ThreeTier
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
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import limits


@dataclass(frozen=True)
class FatTree:
    r"""k pods of k/2 leafs and k/2 spines, (k/2)^2 cores, k^3/4 ports; all links of one rate.

             core 0   core 1   core 2   core 3          (k/2)^2 cores        k = 4
              | \  \____|__   __|___/  / |
        spine 0   spine 1  \ /  spine 2   spine 3  ...   k/2 a pod
          |  \   /  |       X     |  \   /  |
        leaf 0   leaf 1    / \  leaf 2   leaf 3    ...   k/2 a pod
         | |      | |            | |      | |            k/2 ports a leaf
        |----- pod 0 -----|     |----- pod 1 -----|

    With `k`, the textbook's form: only as many pods are built as are needed, the cores are all there, and each switch
    is a whole box, however many of its ports stay free. Without `k`, switches are used at their full radix, with pods
    and cores as far as full bisection needs them: nobody buys boxes of 128 ports to use 22.
    Source: M. Al-Fares, A. Loukissas, A. Vahdat, "A scalable, commodity data center network architecture", SIGCOMM
        2008.
    """

    kind: ClassVar[str] = "fat-tree"

    k: int | None = field(
        default=None,
        metadata=f.count(
            "k", "Ports of every switch, even; all that it has, in pods and cores partly filled", bounds=limits(2, 1024)
        ),
    )

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        k = self._arity(endpoints.ports, parts)
        if self.k is None and parts.leaf.fabric_bps <= 0:
            try:
                return ThreeTier().build(endpoints, parts)
            except InputError:
                # Whole servers on a leaf leave ports free that a nearly full tree cannot spare.
                pass
        half = k // 2
        pods = math.ceil(endpoints.ports / (half * half))
        cores = half if pods > 1 else 0
        tree = clos.FoldedClos(
            half, half, half, pods, half, half if pods > 1 else 0, cores, parts.link_bps, parts.link_bps
        )
        numbers = np.arange(endpoints.ports, dtype=np.int32)
        inside = endpoints.servers * endpoints.nics
        port_of = numbers[:inside].reshape(endpoints.servers, endpoints.nics)
        look = clos.ClosParts((ACCESS_RACK, LEAF_SPINE, SPINE_CORE), parts.leaf, parts.spine)
        return clos.wire(tree, port_of, numbers[inside:], look)

    def _arity(self, ports: int, parts: Parts) -> int:
        most = min(parts.leaf.ports(parts.link_bps), parts.spine.ports(parts.link_bps)) // 2 * 2
        need = 2
        while need**3 // 4 < ports:
            need += 2
        k = need if self.k is None else self.k
        if k < 2 or k % 2:
            raise impossible(
                "the k of a fat tree is even", key="k", found=k, possible=f"nearest possible: {max(2, k + k % 2)}"
            )
        if k > most:
            raise impossible(
                f"{parts.spine.name} has {most} ports of {parts.link_bps / 1e9:g} Gb/s",
                key="k",
                found=k,
                possible=f"a fat tree of {most}-port switches has {most**3 // 4} ports; {ports} are needed",
            )
        if k**3 // 4 < ports:
            raise impossible(
                f"a fat tree of this k has {k**3 // 4} ports and {ports} are needed",
                key="k",
                found=k,
                possible=f"nearest possible: {need}",
            )
        return k


topologies.add(FatTree.kind, FatTree)
