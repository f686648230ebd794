"""Chosen instead of hashed paths: each connection gets the least congested path that switches offer.

A NIC chooses a path by a queue pair's UDP source port, once it has learned where each source port leads. Connections
choose in sequence, those of the first group (a job) first. The congestion of a path is that of its fullest link: the
mean traffic of earlier groups plus the simultaneous traffic of the same group. Source: J. Cao et al., "Crux:
GPU-efficient communication scheduling for deep learning training", SIGCOMM 2024, sections 4.1 and 5.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.routes import RouteBuilder, mix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster.links import Csr
    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Wiring

    Look = Callable[[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]], Csr]
    """The path of each flow from a port to a port with a source port."""


class _Piece(NamedTuple):
    lo: int
    hi: int
    links: tuple[int, ...]


def withdrawn(wiring: Wiring, dead: NDArray[np.int64]) -> Routes:
    """The routes of a network without some of its links."""
    return _withdrawal(wiring, frozenset(dead.tolist())).routes()


def lost(wiring: Wiring, dead: NDArray[np.int64]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Destinations that nodes can no longer reach, by node, as ranges of port numbers; other nodes are absent.

    Args:
        wiring: The network.
        dead: Dead links, in the network's own numbers.
    """
    found = _withdrawal(wiring, frozenset(dead.tolist()))
    return {node: ranges for node, ranges in found.lost.items() if ranges}


@lru_cache(maxsize=1)
def _withdrawal(wiring: Wiring, dead: frozenset[int]) -> _Withdrawal:
    """The last one, because whoever asks what is lost asks for the routes next."""
    found = _Withdrawal(wiring, dead, _arriving(wiring))
    found.spread()
    return found


@lru_cache(maxsize=1)
def _arriving(wiring: Wiring) -> dict[int, list[int]]:
    """Links into each node that forwards traffic."""
    into: dict[int, list[int]] = defaultdict(list)
    passing = np.flatnonzero((wiring.target >= wiring.ports) | wiring.routes_through_ports)
    for link, target in zip(passing.tolist(), wiring.target[passing].tolist(), strict=True):
        into[target].append(link)
    return dict(into)


@dataclass
class _Withdrawal:
    """The search for nodes whose routes change.

    Attributes:
        arriving: Links into each node that forwards traffic.
        touched: Links that are dead, or end at nodes that can no longer reach some destinations.
        lost: Destinations that a node can no longer reach, by node, as ranges.
        left: Remaining routes of every node whose routes change.
    """

    wiring: Wiring
    dead: frozenset[int]
    arriving: Mapping[int, Sequence[int]]
    touched: set[int] = field(default_factory=set)
    lost: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    left: dict[int, list[_Piece]] = field(default_factory=dict)

    def spread(self) -> None:
        """Propagates from the near ends of dead links to all nodes that route through them, until nothing changes."""
        self.touched.update(self.dead)
        open_ = {int(self.wiring.source[link]) for link in self.dead}
        while open_:
            following: set[int] = set()
            for node in sorted(open_):
                before = self.lost.get(node, ())
                self.left[node], self.lost[node] = self._rest(node)
                if self.lost[node] != before:
                    arriving = self.arriving.get(node, [])
                    self.touched.update(arriving)
                    following.update(self.wiring.source[arriving].tolist())
            open_ = following

    def _rest(self, node: int) -> tuple[list[_Piece], tuple[tuple[int, int], ...]]:
        """Remaining routes of a node, and the destinations that it cannot reach."""
        pieces: list[_Piece] = []
        lost: list[tuple[int, int]] = []
        for piece in self._designed(node):
            if self.touched.isdisjoint(piece.links):
                _extend(pieces, piece)
                continue
            for lo, hi in self._cut(piece):
                alive = tuple(link for link in piece.links if self._leads(link, lo))
                if not alive:
                    lost.append((lo, hi))
                _extend(pieces, _Piece(lo, hi, alive or piece.links))
        return pieces, _joined(lost)

    def _designed(self, node: int) -> Iterator[_Piece]:
        table = self.wiring.routing
        mine = slice(table.record_ptr[node], table.record_ptr[node + 1])
        columns = (table.lo, table.hi, table.first, table.width, table.stride)
        for lo, hi, first, width, stride in zip(*(column[mine].tolist() for column in columns), strict=True):
            choices = table.choices[first : first + len(range(lo, hi, stride)) * width].tolist()
            for group, begin in enumerate(range(lo, hi, stride)):
                links = tuple(choices[group * width : (group + 1) * width])
                if links[0] >= 0:
                    yield _Piece(begin, min(begin + stride, hi), links)

    def _cut(self, piece: _Piece) -> Iterator[tuple[int, int]]:
        """A piece, cut where the onward routes from the ends of its links change."""
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
        """The designed records of unaffected nodes, and the remaining ones of affected nodes."""
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
    """Adds a piece, merged with the last one if they are adjacent and have the same links."""
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


TRIES = 8
"""Source ports tried per link of the widest choice: with this many, one of 64 links is missed once in 3,000."""


@dataclass
class Steering:
    """The connections and the source port of each; connections are collected first, then `settle` chooses.

    Attributes:
        group: int64[ports], the group that sends from a port; groups choose in this order. -1: none, hashed as usual.
        share: float64[groups], share of the time in which a group sends.
    """

    group: NDArray[np.int64]
    share: NDArray[np.float64]
    _heard: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]] = field(default_factory=list)
    _known: NDArray[np.uint64] | None = None
    _label: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def labels(
        self, source: NDArray[np.int32], target: NDArray[np.int32], pair: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """uint64[flows], label in place of each source port; records the connections until they are settled."""
        if self._known is None:
            self._heard.append((source, target, pair))
            return pair
        if not len(self._known):
            return pair
        name = _names(source, target, pair)
        place = np.minimum(np.searchsorted(self._known, name), len(self._known) - 1)
        return np.where(self._known[place] == name, self._label[place], pair)

    def settle(self, look: Look, rate_bps: NDArray[np.float64], widest: int) -> None:
        """Chooses the source port of every recorded connection.

        Args:
            look: Finds paths.
            rate_bps: float64[links], rate of every link.
            widest: Maximum number of equal links among which a switch chooses.
        """
        if not self._heard:
            self._known = np.empty(0, np.uint64)
            return
        source, target, pair = (np.concatenate(column) for column in zip(*self._heard, strict=True))
        _, first = np.unique(_names(source, target, pair), return_index=True)
        first = first[self.group[source[first]] >= 0]
        first = first[np.lexsort((first, self.group[source[first]]))]
        labels = mix(np.arange(TRIES * widest, dtype=np.uint64))
        tried = [look(source[first], target[first], np.full(len(first), label)) for label in labels]
        sent_bps = _sent(source[first], tried[0], rate_bps)
        taken = self._taken(self.group[source[first]], _padded(tried, len(rate_bps)), sent_bps, rate_bps)
        name = _names(source[first], target[first], pair[first])
        order = np.argsort(name)
        self._known, self._label = name[order], labels[taken][order]

    def _taken(
        self,
        group: NDArray[np.int64],
        tried: NDArray[np.int64],
        sent_bps: NDArray[np.float64],
        rate_bps: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """int64[flows], the try that each flow uses.

        Args:
            group: int64[flows], non-decreasing.
            tried: int64[flows, tries, hops], links; one past the last where there is none, or no other.
            sent_bps: float64[flows], send rate of each while it sends.
            rate_bps: float64[links].
        """
        rate = np.append(rate_bps, np.inf)
        others, mine = np.zeros(len(rate)), np.zeros(len(rate))
        found, now = np.zeros(len(group), np.int64), -1
        for flow, whose in enumerate(group.tolist()):
            if whose != now:
                others += mine * (self.share[now] if now >= 0 else 0.0)
                mine[:], now = 0.0, whose
            paths = tried[flow]
            full = ((others[paths] + mine[paths] + sent_bps[flow]) / rate[paths]).max(axis=1)
            found[flow] = int(np.argmin(np.round(full, 9)))
            mine[paths[found[flow]]] += sent_bps[flow]
        return found


def _sent(source: NDArray[np.int32], path: Csr, rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[flows], an even share of the narrowest link on the path for each connection of a port."""
    narrow = np.full(len(path), np.inf)
    np.minimum.at(narrow, path.rows(), rate_bps[path.link])
    narrow[np.isinf(narrow)] = 0.0
    return narrow / np.bincount(source)[source]


def _padded(tried: list[Csr], dummy: int) -> NDArray[np.int64]:
    """int64[flows, tries, hops]; links shared by all tries are replaced by the dummy, since they leave no choice."""
    hops = max(int(one.lengths.max(initial=1)) for one in tried)
    found = np.full((len(tried[0]), len(tried), hops), dummy, np.int64)
    for number, one in enumerate(tried):
        rows = one.rows()
        found[rows, number, np.arange(len(rows)) - one.ptr[rows]] = one.link
    same = (found == found[:, :1]).all(axis=1, keepdims=True)
    return np.where(same, dummy, found)


def _names(source: NDArray[np.int32], target: NDArray[np.int32], pair: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return mix(mix(source.astype(np.uint64) << np.uint64(32) | target.astype(np.uint64)) ^ pair)
