"""`quiet`: as few leafs as can be, and of those that would do the ones out of which running jobs send least.

A job that fits into a leaf gets the tightest, since it sends nothing over uplinks. A larger one needs so many leafs at
least; which, the traffic of running jobs decides (`Free.traffic_bps`, a mean over their steps; zeros where contention
is not modelled). Ranks go leaf by leaf, so that a ring leaves each leaf once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    level = leaf_level(free)
    return few_leafs(request, free, free.traffic_bps[level].tolist() if level >= 0 else ())


def leaf_level(free: Free) -> int:
    """The level whose groups have uplinks that jobs share; -1: there is none."""
    levels = free.tree.levels
    return levels.index("leaf") if "leaf" in levels else len(levels) - 1


def few_leafs(request: Request, free: Free, noise: Sequence[float]) -> NDArray[np.int32] | None:
    """Nodes of as few leafs as hold a job, of those that would do the ones with the least noise in all.

    Args:
        request: What is asked.
        free: What is free.
        noise: Of each leaf.
    """
    room = free.with_room(request.each)
    if int(room.sum()) < request.nodes:
        return None
    level = leaf_level(free)
    if level < 0:
        return np.flatnonzero(room)[: request.nodes].astype(np.int32)
    count: list[int] = free.counts(level, request.each).tolist()
    fitting = [leaf for leaf, nodes in enumerate(count) if nodes >= request.nodes]
    if fitting:
        leafs = [min(fitting, key=lambda leaf: (count[leaf], noise[leaf], leaf))]
    else:
        leafs = _least_noise(count, noise, request.nodes)
    members = free.tree.members[level]
    found = np.concatenate([members[leaf][room[members[leaf]]] for leaf in leafs])
    return found[: request.nodes].astype(np.int32)


def _least_noise(count: Sequence[int], noise: Sequence[float], wanted: int) -> list[int]:
    """The fewest leafs that hold a job, the most quiet first as long as the largest others can hold the rest."""
    largest = sorted(range(len(count)), key=lambda leaf: (-count[leaf], leaf))
    few = int(np.searchsorted(np.cumsum([count[leaf] for leaf in largest]), wanted)) + 1
    found: list[int] = []
    for leaf in sorted(range(len(count)), key=lambda one: (noise[one], -count[one], one)):
        others = [one for one in largest if one != leaf and one not in found][: few - len(found) - 1]
        if sum(count[one] for one in (*found, leaf, *others)) >= wanted:
            found.append(leaf)
        if len(found) == few:
            break
    return sorted(found)


policies.add(
    "quiet",
    NodePolicy("quiet", "Few leafs, and those out of which running jobs send least", _place),
)
