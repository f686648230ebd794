"""Latency that a ring hides: whoever waits for a slow edge has time for the latencies of the others.

Step m of an edge waits for step m - 1 of the edge before it, so n edges make a cycle, and the time of a step is the
larger of the slowest edge's own and the mean over the cycle of latency and transmission (a max-plus system, whose
eigenvalue is its largest cycle mean: Baccelli, Cohen, Olsder, Quadrat, *Synchronization and Linearity*, 1992, section
3.2). With M steps, of which an edge takes M t_e, latencies that add up to L, and l of the slowest edge's own step,

    time = max(M t_slowest + l, L + mean of M t_e)

Where all edges are alike that is L + M t. Hashing, oversubscription and faults make them unlike. What comes before the
first step (launch, kernel) is part of L and of l.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import CsrWeighted
    from railyard.collective.lowering.routes import LinkLoads

    Floats = NDArray[np.float64]


def edge_seconds(links: CsrWeighted, load: LinkLoads, rate_bps: Floats) -> Floats:
    """float64[entities], seconds that an edge between NICs takes for a byte of volume: mean of the slowest ring.

    Args:
        links: What each entity puts on each link.
        load: The same edge by edge.
        rate_bps: float64[links].
    """
    outside = load.edge >= 0
    width = int(links.link.max(initial=0)) + 1
    at = np.searchsorted(links.rows() * width + links.link, load.entity[outside] * width + load.link[outside])
    bound = 8 * links.share[at] / rate_bps[links.link[at]]
    _, first, edge = np.unique(load.edge[outside], return_index=True, return_inverse=True)
    slowest = np.zeros(len(first))
    np.maximum.at(slowest, edge.ravel(), bound)
    entity, ring = load.entity[outside][first], load.ring[outside][first]
    _, leader, group = np.unique(entity * (int(ring.max()) + 1) + ring, return_index=True, return_inverse=True)
    mean = np.bincount(group.ravel(), slowest) / np.bincount(group.ravel())
    seconds = np.zeros(len(links))
    np.maximum.at(seconds, entity[leader], mean)
    return seconds


def left_over(latency: Floats, least: Floats, mean: Floats, slowest: Floats) -> Floats:
    """float64[k], latency that is left behind the slowest edge.

    Args:
        latency: Of all steps, and before the first one.
        least: Of one step of the slowest edge, and before the first one.
        mean: Time that an edge takes for all steps, on the mean over the cycle; unit of `latency`.
        slowest: The same of the slowest edge.
    """
    return np.clip(latency + mean - slowest, least, latency)
