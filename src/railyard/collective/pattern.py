"""A pattern: how many bytes go from which position to which, for each byte of the collective's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.collective.shape import Shape

NETWORK = -(2**31)
"""The reducing switches of the scale-out network (SHARP class) as the end of an edge."""


def domain_switch(domain: int) -> int:
    """The reducing scale-up switch of a domain (NVLink SHARP class) as the end of an edge: a negative number."""
    return -1 - domain


@dataclass(frozen=True)
class Pattern:
    """Edges of a collective; at most one for each ordered pair.

    Attributes:
        source: int64[e]; position, or a switch when negative (`domain_switch`, `NETWORK`).
        target: int64[e]; the same.
        share: float64[e]; bytes over the edge per byte of the collective's size (nccl-tests size).
        merged: int64[e]; edges of rings and trees that an edge stands for: each has connections of its own.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    share: NDArray[np.float64]
    merged: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.share)

    @staticmethod
    def of(edges: Iterable[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | float]]) -> Pattern:
        """Sums groups of edges (sources, targets, share or shares) into one pattern."""
        groups = [(source, target, np.broadcast_to(share, source.shape)) for source, target, share in edges]
        if not groups:
            none = np.empty(0, np.int64)
            return Pattern(none, none, np.empty(0), none)
        source, target, share = (np.concatenate(column) for column in zip(*groups, strict=True))
        return _summed(source, target, share, np.ones(len(source), np.int64))

    def scale_out(self, shape: Shape) -> NDArray[np.bool_]:
        """bool[e]: whether an edge leaves its scale-up domain."""
        network = (self.source == NETWORK) | (self.target == NETWORK)
        members = (self.source >= 0) & (self.target >= 0)
        domain = shape.domain_of
        crosses = domain[np.where(members, self.source, 0)] != domain[np.where(members, self.target, 0)]
        outside: NDArray[np.bool_] = network | (members & crosses)
        return outside

    def relayed(self, shape: Shape, rails: NDArray[np.int64]) -> Pattern:
        """The pattern when edges that change rails go through the member of their domain at the target's place.

        Done once for a shape, so that the n (n-1) edges of an all-to-all shrink to those between ranks of one rail
        before any of them is routed.

        Args:
            shape: An aligned shape.
            rails: int64[ranks], rail of each position.
        """
        crossing = self.scale_out(shape) & (self.source >= 0) & (self.target >= 0)
        source, target, share = self.source[crossing], self.target[crossing], self.share[crossing]
        place = target - shape.offsets[shape.domain_of[target]]
        peer = shape.offsets[shape.domain_of[source]] + place
        peer = np.where(rails[source] == rails[target], source, peer)
        moved = peer != source
        merged = self.merged[crossing]
        kept = (self.source[~crossing], self.target[~crossing], self.share[~crossing], self.merged[~crossing])
        parts = (kept, (source[moved], peer[moved], share[moved], merged[moved]), (peer, target, share, merged))
        return _summed(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def loads(self, ranks: int) -> NDArray[np.float64]:
        """float64[ranks]: the larger of what leaves each position and of what reaches it."""
        out = np.bincount(self.source[self.source >= 0], self.share[self.source >= 0], minlength=ranks)
        into = np.bincount(self.target[self.target >= 0], self.share[self.target >= 0], minlength=ranks)
        return np.maximum(out, into)

    def part(self, chosen: NDArray[np.bool_]) -> Pattern:
        """Some of the edges."""
        return Pattern(self.source[chosen], self.target[chosen], self.share[chosen], self.merged[chosen])


def _summed(
    source: NDArray[np.int64], target: NDArray[np.int64], share: NDArray[np.float64], merged: NDArray[np.int64]
) -> Pattern:
    used = np.flatnonzero(share > 0)
    order = used[np.lexsort((target[used], source[used]))]
    source, target, share, merged = source[order], target[order], share[order], merged[order]
    if len(source) == 0:
        return Pattern(source, target, share, merged)
    first = np.concatenate([[True], (source[1:] != source[:-1]) | (target[1:] != target[:-1])])
    begin = np.flatnonzero(first)
    return Pattern(source[first], target[first], np.add.reduceat(share, begin), np.add.reduceat(merged, begin))
