"""Interval routing: which equal-cost links lead from a node to a range of destinations, without all-pairs tables.

Every node holds a few sorted records `(lo, hi, first, width, stride)`. For a destination port `d` with `lo <= d < hi`
let `g = (d - lo) // stride`; the equal-cost next links are `choices[first + g * width : first + (g + 1) * width]`. A
leaf of a Clos needs three records (everything below its own ports: up; its own ports: down; everything above: up), a
spine one, so the whole table grows with the number of links and not with the square of the number of ports. The idea
is that of interval routing (van Leeuwen and Tan, The Computer Journal 30(4), 1987) with groups of equal-cost links in
place of single links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_FEW_RECORDS = 4


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of one network. Nodes `0..ports-1` are the ports (where flows begin and end), the rest switches.

    A flow between the hosts of a packet network begins and ends at hosts: its ports are its hosts.

    Attributes:
        record_ptr: int64[nodes + 1], records of a node.
        lo: int32[records], first destination port.
        hi: int32[records], one past the last destination port.
        first: int64[records], index into `choices`.
        width: int32[records], equal-cost links of a group.
        stride: int32[records], destination ports of a group.
        choices: int32[], link ids of the network, or -1 where nothing is connected.
    """

    record_ptr: NDArray[np.int64]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    first: NDArray[np.int64]
    width: NDArray[np.int32]
    stride: NDArray[np.int32]
    choices: NDArray[np.int32]

    @property
    def nodes(self) -> int:
        """Ports and switches."""
        return len(self.record_ptr) - 1

    @cached_property
    def most_records(self) -> int:
        """Records of the node that has most."""
        return int(np.diff(self.record_ptr).max(initial=0))

    @cached_property
    def widest(self) -> int:
        """Equal-cost links of the widest group."""
        return int(self.width.max(initial=1))

    @cached_property
    def record_node(self) -> NDArray[np.int64]:
        """int64[records], the node of every record."""
        return np.repeat(np.arange(self.nodes, dtype=np.int64), np.diff(self.record_ptr))

    @cached_property
    def _end(self) -> int:
        """One past the last port that a record leads to."""
        return int(self.hi.max(initial=1))

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self.record_node * self._end + self.lo

    def find(self, node: NDArray[np.int32], port: NDArray[np.int32]) -> NDArray[np.int64]:
        """The record by which a node reaches a port; -1 where it has none. Vectorized."""
        begin, end = self.record_ptr[node], self.record_ptr[node + 1]
        if self.most_records <= _FEW_RECORDS:
            record = begin
            for _ in range(self.most_records - 1):
                following = record + 1
                further = (following < end) & (self.lo.take(following, mode="clip") <= port)
                record = record + further
        else:
            record = np.searchsorted(self._keys, node.astype(np.int64) * self._end + port, side="right") - 1
        safe = np.minimum(np.maximum(record, 0), len(self.lo) - 1)
        found = (record >= begin) & (record < end) & (self.lo[safe] <= port) & (port < self.hi[safe])
        return np.where(found, record, -1)

    def groups(self) -> NDArray[np.int64]:
        """Number of groups of every record."""
        return -((self.lo.astype(np.int64) - self.hi) // self.stride)


@dataclass
class RouteBuilder:
    """Collects choices and records in any order and sorts them into `Routes`.

    Attributes:
        ports: Number of destination ports.
    """

    ports: int
    _choices: list[NDArray[np.int32]] = field(default_factory=list)
    _size: int = 0
    _records: list[NDArray[np.int64]] = field(default_factory=list)

    def choices(self, links: NDArray[np.int64]) -> NDArray[np.int64]:
        """Stores one block of choices per row of `links[nodes, anything]`; returns the first index of each row."""
        rows = len(links)
        flat = links.reshape(rows, -1).astype(np.int32)
        first = self._size + np.arange(rows, dtype=np.int64) * flat.shape[1]
        self._choices.append(flat.ravel())
        self._size += flat.size
        return first

    def flat(self, links: NDArray[np.int64]) -> int:
        """Stores choices whose groups differ in width; returns the index of the first."""
        first = self._size
        self._choices.append(links.astype(np.int32))
        self._size += len(links)
        return first

    def records(
        self, node: ArrayLike, lo: ArrayLike, hi: ArrayLike, first: ArrayLike, *, width: ArrayLike, stride: ArrayLike
    ) -> None:
        """Adds one record a node; arguments are broadcast; records of empty ranges are left out."""
        parts = np.broadcast_arrays(*(np.asarray(part, np.int64) for part in (node, lo, hi, first, width, stride)))
        block = np.stack([part.ravel() for part in parts])
        self._records.append(block[:, block[1] < block[2]])

    def outside(self, node: ArrayLike, lo: ArrayLike, hi: ArrayLike, first: ArrayLike, *, width: ArrayLike) -> None:
        """Adds the records for every port that is not in `[lo, hi)`: all by the same group of links."""
        self.records(node, 0, lo, first, width=width, stride=self.ports)
        self.records(node, hi, self.ports, first, width=width, stride=self.ports)

    def build(self, nodes: int) -> Routes:
        """The finished routes of so many nodes."""
        block = np.concatenate(self._records, axis=1) if self._records else np.empty((6, 0), np.int64)
        block = block[:, np.lexsort((block[1], block[0]))]
        record_ptr = np.searchsorted(block[0], np.arange(nodes + 1)).astype(np.int64)
        choices = np.concatenate(self._choices) if self._choices else np.empty(0, np.int32)
        lo, hi, width, stride = (block[row].astype(np.int32) for row in (1, 2, 4, 5))
        return Routes(record_ptr, lo, hi, block[3].copy(), width, stride, choices)
