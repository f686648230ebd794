"""Runs a schedule symbolically: who has what and when, and whether links carry one send at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.schedule import Schedule

_EPSILON = 1e-9


def faults(
    network: LinkNetwork, schedule: Schedule, collective: str, pieces: NDArray[np.int64] | None = None
) -> list[str]:
    """What is wrong with a schedule; nothing for a sound one.

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


def link_faults(schedule: Schedule, network: LinkNetwork) -> list[str]:
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


def order_faults(schedule: Schedule, network: LinkNetwork) -> list[str]:
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


def _data(schedule: Schedule, network: LinkNetwork, collective: str, home: list[tuple[int, list[int]]]) -> list[str]:
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


def _moved(schedule: Schedule, network: LinkNetwork, has: dict[tuple[int, int], frozenset[int]]) -> str | None:
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


def _passed(schedule: Schedule, network: LinkNetwork, carried: list[frozenset[int]], send: int) -> frozenset[int]:
    """What a send from a switch carries: that of the one send to it that it waits for; nothing where there is none."""
    sends = schedule.sends
    before = sends.after[sends.after_ptr[send] : sends.after_ptr[send + 1]].tolist()
    if len(before) != 1 or sends.piece[before[0]] != sends.piece[send]:
        return frozenset()
    return (
        carried[before[0]] if network.target[sends.link[before[0]]] == network.source[sends.link[send]] else frozenset()
    )


def _homes(schedule: Schedule, network: LinkNetwork, collective: str) -> list[tuple[int, list[int]]]:
    """Where each piece begins (for sums: is to be), and the ranks that want it."""
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
