"""Interval routes as plain arrays, in the layout of `railyard.cluster.routing.RoutingTable`, which says what they mean.

That table belongs to whole clusters with their catalogue; a run of bare flows must start without loading those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class IntervalRoutes:
    """Routes of every node.

    Attributes:
        record_ptr: int64[nodes + 1], records of a node.
        lo: int32[records], first host.
        hi: int32[records], one past the last host.
        first: int64[records], index into `choices`.
        width: int32[records], equal-cost links of a group.
        stride: int32[records], hosts of a group.
        choices: int32[], links.
    """

    record_ptr: NDArray[np.int64]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    first: NDArray[np.int64]
    width: NDArray[np.int32]
    stride: NDArray[np.int32]
    choices: NDArray[np.int32]


@dataclass
class RouteBuilder:
    """Collects choices and records in any order.

    Args:
        hosts: Number of hosts.
    """

    hosts: int
    _choices: list[NDArray[np.int32]] = field(default_factory=list)
    _size: int = 0
    _records: list[NDArray[np.int64]] = field(default_factory=list)

    def choices(self, links: NDArray[np.int64]) -> NDArray[np.int64]:
        """Stores one block of links per row of `links[nodes, anything]`; the index of the first of each."""
        flat = links.reshape(len(links), -1)
        first = self._size + np.arange(len(links), dtype=np.int64) * flat.shape[1]
        self._choices.append(flat.ravel().astype(np.int32))
        self._size += flat.size
        return first

    def records(
        self, node: ArrayLike, lo: ArrayLike, hi: ArrayLike, first: ArrayLike, *, width: ArrayLike, stride: ArrayLike
    ) -> None:
        """Adds a record a node; arguments are broadcast; records of empty ranges are left out."""
        parts = np.broadcast_arrays(*(np.asarray(part, np.int64) for part in (node, lo, hi, first, width, stride)))
        block = np.stack([part.ravel() for part in parts])
        self._records.append(block[:, block[1] < block[2]])

    def outside(self, node: ArrayLike, lo: ArrayLike, hi: ArrayLike, first: ArrayLike, *, width: ArrayLike) -> None:
        """Adds the records for every host that is not in `[lo, hi)`: all by the same links."""
        self.records(node, 0, lo, first, width=width, stride=self.hosts)
        self.records(node, hi, self.hosts, first, width=width, stride=self.hosts)

    def build(self, nodes: int) -> IntervalRoutes:
        """The finished routes."""
        block = np.concatenate(self._records, axis=1)
        block = block[:, np.lexsort((block[1], block[0]))]
        pointers = np.searchsorted(block[0], np.arange(nodes + 1)).astype(np.int64)
        lo, hi, width, stride = (block[row].astype(np.int32) for row in (1, 2, 4, 5))
        return IntervalRoutes(pointers, lo, hi, block[3].copy(), width, stride, np.concatenate(self._choices))
