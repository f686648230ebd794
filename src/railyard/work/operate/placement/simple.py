"""Simple placement policies: first, random or most scattered nodes, and whole domains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import first_nodes, nodes_in, placement_policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest


@placement_policy("first-fit", "The first nodes with room in the order of the racks.")
def _first_fit(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    return first_nodes(free.with_room(request.each), request.nodes)


@placement_policy("random", "Any free nodes in any order", seeded=True)
def _random(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    room = np.flatnonzero(free.with_room(request.each))
    if len(room) < request.nodes:
        return None
    draw = np.random.Generator(np.random.Philox(key=[request.seed, request.job]))
    return draw.choice(room, request.nodes, replace=False).astype(np.int32)


@placement_policy("worst", "A node of every narrowest group in turn: as scattered as possible")
def _worst(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    room = np.flatnonzero(free.with_room(request.each))
    if len(room) < request.nodes:
        return None
    keys = [_turn(group[room]) for group in free.tree.group]  # the narrowest level decides first
    order = np.lexsort(keys) if keys else np.arange(len(room))
    return room[order][: request.nodes].astype(np.int32)


def _turn(group: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64[nodes], index of each node within its group."""
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], group[order])
    turn = np.empty(len(group), np.int64)
    turn[order] = np.arange(len(group)) - first
    return turn


@placement_policy("domain", "Whole scale-up domains for jobs that fill them, broken ones for the others")
def _by_domain(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    """Whole scale-up domains first, so that small jobs do not fragment domains that large jobs need.

    A job that fills domains gets idle ones on as few leafs as possible. Its remainder, and any job smaller than a
    domain, goes where it leaves the least room, partly used domains before idle ones. Operators of 72-GPU racks ask
    schedulers for this, because node-level packing fragments one rack after another (kubernetes-sigs/kueue issue
    10406).
    """
    tree, wanted = free.tree, request.nodes
    room = free.with_room(request.each)
    if not tree.levels:
        return first_nodes(room, wanted)
    count = free.counts(len(tree.levels) - 1, request.each)
    if int(count.sum()) < wanted:
        return None
    domains: list[int] = []
    while wanted > 0:
        domain = _next(free, count, wanted)
        domains.append(domain)
        wanted -= int(count[domain])
        count[domain] = 0
    return nodes_in(domains, tree.members[-1], room, request.nodes)


def _next(free: FreeNodes, count: NDArray[np.int32], wanted: int) -> int:
    """The domain to take next: the fullest that fits the rest; else an idle one; else the emptiest."""
    size = free.tree.size[-1]
    fitting = np.flatnonzero(count >= wanted)
    if len(fitting):
        intact = count[fitting] == size[fitting]
        return int(fitting[np.lexsort((fitting, count[fitting], intact & (count[fitting] > wanted)))[0]])
    idle = np.flatnonzero((count == size) & (count > 0))
    candidates = idle if len(idle) else np.flatnonzero(count > 0)
    near = _idle_near(free, count, candidates)
    return int(candidates[np.lexsort((candidates, -near, -count[candidates]))[0]])


def _idle_near(free: FreeNodes, count: NDArray[np.int32], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[candidates], idle nodes in the group above each candidate."""
    tree = free.tree
    if len(tree.levels) < 2:
        return np.zeros(len(candidates), np.int64)
    above = tree.parent[-1]
    return np.bincount(above, weights=count).astype(np.int64)[above[candidates]]
