"""`volcano`: HyperNodes: the lowest tier that holds a job, and there the group that it fills best.

A required level is Volcano's hard mode up to that tier: tiers are tried from the lowest, and of the groups that hold
the job the fullest takes it. A preferred level is its soft mode: node after node, each as near as can be to the others.
Without either, nodes whose groups are fullest come first. Where Volcano draws among equals, the first is taken here.
Scores are in `operate/hypernodes.py`; other plugins of Volcano, which score nodes too, are left out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies
from railyard.work.operate.hypernodes import HyperNodes, packed, packed_alone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free
    from railyard.work.operate.tree import NodeTree

_ONE = np.ones(1)


@lru_cache(maxsize=8)
def _hypernodes(tree: NodeTree) -> tuple[HyperNodes, NDArray[np.int32]]:
    """The tiers of a tree, from its leafs to the cluster, and the leaf of each node."""
    if not tree.levels:
        return HyperNodes(np.zeros((1, 1), np.int64), (1,)), np.zeros(tree.nodes, np.int32)
    leaf = tree.group[-1]
    first = np.unique(leaf, return_index=True)[1]
    paths = [tree.group[level][first].astype(np.int64) for level in range(len(tree.levels) - 1, -1, -1)]
    paths.append(np.zeros(len(first), np.int64))
    return HyperNodes(np.stack(paths), tuple(range(1, len(paths) + 1))), leaf


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    tree, room = free.tree, free.with_room(request.each)
    if int(room.sum()) < request.nodes:
        return None
    if request.within:
        return _hard(request, free, room)
    if request.prefers:
        return _fill(request, tree, room)
    return _alone(request, free, room)


def _sums(free: Free, group: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64[groups, 1], accelerators that are used of groups, and all of them."""
    total = np.bincount(group, weights=free.tree.accelerators).astype(np.float64)
    return (total - np.bincount(group, weights=free.room))[:, None], total[:, None]


def _hard(request: Request, free: Free, room: NDArray[np.bool_]) -> NDArray[np.int32] | None:
    hyper, leaf = _hypernodes(free.tree)
    highest = len(free.tree.levels) - free.tree.levels.index(request.within)
    for paths in hyper.paths[:highest]:
        group = paths[leaf]
        holds = np.flatnonzero(np.bincount(group[room], minlength=int(group.max()) + 1) >= request.nodes)
        if len(holds):
            used, total = _sums(free, group)
            score = packed(used[holds], np.array([request.nodes * request.each]), total[holds], _ONE)
            return _fill(request, free.tree, room & (group == holds[int(np.argmax(score))]))
    return None


def _fill(request: Request, tree: NodeTree, room: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Leaf after leaf, each the nearest to those before it, the first of equals; a leaf is left when it is full."""
    hyper, leaf = _hypernodes(tree)
    left = np.bincount(leaf[room], minlength=hyper.paths.shape[1])
    place: tuple[int, int] | None = None
    found: list[NDArray[np.int64]] = []
    wanted = request.nodes
    while wanted:
        near = np.where(left > 0, hyper.nearness(place), -1.0)
        best = int(np.argmax(near))
        found.append(np.flatnonzero(room & (leaf == best))[:wanted])
        wanted -= len(found[-1])
        left[best], place = 0, hyper.common(best, place)
    return np.concatenate(found).astype(np.int32)


def _alone(request: Request, free: Free, room: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Node after node, each where groups are fullest."""
    hyper, leaf = _hypernodes(free.tree)
    sums = [_sums(free, paths[leaf]) for paths in hyper.paths]
    left = np.bincount(leaf[room], minlength=hyper.paths.shape[1])
    asked = np.array([float(request.each)])
    found: list[int] = []
    members = [np.flatnonzero(room & (leaf == one)) for one in range(len(left))]
    for _ in range(request.nodes):
        packs = [
            packed(used, asked, total, _ONE)[paths] for (used, total), paths in zip(sums, hyper.paths, strict=True)
        ]
        score = np.where(left > 0, packed_alone(np.stack(packs), hyper.tier), -1.0)
        best = int(np.argmax(score))
        found.append(int(members[best][-int(left[best])]))
        left[best] -= 1
        for (used, _), paths in zip(sums, hyper.paths, strict=True):
            used[paths[best]] += asked
    return np.array(found, np.int32)


policies.add(
    "volcano",
    NodePolicy(
        "volcano",
        "The lowest tier that holds the job, the fullest group of it; preferred: near to the job's other nodes",
        _place,
        source="Volcano, network-topology-aware of August 2026",
    ),
)
