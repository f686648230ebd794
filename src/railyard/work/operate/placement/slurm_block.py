"""`slurm-block`: Slurm's `topology/block`: a job in few adjacent blocks, its segments in base blocks.

A base block is a group of the narrowest level. Larger blocks are 2, 4, 8, ... consecutive base blocks, at the sizes
that `BlockSizes` lists. A job goes into the smallest block size that fits it: the fullest block with room, the last of
equals. Within it Slurm takes base blocks one by one: from as few smaller blocks (the next size below the job's) as
possible, the fullest that fits the rest, else the emptiest, again the last of equals. `--segment` cuts the job into
equal parts that are placed one at a time in the same way; up to 25.05 a part has to fit into a base block.

Observed on `slurmctld` 24.11, and from the description of its selection in the sources of 24.05 to 26.05.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, nodes_in, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest
    from railyard.work.operate.tree import NodeTree

_DEFAULT_STEPS = range(5)
"""Slurm joins up to 16 base blocks if a file has no `BlockSizes`, which also applies to trees not read from one."""


def _place(request: PlacementRequest, free: FreeNodes, *, wide_segments: bool) -> NDArray[np.int32] | None:
    tree = free.tree
    if not tree.levels:
        return None
    blocks = Blocks.of(tree)
    part = request.segment if not wide_segments or request.segment <= request.nodes else 0
    if part and (request.nodes % part or (part > blocks.size and not wide_segments)):
        return None
    part = part or request.nodes
    room = free.with_room(request.each)
    found: list[NDArray[np.int32]] = []
    for _ in range(request.nodes // part):
        nodes = _part(blocks, tree, room, part)
        if nodes is None:
            return None
        room[nodes] = False
        found.append(nodes)
    return np.sort(np.concatenate(found)).astype(np.int32)


@dataclass(frozen=True)
class Blocks:
    """The base blocks of a tree, and the block sizes.

    Attributes:
        size: Nodes by which Slurm counts a base block.
        steps: Available sizes, as powers of two of base blocks, ascending.
    """

    count: int
    size: int
    steps: tuple[int, ...]

    @staticmethod
    def of(tree: NodeTree) -> Blocks:
        """Base blocks of a tree: its narrowest groups."""
        least = int(tree.size[-1].min())
        sizes = tree.block_sizes or tuple(least << step for step in _DEFAULT_STEPS)
        steps = tuple((size // sizes[0]).bit_length() - 1 for size in sizes)
        return Blocks(len(tree.size[-1]), sizes[0], steps)

    def width(self, nodes: int) -> tuple[int, int, int]:
        """Base blocks of the job's block, the step of the next smaller size, how many of those it may touch."""
        least = max(0, (-(-nodes // self.size) - 1).bit_length())
        below = max((step for step in self.steps if step <= least - 1), default=0) if least else 0
        wide = [step for step in self.steps if step >= least]
        return (1 << wide[0] if wide else self.count), below, -(-nodes // (self.size << below))


def _part(blocks: Blocks, tree: NodeTree, room: NDArray[np.bool_], wanted: int) -> NDArray[np.int32] | None:
    base = np.bincount(tree.group[-1][room], minlength=blocks.count)
    wide, below, most = blocks.width(wanted)
    few = wide != most << below
    block = _block(base, wide, below if few else -1, most, wanted)
    if block < 0:
        return None
    span = range(block * wide, min(blocks.count, (block + 1) * wide))
    chosen = _Scan(base.tolist(), span, below if few else -1, most).choose(wanted)
    found = nodes_in(chosen, tree.members[-1], room, wanted)
    return found if len(found) == wanted else None


def _block(base: NDArray[np.int64], wide: int, below: int, most: int, wanted: int) -> int:
    """The fullest block with room, the last of equals; -1: none. Only the `most` emptiest smaller blocks count."""
    starts = np.arange(0, len(base), wide)
    count = np.add.reduceat(base, starts)
    usable = count
    if below >= 0:
        narrow = np.add.reduceat(base, np.arange(0, len(base), 1 << below))
        each = wide >> below
        if not each:  # wider than all blocks by Slurm's count, fits only with spare nodes: waits forever
            return -1
        parts = [np.sort(narrow[first : first + each])[::-1] for first in range(0, len(narrow), each)]
        usable = np.array([part[:most].sum() for part in parts])
    fitting = np.flatnonzero(usable >= wanted)
    if not len(fitting):
        return -1
    return int(fitting[np.flatnonzero(count[fitting] == count[fitting].min())[-1]])


class _Scan:
    """Slurm's scan for base blocks within a block, which keeps the best so far."""

    def __init__(self, base: list[int], span: range, below: int, most: int) -> None:
        self._base, self._span, self._below, self._most = base, span, below, most
        self._narrow: dict[int, int] = {}
        for one in span if below >= 0 else ():
            self._narrow[one >> below] = self._narrow.get(one >> below, 0) + base[one]
        self._used: set[int] = set()
        self._touched: set[int] = set()

    def choose(self, wanted: int) -> list[int]:
        """Base blocks in the order in which they are taken; too few if the limit on smaller blocks is reached."""
        order: list[int] = []
        while wanted > 0:
            best, known = self._best(wanted)
            if best < 0 or not self._base[best] or (not known and self._most <= 0):
                break
            order.append(best)
            self._used.add(best)
            wanted -= self._base[best]
            if self._below >= 0:
                self._touched.add(best >> self._below)
                self._most -= not known
        return order

    def _best(self, wanted: int) -> tuple[int, bool]:
        """The best unused base block, and whether it lies in a smaller block that the job already touches."""
        best, known = -1, True
        for one in self._span:
            if one in self._used:
                continue
            if self._below >= 0 and (best < 0 or one >> self._below != best >> self._below):
                touches = one >> self._below in self._touched
                order = 1 if best < 0 else self._between(one, best, touches, known, wanted)
                if order > 0:
                    best, known = one, touches
                if order:
                    continue
            if best < 0 or self._tighter(one, best, wanted):
                best = one
        return best, known

    def _between(self, one: int, best: int, touches: bool, known: bool, wanted: int) -> int:
        """Whether one's smaller block is better (1) or worse (-1): already touched, then tightest, then emptiest."""
        if touches != known:
            return 1 if touches else -1
        left, right = self._narrow[one >> self._below], self._narrow[best >> self._below]
        if (left >= wanted) != (right >= wanted):
            return 1 if left >= wanted else -1
        return (right > left) - (right < left) if left >= wanted else (left > right) - (left < right)

    def _tighter(self, one: int, best: int, wanted: int) -> bool:
        left, right = self._base[one], self._base[best]
        if left >= wanted:
            return right < wanted or left <= right
        return right < wanted and left >= right


_SUMMARY = "Whole segments in base blocks, and few blocks of neighbours, each the fullest that holds its part"
policies.enter(
    NodePolicy(
        "slurm-block",
        _SUMMARY,
        partial(_place, wide_segments=False),
        source="Slurm 24.05 to 25.05, topology/block",
    ),
)
policies.enter(
    NodePolicy(
        "slurm-block-26.05",
        "As slurm-block, with segments wider than a base block; a segment wider than the job is ignored",
        partial(_place, wide_segments=True),
        source="Slurm 26.05 (by its sources; not compared with a daemon), topology/block",
    ),
)
