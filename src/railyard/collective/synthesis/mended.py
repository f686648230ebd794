"""What a network was before some of its links were lost or slowed: the like of a link tells what it was.

Links are alike that join nodes of the same role: ranks; switches by how far they are from ranks, how fast ranks reach
them, and whether they are joined to switches. A few links that are slower than all of their kind are odd; so are those
that a few nodes lack.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.schedule import Schedule, Sends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork

    Ints = NDArray[np.int64]


def mirrored(network: LinkNetwork, spread: Schedule) -> Schedule:
    """The sums of a schedule over the reversed links of a network.

    Args:
        network: Over whose links the sums go; links of the reversed one have the same numbers.
        spread: Trees over the reversed links, whose branches begin at ranks.
    """
    sends, count = spread.sends, len(spread.sends)
    owner = np.repeat(np.arange(count), np.diff(sends.after_ptr))
    later, before = count - 1 - sends.after, count - 1 - owner  # what waited is waited for
    order = np.lexsort((before, later))
    link = sends.link[::-1]
    back = Sends(
        sends.piece_bytes,
        sends.pieces,
        link,
        sends.piece[::-1],
        ~network.switch[network.target[link]],
        np.searchsorted(later[order], np.arange(count + 1)),
        before[order].astype(np.int32),
    )
    end = spread.finish_us
    return Schedule(back, end - spread.arrive_us[::-1], end - spread.start_us[::-1])


def followed(up: Schedule, down: Schedule) -> Schedule:
    """An all-reduce: sums, and once all are there what spreads them.

    Args:
        up: A reduce-scatter.
        down: An all-gather of the same pieces.
    """
    first, second, count = up.sends, down.sends, len(up.sends)
    waited = np.bincount(first.after, minlength=count) > 0
    last = np.flatnonzero(~waited)
    last = last[np.argsort(first.piece[last], kind="stable")]
    brought = np.searchsorted(first.piece[last], np.arange(second.pieces + 1))
    starts = np.diff(second.after_ptr) == 0
    number = np.where(starts, np.diff(brought)[second.piece], np.diff(second.after_ptr))
    pointer = np.concatenate([[0], np.cumsum(number)])
    after = np.empty(int(pointer[-1]), np.int64)
    within = np.arange(len(after)) - np.repeat(pointer[:-1], number)
    of_start = np.repeat(starts, number)
    piece = np.repeat(second.piece, number)
    after[of_start] = last[(brought[piece] + within)[of_start]]
    after[~of_start] = second.after + count
    sends = Sends(
        first.piece_bytes,
        first.pieces,
        np.concatenate([first.link, second.link]),
        np.concatenate([first.piece, second.piece]),
        np.concatenate([first.reduce, second.reduce]),
        np.concatenate([first.after_ptr, first.after_ptr[-1] + pointer[1:]]),
        np.concatenate([first.after, after]).astype(np.int32),
    )
    moved = up.finish_us
    return Schedule(
        sends,
        np.concatenate([up.start_us, down.start_us + moved]),
        np.concatenate([up.arrive_us, down.arrive_us + moved]),
    )


MOST_ODD = 64
"""Links that may be odd: of a network with more nobody knows what it was."""


@dataclass(frozen=True, eq=False)
class Mended:
    """A network as it was.

    Attributes:
        network: The links of the broken one in their order, then those that it lacks.
        odd: int64[], numbers of links that are slower there, or not there at all.
    """

    network: LinkNetwork
    odd: Ints


def mended(broken: LinkNetwork) -> Mended | None:
    """The network that was broken; None where nothing is odd, or too much."""
    role = _roles(broken)
    kind = role[broken.source] * (int(role.max()) + 1) + role[broken.target]
    rate, late = broken.bytes_per_us.copy(), broken.latency_us.copy()
    added: list[tuple[int, int, float, float]] = []
    for one in np.unique(kind):
        mine = np.flatnonzero(kind == one)
        usual = Counter(zip(rate[mine].tolist(), late[mine].tolist(), strict=True)).most_common(1)[0][0]
        slow = mine[(rate[mine] < usual[0]) | (late[mine] > usual[1])]
        if len(slow) <= MOST_ODD and len(slow) * 4 < len(mine):
            rate[slow], late[slow] = usual
        added += [(*ends, *usual) for ends in _lacking(broken, role, mine)]
    odd = np.flatnonzero((rate > broken.bytes_per_us) | (late < broken.latency_us))
    if not 0 < len(odd) + len(added) <= MOST_ODD or (late > broken.latency_us).any():
        return None
    restored = replace(broken, bytes_per_us=rate, latency_us=late)
    return Mended(_with(restored, added), np.concatenate([odd, len(rate) + np.arange(len(added))]))


def _roles(network: LinkNetwork) -> Ints:
    """int64[nodes], a number for each role."""
    far = np.where(network.switch, network.nodes, 0)
    for _ in range(network.nodes):
        before = far.copy()
        for one, other in ((network.source, network.target), (network.target, network.source)):
            np.minimum.at(far, one, before[other] + 1)
        if (far == before).all():
            break
    fast = np.zeros(network.nodes)
    inner = np.zeros(network.nodes, np.int64)
    between = network.switch[network.source] & network.switch[network.target]
    np.maximum.at(fast, network.target, np.where(between, 0.0, network.bytes_per_us))
    np.maximum.at(inner, network.target, between.astype(np.int64))
    words = [
        (int(far[node]), float(fast[node]), int(inner[node])) if network.switch[node] else (0, 0.0, 0)
        for node in range(network.nodes)
    ]
    number = {word: at for at, word in enumerate(sorted(set(words)))}
    return np.array([number[word] for word in words])


def _lacking(network: LinkNetwork, role: Ints, links: Ints) -> Iterator[tuple[int, int]]:
    """Pairs of nodes that lack a link of a kind, where all others of their roles have as many."""
    source, target = network.source[links], network.target[links]
    lacks = []
    for end in (source, target):
        nodes = np.flatnonzero(role == role[end[0]])
        has = np.bincount(end, minlength=network.nodes)[nodes]
        usual = Counter(has.tolist()).most_common(1)[0][0]
        lacks.append(np.repeat(nodes, np.maximum(usual - has, 0)).tolist())
    if len(lacks[0]) != len(lacks[1]) or len(lacks[0]) > MOST_ODD:
        return
    there = set(zip(source.tolist(), target.tolist(), strict=True))
    for node in lacks[0]:
        other = next((one for one in lacks[1] if (node, one) not in there and one != node), None)
        if other is not None:
            lacks[1].remove(other)
            yield node, other


def _with(network: LinkNetwork, added: list[tuple[int, int, float, float]]) -> LinkNetwork:
    """With more links at the end; on rails one has that of most links of its switch."""
    if not added:
        return network
    source, target, rate, late = (np.array(column) for column in zip(*added, strict=True))
    rail = network.rail
    if rail is not None:
        found = []
        for one, other in zip(source.tolist(), target.tolist(), strict=True):
            middle = one if network.switch[one] else other
            like = rail[(network.source == middle) | (network.target == middle)]
            found.append(Counter(like.tolist()).most_common(1)[0][0] if network.switch[middle] else -1)
        rail = np.concatenate([rail, found])
    return replace(
        network,
        source=np.concatenate([network.source, source.astype(np.int32)]),
        target=np.concatenate([network.target, target.astype(np.int32)]),
        bytes_per_us=np.concatenate([network.bytes_per_us, rate]),
        latency_us=np.concatenate([network.latency_us, late]),
        rail=rail,
    )
