"""`domain`: whole scale-up domains first, so that small jobs do not break those that large ones want.

A job that fills domains gets idle ones of as few leafs as can be; what is left of it, and any job smaller than a
domain, goes where it leaves the least, broken domains before whole ones. That is what operators of racks of 72 ask of
schedulers, which by nodes alone break one rack after another (kubernetes-sigs/kueue issue 10406).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    tree, wanted = free.tree, request.nodes
    room = free.with_room(request.each)
    if not tree.levels:
        found = np.flatnonzero(room)[:wanted].astype(np.int32)
        return found if len(found) == wanted else None
    count = free.counts(len(tree.levels) - 1, request.each)
    if int(count.sum()) < wanted:
        return None
    domains: list[int] = []
    while wanted > 0:
        domain = _next(free, count, wanted)
        domains.append(domain)
        wanted -= int(count[domain])
        count[domain] = 0
    members = tree.members[-1]
    found = np.concatenate([members[domain][room[members[domain]]] for domain in domains])
    return found[: request.nodes].astype(np.int32)


def _next(free: Free, count: NDArray[np.int32], wanted: int) -> int:
    """The domain to take next: the fullest that holds the rest; else an idle one; else the emptiest."""
    size = free.tree.size[-1]
    fitting = np.flatnonzero(count >= wanted)
    if len(fitting):
        intact = count[fitting] == size[fitting]
        return int(fitting[np.lexsort((fitting, count[fitting], intact & (count[fitting] > wanted)))[0]])
    idle = np.flatnonzero((count == size) & (count > 0))
    candidates = idle if len(idle) else np.flatnonzero(count > 0)
    near = _idle_near(free, count, candidates)
    return int(candidates[np.lexsort((candidates, -near, -count[candidates]))[0]])


def _idle_near(free: Free, count: NDArray[np.int32], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[candidates], nodes that could be had in the group above each."""
    tree = free.tree
    if len(tree.levels) < 2:
        return np.zeros(len(candidates), np.int64)
    above = tree.parent[-1]
    return np.bincount(above, weights=count).astype(np.int64)[above[candidates]]


policies.add(
    "domain",
    NodePolicy("domain", "Whole scale-up domains for jobs that fill them, broken ones for the others", _place),
)
