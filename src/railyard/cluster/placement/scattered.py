"""`scattered`: servers in a shuffled order, as a scheduler hands out those that happen to be free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.placement.policy import Policy, by_domain, domains, policies
from railyard.cluster.routes import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.machine import Cluster


def _choose(cluster: Cluster, free: NDArray[np.bool_], ranks: int, seed: int) -> NDArray[np.int32]:
    key = mix(np.array([seed % 2**64], np.uint64))
    number = np.arange(domains(cluster), dtype=np.uint64)
    return by_domain(cluster, free, ranks, np.argsort(mix(number ^ key), kind="stable"))


SCATTERED = policies.add(
    "scattered",
    Policy(
        "scattered",
        "Servers in an order shuffled by the seed; servers of one scale-up domain stay together.",
        _choose,
        seeded=True,
    ),
)
