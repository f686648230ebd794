"""Volcano's scores of nodes and HyperNodes: how near to the rest of a job, how full a group gets.

Tiers are counted from the lowest; above them all stands the cluster, a tier that no HyperNode has. A node near the pods
that a job has is one whose common group with them is low; of equals, it is one beside most of them. A group is packed
by what is used of it, with what is asked, over what it has, a weighted mean of resources; a group that it would not fit
into scores nothing. Pods without a topology go to nodes whose groups are full, wider groups counting less.

Source: volcano-sh/volcano, plugin network-topology-aware, by whose tests this is judged (Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE = -1
"""Group of a leaf that lies in none at a tier."""
FADING = 0.8
"""How much less each wider tier counts for pods without a topology (hypernode.binpack.normal-pod.fading)."""


@dataclass(frozen=True, eq=False)
class HyperNodes:
    """Groups of nodes by tier.

    Attributes:
        paths: int64[tiers, leafs], the group of each leaf at every tier, the lowest first, the cluster last.
        tier: Numbers of the tiers, rising.
    """

    paths: NDArray[np.int64]
    tier: tuple[int, ...]

    def common(self, leaf: int, place: tuple[int, int] | None) -> tuple[int, int]:
        """The lowest group that holds a leaf and another group; None: the leaf itself.

        Args:
            leaf: A leaf.
            place: Index of a tier, and a group of it.
        """
        if place is None:
            return 0, int(self.paths[0, leaf])
        level, group = place
        inside = int(np.flatnonzero(self.paths[level] == group)[0])
        while self.paths[level, leaf] != self.paths[level, inside] or self.paths[level, leaf] == NOWHERE:
            level += 1
        return level, int(self.paths[level, leaf])

    def nearness(self, place: tuple[int, int] | None) -> NDArray[np.float64]:
        """float64[leafs], 1 for those of the group's own tier, falling with the tier of the common group to 0.

        Args:
            place: Index of a tier, and a group of it, where pods of the job are; None: nowhere yet, all are 0.
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
    """float64[groups], how full groups are with what is asked: 0 to 1, 0 where it does not fit.

    Args:
        used: float64[groups, resources].
        asked: float64[resources]; only those that pods ask for.
        total: float64[groups, resources].
        weights: float64[resources].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, (used + asked) / total, 0.0)
    fits = np.all(used + asked <= total, axis=1)
    weight = float(weights.sum())
    return np.where(fits, share @ weights / weight, 0.0) if weight > 0 else np.zeros(len(used))


def beside(nearness: NDArray[np.float64], there: NDArray[np.int64], pods: int) -> NDArray[np.float64]:
    """float64[nodes], nearness, and for the nearest nodes, where they are several, the share of the job beside them.

    Args:
        nearness: float64[nodes].
        there: int64[nodes], pods of the job in the leaf of each.
        pods: Of the job.
    """
    best = nearness == nearness.max()
    return nearness + np.where(best, there / pods, 0.0) if best.sum() > 1 and pods else nearness


def packed_alone(packs: NDArray[np.float64], tier: tuple[int, ...], fading: float = FADING) -> NDArray[np.float64]:
    """float64[nodes], how full the groups of nodes get, a mean over tiers.

    Args:
        packs: float64[tiers, nodes], of the group of each node at every tier; 1 where it is in none.
        tier: Numbers of the tiers.
        fading: By which each wider tier counts less.
    """
    weights = np.array([fading ** (number - 1) for number in tier])
    found: NDArray[np.float64] = weights @ packs / weights.sum()
    return found
