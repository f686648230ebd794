"""`packed`: one server after another, in the order of the racks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.placement.policy import Policy, by_domain, domains, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.machine import Cluster


def _choose(cluster: Cluster, free: NDArray[np.bool_], ranks: int, _seed: int) -> NDArray[np.int32]:
    return by_domain(cluster, free, ranks, np.arange(domains(cluster), dtype=np.int64))


PACKED = policies.add("packed", Policy("packed", "Ranks fill server after server in the order of the racks.", _choose))
