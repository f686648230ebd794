"""Runs a schedule symbolically: who has what and when, and whether links carry one send at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.tune.synthesis.network import LinkNetwork
    from railyard.tune.synthesis.schedule import Schedule

_EPSILON = 1e-9


def faults(network: LinkNetwork, schedule: Schedule, collective: str) -> list[str]:
    """What is wrong with a schedule; nothing for a sound one."""
    return [*_links(schedule, network), *_order(schedule), *_data(schedule, network, collective)]


def _links(schedule: Schedule, network: LinkNetwork) -> list[str]:
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


def _order(schedule: Schedule) -> list[str]:
    """A send that leaves before what it waits for is there."""
    sends = schedule.sends
    owner = np.repeat(np.arange(len(sends)), np.diff(sends.after_ptr))
    early = schedule.start_us[owner] < schedule.arrive_us[sends.after] * (1 - _EPSILON) - _EPSILON
    return [f"send {owner[at]} leaves before {sends.after[at]} has arrived" for at in np.flatnonzero(early)[:3]]


def _data(schedule: Schedule, network: LinkNetwork, collective: str) -> list[str]:
    """Every piece at its end, with every rank's part in it once."""
    ranks = network.ranks
    home = _homes(schedule, network, collective)
    has: dict[tuple[int, int], frozenset[int]] = {}
    for piece in range(int(schedule.sends.piece.max()) + 1):
        starts = ranks if collective in ("reduce-scatter", "all-reduce") else [home[piece][0]]
        has.update({(rank, piece): frozenset([rank]) for rank in starts})
    for send in np.argsort(schedule.arrive_us, kind="stable").tolist():
        link, piece = int(schedule.sends.link[send]), int(schedule.sends.piece[send])
        source, target = int(network.source[link]), int(network.target[link])
        if (source, piece) not in has:
            return [f"node {source} sends piece {piece} and does not have it"]
        before = has.get((target, piece), frozenset())
        if schedule.sends.reduce[send]:
            if before & has[source, piece]:
                return [f"node {target} adds a part of piece {piece} twice"]
            has[target, piece] = before | has[source, piece]
        else:
            has[target, piece] = has[source, piece]
    every = frozenset(ranks) if collective in ("reduce-scatter", "all-reduce") else None
    found = []
    for piece, (_, ends) in enumerate(home):
        for rank in ends:
            wanted = every or frozenset([home[piece][0]])
            if has.get((rank, piece)) != wanted:
                found.append(f"rank {rank} ends without piece {piece}")
    return found[:3]


def _homes(schedule: Schedule, network: LinkNetwork, collective: str) -> list[tuple[int, list[int]]]:
    """Where each piece begins (for sums: is to be), and the ranks that want it."""
    ranks, pieces = network.ranks, int(schedule.sends.piece.max()) + 1
    if collective == "all-to-all":
        count = len(ranks)
        pairs = [(a, (a + shift) % count) for shift in range(1, count) for a in range(count)]
        return [(ranks[pairs[at % len(pairs)][0]], [ranks[pairs[at % len(pairs)][1]]]) for at in range(pieces)]
    ends = {"all-gather": ranks, "all-reduce": ranks}
    return [(ranks[at % len(ranks)], ends.get(collective, [ranks[at % len(ranks)]])) for at in range(pieces)]
