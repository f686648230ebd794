"""What NCCL may run a collective as, and to what its channels and flags limit rings and trees (2.30.7).

NCCL chooses by an estimate of its own, which published logs contradict by up to a half in the middle of their curves
(`docs/validation/collectives.md`). Railyard takes, of what NCCL would consider, what is fastest by its own times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.tuner import constants as c
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import Case
    from railyard.collective.tuner.plan import ChannelPlan

_SERVES = {
    CollectiveKind.ALL_REDUCE: ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-sharp", "nvls-tree"),
    CollectiveKind.ALL_GATHER: ("ring", "pat", "nvls"),
    CollectiveKind.REDUCE_SCATTER: ("ring", "pat", "nvls"),
    CollectiveKind.BROADCAST: ("ring",),
    CollectiveKind.REDUCE: ("ring",),
}


def offers(algorithm: str, case: Case) -> bool:
    """Whether NCCL considers an algorithm at all; it makes no choice for an all-to-all."""
    if algorithm not in _SERVES.get(case.kind, ()):
        return False
    shape = case.shape
    if algorithm == "pat":
        return shape.domains > 1 and shape.per_domain == 1 and case.version >= (2, 23)
    if algorithm in ("tree", "ring"):
        # Inside one domain a tree is a chain: as many steps as a ring, a higher base and a lower rate by NCCL's model.
        return algorithm == "ring" or shape.domains > 1
    record = ALGORITHMS.get(algorithm)
    return record.refusal(case.kind, shape, case.machine) is None and (
        record.family == "collnet" or case.machine.scale_up == "switched"
    )


def tree_correction(protocol: str, size_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """NCCL's measured factor on the bandwidth of a tree all-reduce, float64[k]; between powers of two interpolated."""
    table = np.asarray(c.TREE_CORRECTION[protocol], np.float64)
    return np.interp(np.log2(np.maximum(size_bytes, 64) / 64), np.arange(len(table)), table)


def bus_gbs(case: Case, algorithm: str, protocol: int, plan: ChannelPlan) -> float:
    """NCCL's bus bandwidth of a ring or tree in GB/s.

    Args:
        case: What is to be done where.
        algorithm: "ring" or "tree".
        protocol: 0 LL, 1 LL128, 2 Simple.
        plan: Channels and their speeds.
    """
    domains, channels = case.shape.domains, plan.channels
    generation = c.generation(case.machine.architecture, case.version)
    row = min(domains, 3) - 1
    bus = channels * (plan.intra if domains <= 2 else plan.inter)
    if algorithm == "ring":
        caps = (min(generation.ll_max[row], 0.5 * bus), min(0.92 * bus, channels * generation.ring_ll128[row]), bus)
        return caps[protocol]
    caps = (
        min(bus / 3.8, generation.ll_max[row]),
        min(bus * (7 / 9 if domains == 1 else 120 / 128), channels * generation.tree_ll128[row]),
        min(c.BOTH_WAYS_SHARE * bus, channels * generation.tree_simple[row]),
    )
    return caps[protocol]
