"""A schedule of a network as it was, for the network with some links lost or slowed: pieces that met them go elsewhere.

Only pieces that cross an odd link are laid again, one after another, by what all links carry then; so a slow link keeps
what it can carry as quickly as others. In a tree a branch moves: the rank gets the piece from another rank, or from one
of those that it sends to.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.collective.synthesis.bound import exchanges_us, gathers_us, lower_bound_us, sums_us
from railyard.collective.synthesis.collectives import ScheduleRequest, collectives, whole
from railyard.collective.synthesis.routes import PieceRouter
from railyard.collective.synthesis.schedule import SendList, Sends, timed
from railyard.collective.synthesis.symmetry import MendedNetwork, followed, mended, mirrored, symmetry_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.schedule import TimedSchedule
    from railyard.collective.synthesis.symmetry import Symmetry


NEARNESS = 0.005
"""Weight of an early arrival of a piece against the load of links."""


class Branch(NamedTuple):
    """Links by which a rank gets a piece.

    Attributes:
        links: Over which links.
        leaves: When it is planned to start, us.
        arrives: When it was to be there in the network that was, us.
    """

    source: int
    links: tuple[int, ...]
    leaves: float
    arrives: float


Tree = dict[int, Branch]
_LOOKED_AT = 48
"""Ranks that could send, of which the best is taken."""


def repaired(broken: LinkNetwork, was: MendedNetwork, schedule: TimedSchedule, *, paths: bool) -> TimedSchedule:
    """A schedule over the links that are left.

    Args:
        broken: The network; its links are the first of the one that was.
        was: See `mended`.
        schedule: Over the network that was; all sends, of trees whose branches begin at ranks.
        paths: Whether each piece goes to one rank only, and may be sent on by others.
    """
    sends = schedule.sends
    met = np.zeros(sends.pieces, np.bool_)
    met[sends.piece[np.isin(sends.link, was.odd)]] = True
    stays = ~met[sends.piece]
    takes = sends.piece_bytes / broken.bytes_per_us
    there = sends.link[sends.link < len(takes)]
    busy: list[float] = (np.bincount(there, minlength=len(takes)) * takes).tolist()
    new = _NewSends(SendList(sends.piece_bytes, sends.pieces), [])
    moves = None if paths else _Moves(broken, sends.piece_bytes, busy)
    for piece, tree in _scattered(list(_trees(was.network, schedule, met))):
        for branch in tree.values():
            for link in branch.links:
                if paths and link < len(takes):
                    busy[link] -= takes[link]
        if moves is None:
            _along(broken, sends.piece_bytes, busy, piece, tree, new)
        else:
            moves.mend(tree, set(was.odd.tolist()))
            _sent(tree, piece, new)
    if not met.any():
        return timed(broken, sends, schedule.start_us)
    planned = np.concatenate([schedule.start_us[stays], new.planned_us])
    return timed(broken, _joined(sends, stays, new.sends.done()), planned)


@dataclass
class _NewSends:
    """Sends of the pieces that are laid again, and when each is planned to start."""

    sends: SendList
    planned_us: list[float]

    def add(self, link: int, piece: int, after: list[int], planned: float) -> list[int]:
        """Adds a send; returns its number, for those that wait for it."""
        self.planned_us.append(planned)
        return [self.sends.add(link, piece, after)]


def _scattered(trees: list[tuple[int, Tree]]) -> list[tuple[int, Tree]]:
    """The trees in an order that separates neighbours, so that those left on a slow link are spread over time."""
    turn = np.arange(len(trees)) * ((5**0.5 - 1) / 2) % 1.0
    return [trees[at] for at in np.argsort(turn, kind="stable").tolist()]


def _trees(was: LinkNetwork, schedule: TimedSchedule, met: NDArray[np.bool_]) -> Iterator[tuple[int, Tree]]:
    """Each piece that is met, with the branch of each rank that it comes to."""
    sends = schedule.sends
    rows = np.flatnonzero(met[sends.piece])
    rows = rows[np.argsort(sends.piece[rows], kind="stable")]
    waits = np.diff(sends.after_ptr)[rows] > 0
    number = np.empty(len(sends), np.int64)
    number[rows] = np.arange(len(rows))
    before = np.where(waits, number[sends.after[np.where(waits, sends.after_ptr[rows], 0)]], -1).tolist()
    source, target = was.source[sends.link[rows]].tolist(), was.target[sends.link[rows]].tolist()
    link, switch = sends.link[rows].tolist(), was.switch.tolist()
    leaves, arrives = schedule.start_us[rows].tolist(), schedule.arrive_us[rows].tolist()
    pieces, begins = np.unique(sends.piece[rows], return_index=True)
    for piece, (begin, end) in zip(pieces.tolist(), pairwise([*begins.tolist(), len(rows)]), strict=True):
        tree: Tree = {}
        for row in range(begin, end):
            if not switch[target[row]]:
                at, links = row, [link[row]]
                while switch[source[at]]:
                    at = before[at]
                    links.append(link[at])
                tree[target[row]] = Branch(source[at], tuple(links[::-1]), leaves[at], arrives[row])
        yield piece, tree


def _along(  # noqa: PLR0917
    network: LinkNetwork, piece_bytes: float, busy: list[float], piece: int, tree: Tree, new: _NewSends
) -> None:
    """A path for the piece of a pair, which is laid on `busy`."""
    first = next(iter({branch.source for branch in tree.values()} - tree.keys()))
    last = next(iter(tree.keys() - {branch.source for branch in tree.values()}))
    router = PieceRouter(network, piece_bytes, NEARNESS, busy)
    planned = min(branch.leaves for branch in tree.values())
    after: list[int] = []
    for hop in router.tree(first, [last]):
        after = new.add(hop.link, piece, after, planned)


def _sent(tree: Tree, piece: int, new: _NewSends) -> None:
    """The sends of a tree, from its root on."""
    below: dict[int, list[int]] = defaultdict(list)
    for rank, branch in tree.items():
        below[branch.source].append(rank)
    root = next(rank for rank in below if rank not in tree)
    brought: dict[int, list[int]] = {root: []}
    queue = [root]
    for rank in queue:
        for other in below[rank]:
            after = brought[rank]
            for link in tree[other].links:
                after = new.add(link, piece, after, tree[other].leaves)
            brought[other] = after
            queue.append(other)


def _joined(sends: Sends, stays: NDArray[np.bool_], new: Sends) -> Sends:
    """Those sends that stay, and new ones."""
    count = int(stays.sum())
    number = np.cumsum(stays) - 1
    waits = np.diff(sends.after_ptr)
    kept = np.repeat(stays, waits)
    return Sends(
        sends.piece_bytes,
        sends.pieces,
        np.concatenate([sends.link[stays], new.link]),
        np.concatenate([sends.piece[stays], new.piece]),
        np.concatenate([sends.reduce[stays], new.reduce]),
        np.concatenate([[0], np.cumsum(np.concatenate([waits[stays], np.diff(new.after_ptr)]))]),
        np.concatenate([number[sends.after[kept]], new.after + count]).astype(np.int32),
    )


class _Moves:
    """Moves branches of trees, by what links carry.

    Args:
        network: The links that are left.
        piece_bytes: Of a piece.
        busy_us: What each link carries; changed.
    """

    def __init__(self, network: LinkNetwork, piece_bytes: float, busy_us: list[float]) -> None:
        self._busy = busy_us
        self._takes: list[float] = (piece_bytes / network.bytes_per_us).tolist()
        self._late: list[float] = network.latency_us.tolist()
        self._source: list[int] = network.source.tolist()
        self._switch: list[bool] = network.switch.tolist()
        self._rail: list[int] = [-1] * len(self._source) if network.rail is None else network.rail.tolist()
        self._into = network.reversed().out

    def mend(self, tree: Tree, odd: set[int]) -> None:
        """Lays each branch over an odd link where it is cheapest now."""
        below: dict[int, list[int]] = defaultdict(list)
        for rank, branch in tree.items():
            below[branch.source].append(rank)
        for rank in [rank for rank, branch in tree.items() if odd.intersection(branch.links)]:
            if odd.intersection(tree[rank].links):
                self._move(tree, below, rank)

    def _move(self, tree: Tree, below: dict[int, list[int]], rank: int) -> None:
        under = {rank}
        queue = [rank]
        for one in queue:
            queue += below[one]
            under.update(below[one])
        self._lay(tree[rank].links, -1)
        best = (*self._from(rank, tree, under), rank)
        for other in below[rank]:
            found = self._from(other, tree, under)
            if found[0] < best[0]:
                best = (*found, other)
        _, source, links, enters = best
        below[tree[rank].source].remove(rank)
        if enters != rank:
            self._lay(tree[enters].links, -1)
            below[rank].remove(enters)
            back = self._from(rank, tree, under - {enters} | set(tree) - {enters})
            tree[rank] = tree[rank]._replace(source=enters, links=back[2])
            below[enters].append(rank)
            self._lay(back[2], 1)
        leaves = max(tree[rank].leaves, tree[source].arrives if source in tree else 0.0)
        tree[enters] = Branch(source, links, leaves, tree[rank].arrives)
        below[source].append(enters)
        self._lay(links, 1)

    def _lay(self, links: tuple[int, ...], times: int) -> None:
        for link in links:
            if link < len(self._takes):
                self._busy[link] += times * self._takes[link]

    def _from(self, rank: int, tree: Tree, out: set[int]) -> tuple[float, int, tuple[int, ...]]:
        """The cheapest branch to a rank: what its busiest link carries then, and a share of when the piece is there.

        Args:
            rank: That is to get the piece.
            tree: Of the piece.
            out: Ranks that cannot send it.

        Returns:
            Its cost, the rank that sends, the links.
        """
        best: tuple[float, int, tuple[int, ...]] = (float("inf"), -1, ())
        queue: list[tuple[float, int, int, tuple[int, ...], int]] = [(0.0, 0, rank, (), -1)]
        done: set[tuple[int, int]] = set()
        looked = 0
        while queue and queue[0][0] < best[0] and looked < _LOOKED_AT:
            load, hops, node, links, rail = heappop(queue)
            if (node, rail) in done:
                continue
            done.add((node, rail))
            if hops and not self._switch[node]:
                looked += 1
                at = tree[node].arrives if node in tree else 0.0
                cost = load + NEARNESS * (at + sum(self._late[link] for link in links))
                if cost < best[0]:
                    best = (cost, node, links)
                continue
            for link in self._into[node]:
                before = self._source[link]
                of = self._rail[link]
                if (
                    before == rank
                    or (before in out and not self._switch[before])
                    or (-1 not in {of, rail} and of != rail)
                ):
                    continue
                most = max(load, self._busy[link] + self._takes[link])
                heappush(queue, (most, hops + 1, before, (link, *links), max(of, rail)))
        return best


NEARNESS_OF_BROKEN = 5.0
"""Nearness of repaired trees: in shallow ones what comes late delays few others."""


@dataclass(frozen=True, eq=False)
class BrokenNetwork:
    """A network, and what it was.

    Attributes:
        network: The links that are left.
        was: Before.
    """

    network: LinkNetwork
    was: MendedNetwork
    symmetry: Symmetry

    @staticmethod
    def of(network: LinkNetwork) -> BrokenNetwork | None:
        """The symmetry; None where it was never symmetric, or too much is broken to tell."""
        was = mended(network)
        symmetry = None if was is None else symmetry_of(was.network)
        return None if was is None or symmetry is None or len(symmetry) == 1 else BrokenNetwork(network, was, symmetry)

    def bound_us(self, collective: str, size: float) -> float:
        """Slower links make nothing quicker: the bound of what was holds, and those of all borders of what is left."""
        before = lower_bound_us(self.was.network, collective, size, self.symmetry)
        if collective == "all-to-all":
            ranks = len(self.network.ranks)
            return max(before, exchanges_us(self.network, size / ranks * (1 - np.eye(ranks))))
        if collective == "all-reduce":
            return max(before, sums_us(self.network, size))
        return max(before, gathers_us(self.network if collective == "all-gather" else self.network.reversed(), size))

    def schedule(self, collective: str, size: float, cut: int) -> TimedSchedule:
        """A schedule of all sends over the links that are left.

        Args:
            collective: Which.
            size: Bytes, as the collective counts them.
            cut: Pieces of each part.
        """
        if collective in {"all-gather", "all-to-all"}:
            return self._down(collective, size, cut)
        back = BrokenNetwork(
            self.network.reversed(), MendedNetwork(self.was.network.reversed(), self.was.odd), self.symmetry
        )
        sums = mirrored(self.network, back._down("all-gather", size, cut))
        return sums if collective == "reduce-scatter" else followed(sums, self._down("all-gather", size, cut))

    def _down(self, collective: str, size: float, cut: int) -> TimedSchedule:
        ask = ScheduleRequest(self.was.network, size, cut, NEARNESS_OF_BROKEN, self.symmetry, {})
        every = whole(self.was.network, collectives.get(collective)(ask), collective, self.symmetry)
        return repaired(self.network, self.was, every, paths=collective == "all-to-all")
