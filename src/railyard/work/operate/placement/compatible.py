"""`compatible`: of several placements the one whose job fits best between its neighbours' steps.

Candidates are what other policies give, and further choices of as few leafs. Each is judged by the contention model
(`Free.judge`): the demand beyond what shared uplinks carry, with the best time shifts where those are used, else over
any phases. Of equals the one on fewer leafs, then the first. Without a contention model it is `quiet`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies
from railyard.work.operate.placement.quiet import few_leafs, leaf_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free

OTHERS = ("quiet", "slurm-tree", "communication")
MOST = 10
"""Candidates, as in CASSINI."""


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    first = policies.get(OTHERS[0]).place(request, free)
    level = leaf_level(free)
    if first is None or free.judge is None or level < 0:
        return first
    group = free.tree.group[level]
    if len(np.unique(group[first])) == 1:
        return first
    best, least = first, (np.inf, 0)
    for nodes in _candidates(request, free, first):
        cost = round(free.judge(request, nodes), 6), len(np.unique(group[nodes]))
        if cost < least:
            best, least = nodes, cost
    return best


def _candidates(request: Request, free: Free, first: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """What other policies give, then the fewest leafs in orders drawn by the job's number."""
    draws = np.random.default_rng([request.seed, request.job])
    leafs = len(free.tree.size[leaf_level(free)])
    found = [first, *(policies.get(name).place(request, free) for name in OTHERS[1:])]
    found += [few_leafs(request, free, draws.random(leafs).tolist()) for _ in range(MOST - len(found))]
    seen: dict[bytes, NDArray[np.int32]] = {}
    for nodes in found:
        if nodes is not None:
            seen.setdefault(nodes.tobytes(), nodes)
    return list(seen.values())


policies.add(
    "compatible",
    NodePolicy(
        "compatible",
        "Of ten placements the one that fits best between the steps of running jobs",
        _place,
        source="after CASSINI (NSDI 2024)",
        seeded=True,
    ),
)
