"""What a placement policy is: the accelerators that a job gets of those that are free, in the order of its ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from railyard.cluster.machine import Cluster
    from railyard.cluster.spec import Placement

Choice = Callable[["Cluster", NDArray[np.bool_], int, int], NDArray[np.int32]]
"""Of (cluster, bool[accelerators] that are free, number wanted, seed): int32[wanted], accelerator of each rank."""


@dataclass(frozen=True)
class Policy:
    """A placement policy; its record is its registration.

    Attributes:
        name: What users write.
        summary: Where ranks go, in one sentence.
        choose: See `Choice`; at least as many accelerators are free as are wanted.
        keeps_domains: Whether a job's neighbouring ranks fill one scale-up domain after another.
        seeded: Whether the seed matters.
    """

    name: str
    summary: str
    choose: Choice
    keeps_domains: bool = True
    seeded: bool = False


policies: Registry[Policy] = Registry("placement", package="railyard.cluster.placement")


def place(
    cluster: Cluster, placement: Placement, ranks: int | None = None, free: NDArray[np.bool_] | None = None
) -> NDArray[np.int32]:
    """int32[ranks], the accelerator of each rank of a job.

    Args:
        cluster: The machine.
        placement: How accelerators are chosen.
        ranks: Accelerators that the job wants; None: all.
        free: bool[accelerators]; None: all are.

    Raises:
        InputError: There is no such policy, or fewer accelerators are free than are wanted.
    """
    try:
        policy = policies.get(placement.policy)
    except InputError as error:
        raise error.located(key="placement") from None
    free = np.ones(cluster.ranks, np.bool_) if free is None else free
    wanted = cluster.ranks if ranks is None else ranks
    available = int(np.count_nonzero(free))
    if wanted > available:
        raise InputError(
            f"a job needs {wanted} accelerators, and {available} of the cluster's {cluster.ranks} are free",
            key="accelerators",
            found=wanted,
            allowed=f"at most {available}",
        )
    return policy.choose(cluster, free, wanted, placement.seed)


def by_domain(cluster: Cluster, free: NDArray[np.bool_], ranks: int, order: NDArray[np.int64]) -> NDArray[np.int32]:
    """Free accelerators, one scale-up domain after another.

    Domains with too little room (for the whole job, or for a full domain of it) come last, as does a last domain that
    the cluster does not fill.

    Args:
        cluster: The machine.
        free: bool[accelerators].
        ranks: Accelerators wanted.
        order: int64[domains], each domain once.
    """
    domain = cluster.scale_up_domain
    room = np.bincount(np.flatnonzero(free) // domain, minlength=len(order))
    sorted_order = order[np.argsort(room[order] < min(ranks, domain), kind="stable")]
    accelerators = (sorted_order[:, None] * domain + np.arange(domain)).ravel()
    accelerators = accelerators[accelerators < cluster.ranks]
    found: NDArray[np.int32] = accelerators[free[accelerators]][:ranks].astype(np.int32)
    return found


def domains(cluster: Cluster) -> int:
    """Scale-up domains of a cluster."""
    return -(-cluster.ranks // cluster.scale_up_domain)
