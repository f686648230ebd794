"""Paths that are chosen instead of hashed: of all that switches offer, a connection gets the least congested.

A NIC chooses a path by the UDP source port of a queue pair, once it has seen where each source port leads. Connections
choose one after another, those of the first group (a job) first. A path is as congested as its fullest link: with what
groups before send over it on average, and with what the same group sends at the same moment. Source: J. Cao et al.,
"Crux: GPU-efficient communication scheduling for deep learning training", SIGCOMM 2024, sections 4.1 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hashing import mix

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.cluster.links import Csr

    Look = Callable[[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]], Csr]
    """The path of each flow from a port to a port with a source port."""

TRIES = 8
"""Source ports that are tried for each of the widest choice's links: so many miss one of 64 links once in 3,000."""


@dataclass
class Steering:
    """Which connections there are, and the source port of each; first they are heard of, then `settle` chooses.

    Attributes:
        group: int64[ports], who sends from a port; groups choose in this order. -1: nobody does, hashed as ever.
        share: float64[groups], of the time that a group sends at all.
    """

    group: NDArray[np.int64]
    share: NDArray[np.float64]
    _heard: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]] = field(default_factory=list)
    _known: NDArray[np.uint64] | None = None
    _label: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def labels(
        self, source: NDArray[np.int32], target: NDArray[np.int32], pair: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """uint64[flows], what stands for the source port of each; notes them until they are settled."""
        if self._known is None:
            self._heard.append((source, target, pair))
            return pair
        if not len(self._known):
            return pair
        name = _names(source, target, pair)
        place = np.minimum(np.searchsorted(self._known, name), len(self._known) - 1)
        return np.where(self._known[place] == name, self._label[place], pair)

    def settle(self, look: Look, rate_bps: NDArray[np.float64], widest: int) -> None:
        """Chooses the source port of every connection that was heard of.

        Args:
            look: Finds paths.
            rate_bps: float64[links], of every link.
            widest: Equal links among which a switch chooses at most.
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
        """int64[flows], which of the tries each takes.

        Args:
            group: int64[flows], not falling.
            tried: int64[flows, tries, hops], links; one past the last where there is none, or no other.
            sent_bps: float64[flows], what each sends while it does.
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
    """float64[flows], for each connection of a port an even part of the narrowest link of its path."""
    narrow = np.full(len(path), np.inf)
    np.minimum.at(narrow, path.rows(), rate_bps[path.link])
    narrow[np.isinf(narrow)] = 0.0
    return narrow / np.bincount(source)[source]


def _padded(tried: list[Csr], dummy: int) -> NDArray[np.int64]:
    """int64[flows, tries, hops]; the dummy for what all tries have in common, where there is nothing to choose."""
    hops = max(int(one.lengths.max(initial=1)) for one in tried)
    found = np.full((len(tried[0]), len(tried), hops), dummy, np.int64)
    for number, one in enumerate(tried):
        rows = one.rows()
        found[rows, number, np.arange(len(rows)) - one.ptr[rows]] = one.link
    same = (found == found[:, :1]).all(axis=1, keepdims=True)
    return np.where(same, dummy, found)


def _names(source: NDArray[np.int32], target: NDArray[np.int32], pair: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return mix(mix(source.astype(np.uint64) << np.uint64(32) | target.astype(np.uint64)) ^ pair)
