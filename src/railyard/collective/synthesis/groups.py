"""Cuts around groups of ranks: what enters or leaves a group crosses its border, whatever the schedule.

Ranks are grouped as networks are built: by what faster links join, by the switch that they share, by blocks of numbers.
Every grouping gives a valid bound; which is best is found by trying all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_ROUNDS = 6
_NOBODY = -1


@dataclass(frozen=True, eq=False)
class Border:
    """What lies between groups and the rest.

    Attributes:
        group: int64[ranks], the group of each rank.
        into: float64[groups], bytes a microsecond over the links that enter each.
        out: float64[groups], the same of those that leave each.
        door_us: float64[groups], how long the first byte takes from the nearest rank outside into each at least.
        gate_us: float64[groups], the same out of each.
    """

    group: Ints
    into: Floats
    out: Floats
    door_us: Floats
    gate_us: Floats

    @property
    def groups(self) -> int:
        """How many."""
        return len(self.into)


def borders(network: LinkNetwork) -> Iterator[Border]:
    """Those of all groupings that are tried, each once; single ranks are one of them."""
    near, far = _nearest_us(network), _nearest_us(network.reversed())
    seen: set[bytes] = set()
    for labels in _groupings(network):
        group = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        if group.max() > 0 and group.tobytes() not in seen:
            seen.add(group.tobytes())
            yield _border(network, group, near, far)


def sums_us(network: LinkNetwork, size: float) -> float:
    """All-reduce: a whole group knows no sum before something came from every other group, and tells it after that.

    Whoever sends to whom, all of `m` groups know everything after 2 (m - 1) one-way messages at least (Harary and
    Schwenk, The communication problem on graphs and digraphs, 1974). So borders are entered 2 (m - 1) times by every
    element, and left as often where switches do not copy, else m - 1 times. Each is entered and left once.
    """
    copies = network.switch.any() and not network.packets
    worst = 0.0
    for border in borders(network):
        often, door = 2 * (border.groups - 1), float(border.door_us.min())
        worst = max(
            worst,
            size * often / float(border.into.sum()) + door,
            size * (often / 2 if copies else often) / float(border.out.sum()) + door,
            float((size / border.into + border.door_us).max()),
            float((size / border.out + border.gate_us).max()),
        )
    return worst


def gathers_us(network: LinkNetwork, size: float) -> float:
    """All-gather: what a group lacks has to enter it."""
    worst = 0.0
    for border in borders(network):
        lacks = size * (1 - np.bincount(border.group) / len(network.ranks))
        worst = max(worst, float((lacks / border.into + border.door_us).max()))
    return worst


def exchanges_us(network: LinkNetwork, matrix: Floats) -> float:
    """All-to-all: what a group gets from others enters it, what they get from it leaves it.

    Args:
        network: The links.
        matrix: float64[ranks, ranks], bytes from each rank to each.
    """
    worst = 0.0
    for border in borders(network):
        outside = np.where(border.group[:, None] == border.group[None, :], 0.0, matrix)
        gets = np.bincount(border.group, outside.sum(axis=0), border.groups)
        gives = np.bincount(border.group, outside.sum(axis=1), border.groups)
        for bytes_, rate, late in ((gets, border.into, border.door_us), (gives, border.out, border.gate_us)):
            worst = max(worst, float(np.where(bytes_ > 0, bytes_ / rate + late, 0.0).max()))
    return worst


def _groupings(network: LinkNetwork) -> Iterator[Ints]:
    """int64[ranks] each, numbers of groups that may have gaps."""
    ranks = np.array(network.ranks)
    yield ranks
    rates = np.unique(network.bytes_per_us)
    touches = ~(network.switch[network.source] & network.switch[network.target])
    for rate in rates[:_ROUNDS]:
        yield _joined(network, network.bytes_per_us > rate)[ranks]
        yield _joined(network, touches & (network.bytes_per_us == rate))[ranks]
    for block in range(2, len(ranks)):
        if len(ranks) % block == 0:
            yield np.arange(len(ranks)) // block


def _joined(network: LinkNetwork, links: NDArray[np.bool_]) -> Ints:
    """int64[nodes], the lowest node that each is joined to over some links, in either direction."""
    label = np.arange(network.nodes)
    while True:
        before = label.copy()
        for one, other in ((network.source, network.target), (network.target, network.source)):
            np.minimum.at(label, other[links], label[one[links]])
        label = label[label]
        if (label == before).all():
            return label


def _border(network: LinkNetwork, group: Ints, near: Floats, far: Floats) -> Border:
    """See `Border`; `near`, `far`: latency from the nearest rank to each node and from each to its nearest."""
    region = _regions(network, group)
    source, target = region[network.source], region[network.target]
    count = int(group.max()) + 1
    late = near[network.source] + network.latency_us + far[network.target]
    crossing = source != target
    rates: list[Floats] = []
    lates: list[Floats] = []
    for side in (target, source):
        mine = crossing & (side != _NOBODY)
        rates.append(np.bincount(side[mine], network.bytes_per_us[mine], count).astype(np.float64))
        first = np.full(count, np.inf)
        np.minimum.at(first, side[mine], late[mine])
        lates.append(first)
    return Border(group, rates[0], rates[1], lates[0], lates[1])


def _regions(network: LinkNetwork, group: Ints) -> Ints:
    """int64[nodes], the group of each rank and of switches that are joined to one group alone; -1: of nobody."""
    region = np.full(network.nodes, _NOBODY)
    region[network.ranks] = group
    low, high = int(group.max()) + 1, _NOBODY
    left = network.switch.copy()
    for _ in range(_ROUNDS):
        least, most = np.full(network.nodes, low), np.full(network.nodes, high)
        for here, there in ((network.source, network.target), (network.target, network.source)):
            known = region[there] != _NOBODY
            np.minimum.at(least, here[known], region[there[known]])
            np.maximum.at(most, here[known], region[there[known]])
        found = left & (most != high)  # what lies between groups belongs to nobody, and is not asked again
        region[found & (least == most)] = least[found & (least == most)]
        left &= ~found
        if not found.any():
            break
    return region


def _nearest_us(network: LinkNetwork) -> Floats:
    """float64[nodes], the least latency from any rank to each node."""
    at = np.where(network.switch, np.inf, 0.0)
    while True:
        before = at.copy()
        np.minimum.at(at, network.target, at[network.source] + network.latency_us)
        if (at == before).all():
            return at
