"""A job and its neighbours without names: classes of work, and which leaf each node in the order of ranks is on.

Leafs are numbered in the order in which they are met, the job's own first, so that equal patterns anywhere on the
cluster are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Member:
    """A job of a pattern.

    Attributes:
        work: Number of its class of work.
        each: Accelerators of each node.
        leafs: Leaf of each node, in the order of ranks.
    """

    work: int
    each: int
    leafs: tuple[int, ...]


Pattern = tuple[Member, ...]
"""A job, then its neighbours."""


def canonical(members: Sequence[Member]) -> Pattern:
    """The same pattern with its leafs numbered anew, neighbours in a fixed order."""
    number: dict[int, int] = {}
    for leaf in members[0].leafs:
        number.setdefault(leaf, len(number))
    others = sorted(members[1:], key=lambda one: _look(one, number))
    found = []
    for one in (members[0], *others):
        for leaf in one.leafs:
            number.setdefault(leaf, len(number))
        found.append(Member(one.work, one.each, tuple(number[leaf] for leaf in one.leafs)))
    return tuple(found)


def _look(one: Member, number: dict[int, int]) -> tuple[object, ...]:
    """What of a neighbour does not depend on how leafs beyond the job's own are numbered."""
    known = tuple(number.get(leaf, -1) for leaf in one.leafs)
    return (one.work, one.each, len(one.leafs), known, one.leafs)


def placed(pattern: Pattern, members: Sequence[NDArray[np.int32]], per_node: int) -> list[NDArray[np.int32]] | None:
    """Accelerators of each job of a pattern, on the largest leafs of a cluster; None: there are too few nodes.

    Args:
        pattern: Leafs numbered from 0.
        members: Nodes of each leaf of the cluster.
        per_node: Accelerators of a node.
    """
    leafs = sorted(members, key=len, reverse=True)
    if max(leaf for one in pattern for leaf in one.leafs) >= len(leafs):
        return None
    left = [iter(nodes.tolist()) for nodes in leafs]
    found = []
    for one in pattern:
        nodes = [next(left[leaf], -1) for leaf in one.leafs]
        if -1 in nodes:
            return None
        first = np.repeat(np.array(nodes, np.int32) * per_node, one.each)
        found.append(first + np.tile(np.arange(one.each, dtype=np.int32), len(nodes)))
    return found
