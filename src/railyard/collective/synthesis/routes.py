"""Routes of pieces of data: trees and paths that share the links' rates evenly.

A piece is laid after the others, along what is cheapest then: the time that a link is busy with what was laid on it
before, and a share of the time that the piece takes to get so far. With no such share, loads come out even and trees
deep; with much of it, trees are those of the shortest paths. Which is best depends on the size and is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.symmetry import Symmetry


MANY = 256
"""Ranks from which trees are grown in a shorter time, and kept."""
_MOST_EXPONENT = 300.0
_SAME = 1 + 1e-12
"""Costs this near are the same."""


@dataclass(frozen=True)
class TreeLink:
    """A link of a tree.

    Attributes:
        above: Place in the tree's list of the hop that it goes on from; -1: it leaves the root.
    """

    link: int
    above: int


@dataclass(frozen=True)
class _Costs:
    """Costs of links, us.

    Attributes:
        takes: What a piece takes of each.
        late: Until a piece is at its end.
        slot: Where in `busy` each is: those of an orbit are busy together.
        busy: What was laid on each slot.
    """

    takes: list[float]
    late: list[float]
    slot: list[int]
    busy: list[float]

    def load(self, link: int) -> float:
        """Load of a link once another piece is on it."""
        return self.busy[self.slot[link]] + self.takes[link]

    def lay(self, link: int) -> None:
        """Lays a piece on a link."""
        self.busy[self.slot[link]] += self.takes[link]

    def lift(self, link: int) -> None:
        """Takes a piece from a link."""
        self.busy[self.slot[link]] -= self.takes[link]


class PieceRouter:
    """Lays pieces of equal size over a network, one after another.

    Args:
        network: The links.
        piece: Bytes.
        nearness: How much the time of a path counts against the load of its links.
        busy_us: What links carry already; it is added to.
        symmetry: Of the network: a piece stands for all of its images; None: for itself.
        copies: Whether a switch may pass one piece on to several nodes. Where it may not, a branch of a tree begins at
            a rank, and a switch is passed once for every branch through it.
        bound_us: Time in which all pieces could be there. Where it is given, paths are the cheapest by the sum of their
            links, each of which costs e times as much for every `1 / nearness` of that time that it is busy
            (exponential weights: Aspnes et al., J. ACM 44, 1997); None: by their busiest link.
    """

    def __init__(
        self,
        network: LinkNetwork,
        piece: float,
        nearness: float,
        busy_us: list[float] | None = None,
        *,
        symmetry: Symmetry | None = None,
        copies: bool = True,
        bound_us: float | None = None,
    ) -> None:
        self._network = network
        self._bound = bound_us
        self._share: list[float] = (network.bytes_per_us.min() / network.bytes_per_us).tolist()
        self._latency: list[float] = network.latency_us.tolist()
        self._nearness = nearness
        takes = piece / network.bytes_per_us
        slot = np.arange(len(takes))
        if symmetry is not None:
            slot, takes = symmetry.orbit, takes * symmetry.together[symmetry.orbit]
        waits = network.packets & network.switch[network.target]  # only the last link waits for all of the piece
        late = network.latency_us + np.where(waits, 0.0, takes)
        busy = [0.0] * (int(slot.max()) + 1) if busy_us is None else busy_us
        self._costs = _Costs(takes.tolist(), late.tolist(), slot.tolist(), busy)
        self._target = network.target.tolist()
        self._rails = _Rails(network)
        # what one branch takes is felt by the next one, where both may want the same
        self._branches = symmetry is not None or (not copies and bool(network.switch.any()))

    def tree(self, root: int, wanted: Sequence[int] | None = None) -> list[TreeLink]:
        """Links of a tree from a rank, each after the one above it.

        Args:
            root: Where the piece is.
            wanted: Ranks that it has to reach; None: all.
        """
        if wanted is None and self._branches:
            return _RankTree(self._network, self._costs, self._nearness).tree(root)
        above = self._grown(root, None if wanted is None else set(wanted))
        hops = self._pruned(root, above, wanted)
        for hop in hops:
            self._costs.lay(hop.link)
        return hops

    def lift(self, hops: Sequence[TreeLink]) -> None:
        """Takes back what a tree laid on its links."""
        for hop in hops:
            self._costs.lift(hop.link)

    def _grown(self, root: int, wanted: set[int] | None) -> dict[int, tuple[int, int]]:
        """For each place that was reached, the link to it, and the place before.

        A place is a node; of a switch on several rails, there is one for each.
        """
        above: dict[int, tuple[int, int]] = {}
        at = {root: 0.0}
        queue: list[tuple[float, int, int, int]] = []
        done = {root}
        self._look(root, 0.0, done, queue)
        while queue and (wanted is None or not wanted <= done):
            _, place, link, before = heappop(queue)
            if place in done:
                continue
            done.add(place)
            above[place] = link, before
            at[place] = at[before] + (self._costs.late[link] if self._bound is None else self._price(link))
            self._look(place, at[place], done, queue)
        return above

    def _look(self, place: int, at: float, done: set[int], queue: list[tuple[float, int, int, int]]) -> None:
        costs, nodes = self._costs, self._network.nodes
        rail = place // nodes - 1
        for link in self._network.out[place % nodes]:
            onward = self._rails.beyond(link, rail)
            if onward is None:
                continue
            there = self._target[link] + nodes * (onward + 1)
            if there not in done:
                if self._bound is None:
                    cost = costs.load(link) + self._nearness * (at + costs.late[link])
                else:
                    cost = at + self._price(link)
                heappush(queue, (cost, there, link, place))

    def _price(self, link: int) -> float:
        """Cost of a link for a path if there is a bound."""
        bound = self._bound or 1.0
        dearer = exp(min(self._nearness * self._costs.load(link) / bound, _MOST_EXPONENT))
        return self._share[link] * dearer + self._latency[link] / bound

    def _pruned(self, root: int, above: dict[int, tuple[int, int]], wanted: Sequence[int] | None) -> list[TreeLink]:
        """The links that lead to a rank that wants the piece, those above first."""
        needed: set[int] = set()
        for rank in self._network.ranks if wanted is None else wanted:
            place = rank
            while place != root and place not in needed:
                needed.add(place)
                place = above[place][1]
        number = {root: -1}
        hops: list[TreeLink] = []
        for place, (link, before) in above.items():
            if place in needed:
                number[place] = len(hops)
                hops.append(TreeLink(link, number[before]))
        return hops


class _Rails:
    """Rails of journeys after each link."""

    def __init__(self, network: LinkNetwork) -> None:
        self._rail: list[int] | None = None if network.rail is None else network.rail.tolist()
        self._ends = (~network.switch[network.target]).tolist()

    def beyond(self, link: int, rail: int) -> int | None:
        """The rail after a link, -1 at ranks; None where the link leads to a rank's port on another."""
        if self._rail is None:
            return -1
        if not self._ends[link]:
            return max(rail, self._rail[link])
        return -1 if self._rail[link] in {-1, rail} else None


Place = tuple[int, int, int]
"""A switch, the rail on which it is entered, and the rank from which; -1: any."""


class _Leg(NamedTuple):
    """A link that may be taken next on the journey from a rank to another.

    Attributes:
        start: The rank where the journey began.
        version: How many branches that rank had then.
        before: The leg before it; None: it leaves the rank.
        rail: On which it is beyond the link.
        leaves: When, us.
        arrives: When what is sent over it can go on.
    """

    link: int
    start: int
    version: int
    before: _Leg | None
    rail: int
    leaves: float
    arrives: float


class _RankTree:
    """One tree whose branches begin at ranks: a switch is passed once for every branch through it.

    What a branch takes is laid at once, so that the next one sees it: journeys from its rank are examined again. Among
    many ranks, of several journeys at a switch only the best goes on, and the others wait until it has had a branch:
    beyond the switch they would look for the same.
    """

    def __init__(self, network: LinkNetwork, costs: _Costs, nearness: float) -> None:
        self._network = network
        self._switch = network.switch.tolist()
        self._target = network.target.tolist()
        self._costs = costs
        self._nearness = nearness
        self._queue: list[tuple[float, int, int]] = []
        self._legs: list[_Leg] = []
        self._rails = _Rails(network)
        self._many = len(network.ranks) >= MANY
        self._last: dict[int, int] = {}
        self._held: dict[int, list[Place]] = {}
        self._waiting: dict[Place, list[_Leg]] = {}
        self._version: dict[int, int] = {}
        self._free: dict[int, float] = {}

    def tree(self, root: int) -> list[TreeLink]:
        """See `Router.tree`."""
        last = self._last
        last[root] = -1
        at = {root: 0.0}
        hops: list[TreeLink] = []
        self._start(root, 0.0)
        while len(last) < len(self._network.ranks):
            cost, _, number = heappop(self._queue)
            leg = self._legs[number]
            node, start = self._target[leg.link], leg.start
            if self._version[start] != leg.version or node in last:
                continue
            place = (node, leg.rail, -1 if self._many else start)
            if place in self._waiting:
                self._waiting[place].append(leg)
                continue
            if self._cost(leg) > cost * _SAME or self._free.get(self._costs.slot[leg.link], 0.0) > leg.leaves:
                self._offer(start, leg.link, leg.leaves, leg.before)  # others were laid on the link meanwhile
                continue
            if self._switch[node]:
                self._waiting[place] = []
                self._held[start].append(place)
                for link in self._network.out[node]:
                    self._offer(start, link, leg.arrives, leg)
                continue
            for number, link in enumerate(self._branch(leg)):
                hops.append(TreeLink(link, last[start] if number == 0 else len(hops) - 1))
            last[node], at[node] = len(hops) - 1, leg.arrives
            self._start(start, at[start])
            self._start(node, leg.arrives)
        return hops

    def _branch(self, leg: _Leg) -> list[int]:
        """Lays the links by which a rank was reached, and gives them in order."""
        branch: list[_Leg] = []
        one: _Leg | None = leg
        while one is not None:
            branch.append(one)
            one = one.before
        for one in branch:
            self._costs.lay(one.link)
            self._free[self._costs.slot[one.link]] = one.leaves + self._costs.takes[one.link]
        return [one.link for one in reversed(branch)]

    def _start(self, rank: int, at: float) -> None:
        """Looks at all journeys from a rank, again where it has had branches."""
        self._version[rank] = self._version.get(rank, -1) + 1
        woken = [leg for place in self._held.get(rank, ()) for leg in self._waiting.pop(place)]
        self._held[rank] = []
        for leg in woken:
            if leg.version == self._version[leg.start]:
                self._offer(leg.start, leg.link, leg.leaves, leg.before)
        for link in self._network.out[rank]:
            self._offer(rank, link, at)

    def _offer(self, start: int, link: int, at: float, before: _Leg | None = None) -> None:
        costs, rail = self._costs, self._rails.beyond(link, -1 if before is None else before.rail)
        if rail is None or self._target[link] in self._last:
            return
        leaves = max(at, self._free.get(costs.slot[link], 0.0))
        leg = _Leg(link, start, self._version[start], before, rail, leaves, leaves + costs.late[link])
        heappush(self._queue, (self._cost(leg), self._target[link], len(self._legs)))
        self._legs.append(leg)

    def _cost(self, leg: _Leg) -> float:
        return self._costs.load(leg.link) + self._nearness * leg.arrives


def shortest_us(
    network: LinkNetwork, roots: Sequence[int] | None = None
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """float64[roots, ranks], the least latency from each root to each rank in microseconds; None: from all ranks."""
    begin = network.ranks if roots is None else roots
    found = np.zeros((len(begin), len(network.ranks)))
    late, target = network.latency_us.tolist(), network.target.tolist()
    for row, root in enumerate(begin):
        at: dict[int, float] = {}
        queue = [(0.0, root)]
        while queue:
            time, node = heappop(queue)
            if node in at:
                continue
            at[node] = time
            for link in network.out[node]:
                heappush(queue, (time + late[link], target[link]))
        found[row] = [at[rank] for rank in network.ranks]
    return found
