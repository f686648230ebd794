"""Placement policies: which free accelerators a job gets, in rank order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.routes import mix
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from railyard.cluster.machine import Cluster
    from railyard.cluster.spec import Placement

Choice = Callable[["Cluster", NDArray[np.bool_], int, int], NDArray[np.int32]]
"""From (cluster, bool[accelerators] free, number needed, seed) to int32[needed], the accelerator of each rank."""


@dataclass(frozen=True)
class Policy:
    """A placement policy; creating the record registers it.

    Attributes:
        choose: See `Choice`; at least as many accelerators are free as needed.
        keeps_domains: Whether neighboring ranks of a job fill one scale-up domain after another.
        seeded: Whether the seed matters.
    """

    name: str
    summary: str
    choose: Choice
    keeps_domains: bool = True
    seeded: bool = False


policies: Registry[Policy] = Registry("placement")


def place(
    cluster: Cluster, placement: Placement, ranks: int | None = None, free: NDArray[np.bool_] | None = None
) -> NDArray[np.int32]:
    """int32[ranks], the accelerator of each rank of a job.

    Args:
        cluster: The machine.
        placement: How accelerators are chosen.
        ranks: Accelerators of the job; None: all.
        free: bool[accelerators]; None: all are.

    Raises:
        InputError: The policy is unknown, or too few accelerators are free.
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

    Domains with too little room (for the whole job, or for a full domain of it) come last, and so does a last domain
    that the cluster does not fill.

    Args:
        cluster: The machine.
        free: bool[accelerators].
        ranks: Number of accelerators.
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


def _packed(cluster: Cluster, free: NDArray[np.bool_], ranks: int, _seed: int) -> NDArray[np.int32]:
    return by_domain(cluster, free, ranks, np.arange(domains(cluster), dtype=np.int64))


def _random(_cluster: Cluster, free: NDArray[np.bool_], ranks: int, seed: int) -> NDArray[np.int32]:
    """Random free accelerators: the worst case of fragmentation."""
    candidates = np.flatnonzero(free)
    return candidates[_shuffled(candidates, seed)[:ranks]].astype(np.int32)


def _scattered(cluster: Cluster, free: NDArray[np.bool_], ranks: int, seed: int) -> NDArray[np.int32]:
    """Random servers, as a scheduler assigns whatever is free."""
    return by_domain(cluster, free, ranks, _shuffled(np.arange(domains(cluster)), seed))


def _shuffled(numbers: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    key = mix(np.array([seed % 2**64], np.uint64))
    return np.argsort(mix(numbers.astype(np.uint64) ^ key), kind="stable")


def _spread(cluster: Cluster, free: NDArray[np.bool_], ranks: int, _seed: int) -> NDArray[np.int32]:
    """Servers from every leaf alternately, as from a scheduler that balances the load of racks."""
    network, links = cluster.back_end, cluster.links
    first = network.port_of_rank[:: cluster.scale_up_domain, 0]
    leaf = np.array([links.target[network.port_links(int(port))[0][0]] for port in first], np.int64)
    turn = np.empty(domains(cluster), np.int64)
    for switch in np.unique(leaf):
        here = np.flatnonzero(leaf == switch)
        turn[here] = np.arange(len(here))
    return by_domain(cluster, free, ranks, np.lexsort((leaf, turn)))


for _policy in (
    Policy("packed", "Ranks fill server after server in the order of the racks.", _packed),
    Policy(
        "random",
        "Single accelerators in an order shuffled by the seed; neighbouring ranks are rarely in one server.",
        _random,
        keeps_domains=False,
        seeded=True,
    ),
    Policy(
        "scattered",
        "Servers in an order shuffled by the seed; servers of one scale-up domain stay together.",
        _scattered,
        seeded=True,
    ),
    Policy("spread", "Servers in turn from every leaf of the network.", _spread),
):
    policies.enter(_policy)
