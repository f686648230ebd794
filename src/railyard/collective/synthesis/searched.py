"""`synthesized`: a schedule that is searched for the links of a cluster, with the faults that hold from the start."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.policy import kind_word
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.msccl_run import schedule_of
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.search import synthesize
from railyard.collective.synthesis.written import make
from railyard.graph import CollectiveKind
from railyard.kit import quantities
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.algorithm import Algorithm
    from railyard.collective.machine import CollectiveMachine, Shape
    from railyard.collective.pattern import Schedule
    from railyard.collective.synthesis.search import Synthesized

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


def size_of(word: str) -> float:
    """Bytes for which `synthesized` or `synthesized:4 MB` asks.

    Raises:
        InputError: It is no size.
    """
    rest = word.partition(":")[2]
    size = quantities.size(rest) if rest else SIZE_BYTES
    if size <= 0:
        raise InputError("a collective moves more than nothing", key="algorithm", found=word, allowed="such as 64 MB")
    return size


def of_cluster(cluster: Cluster, size_bytes: float, keeps: NDArray[np.float64] | None) -> Algorithm:
    """The searched algorithm of a cluster; its name is known while it is kept.

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

    def schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
        found = found_for(cluster, members_of(cluster, shape), kind, size_bytes, keeps)
        return schedule_of(msccl_xml(found.network, found.schedule, kind_word(kind), found.cut))

    return make(name, "A schedule that is searched for the links of this cluster", KINDS, schedule, _refuses)


def found_for(
    cluster: Cluster,
    members: NDArray[np.int64],
    kind: CollectiveKind,
    size_bytes: float,
    keeps: NDArray[np.float64] | None,
) -> Synthesized:
    """The schedule that runs play among some ranks of a cluster.

    Args:
        cluster: Whose links.
        members: int64[ranks], numbers of the ranks.
        kind: Of the collective.
        size_bytes: As nccl-tests counts it.
        keeps: float64[links], which share of its rate each keeps; None: all of it.

    Raises:
        InputError: Two ranks are joined by nothing.
    """
    network = network_of(cluster, members, kind, keeps=keeps)
    return synthesize(network, kind_word(kind), size_bytes, most_sends=MOST_SENDS, enough=ENOUGH)


def members_of(cluster: Cluster, shape: Shape) -> NDArray[np.int64]:
    """int64[ranks], the first ranks of a cluster that have a shape: all of them where the shape fills it."""
    domain = shape.domain_of
    return domain * cluster.scale_up_domain + np.arange(shape.ranks) - shape.offsets[domain]


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind, machine
    if shape.ranks > MOST_RANKS:
        return f"schedules are searched for up to {MOST_RANKS} ranks during a run, and these are {shape.ranks}"
    return None
