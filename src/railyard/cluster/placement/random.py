"""`random`: every rank on any accelerator that is free, the worst that fragmentation can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.placement.policy import Policy, policies
from railyard.cluster.routes import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.machine import Cluster


def _choose(_cluster: Cluster, free: NDArray[np.bool_], ranks: int, seed: int) -> NDArray[np.int32]:
    key = mix(np.array([seed % 2**64], np.uint64))
    candidates = np.flatnonzero(free)
    order = np.argsort(mix(candidates.astype(np.uint64) ^ key), kind="stable")
    return candidates[order[:ranks]].astype(np.int32)


RANDOM = policies.add(
    "random",
    Policy(
        "random",
        "Single accelerators in an order shuffled by the seed; neighbouring ranks are rarely in one server.",
        _choose,
        keeps_domains=False,
        seeded=True,
    ),
)
