"""Symmetries of a network: rotations of its ranks under which it is the same, and what they make of its links.

Where a group of symmetries takes every rank to every other, one tree and its images serve all ranks, and all links of
an orbit carry the same at the same time: a thousand ranks are searched as one is. Rotations are looked for as digits of
a rank's number in mixed radix turn (ranks of a domain, domains of a unit, units; the axes of a torus). Each is checked
link by link, so that what is found is a symmetry, whatever the numbering.

A network before some of its links were lost or slowed is found by comparing each link with its images.

Links are alike that join nodes of the same role: ranks; switches by how far they are from ranks, how fast ranks reach
them, and whether they are joined to switches. A few links that are slower than all of their kind are odd; so are those
that a few nodes lack.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.schedule import Sends, TimedSchedule
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork

    Ints = NDArray[np.int64]


def mirrored(network: LinkNetwork, spread: TimedSchedule) -> TimedSchedule:
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
    return TimedSchedule(back, end - spread.arrive_us[::-1], end - spread.start_us[::-1])


def followed(up: TimedSchedule, down: TimedSchedule) -> TimedSchedule:
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
    within = ranges(0, number)
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
    return TimedSchedule(
        sends,
        np.concatenate([up.start_us, down.start_us + moved]),
        np.concatenate([up.arrive_us, down.arrive_us + moved]),
    )


MOST_ODD = 64
"""Links that may be odd: of a network with more nobody knows what it was."""


@dataclass(frozen=True, eq=False)
class MendedNetwork:
    """A network as it was.

    Attributes:
        network: The links of the broken one in their order, then those that it lacks.
        odd: int64[], numbers of links that are slower there, or not there at all.
    """

    network: LinkNetwork
    odd: Ints


def mended(broken: LinkNetwork) -> MendedNetwork | None:
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
    return MendedNetwork(_with(restored, added), np.concatenate([odd, len(rate) + np.arange(len(added))]))


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
    """The symmetry with more links at the end; on rails one has that of most links of its switch."""
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


MOST_ELEMENTS = 1 << 12


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A group of symmetries; its elements move every rank.

    Attributes:
        node: int64[elements, nodes], where each element takes each node; the first leaves all where they are.
        link: int64[elements, links], the same of links.
        roots: Ranks, one of each orbit.
    """

    node: Ints
    link: Ints
    roots: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.node)

    @cached_property
    def orbit(self) -> Ints:
        """int64[links], the number of each link's orbit, in the order of their first links."""
        _, number = np.unique(self.link.min(axis=0), return_inverse=True)
        return np.asarray(number, np.int64)

    @cached_property
    def first(self) -> Ints:
        """int64[orbits], the lowest link of each."""
        return np.unique(self.link.min(axis=0))

    @cached_property
    def together(self) -> Ints:
        """int64[orbits], images of one send that cross the same link at the same time."""
        return len(self) // np.bincount(self.orbit)


def quotient(network: LinkNetwork, symmetry: Symmetry) -> LinkNetwork:
    """A link for each orbit, as fast as what one image of a send has of it; nodes are those of the whole network."""
    first = symmetry.first
    return replace(
        network,
        source=network.source[first],
        target=network.target[first],
        bytes_per_us=network.bytes_per_us[first] / symmetry.together,
        latency_us=network.latency_us[first],
        rail=None,
    )


def symmetry_of(network: LinkNetwork) -> Symmetry:
    """The largest group of turning digits that is found; of one element where there is none."""
    ranks = len(network.ranks)
    turns, low = [], 1
    worth: dict[int, int] = {}
    while low < ranks:
        found = _turn(network, low, worth)
        if found is None:
            low = next(size for size in range(low + 1, ranks + 1) if ranks % size == 0 and size % low == 0)
            continue
        turns.append(found)
        low = found[2]
    node, link = _group(network, turns)
    roots, left = [], set(network.ranks)
    while left:
        root = min(left)
        roots.append(root)
        left -= set(node[:, root].tolist())
    return Symmetry(node, link, tuple(roots))


def _turn(network: LinkNetwork, low: int, worth: dict[int, int]) -> tuple[Ints, Ints, int] | None:
    """The shortest cycle of digits worth `low` that is a symmetry: nodes, links, and what the next digit is worth.

    Args:
        network: The links.
        low: Of ranks.
        worth: Of switches that stand for one another, by the first of them: what their next digit is worth.
    """
    ranks = np.array(network.ranks)
    count = len(ranks)
    for block in range(2 * low, count + 1, low):
        if count % block:
            continue
        at = np.arange(count)
        image = ranks[at // block * block + (at % block + low) % block]
        found = _extended(network, image, block // low, worth)
        if found is not None:
            return *found, block
    return None


def _extended(network: LinkNetwork, image: Ints, order: int, worth: dict[int, int]) -> tuple[Ints, Ints] | None:
    """The images of switches and links under a permutation of the ranks; None if it is no symmetry.

    A turn that leaves some links where they are would have all its powers send over them at a time. Where switches
    stand for one another, as spines do, it turns them too, and no link stays.
    """
    node = np.arange(network.nodes)
    node[network.ranks] = image
    switches = np.flatnonzero(network.switch)
    if not len(switches):
        link = _matched(network, node)
        return None if link is None else (node, link)
    before, after = _colours(network, node), _colours(network, np.arange(network.nodes))
    left, right = (switches[np.argsort(colour[switches], kind="stable")] for colour in (before, after))
    if (before[left] != after[right]).any():
        return None
    node[left] = right
    link = _matched(network, node)
    if link is None or not (link == np.arange(len(link))).any():
        return None if link is None else (node, link)
    turned, used = _turned(node, [left[before[left] == one] for one in np.unique(before[left])], order, worth)
    over = _matched(network, turned)
    if over is None:
        return node, link
    worth.update(used)
    return turned, over


def _turned(node: Ints, alike: list[Ints], order: int, worth: dict[int, int]) -> tuple[Ints, dict[int, int]]:
    """The node with the digit of interchangeable switches rotated, and the worth of their next digits."""
    turned, used = node.copy(), {}
    for members in alike:
        first = int(members.min())
        low = worth.get(first, 1)
        if len(members) % (low * order) or set(node[members].tolist()) != set(members.tolist()):
            continue
        at, block = np.arange(len(members)), low * order
        turned[np.sort(members)] = np.sort(members)[at // block * block + (at % block + low) % block]
        used[first] = block
    return turned, used


def _colours(network: LinkNetwork, label: Ints) -> NDArray[np.uint64]:
    """uint64[nodes], colours of switches by what they are joined to; ranks are coloured by a label."""
    ends = network.source, network.target
    kind = _hashed(network.bytes_per_us.view(np.uint64), network.latency_us.view(np.uint64))
    if network.rail is not None:
        kind = _hashed(kind, (network.rail >= 0).astype(np.uint64))
    colour = np.where(network.switch, np.uint64(7), _hashed(label.astype(np.uint64), np.uint64(11)))
    for _ in range(6):
        summed = np.zeros(network.nodes, np.uint64)
        for side, (here, there) in enumerate((ends, ends[::-1])):
            np.add.at(summed, here, _hashed(_hashed(colour[there], kind), np.uint64(side)))
        colour = np.where(network.switch, _hashed(colour, summed), colour)
    return colour


def _hashed(one: NDArray[np.uint64], other: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """A mix of two words each (the finalizer of SplitMix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        value = one * np.uint64(0x9E3779B97F4A7C15) + other
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(value ^ (value >> np.uint64(31)), np.uint64)


def _matched(network: LinkNetwork, node: Ints) -> Ints | None:
    """The image of each link: an equal one between the images of its ends, parallel ones in order; None without."""
    late, rate = network.latency_us, network.bytes_per_us
    here = np.lexsort((late, rate, node[network.target], node[network.source]))
    there = np.lexsort((late, rate, network.target, network.source))
    same = (node[network.source[here]] == network.source[there]) & (node[network.target[here]] == network.target[there])
    if not (same & (rate[here] == rate[there]) & (late[here] == late[there])).all():
        return None
    link = np.empty(len(here), np.int64)
    link[here] = there
    return link


def _group(network: LinkNetwork, turns: list[tuple[Ints, Ints, int]]) -> tuple[Ints, Ints]:
    """All products of the powers of the turns, as far as they stay one for each image of a rank."""
    node, link = np.arange(network.nodes)[None, :], np.arange(len(network.source))[None, :]
    for one, over, _ in turns:
        order = _order(one, network.ranks)
        if order * len(node) > MOST_ELEMENTS:
            break
        nodes, links = [node], [link]
        for _power in range(order - 1):
            nodes.append(one[nodes[-1]])
            links.append(over[links[-1]])
        # a power that leaves all ranks leaves all links too, or links had images beyond those of the ranks
        if (one[nodes[-1]] != node).any() or (over[links[-1]] != link).any():
            continue
        node, link = np.concatenate(nodes), np.concatenate(links)
    return node, link


def _order(node: Ints, ranks: list[int]) -> int:
    at, order = node[ranks], 1
    while (at != ranks).any():
        at, order = node[at], order + 1
    return order
