"""Room below every group of a topology: pods and slices that fit, with and without a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.kueue.ask import Ask, Fits
    from railyard.work.operate.kueue.domains import Domains

Counts = list["NDArray[np.int64]"]
"""One int64[groups] a level."""
_NEVER = np.iinfo(np.int64).max


class Room:
    """What fits below every group; what has been handed out, once a placement goes down.

    Attributes:
        domains: The topology.
        ask: What is asked.
        slice_level: The level at which slices are counted.
        inner: Pods that stay together at each level below it.
        pods: Pods that fit.
        slices: Slices that fit; zero below their level.
        led: Pods that fit beside a leader.
        slices_led: Slices that fit beside a leader.
        leaders: 1 where a leader fits.
        score: How much the nodes below are preferred.
    """

    def __init__(self, domains: Domains, fits: Fits, ask: Ask) -> None:
        self.domains, self.ask = domains, ask
        self.slice_level = ask.slices[0][0] if ask.slices else domains.lowest
        self.inner = ask.inner
        self.pods, self.slices, self.led, self.slices_led, self.leaders, self.score = (
            [np.zeros(len(parent), np.int64) for parent in domains.parent] for _ in range(6)
        )
        for counts, found in (
            (self.pods, fits.pods),
            (self.led, fits.led),
            (self.leaders, fits.leads),
            (self.score, fits.score),
        ):
            counts[-1][:] = found
        self.roll_up()

    def copy(self) -> Room:
        """The same, for trials."""
        twin = Room.__new__(Room)
        twin.domains, twin.ask, twin.slice_level, twin.inner = self.domains, self.ask, self.slice_level, self.inner
        for name in ("pods", "slices", "led", "slices_led", "leaders", "score"):
            setattr(twin, name, [counts.copy() for counts in getattr(self, name)])
        return twin

    def roll_up(self) -> None:
        """Sums what leafs have, level by level; pods that an inner slice would leave over do not count."""
        for level in range(self.domains.lowest, -1, -1):
            if level < self.domains.lowest:
                self._sum(level)
            if level == self.slice_level:
                self.slices[level] = self.pods[level] // self.ask.size
                self.slices_led[level] = self.led[level] // self.ask.size

    def _sum(self, level: int) -> None:
        below, size = level + 1, self.inner.get(level + 1, 1)
        parent = self.domains.parent[below]
        pods = self.pods[below] // size * size
        for counts, found in ((self.pods, pods), (self.slices, self.slices[below]), (self.score, self.score[below])):
            counts[level] = np.zeros(len(counts[level]), np.int64)
            np.add.at(counts[level], parent, found)
        if not self.ask.leaders:
            self.led[level], self.slices_led[level] = self.pods[level].copy(), self.slices[level].copy()
            return
        self.leaders[level] = np.zeros(len(self.leaders[level]), np.int64)
        np.maximum.at(self.leaders[level], parent, self.leaders[below])
        cost = pods - self.led[below] // size * size
        slice_cost = self.slices[below] - self.slices_led[below]
        self.led[level] = self._less(level, self.pods[level], cost)
        self.slices_led[level] = self._less(level, self.slices[level], slice_cost)

    def _less(self, level: int, whole: NDArray[np.int64], cost: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is left of a group where the child takes the leader to which it costs least; 0: none can."""
        able = np.flatnonzero(self.leaders[level + 1])
        least = np.full(len(whole), _NEVER)
        np.minimum.at(least, self.domains.parent[level + 1][able], cost[able])
        return np.where(least == _NEVER, 0, whole - np.where(least == _NEVER, 0, least))

    def sorted(self, level: int, groups: NDArray[np.int64]) -> list[int]:
        """Groups with most slices first (least where no level was asked), then fewest pods left over, then by name."""
        return self._sorted(level, groups, self.slices[level][groups], self.pods[level][groups])

    def sorted_led(self, level: int, groups: NDArray[np.int64]) -> list[int]:
        """The same of groups beside a leader, those that can take one first."""
        if not self.ask.leaders:
            return self.sorted(level, groups)
        return self._sorted(
            level, groups, self.slices_led[level][groups], self.led[level][groups], -self.leaders[level][groups]
        )

    def _sorted(
        self,
        level: int,
        groups: NDArray[np.int64],
        slices: NDArray[np.int64],
        pods: NDArray[np.int64],
        first: NDArray[np.int64] | None = None,
    ) -> list[int]:
        keys = [self.domains.rank[level][groups], pods, -slices if self.ask.tight else slices]
        if self.ask.by_score:
            keys.append(-self.score[level][groups])
        if first is not None:
            keys.append(first)
        found: list[int] = groups[np.lexsort(keys)].tolist()
        return found

    def tightest(self, level: int, order: list[int], room: NDArray[np.int64], wanted: int, leaders: int) -> int:
        """Of the most preferred groups the one with least room that suffices, the first of equals; else the first."""
        if self.ask.by_score:
            best = self.score[level][order[0]]
            end = next((place for place, group in enumerate(order) if self.score[level][group] != best), len(order))
            order = order[:end]
        able = self.leaders[level]
        fits = [group for group in order if room[group] >= wanted and able[group] >= leaders]
        return min(fits, key=lambda group: int(room[group])) if fits else order[0]
