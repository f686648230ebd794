"""`volcano`: Volcano's HyperNodes: the lowest tier that fits a job, and there the group that it fills best.

A required level is Volcano's hard mode up to that tier: tiers are tried from the lowest up, and the fullest group that
fits the job takes it. A preferred level is its soft mode: node by node, each as close as possible to the others. With
neither, nodes in the fullest groups come first. If Volcano draws among equals, the first is taken here. Other Volcano
plugins that also score nodes are left out.

Tiers are counted from the lowest; the cluster is above them all, a tier without HyperNodes. A node is close to a job's
pods if their common group is low; among equals, a node next to most of them is closest. The packing score of a group is
its usage plus the request over its capacity, a weighted mean of resources; it is zero if the request does not fit. Pods
without a topology go to nodes in full groups, with wider groups weighted less.

Source: volcano-sh/volcano, plugin network-topology-aware; checked against its tests (Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import placement_policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest
    from railyard.work.operate.tree import NodeTree


NOWHERE = -1
"""Group of a leaf that is in no group at a tier."""
FADING = 0.8
"""Weight of each wider tier relative to the last, for pods without a topology (hypernode.binpack.normal-pod.fading)."""


@dataclass(frozen=True, eq=False)
class HyperNodes:
    """Groups of nodes by tier.

    Attributes:
        paths: int64[tiers, leafs], the group of each leaf at every tier, from the lowest to the cluster.
    """

    paths: NDArray[np.int64]
    tier: tuple[int, ...]

    def common(self, leaf: int, place: tuple[int, int] | None) -> tuple[int, int]:
        """The lowest group that contains a leaf and another group; None: the leaf itself."""
        if place is None:
            return 0, int(self.paths[0, leaf])
        level, group = place
        inside = int(np.flatnonzero(self.paths[level] == group)[0])
        while self.paths[level, leaf] != self.paths[level, inside] or self.paths[level, leaf] == NOWHERE:
            level += 1
        return level, int(self.paths[level, leaf])

    def nearness(self, place: tuple[int, int] | None) -> NDArray[np.float64]:
        """float64[leafs], 1 in the group itself, falling to 0 with the tier of the common group.

        Args:
            place: A tier index and a group with pods of the job; None: none yet, all are 0.
        """
        if place is None:
            return np.zeros(self.paths.shape[1])
        level, group = place
        ours = self.paths[level:, int(np.flatnonzero(self.paths[level] == group)[0])]
        shared = (self.paths[level:] == ours[:, None]) & (ours != NOWHERE)[:, None]
        tiers = np.array(self.tier)[level + np.argmax(shared, axis=0)]
        span = self.tier[-1] - self.tier[0]
        near: NDArray[np.float64] = (self.tier[-1] - tiers) / span if span else np.ones(len(tiers))
        return near


def packed(
    used: NDArray[np.float64], asked: NDArray[np.float64], total: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """float64[groups], how full groups are with the request: 0 to 1, and 0 if it does not fit.

    Args:
        used: float64[groups, resources].
        asked: float64[resources]; only requested resources count.
        total: float64[groups, resources].
        weights: float64[resources].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, (used + asked) / total, 0.0)
    fits = np.all(used + asked <= total, axis=1)
    weight = float(weights.sum())
    return np.where(fits, share @ weights / weight, 0.0) if weight > 0 else np.zeros(len(used))


def beside(nearness: NDArray[np.float64], there: NDArray[np.int64], pods: int) -> NDArray[np.float64]:
    """float64[nodes], closeness; for the closest nodes, if several, the share of the job's pods next to them.

    Args:
        nearness: float64[nodes].
        there: int64[nodes], pods of the job on each node's leaf.
        pods: Pods of the job.
    """
    best = nearness == nearness.max()
    return nearness + np.where(best, there / pods, 0.0) if best.sum() > 1 and pods else nearness


def packed_alone(packs: NDArray[np.float64], tier: tuple[int, ...], fading: float = FADING) -> NDArray[np.float64]:
    """float64[nodes], how full the groups of each node get, averaged over tiers.

    Args:
        packs: float64[tiers, nodes], score of each node's group at every tier; 1 if it is in none.
        tier: Numbers of the tiers.
        fading: Factor by which each wider tier counts less.
    """
    weights = np.array([fading ** (number - 1) for number in tier])
    found: NDArray[np.float64] = weights @ packs / weights.sum()
    return found


_ONE = np.ones(1)


@lru_cache(maxsize=8)
def _hypernodes(tree: NodeTree) -> tuple[HyperNodes, NDArray[np.int32]]:
    """The tiers of a tree from its leafs to the cluster, and the leaf of each node."""
    if not tree.levels:
        return HyperNodes(np.zeros((1, 1), np.int64), (1,)), np.zeros(tree.nodes, np.int32)
    leaf = tree.group[-1]
    first = np.unique(leaf, return_index=True)[1]
    paths = [tree.group[level][first].astype(np.int64) for level in range(len(tree.levels) - 1, -1, -1)]
    paths.append(np.zeros(len(first), np.int64))
    return HyperNodes(np.stack(paths), tuple(range(1, len(paths) + 1))), leaf


@placement_policy(
    "volcano",
    "The lowest tier that holds the job, the fullest group of it; preferred: near to the job's other nodes",
    source="Volcano, network-topology-aware of August 2026",
)
def _volcano(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    tree, room = free.tree, free.with_room(request.each)
    if int(room.sum()) < request.nodes:
        return None
    if request.within:
        return _hard(request, free, room)
    if request.prefers:
        return _fill(request, tree, room)
    return _alone(request, free, room)


def _sums(free: FreeNodes, group: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64[groups, 1], used and total accelerators of groups."""
    total = np.bincount(group, weights=free.tree.accelerators).astype(np.float64)
    return (total - np.bincount(group, weights=free.room))[:, None], total[:, None]


def _hard(request: PlacementRequest, free: FreeNodes, room: NDArray[np.bool_]) -> NDArray[np.int32] | None:
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


def _fill(request: PlacementRequest, tree: NodeTree, room: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Leaf by leaf, each the closest to the previous ones, the first of equals; a leaf is filled before the next."""
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


def _alone(request: PlacementRequest, free: FreeNodes, room: NDArray[np.bool_]) -> NDArray[np.int32]:
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
