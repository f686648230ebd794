"""Paths of several jobs, chosen one job after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.steering import Steering
from railyard.engine.joint import joint
from railyard.engine.lowering import lower

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster import Cluster
    from railyard.graph import Job


def steered(jobs: Sequence[Job], cluster: Cluster, order: Sequence[int], share: Sequence[float]) -> Cluster:
    """The cluster on which each connection of the jobs has a path that was chosen for it.

    Only fabrics that hash have paths to choose; on others nothing changes.

    Args:
        jobs: As they will run.
        cluster: The machine.
        order: Their numbers, who chooses first in front.
        share: Of the time that each job sends, in the order of `jobs`.
    """
    network = cluster.back_end
    if not (network.fabric.hashed and network.fabric.tells_queue_pairs_apart):
        return cluster
    group = np.full(network.ports, -1, np.int64)
    for place, number in enumerate(order):
        group[network.port_of_rank[jobs[number].accelerators]] = place
    steering = Steering(group, np.array([share[number] for number in order]))
    found = cluster.steered(steering)
    merged, arranged = joint(jobs, found)
    lower(merged.graph, arranged)
    steering.settle(network.by_port, cluster.links.rate_bps, network.routing.widest)
    return found
