"""What RCCL may run a collective as, with AMD's latencies (develop branch, 2026-08).

Restated from ROCm RCCL (BSD-3): base latency and latencies of xGMI; triples are LL, LL128, Simple. Its tables fix a
protocol by ranges of sizes between servers; Railyard takes the fastest, which lies near their ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Case

BASE_US = (12.0, 12.0, 17.0)
LINK_US = {"tree": (0.9, 0.9, 2.3), "ring": (0.8, 0.8, 2.1)}


def offers(algorithm: str, case: Case) -> bool:
    """Whether RCCL considers an algorithm; it makes no choice for an all-to-all."""
    if case.kind == CollectiveKind.ALL_TO_ALL:
        return False
    return algorithm == "ring" or (algorithm == "tree" and case.kind == CollectiveKind.ALL_REDUCE)
