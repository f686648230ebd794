"""`slurm-tree`: Slurm's `topology/tree`, the narrowest switch that holds a job, else few leafs near one another.

Slurm fills leaf after leaf. It looks at the leafs in the order of the file and keeps the best so far; which of two is
better hangs on the narrowest level at which a switch above either has nodes for all that the job still lacks: there the
fuller such switch wins, and where none has, the emptier one. From the second leaf on, a leaf nearer to those taken
replaces a farther one that stands before it, if it fits so. Because of this order the choice is no minimum of a figure,
and is played as Slurm plays it. Up to 23.11 a nearer leaf has to be no worse by the first rule, and switches keep the
nodes in their count that the job has just got.

Behaviour read off `slurmctld` 22.05 and 24.11, and the description of its selection in the sources of 22.05 to 26.05.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.operate.policy import NodePolicy, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.operate.free import Free
    from railyard.operate.request import Request
    from railyard.operate.tree import NodeTree


def _place(request: Request, free: Free, *, renew: bool) -> NDArray[np.int32] | None:
    tree, wanted = free.tree, request.nodes
    room = free.with_room(request.each)
    if not tree.levels:
        return _first(np.flatnonzero(room), wanted)
    counts = [_counts(free, level, request.each) for level in range(len(tree.levels))]
    if not tree.joined:
        counts = _last_network(tree, counts, wanted)
    if int(counts[0].sum()) < wanted:
        return None
    leafs = _Leafs(tree, counts, renew=renew).choose(wanted)
    if 0 < request.switches < len(leafs) or (request.within and not _inside(tree, request.within, leafs)):
        return None
    members = tree.members[-1]
    found = [members[leaf][room[members[leaf]]] for leaf in leafs]
    found[-1] = found[-1][: wanted - sum(map(len, found[:-1]))]
    return np.sort(np.concatenate(found)).astype(np.int32)


def _first(nodes: NDArray[np.int64], wanted: int) -> NDArray[np.int32] | None:
    return nodes[:wanted].astype(np.int32) if len(nodes) >= wanted else None


def _counts(free: Free, level: int, each: int) -> NDArray[np.int32]:
    """int32[groups], nodes of each group that the job could have."""
    if each == int(free.tree.accelerators.max()) == int(free.tree.accelerators.min()):
        return free.idle_in[level].copy()
    return free.counts(level, each)


def _last_network(tree: NodeTree, counts: list[NDArray[np.int32]], wanted: int) -> list[NDArray[np.int32]]:
    """The counts of the last of several networks that can hold the job; Slurm takes no other."""
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
    """The switches above each leaf, from the leaf upward; of a cluster, the same for every job.

    Attributes:
        path: int32[levels, leafs], group of each leaf at each level.
        above: The same as lists.
        real: bool[levels, leafs], whether the group has a name; levels that a file fills up have none.
    """

    path: NDArray[np.int64]
    above: list[list[int]]
    real: NDArray[np.bool_]


@lru_cache(8)
def _paths(tree: NodeTree) -> _Paths:
    path: list[NDArray[np.signedinteger]] = [np.arange(len(tree.size[-1]))]
    for parent in tree.parent[:0:-1]:
        path.append(parent[path[-1]])
    names = [tree.group_names[len(tree.levels) - 1 - step] for step in range(len(path))]
    real = [[bool(name[group]) for group in groups.tolist()] for name, groups in zip(names, path, strict=True)]
    return _Paths(np.stack(path), [groups.tolist() for groups in path], np.array(real))


class _Leafs:
    """The choice of leafs for one job; lists, because the scan reads single numbers."""

    def __init__(self, tree: NodeTree, counts: list[NDArray[np.int32]], *, renew: bool) -> None:
        self._counts = [count.tolist() for count in counts]
        self._renew = renew
        self._path, self._above, self._real = _paths(tree)
        self._distance = np.zeros(len(counts[-1]), np.int64)

    def choose(self, wanted: int) -> list[int]:
        """Leafs in the order in which they are taken; their nodes are at least `wanted`."""
        leafs: list[int] = []
        while wanted > 0:
            leaf = self._nearest(wanted) if leafs else self._best(wanted)
            leafs.append(leaf)
            wanted -= self._counts[-1][leaf]
            self._take(leaf)
        return leafs

    def _take(self, leaf: int) -> None:
        taken = self._counts[-1][leaf]
        if self._renew:
            for level, above in zip(reversed(range(len(self._counts))), self._above, strict=True):
                self._counts[level][above[leaf]] -= taken
        self._counts[-1][leaf] = 0
        self._distance += self._hops(leaf)

    def _hops(self, leaf: int) -> NDArray[np.int64]:
        """int64[leafs], cables to each leaf through the narrowest common switch; levels without names have none."""
        apart = self._path != self._path[:, leaf : leaf + 1]
        real = self._real
        return np.asarray((apart & real).sum(axis=0) + (apart & real[:, leaf : leaf + 1]).sum(axis=0), np.int64)

    def _best(self, wanted: int) -> int:
        """The first leaf: all are equally far, so that the scan comes down to a minimum."""
        candidates = np.flatnonzero(np.array(self._counts[-1]) > 0)
        depth = len(self._above)
        for step in range(depth):
            count = np.array(self._counts[depth - 1 - step])[self._path[step, candidates]]
            fits = count >= wanted
            if fits.any():
                fullest = candidates[fits & (count == count[fits].min())][0]
                return self._down(candidates, step, int(fullest))
        return self._down(candidates, depth, int(candidates[0]))

    def _down(self, candidates: NDArray[np.int64], step: int, leaf: int) -> int:
        """From a switch above `leaf` down: at each level the emptiest, the first of equals."""
        depth = len(self._above)
        while step > 0:
            if step < depth:
                candidates = candidates[self._path[step, candidates] == self._path[step, leaf]]
            step -= 1
            count = np.array(self._counts[depth - 1 - step])[self._path[step, candidates]]
            leaf = int(candidates[np.argmax(count)])
        return leaf

    def _nearest(self, wanted: int) -> int:
        distance, best = self._distance.tolist(), -1
        for leaf, count in enumerate(self._counts[-1]):
            if not count:
                continue
            if best < 0:
                best = leaf
                continue
            if distance[leaf] > distance[best]:
                continue
            better, fits = self._compare(leaf, best, wanted)
            nearer = distance[leaf] < distance[best] and (fits if self._renew else better >= 0)
            if nearer or (distance[leaf] == distance[best] and better > 0):
                best = leaf
        return best

    def _compare(self, leaf: int, best: int, wanted: int) -> tuple[int, bool]:
        """Whether a leaf is better (1), worse (-1) or as good; whether the switch above it that decided has room."""
        for level, above in zip(reversed(range(len(self._counts))), self._above, strict=True):
            one, other = self._counts[level][above[leaf]], self._counts[level][above[best]]
            fits, fitted = one >= wanted, other >= wanted
            if fits or fitted:
                return (int(one < other) - int(one > other) if fits == fitted else int(fits) - int(fitted)), fits
            if (
                level == 0
                or self._above[len(self._counts) - level][leaf] == self._above[len(self._counts) - level][best]
            ):
                break
        return int(one > other) - int(one < other), fits


policies.add(
    "slurm-tree",
    NodePolicy(
        "slurm-tree",
        "The narrowest switch that holds the job, the fullest such; else few leafs near one another",
        partial(_place, renew=True),
        source="Slurm 24.05 to 26.05, topology/tree",
    ),
)
policies.add(
    "slurm-tree-23.11",
    NodePolicy(
        "slurm-tree-23.11",
        "As slurm-tree, with the order in which Slurm up to 23.11 takes the further leafs of a large job",
        partial(_place, renew=False),
        source="Slurm 22.05 to 23.11, topology/tree",
    ),
)
