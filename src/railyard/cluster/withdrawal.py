"""Routes that keep off dead links: what is left of each group of equal-cost links once routing has converged.

A link leads to a destination only if it is alive and a way goes on from its end. Where a group loses all its links the
designed ones stay: what has no way left waits at the dead link. The engine of packets does the same hop by hop
(`Detours` in cpp/packet/routing.hpp).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.routes import RouteBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Wiring


class _Piece(NamedTuple):
    """Destinations that a node reaches by the same links."""

    lo: int
    hi: int
    links: tuple[int, ...]


def withdrawn(wiring: Wiring, dead: NDArray[np.int64]) -> Routes:
    """The routes of a network without some of its links.

    Args:
        wiring: The network.
        dead: Its own numbers of the links that carry nothing.
    """
    found = _Withdrawal(wiring, frozenset(dead.tolist()), neighbours(wiring))
    found.spread()
    return found.routes()


def lost(
    wiring: Wiring, dead: NDArray[np.int64], near: Mapping[int, Sequence[int]]
) -> dict[int, tuple[tuple[int, int], ...]]:
    """Destinations that nodes cannot reach any more, by node, as ranges of port numbers; nodes without any are absent.

    Args:
        wiring: The network.
        dead: Its own numbers of the links that carry nothing.
        near: Its `neighbours`; one network is asked about many deaths.
    """
    found = _Withdrawal(wiring, frozenset(dead.tolist()), near)
    found.spread()
    return {node: ranges for node, ranges in found.lost.items() if ranges}


def neighbours(wiring: Wiring) -> dict[int, list[int]]:
    """Nodes with a link to each node that passes traffic on."""
    near: dict[int, list[int]] = defaultdict(list)
    passing = np.flatnonzero((wiring.target >= wiring.ports) | wiring.routes_through_ports)
    for source, target in zip(wiring.source[passing].tolist(), wiring.target[passing].tolist(), strict=True):
        near[target].append(source)
    return dict(near)


@dataclass
class _Withdrawal:
    """The search for nodes whose routes change.

    Attributes:
        wiring: The network.
        dead: Links.
        near: Nodes with a link to each node.
        lost: Destinations that a node cannot reach any more, by node, as ranges.
        left: What is left of the routes of every node whose routes change.
    """

    wiring: Wiring
    dead: frozenset[int]
    near: Mapping[int, Sequence[int]]
    lost: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    left: dict[int, list[_Piece]] = field(default_factory=dict)

    def spread(self) -> None:
        """From the dead links' near ends to all whose ways lead there, until nothing changes."""
        open_ = {int(self.wiring.source[link]) for link in self.dead}
        while open_:
            following: set[int] = set()
            for node in sorted(open_):
                before = self.lost.get(node, ())
                self.left[node], self.lost[node] = self._rest(node)
                if self.lost[node] != before:
                    following.update(self.near.get(node, ()))
            open_ = following

    def _rest(self, node: int) -> tuple[list[_Piece], tuple[tuple[int, int], ...]]:
        """What is left of a node's routes, and the destinations that it cannot reach."""
        pieces: list[_Piece] = []
        lost: list[tuple[int, int]] = []
        for piece in self._designed(node):
            for lo, hi in self._cut(piece):
                alive = tuple(link for link in piece.links if self._leads(link, lo))
                if not alive:
                    lost.append((lo, hi))
                _extend(pieces, _Piece(lo, hi, alive or piece.links))
        return pieces, _joined(lost)

    def _designed(self, node: int) -> Iterator[_Piece]:
        table = self.wiring.routing
        for record in range(table.record_ptr[node], table.record_ptr[node + 1]):
            lo, hi, first, width, stride = (
                int(column[record]) for column in (table.lo, table.hi, table.first, table.width, table.stride)
            )
            for group, begin in enumerate(range(lo, hi, stride)):
                at = first + group * width
                links = tuple(table.choices[at : at + width].tolist())
                if links[0] >= 0:
                    yield _Piece(begin, min(begin + stride, hi), links)

    def _cut(self, piece: _Piece) -> Iterator[tuple[int, int]]:
        """A piece cut where the ways on from the ends of its links change."""
        cuts = {piece.lo, piece.hi}
        for link in piece.links:
            for bounds in self.lost.get(int(self.wiring.target[link]), ()):
                cuts.update(bound for bound in bounds if piece.lo < bound < piece.hi)
        ordered = sorted(cuts)
        yield from itertools.pairwise(ordered)

    def _leads(self, link: int, port: int) -> bool:
        if link in self.dead:
            return False
        end = int(self.wiring.target[link])
        return end == port or all(not lo <= port < hi for lo, hi in self.lost.get(end, ()))

    def routes(self) -> Routes:
        """The designed records of all other nodes, and what is left of those of the nodes that were found."""
        table, builder = self.wiring.routing, RouteBuilder(self.wiring.ports)
        base = builder.flat(table.choices.astype(np.int64))
        node = table.record_node
        kept = ~np.isin(node, np.fromiter(self.left, np.int64, len(self.left)))
        builder.records(
            node[kept],
            table.lo[kept],
            table.hi[kept],
            base + table.first[kept],
            width=table.width[kept],
            stride=table.stride[kept],
        )
        for changed, pieces in self.left.items():
            rows = np.array([(piece.lo, piece.hi, len(piece.links)) for piece in pieces], np.int64).reshape(-1, 3)
            first = builder.flat(np.array([link for piece in pieces for link in piece.links], np.int64))
            begin = first + np.concatenate([[0], np.cumsum(rows[:-1, 2])])[: len(rows)]
            builder.records(changed, rows[:, 0], rows[:, 1], begin, width=rows[:, 2], stride=self.wiring.ports)
        return builder.build(self.wiring.nodes)


def _extend(pieces: list[_Piece], piece: _Piece) -> None:
    """Adds a piece, as part of the last one where that ends there and has the same links."""
    if pieces and pieces[-1].hi == piece.lo and pieces[-1].links == piece.links:
        pieces[-1] = _Piece(pieces[-1].lo, piece.hi, piece.links)
    else:
        pieces.append(piece)


def _joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if joined and joined[-1][1] == lo:
            joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return tuple(joined)
