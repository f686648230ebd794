"""Ends of all links of a cluster, network by network: which devices each joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hall.devices import nodes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.hall.devices import Devices
    from railyard.cluster.machine import Cluster


@dataclass(frozen=True, eq=False)
class Ends:
    """One row a link in both directions, in the order of the networks.

    Attributes:
        a, b: int32[links], lower and upper device.
        tier: int32[links], tier, counted over all networks.
        number: int32[links], physical cable of its tier, from 0: links of a cell fabric share one.
    """

    a: NDArray[np.int32]
    b: NDArray[np.int32]
    tier: NDArray[np.int32]
    number: NDArray[np.int32]


def ends_of(cluster: Cluster, devices: Devices) -> Ends:
    """The ends of all links."""
    parts: list[tuple[NDArray[np.int32], ...]] = []
    first = 0
    for key, plan in cluster.plans.items():
        wiring = plan.wiring
        device, _ = nodes_of(cluster, devices, key)
        tier = wiring.tier[0::2]
        number = np.zeros(len(tier), np.int32)
        for index, run in enumerate(plan.runs):
            mine = tier == index
            number[mine] = np.arange(np.count_nonzero(mine)) // run.lanes
        parts.append((device[wiring.source[0::2]], device[wiring.target[0::2]], tier.astype(np.int32) + first, number))
        first += len(plan.runs)
    return Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))
