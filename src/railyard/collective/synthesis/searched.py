"""`synthesized`: a schedule that is searched for the links of a cluster, with the faults that hold from the start."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.policy import kind_word
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.msccl_run import schedule_of
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.search import synthesize
from railyard.collective.synthesis.written import add
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.machine import CollectiveMachine
    from railyard.collective.schedule import Schedule
    from railyard.collective.shape import Shape

NAME = "synthesized"
MOST_RANKS = 64
"""Ranks for which a run searches by itself: some seconds."""
MOST_SENDS = 16_000
ENOUGH = 1.03
"""Over the bound: what is left is less than what the fabric's hashes take."""
SIZE_BYTES = 64e6
"""For which schedules are searched where no size is given: a gradient bucket."""
KINDS = (
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_TO_ALL,
)


def of_cluster(cluster: Cluster, size_bytes: float, keeps: NDArray[np.float64] | None) -> str:
    """Makes the searched algorithm of a cluster known; returns its name in the registry.

    Nothing is searched before a collective asks for it.

    Args:
        cluster: Whose links.
        size_bytes: Size, as nccl-tests counts it, for which schedules are to be good.
        keeps: float64[links], which share of its rate each keeps; None: all of it.
    """
    links = cluster.links
    parts = [links.source, links.target, links.rate_bps, links.latency_ps, cluster.back_end.port_of_rank]
    digest = sha256(f"{size_bytes} {cluster.fabric.name} {cluster.scale_up_domain}".encode())
    for part in [*parts, np.empty(0) if keeps is None else keeps]:
        digest.update(np.ascontiguousarray(part).tobytes())
    name = f"{NAME}-{digest.hexdigest()[:8]}"
    if name not in ALGORITHMS.known:

        def schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
            network = network_of(cluster, members_of(cluster, shape), kind, keeps=keeps)
            size = size_bytes * (shape.ranks if kind == CollectiveKind.ALL_TO_ALL else 1)
            found = synthesize(network, kind_word(kind), size, most_sends=MOST_SENDS, enough=ENOUGH)
            return schedule_of(msccl_xml(network, found.schedule, kind_word(kind), found.cut))

        add(name, "A schedule that is searched for the links of this cluster", KINDS, schedule, _refuses)
    return name


def members_of(cluster: Cluster, shape: Shape) -> NDArray[np.int64]:
    """int64[ranks], the first ranks of a cluster that have a shape: all of them where the shape fills it."""
    domain = shape.domain_of
    return domain * cluster.scale_up_domain + np.arange(shape.ranks) - shape.offsets[domain]


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind, machine
    if shape.ranks > MOST_RANKS:
        return f"schedules are searched for up to {MOST_RANKS} ranks during a run, and these are {shape.ranks}"
    return None
