"""What a job sends out of the groups of nodes that it lies on, and what their uplinks carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster


def out_bytes(groups: NDArray[np.integer], ranks: int, message_bytes: float) -> dict[int, float]:
    """Bytes of one all-reduce that leave each group, by group; groups that nothing leaves are left out.

    A ring in the order of ranks carries 2 (n - 1) / n of the message from every node to the next.

    Args:
        groups: int[nodes], the group of each node in the order of ranks.
        ranks: Accelerators of the job.
        message_bytes: What each reduces.
    """
    leaves = groups != np.roll(groups, -1)
    found, times = np.unique(groups[leaves], return_counts=True)
    each = 2.0 * (ranks - 1) / ranks * message_bytes
    return {int(group): each * int(count) for group, count in zip(found, times, strict=True)}


def uplinks_bps(cluster: Cluster, leafs: Sequence[NDArray[np.int32]]) -> list[float]:
    """What the uplinks of each leaf's switches carry together, in bit/s.

    Args:
        cluster: The machine.
        leafs: Nodes of each leaf.
    """
    network, links = cluster.back_end, cluster.links
    between = [links.tiers.index(tier.name) for tier in network.tiers if tier.kind != "access"]
    up = np.isin(links.tier, between)
    up[network.bundle_offset :] = False  # a bundle is its cables once more
    found = []
    for nodes in leafs:
        ranks = (np.asarray(nodes)[:, None] * cluster.ranks_per_server + np.arange(cluster.ranks_per_server)).ravel()
        ports = np.unique(network.port_of_rank[ranks])
        switches = {int(links.target[link]) for port in ports.tolist() for link in network.port_links(int(port))[0]}
        found.append(float(links.rate_bps[up & np.isin(links.source, list(switches))].sum()))
    return found
