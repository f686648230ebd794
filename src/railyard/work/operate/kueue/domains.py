"""Groups of nodes as Kueue's topology has them: one level a label, the lowest often the node itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Path = tuple[str, ...]
"""Names of a group from the widest level to its own."""


@dataclass(frozen=True, eq=False)
class Domains:
    """Groups of every level, the leafs last.

    Attributes:
        paths: One tuple a level: the path of each group.
        parent: One int32[groups] a level, the group above.
        children: One tuple a level: int64, the groups below each.
        rank: One int64[groups] a level: the place of each in the order of names.
    """

    paths: tuple[tuple[Path, ...], ...]
    parent: tuple[NDArray[np.int32], ...]
    children: tuple[tuple[NDArray[np.int64], ...], ...]
    rank: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(paths: Sequence[Path], levels: int) -> Domains:
        """Of the path of each leaf; leafs are numbered as they come, and none comes twice.

        Args:
            paths: Of leafs.
            levels: How many names each path has.
        """
        kept, parent, children, rank = [], [], [], []
        above: dict[Path, int] = {(): 0}
        for level in range(1, levels + 1):
            here = {path: number for number, path in enumerate(dict.fromkeys(path[:level] for path in paths))}
            parent.append(np.array([above[path[:-1]] for path in here], np.int32))
            order = {path: place for place, path in enumerate(sorted(here))}
            rank.append(np.array([order[path] for path in here], np.int64))
            kept.append(tuple(here))
            above = here
        for level in range(levels - 1):
            order_by = np.argsort(parent[level + 1], kind="stable")
            cuts = np.cumsum(np.bincount(parent[level + 1], minlength=len(parent[level])))[:-1]
            children.append(tuple(np.split(order_by, cuts)))
        return Domains(tuple(kept), tuple(parent), tuple(children), tuple(rank))

    @property
    def lowest(self) -> int:
        """The level of leafs."""
        return len(self.parent) - 1

    def groups(self, level: int) -> NDArray[np.int64]:
        """int64, all groups of a level."""
        return np.arange(len(self.parent[level]))

    @cached_property
    def leaf_of(self) -> dict[str, int]:
        """Leafs by the last name of their paths, the first of equals."""
        found: dict[str, int] = {}
        for number, path in enumerate(self.paths[-1] if self.paths else ()):
            found.setdefault(path[-1], number)
        return found

    def under(self, path: Path) -> NDArray[np.bool_]:
        """bool[leafs], those that lie in the group of this path (all, where it is empty)."""
        size = len(path)
        return np.array([leaf[:size] == path for leaf in self.paths[-1]], np.bool_)
