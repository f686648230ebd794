"""From how many servers on a job on a network of some kind crosses links between switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.boxes import parts_of
from railyard.cluster.topology.wiring import Endpoints
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.cluster.machine import Cluster
    from railyard.cluster.topology.wiring import Wiring

MOST_SERVERS = 1 << 16


def servers_to_cross(cluster: Cluster) -> int | None:
    """Fewest servers, beyond those of a cluster, whose NICs of one rail no longer fit on one switch.

    The same topology is built for more servers until they do not. None where they do not already, and where they do at
    any size up to `MOST_SERVERS`.
    """
    if _crosses(cluster, cluster.servers):
        return None
    low, high = cluster.servers, 2 * cluster.servers
    while not _crosses(cluster, high):
        low, high = high, 2 * high
        if low >= MOST_SERVERS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _crosses(cluster, middle) else (middle, high)
    return high


def _crosses(cluster: Cluster, servers: int) -> bool:
    """Whether traffic between equal NICs of so many servers crosses links between switches."""
    plan = cluster.plans["back_end"]
    changed = cluster.spec.overrides.get("switch", {})
    parts, _ = parts_of(cluster.catalog, plan.spec, plan.fabric, plan.link_bps, changed)
    try:
        wiring = plan.spec.topology.build(Endpoints(servers, plan.nics, len(plan.wiring.extra)), parts)
    except InputError:  # so many servers cannot be wired
        return False
    return any(not _share_a_switch(wiring, rail) for rail in range(plan.nics))


def _share_a_switch(wiring: Wiring, rail: int) -> bool:
    """Whether some switch has a link of every NIC of a rail."""
    ports = wiring.port_of[:, rail]
    own = np.isin(wiring.source, ports)
    pairs = np.unique(np.stack([wiring.source[own], wiring.target[own]]), axis=1)
    return bool((np.unique(pairs[1], return_counts=True)[1] == len(ports)).any())
