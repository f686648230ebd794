"""Loads of shift permutations on two tiers of switches under static routing by destination, as OpenSM's min-hop.

OpenSM goes through the destinations in order; for each, every switch takes among its ports on shortest paths the one
that fewest destinations use so far, and among equals the first. When cables go, only destinations that used them are
set anew, so that a fault is not mixed with the chances of a new table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

FLOWS = 300_000
"""Flows of all shift permutations that are played: all of up to 547 ports, of more evenly spread ones."""

_TAKEN = np.int64(1) << 40


@dataclass(frozen=True)
class Change:
    """What makes a network differ from its design.

    Attributes:
        cables: Cables more (1) or less (-1) between the two; 0 where one is slow.
    """

    low: int
    high: int
    cables: int
    speed: float = 1.0


@dataclass(frozen=True)
class Move:
    """A port of a host that is on another lower switch of its block than in the design."""

    host: int
    low: int
    to: int


class Tables:
    """Forwarding tables of one block: lower switches with their destinations, and the switches above them.

    Args:
        low_of: int[destinations], the lower switch of each, in the order in which shifts count them.
        order: int[destinations], the order in which the tables are set: that of the addresses (LIDs).
        cables: int[lows, highs], parallel cables of each pair.
        spare: Cables that may be added between a pair later.
    """

    def __init__(
        self, low_of: NDArray[np.int64], order: NDArray[np.int64], cables: NDArray[np.int64], spare: int = 1
    ) -> None:
        self.low_of, self.width = low_of, int(cables.max(initial=0)) + spare
        self.there = np.arange(self.width) < cables[:, :, None]
        self.speed = np.ones(self.there.shape)
        lows, highs = cables.shape
        self.up_count = np.zeros((lows, highs * self.width), np.int64)
        self.down_count = np.zeros((highs, lows, self.width), np.int64)
        self.up = np.full((len(self.low_of), lows), -1, np.int32)
        self.down = np.full((len(self.low_of), highs), -1, np.int32)
        self._fill(order)

    def copy(self) -> Tables:
        """The same tables, to be changed."""
        out = object.__new__(Tables)
        out.width, out.low_of = self.width, self.low_of
        for name in ("there", "speed", "up_count", "down_count", "up", "down"):
            setattr(out, name, getattr(self, name).copy())
        return out

    def _fill(self, order: NDArray[np.int64]) -> None:
        lows, highs = self.there.shape[:2]
        row, column = np.arange(lows), np.arange(highs)
        open_of = [self._open(low) for low in range(lows)]
        for destination in order.tolist():
            self._set(destination, row, column, open_of[int(self.low_of[destination])])

    def _set(
        self,
        destination: int,
        row: NDArray[np.int64],
        column: NDArray[np.int64],
        open_: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]],
    ) -> None:
        """Chooses the ports to a destination at every switch; see `_open`."""
        low, (leads, blocked, joined, open_down) = int(self.low_of[destination]), open_
        up = (self.up_count + blocked).argmin(axis=1)
        self.up[destination] = np.where(leads, up, -1)
        self.up_count[row[leads], up[leads]] += 1
        down = (self.down_count[:, low] + open_down).argmin(axis=1)
        self.down[destination] = np.where(joined, down, -1)
        self.down_count[column[joined], low, down[joined]] += 1

    def _open(self, low: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Which switches lead to a lower one, by which ports; and which above it are joined to it, by which ports."""
        joined = self.there[low].any(axis=1)
        open_up = (self.there & joined[None, :, None]).reshape(len(self.there), -1)
        open_up[low] = False
        return open_up.any(axis=1), np.where(open_up, 0, _TAKEN), joined, np.where(self.there[low], 0, _TAKEN)

    def changed(self, changes: Iterable[Change]) -> Tables:
        """With cables more, less or slower; what used those that are gone is set anew."""
        out = self.copy()
        for change in sorted(changes, key=lambda one: -one.cables):
            out._change(change)
        return out

    def moved(self, moves: Iterable[tuple[int, int]]) -> Tables:
        """With some destinations below other lower switches; only their routes change."""
        out = self.copy()
        out.low_of = self.low_of.copy()
        for destination, low in moves:
            out._move(destination, low)
        return out

    def _move(self, destination: int, low: int) -> None:
        lows, highs = self.there.shape[:2]
        before = int(self.low_of[destination])
        up, down = self.up[destination], self.down[destination]
        self.up_count[np.flatnonzero(up >= 0), up[up >= 0]] -= 1
        self.down_count[np.flatnonzero(down >= 0), before, down[down >= 0]] -= 1
        self.low_of[destination] = low
        self._set(destination, np.arange(lows), np.arange(highs), self._open(low))

    def _change(self, change: Change) -> None:
        low, high = change.low, change.high
        slots = self.there[low, high]
        if change.cables > 0:
            slots[np.flatnonzero(~slots)[: change.cables]] = True
        elif change.cables < 0:
            for slot in np.flatnonzero(slots)[change.cables :]:
                self._remove(low, high, int(slot))
        else:
            whole = np.flatnonzero(slots & (self.speed[low, high] == 1.0))
            self.speed[low, high, whole[-1:]] = change.speed

    def _remove(self, low: int, high: int, slot: int) -> None:
        self.there[low, high, slot] = False
        port = high * self.width + slot
        for destination in np.flatnonzero(self.up[:, low] == port):
            self._choose_up(int(destination), low)
        below = np.flatnonzero(self.low_of == low)
        mine = below[self.down[below, high] == slot]
        if self.there[low, high].any():
            for destination in mine.tolist():
                self._choose_down(destination, high, low)
            return
        self.down[mine, high] = -1
        for at, source in np.argwhere(self.up[below] // self.width == high).tolist():
            self._choose_up(int(below[at]), source)

    def _choose_up(self, destination: int, source: int) -> None:
        before = self.up[destination, source]
        self.up_count[source, before] -= 1
        best = -1
        joined = self.there[self.low_of[destination]].any(axis=1)
        possible = np.flatnonzero((self.there[source] & joined[:, None]).ravel())
        if len(possible):
            best = int(possible[self.up_count[source, possible].argmin()])
            self.up_count[source, best] += 1
        self.up[destination, source] = best

    def _choose_down(self, destination: int, high: int, low: int) -> None:
        self.down_count[high, low, self.down[destination, high]] -= 1
        best = int((self.down_count[high, low] + np.where(self.there[low, high], 0, _TAKEN)).argmin())
        self.down[destination, high] = best
        self.down_count[high, low, best] += 1

    def shifts(self) -> NDArray[np.int64]:
        """The shift permutations that are counted: all, or evenly spread ones and the powers of two."""
        ports = len(self.low_of)
        if ports * ports <= FLOWS:
            return np.arange(1, ports)
        spread = np.linspace(1, ports - 1, max(FLOWS // ports, 1)).astype(np.int64)
        return np.unique(np.concatenate([spread, 2 ** np.arange(int(np.log2(ports - 1)) + 1)]))

    def load(self, shift: int) -> tuple[float, float]:
        """Flows on the fullest cable when every port sends to the one `shift` further; slow cables count more.

        A pair that no path of two hops joins is left out: it costs more than a load, and is a fault of its own.

        Returns:
            Of all cables; and of those that a port's lower switch sends or receives over, in the mean of all ports.
        """
        source = np.arange(len(self.low_of))
        target = (source + shift) % len(source)
        crosses = (self.low_of[source] != self.low_of[target]) & (self.up[target, self.low_of[source]] >= 0)
        source, target = source[crosses], target[crosses]
        low, far = self.low_of[source], self.low_of[target]
        port = self.up[target, low]
        slot = self.down[target, port // self.width]
        ports = self.there[0].size
        up, down = low * ports + port, far * ports + port // self.width * self.width + slot
        speed = self.speed.ravel()
        crowd = np.maximum(_crowd(up, speed)[up], _crowd(down, speed)[down])
        worst = np.ones(len(self.there))
        np.maximum.at(worst, low, crowd)
        np.maximum.at(worst, far, crowd)
        return float(worst.max()), float(worst[self.low_of].mean())

    def loads(self) -> NDArray[np.float64]:
        """float64[shifts, 2], see `load`."""
        return np.array([self.load(int(shift)) for shift in self.shifts()]).reshape(-1, 2)


def _crowd(cable: NDArray[np.int64], speed: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(cable, minlength=len(speed)) / speed
