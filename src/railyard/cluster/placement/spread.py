"""`spread`: servers in turn from every leaf, as a scheduler does that balances the load of the racks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.placement.policy import Policy, by_domain, domains, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.machine import Cluster


def _leaf_of_domain(cluster: Cluster) -> NDArray[np.int64]:
    """int64[domains], the switch that the first NIC of each domain is joined to."""
    network, links = cluster.back_end, cluster.links
    first = network.port_of_rank[:: cluster.scale_up_domain, 0]
    return np.array([links.target[network.port_links(int(port))[0][0]] for port in first], np.int64)


def _choose(cluster: Cluster, free: NDArray[np.bool_], ranks: int, _seed: int) -> NDArray[np.int32]:
    leaf = _leaf_of_domain(cluster)
    turn = np.empty(domains(cluster), np.int64)
    for switch in np.unique(leaf):
        here = np.flatnonzero(leaf == switch)
        turn[here] = np.arange(len(here))
    return by_domain(cluster, free, ranks, np.lexsort((leaf, turn)))


SPREAD = policies.add("spread", Policy("spread", "Servers in turn from every leaf of the network.", _choose))
