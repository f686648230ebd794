"""Interval routing: equal-cost links from a node to a range of destinations, without all-pairs tables.

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

import railyard._core as _core
from railyard.cluster.links import Csr, CsrWeighted
from railyard.kit.errors import InputError, SimulationError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A well-mixed 64-bit hash of each value."""
    return finalized(value + _GOLDEN)


def finalized(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer alone, for values that are not a count from zero."""
    out = value ^ (value >> np.uint64(30))
    out *= _FIRST
    out ^= out >> np.uint64(27)
    out *= _SECOND
    out ^= out >> np.uint64(31)
    return out


def salts(count: int, *, seed: int = 0, shared: bool = False) -> NDArray[np.uint32]:
    """One salt per switch, so that two tiers never make the same choice for the same flow (no polarization).

    Args:
        count: Nodes.
        seed: Seed of all salts.
        shared: Whether all switches have the same salt, as with factory defaults.
    """
    base = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x5851F42D4C957F2D) & 0xFFFFFFFFFFFFFFFF)
    owner = np.zeros(count, np.uint64) if shared else np.arange(count, dtype=np.uint64)
    return finalized(mix(owner * np.uint64(0xD1342543DE82EF95) + base)).astype(np.uint32)


def pick(hashed: NDArray[np.uint64], width: NDArray[np.int32]) -> NDArray[np.int64]:
    """A number in `[0, width)` from the upper 32 bits of each hash, by multiplication and not by remainder."""
    return (((hashed >> np.uint64(32)) * width.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def path_keys(entropy: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """32-bit hash input of each flow at switches."""
    return (mix(entropy) >> np.uint64(32)).astype(np.uint32)


def subflow(key: NDArray[np.uint64], lane: int) -> NDArray[np.uint64]:
    """Entropy of one queue pair of every connection."""
    return mix(key.astype(np.uint64) ^ mix(np.full(1, lane + 1, np.uint64)))


def subflows(key: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Entropy of the `count` queue pairs of every connection, connection by connection."""
    return np.stack([subflow(key, lane) for lane in range(count)], axis=1).ravel()


_MOST_HOPS = 1024
LOOP = "routing loop: the topology's routing table is wrong"


def _next_links(
    table: Routes, node: NDArray[np.int32], port: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First choice and width of the group by which each node reaches its port; width 0 if there is none."""
    record = table.find(node, port)
    found = record >= 0
    if not found.all():
        record = np.where(found, record, 0)
    group = (port - table.lo[record]) // table.stride[record]
    width = table.width[record]
    first = table.first[record] + group.astype(np.int64) * width
    if not found.all():
        width = np.where(found, width, 0).astype(np.int32)
        first = np.where(found, first, 0)
    connected = table.choices.take(first, mode="clip") >= 0
    return first, np.where(connected, width, 0).astype(np.int32)


def refuse(source: NDArray[np.int32], port: NDArray[np.int32], bad: NDArray[np.bool_]) -> None:
    """Raises InputError for the first bad pair, if there is one."""
    if not bad.any():
        return
    flow = int(np.flatnonzero(bad)[0])
    raise InputError(
        f"there is no path from port {int(source[flow])} to port {int(port[flow])}",
        key="cluster.back_end.topology",
        hint="a rail-only network joins only NICs of the same rail: cross over by scale-up first",
    )


def walked(
    table: Routes,
    target: NDArray[np.int32],
    source: NDArray[np.int32],
    port: NDArray[np.int32],
    *,
    entropy: NDArray[np.uint64] | None = None,
    salt: NDArray[np.uint32] | None = None,
) -> tuple[Csr, NDArray[np.bool_]]:
    """The path of every flow as far as it leads, and whether it arrives; arguments as for `hashed`."""
    none = np.empty(0, np.uint32)
    key = np.zeros(len(source), np.uint32) if entropy is None else path_keys(entropy)
    found = _core.walk(
        table.record_ptr, table.lo, table.hi, table.first, table.width, table.stride, table.choices,
        target, source, port, key, none if salt is None else salt,
    )  # fmt: skip
    if found.loop:
        raise SimulationError(LOOP)
    return Csr(found.ptr, found.link), found.arrived.astype(np.bool_)


def hashed(
    table: Routes,
    target: NDArray[np.int32],
    source: NDArray[np.int32],
    port: NDArray[np.int32],
    *,
    entropy: NDArray[np.uint64] | None = None,
    salt: NDArray[np.uint32] | None = None,
) -> Csr:
    """One path per flow; at every switch a hash of the flow's entropy and the switch's salt picks an equal-cost link.

    Args:
        table: Routes.
        target: int32[links], the node to which a link leads.
        source: int32[flows], node at which each flow begins.
        port: int32[flows], port at which it ends.
        entropy: uint64[flows], hash input; None takes the first link everywhere.
        salt: uint32[nodes].

    Raises:
        InputError: A pair has no path.
    """
    path, arrives = walked(table, target, source, port, entropy=entropy, salt=salt)
    refuse(source, port, ~arrives)
    return path


def spread(table: Routes, target: NDArray[np.int32], source: NDArray[np.int32], port: NDArray[np.int32]) -> CsrWeighted:
    """Share of each flow on every link if each switch splits evenly over all equal-cost links.

    A table without choices (that of the bundles of a Clos) is walked like a hashed path; otherwise the frontier of
    every flow is expanded hop by hop, and parts of one flow that meet again at a node are summed.

    Raises:
        InputError: A pair has no path.
    """
    if table.widest == 1:
        return hashed(table, target, source, port).weighted()
    flow = np.flatnonzero(source != port)
    node, share = source[flow], np.ones(len(flow))
    rows, links, shares = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
    for _ in range(_MOST_HOPS):
        if not len(flow):
            return CsrWeighted.gathered(
                len(source), np.concatenate(rows), np.concatenate(links), np.concatenate(shares)
            )
        first, width = _next_links(table, node, port[flow])
        refuse(source[flow], port[flow], width == 0)
        flow, link, share = _fanned(table, flow, first, width, share)
        rows.append(flow)
        links.append(link)
        shares.append(share)
        flow, node, share = _met(table.nodes, flow, target[link], share)
        away = node != port[flow]
        flow, node, share = flow[away], node[away], share[away]
    raise SimulationError(LOOP)


def _fanned(
    table: Routes,
    flow: NDArray[np.int64],
    first: NDArray[np.int64],
    width: NDArray[np.int32],
    share: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """One entry per equal-cost link of each front entry."""
    link = table.choices[ranges(first, width)]
    return np.repeat(flow, width), link, np.repeat(share / width, width)


def _met(
    nodes: int, flow: NDArray[np.int64], node: NDArray[np.int32], share: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    keys, inverse = np.unique(flow * nodes + node, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=share, minlength=len(keys)).astype(np.float64)
    return keys // nodes, (keys % nodes).astype(np.int32), total


_FEW_RECORDS = 4


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of one network. Nodes `0..ports-1` are the ports (where flows begin and end), the rest switches.

    In a packet network between hosts, the ports are the hosts.

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
        """Maximum number of records of a node."""
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
        return int(self.hi.max(initial=1))

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self.record_node * self._end + self.lo

    def find(self, node: NDArray[np.int32], port: NDArray[np.int32]) -> NDArray[np.int64]:
        """The record by which a node reaches a port; -1 if there is none. Vectorized."""
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
    """Collects choices and records in any order and sorts them into `Routes`."""

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
        """Adds one record per node; arguments are broadcast; records of empty ranges are dropped."""
        parts = np.broadcast_arrays(*(np.asarray(part, np.int64) for part in (node, lo, hi, first, width, stride)))
        block = np.stack([part.ravel() for part in parts])
        self._records.append(block[:, block[1] < block[2]])

    def outside(self, node: ArrayLike, lo: ArrayLike, hi: ArrayLike, first: ArrayLike, *, width: ArrayLike) -> None:
        """Adds the records for every port outside `[lo, hi)`, all with the same group of links."""
        self.records(node, 0, lo, first, width=width, stride=self.ports)
        self.records(node, hi, self.ports, first, width=width, stride=self.ports)

    def build(self, nodes: int) -> Routes:
        """The routes of a network with this many nodes."""
        block = np.concatenate(self._records, axis=1) if self._records else np.empty((6, 0), np.int64)
        block = block[:, np.lexsort((block[1], block[0]))]
        record_ptr = np.searchsorted(block[0], np.arange(nodes + 1)).astype(np.int64)
        choices = np.concatenate(self._choices) if self._choices else np.empty(0, np.int32)
        lo, hi, width, stride = (block[row].astype(np.int32) for row in (1, 2, 4, 5))
        return Routes(record_ptr, lo, hi, block[3].copy(), width, stride, choices)
