"""What hashing costs: links as an even spread would use them.

ECMP hashes flows onto equal links, so flows of one collective meet on some of them and leave others empty. The same
bytes spread evenly would load the equal links alike, as if they were one link of their summed capacity. The bound of
such a *set* is the sum of its rates over the sum of the shares on it, which is never below the slowest of its members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster, Network


def equal_sets(cluster: Cluster) -> NDArray[np.int64] | None:
    """int64[links], the set of equal links that each link belongs to, counted from 0; None where nothing is hashed.

    Two links of a hashed network are equal when they lead from nodes that are alike to nodes that are alike: up from
    one leaf to any spine, down to one leaf from any. On a topology whose nodes are not alike (a dragonfly, a torus)
    only parallel links between the same two nodes are. Links of other networks, scale-up, storage and bundles, over
    which bytes are spread as it is, are sets of their own.
    """
    hashed = [network for network in cluster.networks if network.fabric.hashed]
    if not hashed:
        return None
    links = len(cluster.links)
    key = np.arange(links, dtype=np.int64)
    for network in hashed:
        span = slice(network.link_offset, network.link_offset + network.wiring.links)
        _, first, inverse = np.unique(_ends(network), return_index=True, return_inverse=True)
        key[span] = network.link_offset + first[inverse.ravel()]
    number: NDArray[np.int64] = np.unique(key, return_inverse=True)[1].ravel().astype(np.int64)
    return number


def _ends(network: Network) -> NDArray[np.int64]:
    """int64[links of the network], equal for links between nodes that are alike."""
    wiring = network.wiring
    alike = np.arange(wiring.nodes) if wiring.classes is None else wiring.classes.astype(np.int64)
    ends: NDArray[np.int64] = alike[wiring.source] * wiring.nodes + alike[wiring.target]
    return ends


def evened(
    usage: CsrWeighted, rate_bps: NDArray[np.float64], sets: NDArray[np.int64]
) -> tuple[CsrWeighted, NDArray[np.float64]]:
    """Usage of sets in place of links, and the rates of the sets.

    Args:
        usage: Links and shares of entities.
        rate_bps: float64[links].
        sets: int64[links], see `equal_sets`.
    """
    rate = np.bincount(sets, weights=rate_bps).astype(np.float64)
    return CsrWeighted.gathered(len(usage), usage.rows(), sets[usage.link], usage.share), rate
