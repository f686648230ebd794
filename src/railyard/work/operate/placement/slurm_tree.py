"""`slurm-tree`: Slurm's `topology/tree`: the narrowest switch that fits a job, else few leafs close together.

Slurm fills leaf after leaf. It scans the leafs in file order and keeps the best so far. Which of two leafs is better
depends on the narrowest level at which a switch above either has nodes for everything that the job still lacks: the
fuller such switch wins there, and if there is none, the emptier one. From the second leaf on, a leaf closer to those
already taken replaces a farther one that precedes it, if it fits in this sense. The choice depends on this order and is
not the minimum of any metric, so the scan is reproduced. Up to 23.11 a closer leaf also has to be no worse by the first
rule, and the counts of switches still include the nodes that the job has just taken.

Observed on `slurmctld` 22.05 and 24.11, and from the description of its selection in the sources of 22.05 to 26.05.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.work.operate.discipline import NodePolicy, first_nodes, nodes_in, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest
    from railyard.work.operate.tree import NodeTree


def _place(request: PlacementRequest, free: FreeNodes, *, renew: bool) -> NDArray[np.int32] | None:
    tree, wanted = free.tree, request.nodes
    room = free.with_room(request.each)
    if not tree.levels:
        return first_nodes(room, wanted)
    counts = [_counts(free, level, request.each) for level in range(len(tree.levels))]
    if not tree.joined:
        counts = _last_network(tree, counts, wanted)
    if int(counts[0].sum()) < wanted:
        return None
    leafs = _Leafs(tree, counts, renew=renew).choose(wanted)
    if 0 < request.switches < len(leafs) or (request.within and not _inside(tree, request.within, leafs)):
        return None
    return np.sort(nodes_in(leafs, tree.members[-1], room, wanted))


def _counts(free: FreeNodes, level: int, each: int) -> NDArray[np.int32]:
    """int32[groups], nodes of each group that the job could use."""
    if each == int(free.tree.accelerators.max()) == int(free.tree.accelerators.min()):
        return free.idle_in[level].copy()
    return free.counts(level, each)


def _last_network(tree: NodeTree, counts: list[NDArray[np.int32]], wanted: int) -> list[NDArray[np.int32]]:
    """The counts of the last of several networks that fits the job; Slurm considers no other."""
    fitting = np.flatnonzero(counts[0] >= wanted)
    keep = np.arange(len(counts[0])) == (fitting[-1] if len(fitting) else -1)
    kept: list[NDArray[np.int32]] = [np.where(keep, counts[0], 0).astype(np.int32)]
    for parent, count in zip(tree.parent[1:], counts[1:], strict=True):
        keep = keep[parent]
        kept.append(np.where(keep, count, 0).astype(np.int32))
    return kept


def _inside(tree: NodeTree, name: str, leafs: list[int]) -> bool:
    above = np.array(leafs)
    for parent in tree.parent[: tree.level(name) : -1]:
        above = parent[above]
    return len(np.unique(above)) == 1


class _Paths(NamedTuple):
    """The switches above each leaf, from the leaf up; the same for every job of a cluster.

    Attributes:
        path: int64[levels, leafs], group of each leaf at each level.
        real: bool[levels, leafs], whether the group has a name; levels that a file fills up have none.
    """

    path: NDArray[np.int64]
    real: NDArray[np.bool_]


@lru_cache(8)
def _paths(tree: NodeTree) -> _Paths:
    path: list[NDArray[np.signedinteger]] = [np.arange(len(tree.size[-1]))]
    for parent in tree.parent[:0:-1]:
        path.append(parent[path[-1]])
    names = [tree.group_names[len(tree.levels) - 1 - step] for step in range(len(path))]
    real = [[bool(name[group]) for group in groups.tolist()] for name, groups in zip(names, path, strict=True)]
    return _Paths(np.stack(path), np.array(real))


class _Leafs:
    """The choice of leafs for one job.

    Arrays have a column for each leaf with nodes for the job, in file order, and a row for each level from the leaf up.
    """

    def __init__(self, tree: NodeTree, counts: list[NDArray[np.int32]], *, renew: bool) -> None:
        paths = _paths(tree)
        self._leafs = np.flatnonzero(counts[-1])
        self._path, self._real = paths.path[:, self._leafs], paths.real[:, self._leafs]
        # nodes in the switch above each leaf
        self._count = np.stack([count[path] for count, path in zip(reversed(counts), self._path, strict=True)])
        self._free = np.ones(len(self._leafs), np.bool_)
        self._renew = renew
        self._distance = np.zeros(len(self._leafs), np.int64)

    def choose(self, wanted: int) -> list[int]:
        """Leafs in the order in which they are taken, with at least `wanted` nodes in total."""
        leafs: list[int] = []
        while wanted > 0:
            column = self._nearest(wanted) if leafs else self._best(wanted)
            leafs.append(int(self._leafs[column]))
            wanted -= int(self._count[0, column])
            if wanted > 0:
                self._take(column)
        return leafs

    def _take(self, column: int) -> None:
        apart = self._path != self._path[:, column : column + 1]
        if self._renew:
            self._count -= self._count[0, column] * ~apart
        self._free[column] = False
        # cables to each leaf through the narrowest common switch; levels without names have none
        self._distance += (apart & self._real).sum(axis=0) + (apart & self._real[:, column : column + 1]).sum(axis=0)

    def _best(self, wanted: int) -> int:
        """The first leaf: all are equally far, so the scan reduces to a minimum."""
        for step, count in enumerate(self._count):
            fitting = np.flatnonzero(count >= wanted)
            if len(fitting):
                return self._down(step, int(fitting[np.argmin(count[fitting])]))
        return self._down(len(self._count), 0)

    def _down(self, step: int, column: int) -> int:
        """From a switch above a leaf down: the emptiest at each level, the first of equals."""
        under = np.arange(len(self._leafs))
        for level in reversed(range(step)):
            if level + 1 < len(self._path):
                under = under[self._path[level + 1, under] == self._path[level + 1, column]]
            column = int(under[np.argmax(self._count[level, under])])
        return column

    def _nearest(self, wanted: int) -> int:
        """The next leaf: the scan jumps from one that replaces the best so far to the next that does."""
        rest = np.flatnonzero(self._free)
        rest = rest[self._distance[rest] <= self._distance[rest[0]]]  # the best so far only gets closer
        count = self._count[:, rest]
        scan = _Scan(count, count >= wanted, self._path[:, rest], self._distance[rest])
        best, after = 0, 0
        while after >= 0:
            best, after = after, scan.replacement(after, renew=self._renew)
        return int(rest[best])


class _Scan(NamedTuple):
    """Leafs in the order in which Slurm scans them; levels from the leaf up.

    Attributes:
        counts: int32[levels, leafs], nodes in the switches above each.
        fits: bool[levels, leafs], whether these cover everything that the job still lacks.
        path: int64[levels, leafs], group of each leaf at each level.
        distance: int64[leafs], hops to the leafs taken.
    """

    counts: NDArray[np.int32]
    fits: NDArray[np.bool_]
    path: NDArray[np.int64]
    distance: NDArray[np.int64]

    def replacement(self, best: int, *, renew: bool) -> int:
        """The first leaf after the best so far that Slurm takes instead; -1: none.

        The narrowest level decides at which a switch above either has room, or at which both have the same switch.
        """
        later, columns = slice(best + 1, None), np.arange(len(self.distance) - best - 1)
        here = slice(best, best + 1)
        decides = self.fits[:, later] | self.fits[:, here]
        decides[:-1] |= self.path[1:, later] == self.path[1:, here]
        decides[-1] = True
        step = decides.argmax(axis=0)
        fits, fitted = self.fits[:, later][step, columns], self.fits[step, best]
        more = self.counts[:, later][step, columns] - self.counts[step, best]
        better = np.where(fits & fitted, -more, more)
        farther = self.distance[later] - self.distance[best]
        nearer = fits if renew else better >= 0
        found = np.flatnonzero(((farther < 0) & nearer) | ((farther == 0) & (better > 0)))
        return best + 1 + int(found[0]) if len(found) else -1


policies.enter(
    NodePolicy(
        "slurm-tree",
        "The narrowest switch that holds the job, the fullest such; else few leafs near one another",
        partial(_place, renew=True),
        source="Slurm 24.05 to 26.05, topology/tree",
    ),
)
policies.enter(
    NodePolicy(
        "slurm-tree-23.11",
        "As slurm-tree, with the order in which Slurm up to 23.11 takes the further leafs of a large job",
        partial(_place, renew=False),
        source="Slurm 22.05 to 23.11, topology/tree",
    ),
)
