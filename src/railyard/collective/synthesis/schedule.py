"""A schedule: sends, what each has to wait for, and when it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork


_EPSILON = 1e-9


def faults(
    network: LinkNetwork, schedule: TimedSchedule, collective: str, pieces: NDArray[np.int64] | None = None
) -> list[str]:
    """Faults of a schedule; empty for a sound one.

    Args:
        network: Of the schedule.
        schedule: Any.
        collective: What it ought to do.
        pieces: int64[ranks, ranks], of an uneven all-to-all the pieces of each pair; None: all have as many.
    """
    home = _homes(schedule, network, collective) if pieces is None else _between(network, pieces)
    return [
        *link_faults(schedule, network),
        *order_faults(schedule, network),
        *_data(schedule, network, collective, home),
    ]


def link_faults(schedule: TimedSchedule, network: LinkNetwork) -> list[str]:
    """Two sends on a link at a time, or one that is faster than the link."""
    link, start = schedule.sends.link, schedule.start_us
    takes = schedule.sends.piece_bytes / network.bytes_per_us[link]
    order = np.lexsort((start, link))
    same = link[order][1:] == link[order][:-1]
    early = start[order][1:] < (start + takes)[order][:-1] * (1 - _EPSILON) - _EPSILON
    found = [f"link {link[order][at]} carries two sends at once" for at in np.flatnonzero(same & early)[:3]]
    if (schedule.arrive_us < (start + takes + network.latency_us[link]) * (1 - _EPSILON)).any():
        found.append("a send arrives before it can")
    return found


def order_faults(schedule: TimedSchedule, network: LinkNetwork) -> list[str]:
    """A send that leaves before what it waits for is there."""
    sends = schedule.sends
    owner = np.repeat(np.arange(len(sends)), np.diff(sends.after_ptr))
    there = schedule.arrive_us[sends.after]
    if network.packets:  # a switch sends on what has come, and ends no sooner than it has all of it
        takes = sends.piece_bytes / network.bytes_per_us[sends.link]
        through = network.switch[network.source[sends.link[owner]]]
        there = there - np.where(through, np.minimum(takes[sends.after], takes[owner]), 0.0)
    early = schedule.start_us[owner] < there * (1 - _EPSILON) - _EPSILON
    return [f"send {owner[at]} leaves before {sends.after[at]} has arrived" for at in np.flatnonzero(early)[:3]]


def _data(
    schedule: TimedSchedule, network: LinkNetwork, collective: str, home: list[tuple[int, list[int]]]
) -> list[str]:
    """Every piece at its end, with every rank's part in it once."""
    ranks = network.ranks
    has: dict[tuple[int, int], frozenset[int]] = {}
    for piece in range(len(home)):
        starts = ranks if collective in ("reduce-scatter", "all-reduce") else [home[piece][0]]
        has.update({(rank, piece): frozenset([rank]) for rank in starts})
    wrong = _moved(schedule, network, has)
    if wrong:
        return [wrong]
    every = frozenset(ranks) if collective in ("reduce-scatter", "all-reduce") else None
    found = []
    for piece, (_, ends) in enumerate(home):
        for rank in ends:
            wanted = every or frozenset([home[piece][0]])
            if has.get((rank, piece)) != wanted:
                found.append(f"rank {rank} ends without piece {piece}")
    return found[:3]


def _moved(schedule: TimedSchedule, network: LinkNetwork, has: dict[tuple[int, int], frozenset[int]]) -> str | None:
    """Lets every send leave with what its source has then, and arrive; what is wrong, or None."""
    sends = schedule.sends
    count = len(sends)
    carried: list[frozenset[int]] = [frozenset()] * count
    ends = [network.source[sends.link].tolist(), network.target[sends.link].tolist()]
    piece, switch = sends.piece.tolist(), network.switch.tolist()
    times = np.concatenate([schedule.arrive_us * (1 - _EPSILON) - _EPSILON, schedule.start_us])
    for event in np.argsort(times, kind="stable").tolist():
        send = event % count
        source, target = ends[0][send], ends[1][send]
        if event >= count:
            there = has.get((source, piece[send]), frozenset())
            carried[send] = _passed(schedule, network, carried, send) if switch[source] else there
            if not carried[send]:
                return f"node {source} sends piece {piece[send]} and does not have it"
        elif not switch[target]:
            before = has.get((target, piece[send]), frozenset()) if sends.reduce[send] else frozenset()
            if before & carried[send]:
                return f"node {target} adds a part of piece {piece[send]} twice"
            has[target, piece[send]] = before | carried[send]
    return None


def _passed(schedule: TimedSchedule, network: LinkNetwork, carried: list[frozenset[int]], send: int) -> frozenset[int]:
    """What a send from a switch carries: that of the one send to it that it waits for; nothing where there is none."""
    sends = schedule.sends
    before = sends.after[sends.after_ptr[send] : sends.after_ptr[send + 1]].tolist()
    if len(before) != 1 or sends.piece[before[0]] != sends.piece[send]:
        return frozenset()
    return (
        carried[before[0]] if network.target[sends.link[before[0]]] == network.source[sends.link[send]] else frozenset()
    )


def _homes(schedule: TimedSchedule, network: LinkNetwork, collective: str) -> list[tuple[int, list[int]]]:
    """Where each piece begins (for sums: ends), and the ranks that want it."""
    ranks, pieces = network.ranks, schedule.sends.pieces
    if collective == "all-to-all":
        count = len(ranks)
        pairs = [(a, (a + shift) % count) for shift in range(1, count) for a in range(count)]
        return [(ranks[pairs[at % len(pairs)][0]], [ranks[pairs[at % len(pairs)][1]]]) for at in range(pieces)]
    ends = {"all-gather": ranks, "all-reduce": ranks}
    return [(ranks[at % len(ranks)], ends.get(collective, [ranks[at % len(ranks)]])) for at in range(pieces)]


def _between(network: LinkNetwork, pieces: NDArray[np.int64]) -> list[tuple[int, list[int]]]:
    """The same of an uneven all-to-all, numbered as an even one of as many pieces as the heaviest pair has."""
    ranks = network.ranks
    count = len(ranks)
    pairs = [(a, (a + shift) % count) for shift in range(1, count) for a in range(count)]
    return [
        (ranks[a], [ranks[b]] if part < pieces[a, b] else []) for part in range(int(pieces.max())) for a, b in pairs
    ]


@dataclass(frozen=True, eq=False)
class Sends:
    """Sends of pieces of equal size, each after those that it waits for.

    Attributes:
        pieces: How many there are to be sent, numbered from 0.
        link: int32[sends], which link.
        piece: int32[sends], which piece of data.
        reduce: bool[sends], whether the receiver adds it to what it has.
        after_ptr: int64[sends + 1], CSR of the sends that have to arrive before.
        after: int32[], numbers of sends, all lower than that of the one that waits.
    """

    piece_bytes: float
    pieces: int
    link: NDArray[np.int32]
    piece: NDArray[np.int32]
    reduce: NDArray[np.bool_]
    after_ptr: NDArray[np.int64]
    after: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.link)


class SendList:
    """Collects sends."""

    def __init__(self, piece_bytes: float, pieces: int) -> None:
        self.piece_bytes = piece_bytes
        self.pieces = pieces
        self._rows: list[tuple[int, int, bool]] = []
        self._after: list[int] = []
        self._ptr = [0]

    def add(self, link: int, piece: int, after: list[int], *, reduce: bool = False) -> int:
        """Number of a new send."""
        self._rows.append((link, piece, reduce))
        self._after += after
        self._ptr.append(len(self._after))
        return len(self._rows) - 1

    def done(self) -> Sends:
        """The sends as columns."""
        link, piece, reduce = (np.array(column) for column in zip(*self._rows, strict=True))
        return Sends(
            self.piece_bytes,
            self.pieces,
            link.astype(np.int32),
            piece.astype(np.int32),
            reduce.astype(np.bool_),
            np.array(self._ptr, np.int64),
            np.array(self._after, np.int32),
        )


@dataclass(frozen=True, eq=False)
class TimedSchedule:
    """Sends with their times.

    Attributes:
        start_us: float64[sends], when each begins to leave; a link carries one at a time.
        arrive_us: float64[sends], when the last byte is there.
    """

    sends: Sends
    start_us: NDArray[np.float64]
    arrive_us: NDArray[np.float64]

    @property
    def finish_us(self) -> float:
        """Time at which the last send has arrived."""
        return float(self.arrive_us.max())


def timed(network: LinkNetwork, sends: Sends, planned_us: NDArray[np.float64] | None = None) -> TimedSchedule:
    """Lets every link send what waits for it, that with the longest way to go first.

    Pieces are stored and forwarded: a node passes a piece on when all of it is there; switches that pass on packets do
    so as soon as the rest comes in time. A link is busy for the bytes of a send, and free again while it is still on
    its journey.

    Args:
        network: The links.
        sends: What is to be sent.
        planned_us: float64[sends], when each was planned to start: what was planned first goes first. None: see above.
    """
    takes = sends.piece_bytes / network.bytes_per_us[sends.link]
    arrives = takes + network.latency_us[sends.link]
    late = _passed_on(network, sends, takes) if network.packets else arrives
    start_us, plan = np.empty(len(sends)), np.empty(0) if planned_us is None else planned_us
    _core.synthesis_starts_us(
        sends.link, takes, late, sends.after_ptr, sends.after, plan, len(network.source), start_us
    )
    return TimedSchedule(sends, start_us, start_us + arrives)


def _passed_on(network: LinkNetwork, sends: Sends, takes: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[sends], us from the start of each until what waits for it may begin.

    A switch may send on a packet before the next one has come, if it does not run dry: a faster link begins later.
    """
    owner = np.repeat(np.arange(len(sends)), np.diff(sends.after_ptr))
    next_takes = takes.copy()
    np.minimum.at(next_takes, sends.after, takes[owner])
    ahead = np.where(network.switch[network.target[sends.link]], next_takes, 0.0)
    return np.asarray(network.latency_us[sends.link] + takes - ahead, np.float64)
