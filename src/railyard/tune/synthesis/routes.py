"""Over which links each piece of data goes: trees and paths that share the links' rates evenly.

A piece is laid after the others, along what is cheapest then: the time that a link is busy with what was laid on it
before, and a share of the time that the piece takes to get so far. With no such share, loads come out even and trees
deep; with much of it, trees are those of the shortest paths. Which is best hangs on the size and is tried.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.tune.synthesis.network import LinkNetwork


class Router:
    """Lays pieces of equal size over a network, one after another.

    Args:
        network: The links.
        piece: Bytes.
        nearness: How much the time of a path counts against the load of its links.
        busy_us: What links carry already; it is added to.
    """

    def __init__(self, network: LinkNetwork, piece: float, nearness: float, busy_us: list[float] | None = None) -> None:
        self._network = network
        self._nearness = nearness
        self._busy = [0.0] * len(network.source) if busy_us is None else busy_us
        self._takes = (piece / network.bytes_per_us).tolist()
        self._late = (network.latency_us + piece / network.bytes_per_us).tolist()
        self._target = network.target.tolist()
        self._source = network.source.tolist()
        self._switch = network.switch.tolist()

    def tree(self, root: int, wanted: Sequence[int] | None = None) -> list[int]:
        """Links of a tree from a rank, each after the one above it.

        Args:
            root: Where the piece is.
            wanted: Ranks that it has to reach; None: all.
        """
        above = self._grown(root, None if wanted is None else set(wanted))
        links = self._pruned(root, above, wanted)
        for link in links:
            self._busy[link] += self._takes[link]
        return links

    def _grown(self, root: int, wanted: set[int] | None) -> dict[int, int]:
        """For each node that was reached, the link that it was reached by."""
        above: dict[int, int] = {}
        at = {root: 0.0}
        queue: list[tuple[float, int, int]] = []
        done = {root}
        self._look(root, 0.0, done, queue)
        while queue and (wanted is None or not wanted <= done):
            _, node, link = heappop(queue)
            if node in done:
                continue
            done.add(node)
            above[node] = link
            at[node] = at[self._source[link]] + self._late[link]
            self._look(node, at[node], done, queue)
        return above

    def _look(self, node: int, at: float, done: set[int], queue: list[tuple[float, int, int]]) -> None:
        for link in self._network.out[node]:
            target = self._target[link]
            if target not in done:
                load = self._busy[link] + self._takes[link]
                heappush(queue, (load + self._nearness * (at + self._late[link]), target, link))

    def _pruned(self, root: int, above: dict[int, int], wanted: Sequence[int] | None) -> list[int]:
        """The links that lead to a rank that wants the piece, those above first."""
        needed: set[int] = set()
        for rank in self._network.ranks if wanted is None else wanted:
            node = rank
            while node != root and node not in needed:
                needed.add(node)
                node = self._source[above[node]]
        return [link for node, link in above.items() if node in needed]


def shortest_us(network: LinkNetwork) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """float64[ranks, ranks], the least latency from rank to rank in microseconds."""
    found = np.zeros((len(network.ranks), len(network.ranks)))
    late, target = network.latency_us.tolist(), network.target.tolist()
    for row, root in enumerate(network.ranks):
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
