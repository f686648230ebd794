"""Symptoms in terms of an inferred design: which tables of which block they change, and who waits or stands idle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.ask.audit.infer import InferredDesign
    from railyard.cluster.network_table import NetworkTable


FLOWS = 300_000
"""Flows of all shift permutations that are played: all of up to 547 ports, of more evenly spread ones."""

_TAKEN = np.int64(1) << 40


@dataclass(frozen=True)
class CableChange:
    """Difference between a network and its design.

    Attributes:
        cables: Cables more (1) or less (-1) between the two; 0 where one is slow.
    """

    low: int
    high: int
    cables: int
    speed: float = 1.0


@dataclass(frozen=True)
class HostMove:
    """A port of a host that is on another lower switch of its block than in the design."""

    host: int
    low: int
    to: int


def shifts_of(ports: int) -> NDArray[np.int64]:
    """The shift permutations of so many ports that are counted: all, or evenly spread ones and the powers of two."""
    if ports * ports <= FLOWS:
        return np.arange(1, ports)
    spread = np.linspace(1, ports - 1, max(FLOWS // ports, 1)).astype(np.int64)
    return np.unique(np.concatenate([spread, 2 ** np.arange(int(np.log2(ports - 1)) + 1)]))


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
        """Switches that lead to a lower one, and those above that are joined to it, each with its ports."""
        joined = self.there[low].any(axis=1)
        open_up = (self.there & joined[None, :, None]).reshape(len(self.there), -1)
        open_up[low] = False
        return open_up.any(axis=1), np.where(open_up, 0, _TAKEN), joined, np.where(self.there[low], 0, _TAKEN)

    def changed(self, changes: Iterable[CableChange]) -> Tables:
        """The tables with more, fewer or slower cables; destinations whose cables are gone get other ones."""
        out = self.copy()
        for change in sorted(changes, key=lambda one: -one.cables):
            out._change(change)
        return out

    def moved(self, moves: Iterable[tuple[int, int]]) -> Tables:
        """The tables with some destinations moved below other lower switches; only their routes change."""
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

    def _change(self, change: CableChange) -> None:
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
        return np.array([self.load(int(shift)) for shift in shifts_of(len(self.low_of))]).reshape(-1, 2)


def _crowd(cable: NDArray[np.int64], speed: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(cable, minlength=len(speed)) / speed


@dataclass(frozen=True)
class Symptom:
    """A finding and what it does.

    Attributes:
        finding: What is wrong, unpriced but for `slower` and `idle`.
        cables: Cables as found, by number, and what they have of their rate; 0: they carry nothing.
    """

    finding: AuditFinding
    cables: tuple[tuple[int, float], ...] = ()
    part: float = 1.0


class BlockPlaces:
    """Rows and columns of devices in the blocks of a design."""

    def __init__(self, design: InferredDesign) -> None:
        self.at: dict[tuple[int, str], dict[int, int]] = {}
        for number, block in enumerate(design.blocks):
            for side, listed in (("low", block.low), ("high", block.high)):
                for place, device in enumerate(listed.tolist()):
                    self.at.setdefault((device, side), {})[number] = place

    def change(self, one: int, other: int, cables: int, speed: float) -> tuple[int, CableChange] | None:
        """The block of two devices, and what changes there; None where no block joins them."""
        for low, high in ((one, other), (other, one)):
            lows, highs = self.at.get((low, "low"), {}), self.at.get((high, "high"), {})
            both = lows.keys() & highs.keys()
            if both:
                number = min(both)
                return number, CableChange(lows[number], highs[number], cables, speed)
        return None

    def move(self, host: int, leaf: int, to: int) -> tuple[int, HostMove] | None:
        """The block of two leafs, and a host's port that moves from one to the other; None where no block has both."""
        lows, others = self.at.get((leaf, "low"), {}), self.at.get((to, "low"), {})
        both = lows.keys() & others.keys()
        return (min(both), HostMove(host, lows[min(both)], others[min(both)])) if both else None


def placed(found: NetworkTable, places: BlockPlaces, symptom: Symptom) -> AuditFinding:
    """The finding of a symptom, ready to be priced."""
    finding = symptom.finding
    slower, idle = finding.slower, finding.idle
    changes: dict[int, list[CableChange]] = {}
    for cable, share in symptom.cables:
        one, other = found.ends[cable].tolist()
        if found.host[one] or found.host[other]:
            slower, idle = (max(slower, 1.0 / share), idle) if share else (slower, idle + 1.0)
            continue
        change = places.change(one, other, 0 if share else -1, share or 1.0)
        if change is not None:
            changes.setdefault(change[0], []).append(change[1])
    block = Counter({number: len(listed) for number, listed in changes.items()}).most_common(1)
    number = block[0][0] if block else -1
    return replace(
        finding,
        slower=slower,
        idle=idle,
        part=symptom.part,
        block=number,
        changes=tuple(changes.get(number, ())),
    )


What = Literal["pause", "mark", "headroom"]


@dataclass(frozen=True)
class Setting:
    """Ports of a switch that do otherwise than the fabric needs.

    Attributes:
        ports: Its wrong ports, by name; empty: all.
        what: `pause`: they neither pause nor obey; `mark`: their queues mark nothing; `headroom`: of what may still
            come after a pause they hold `kept`.
        kept: 0 to 1.
        below, above: Shares of its ports to what is below it, and to what is above it, that are wrong.
    """

    device: str
    ports: tuple[str, ...]
    what: What
    kept: float
    leaf: bool
    below: float = 1.0
    above: float = 1.0


KINDS = {
    "missing": "a cable of the design is missing or dead",
    "missing-switch": "a switch of the design and all its cables are missing",
    "missing-host": "a host of the design and all its cables are missing",
    "extra": "a cable that the design does not have",
    "misplaced": "one end of a cable is in the wrong switch",
    "swapped": "two cables have swapped ends",
    "degraded": "a cable runs slower than similar ones",
    "wrong-speed": "a cable runs faster or slower than planned",
    "mislabelled": "the right devices, but the wrong ports",
    "wrong-length": "a cable is longer or shorter than planned",
    "wrong-mtu": "the ends have different MTUs, or differ from most others",
    "duplicate-guid": "two devices have the same GUID",
    "duplicate-address": "two devices have the same MAC address",
    "duplicate-name": "two devices have the same name",
    "unknown-neighbour": "a device that the plan does not have",
    "ecmp": "a switch does not use all of its equal-cost paths to some prefixes",
    "errors": "a port counts errors of the cable",
    "flapping": "a link went down several times",
    "session-down": "a routing session over an existing cable is down",
    "no-route": "forwarding tables miss some destinations",
    "unbalanced": "forwarding tables load cables unequally",
    "wrong-qos": "queues, pauses or ECN marks differ from the plan or from most others",
    "wrong-setting": "a switch runs something else than planned",
    "missing-part": "a host has fewer accelerators or NICs",
    "link-down": "a port of a host has no link",
    "firmware": "a firmware version that most do not have",
}


@dataclass(frozen=True)
class AuditFinding:
    """A fault.

    Attributes:
        kind: One of `KINDS`.
        a, b: Ends of the cable, as the file names them, with ports in brackets; `?` where a port is not known.
        block: Number of the block in which it changes the tables; -1: none.
        slower: Factor on the time of all communication of those who wait for it, in addition to the tables.
        loss: Share of the accelerators' time that it costs by itself, or of the cluster's price where the parts that
            are absent cost more; from 0 to 1.
        worst_load: Flows on the fullest cable of the worst shift permutation, with this fault alone.
        all_reduce: Time of an all-reduce by recursive halving and doubling with it over that without.
        step_s: Step of the scenario with this fault alone; None without a scenario.
        band: Least and most of the loss, where it is one; None: what is given is simulated exactly.
        priced_by: Engine and load behind the price, where it is not the audit's usual one.
        unpriced: Why it has no price; its loss is then not 0 but unknown.
    """

    kind: str
    a: str
    b: str
    detail: str = ""
    other: tuple[str, str] | None = None
    block: int = -1
    changes: tuple[CableChange | HostMove, ...] = ()
    slower: float = 1.0
    idle: float = 0.0
    part: float = 1.0
    loss: float = 0.0
    usd_per_month: float = 0.0
    worst_load: float = 1.0
    all_reduce: float = 1.0
    step_s: float | None = field(default=None)
    settings: tuple[Setting, ...] = ()
    band: tuple[float, float] | None = None
    priced_by: str = ""
    unpriced: str = ""
