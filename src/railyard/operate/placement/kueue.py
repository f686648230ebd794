"""`kueue`: Kueue's topology-aware scheduling: required, preferred or no level, and slices that stay together.

Kueue counts how many pods fit below every group, finds the level at which one group holds the job (a required level, or
the preferred one and then those above it), and goes down from there: at each level it takes the groups with most room,
and for the last part the tightest that holds it (BestFit). A job without a level goes to the nodes with least room
(LeastFreeCapacity, since 0.15). Slices are counted at their level, and below it slice by slice. Equals are taken in the
order of their names. A pod here is a node's share of a job, so that each node gets one.

Source: kubernetes-sigs/kueue, enhancement 2724 and the tables of its tests (Apache-2.0), by which this is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.operate.policy import NodePolicy, policies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.operate.free import Free
    from railyard.operate.request import Request
    from railyard.operate.tree import NodeTree


@dataclass(frozen=True, eq=False)
class Domains:
    """Groups of every level, the nodes last.

    Attributes:
        parent: One int32[groups] a level, the group above.
        children: One tuple a level: the groups below each.
        rank: One int64[groups] a level: the place of each in the order of names.
    """

    parent: tuple[NDArray[np.int32], ...]
    children: tuple[tuple[NDArray[np.int64], ...], ...]
    rank: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(paths: Sequence[tuple[str, ...]]) -> Domains:
        """Of the names above each node from the widest, its own last."""
        parent, children, rank = [], [], []
        above: dict[tuple[str, ...], int] = {(): 0}
        for level in range(1, len(paths[0]) + 1):
            here = {path: number for number, path in enumerate(dict.fromkeys(path[:level] for path in paths))}
            parent.append(np.array([above[path[:-1]] for path in here], np.int32))
            order = {path: place for place, path in enumerate(sorted(here))}
            rank.append(np.array([order[path] for path in here], np.int64))
            above = here
        for level in range(len(parent) - 1):
            order_by = np.argsort(parent[level + 1], kind="stable")
            cuts = np.cumsum(np.bincount(parent[level + 1], minlength=len(parent[level])))[:-1]
            children.append(tuple(np.split(order_by, cuts)))
        return Domains(tuple(parent), tuple(children), tuple(rank))


@dataclass(frozen=True)
class Ask:
    """What a job asks.

    Attributes:
        pods: How many.
        level: Where the search begins.
        required: Whether one group of that level has to hold all of them.
        anywhere: Whether no level was asked for.
        slices: (level, pods of a slice), from the outermost; empty: single pods.
        least_free: Whether jobs without a level go to the nodes with least room.
    """

    pods: int
    level: int
    required: bool = False
    anywhere: bool = False
    slices: tuple[tuple[int, int], ...] = ()
    least_free: bool = True


class _Counts:
    """Pods and slices that fit below every group."""

    def __init__(self, domains: Domains, capacity: NDArray[np.int64], ask: Ask) -> None:
        self.domains, self.ask = domains, ask
        self.lowest = len(domains.parent) - 1
        self.size_level, self.size = ask.slices[0] if ask.slices else (self.lowest, 1)
        self.inner = self._inner()
        self.pods = [np.zeros(len(parent), np.int64) for parent in domains.parent]
        self.slices = [np.zeros(len(parent), np.int64) for parent in domains.parent]
        self.tight = not (ask.anywhere and ask.least_free)
        self._fill(capacity)

    def _inner(self) -> dict[int, int]:
        """Pods that stay together at each level below the outermost slices."""
        found: dict[int, int] = {}
        before = self.size_level
        for level, size in self.ask.slices[1:]:
            found.update(dict.fromkeys(range(before + 1, level + 1), size))
            before = level
        return found

    def _fill(self, capacity: NDArray[np.int64]) -> None:
        self.pods[self.lowest][:] = capacity
        for level in range(self.lowest, -1, -1):
            if level < self.lowest:
                below, size = self.domains.parent[level + 1], self.inner.get(level + 1, 1)
                np.add.at(self.pods[level], below, self.pods[level + 1] // size * size)
                np.add.at(self.slices[level], below, self.slices[level + 1])
            if level == self.size_level:
                self.slices[level] = self.pods[level] // self.size

    def sorted(self, level: int, groups: NDArray[np.int64]) -> list[int]:
        """Groups with most slices first (least where no level was asked), then fewest pods left over, then by name."""
        slices = self.slices[level][groups]
        keys = (self.domains.rank[level][groups], self.pods[level][groups], -slices if self.tight else slices)
        return [int(group) for group in groups[np.lexsort(keys)]]

    def fitting(self, level: int) -> tuple[int, list[int]] | None:
        """The level and the groups that hold the job; None: it has to wait."""
        wanted = self.ask.pods // self.size
        order = self.sorted(level, np.arange(len(self.pods[level])))
        room = self.slices[level]
        if not self.tight:
            first = next((group for group in order if room[group] >= wanted), None)
            if first is not None:
                return level, [first]
        elif room[order[0]] >= wanted:
            return level, [_tightest(order, room, wanted)]
        if self.ask.required:
            return None
        if level > 0 and not self.ask.anywhere:
            return self.fitting(level - 1)
        found = self.spread(order, room, wanted)
        return (level, found) if found else None

    def spread(self, order: list[int], room: NDArray[np.int64], wanted: int) -> list[int]:
        """The first groups, and for the last part the tightest that holds it; none where they do not suffice."""
        found: list[int] = []
        for place, group in enumerate(order):
            if wanted <= 0:
                break
            tight = self.tight and room[group] >= wanted
            found.append(_tightest(order[place:], room, wanted) if tight else group)
            wanted -= int(room[found[-1]])
        return found if wanted <= 0 else []

    def hand_out(self, level: int, order: list[int], pods: int, size: int) -> list[int]:
        """Gives groups their pods, in whole slices of `size` where it is more than one or slices are what is counted.

        Returns:
            The groups that have some; empty where they do not suffice.
        """
        in_slices = size > 1 or level <= self.size_level
        room = self.slices[level] if in_slices else self.pods[level]
        each = size if in_slices else 1
        found = self.spread(order, room, pods // each)
        left = pods // each
        for group in found:
            taken = min(left, int(room[group]))
            left -= taken
            self.slices[level][group] = taken if in_slices else self.slices[level][group]
            self.pods[level][group] = taken * each
        return found


def _tightest(order: list[int], room: NDArray[np.int64], wanted: int) -> int:
    fits = [group for group in order if room[group] >= wanted]
    return min(fits, key=lambda group: int(room[group])) if fits else order[0]


def assign(domains: Domains, capacity: NDArray[np.int64], ask: Ask) -> NDArray[np.int64] | None:
    """int64[nodes], pods of each node; None: the job has to wait.

    Args:
        domains: The cluster.
        capacity: int64[nodes], pods that each could take.
        ask: What is asked.
    """
    counts = _Counts(domains, capacity, ask)
    if ask.pods % counts.size:
        return None
    found = counts.fitting(ask.level)
    if found is None:
        return None
    level, groups = found
    groups = counts.hand_out(level, groups, ask.pods, counts.size)
    while level < counts.lowest and groups:
        groups = _down(counts, level, groups)
        level += 1
    if not groups:
        return None
    result = np.zeros(len(capacity), np.int64)
    result[groups] = counts.pods[counts.lowest][groups]
    return result


def _down(counts: _Counts, level: int, groups: list[int]) -> list[int]:
    """From groups to those below them: above the slices' level all together, from there on each for itself."""
    children, below = counts.domains.children[level], level + 1
    if level < counts.size_level:
        order = counts.sorted(below, np.concatenate([children[group] for group in groups]))
        return counts.hand_out(below, order, counts.ask.pods, counts.size)
    size = counts.inner.get(below, 1)
    found: list[int] = []
    for group in (one for one in groups if counts.pods[level][one]):
        order = counts.sorted(below, children[group])
        if size > 1:
            counts.slices[below][children[group]] = counts.pods[below][children[group]] // size
        part = counts.hand_out(below, order, int(counts.pods[level][group]), size)
        if not part:
            return []
        found += part
    return found


@lru_cache(maxsize=8)
def _domains(tree: NodeTree) -> Domains:
    words = [[tree.group_names[level][group] for group in tree.group[level]] for level in range(len(tree.levels))]
    return Domains.of(list(zip(*words, tree.names, strict=True)))


def _place(request: Request, free: Free, *, least_free: bool) -> NDArray[np.int32] | None:
    levels = {name: number for number, name in enumerate(free.tree.levels)}
    lowest = len(levels)
    within = levels.get(request.segment_within, max(lowest - 1, 0))
    slices = ((within, request.segment),) if request.segment else ()
    level = levels.get(request.within or request.prefers, 0 if slices else lowest)
    ask = Ask(
        request.nodes,
        level,
        required=bool(request.within),
        anywhere=not (request.within or request.prefers),
        slices=slices,
        least_free=least_free,
    )
    domains = _domains(free.tree)
    # A job of one pod goes where least is free, down to parts of a node; pods of one job get a node each.
    capacity = free.room // request.each if request.nodes == 1 else free.with_room(request.each)
    found = assign(domains, capacity.astype(np.int64), ask)
    if found is None:
        return None
    nodes = np.flatnonzero(found)
    return nodes[np.argsort(domains.rank[-1][nodes])].astype(np.int32)


_SUMMARY = "The narrowest group that holds the job from the level asked for upward, slices together"
policies.add(
    "kueue",
    NodePolicy("kueue", _SUMMARY, partial(_place, least_free=True), source="Kueue 0.15 and later, TASProfileMixed"),
)
policies.add(
    "kueue-best-fit",
    NodePolicy("kueue-best-fit", _SUMMARY, partial(_place, least_free=False), source="Kueue, TASProfileMixed off"),
)
