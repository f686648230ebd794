"""What is between sites: round trips by distance, goodput of parallel connections, and the ring that is fastest."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.edge.transport import goodput_bps, transports
from railyard.work.study.wide import far_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.local.section import BetweenSection

    Floats = NDArray[np.float64]

EARTH_M = 6.371e6
_DETOUR = 2.0
"""Round trip through a relay over the direct one: a relay that lies as far from either as they from each other."""
_MOST_TRIED = 7
"""Kinds of sites whose every order is tried; more are put in order greedily."""


@dataclass(frozen=True)
class Ends:
    """A site's line.

    Attributes:
        up_bps: From it, ONE WAY.
        down_bps: To it.
        rtt_s: ROUND TRIP of its access.
        loss: On its access.
        nat: Probability that a site of this kind cannot be reached by others.
        place: Latitude and longitude in degrees; None: the same distance to all.
    """

    up_bps: float
    down_bps: float
    rtt_s: float
    loss: float
    nat: float
    place: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Lines:
    """Between kinds of sites; float64[kinds, kinds], from row to column; the diagonal is between two of one kind.

    Attributes:
        rtt_s: ROUND TRIP.
        goodput_bps: Of all connections together, ONE WAY.
        line_bps: The same if nothing were lost.
        relayed: Probability that a pair meets through a relay: both are behind NAT, and no hole could be punched.
        by_relay: What such a pair has; None: these lines are a relay's.
    """

    rtt_s: Floats
    goodput_bps: Floats
    line_bps: Floats
    relayed: Floats
    by_relay: Lines | None = None


def great_circle_m(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Along the surface of a sphere of the earth's mean radius (haversine)."""
    (lat, lon), (to_lat, to_lon) = (tuple(map(math.radians, place)) for place in (one, other))
    half = math.sin((to_lat - lat) / 2.0) ** 2 + math.cos(lat) * math.cos(to_lat) * math.sin((to_lon - lon) / 2.0) ** 2
    return 2.0 * EARTH_M * math.asin(math.sqrt(half))


def lines(ends: Sequence[Ends], between: BetweenSection) -> Lines:
    """Round trips and goodputs between all kinds, right and through a relay."""
    nat = np.array([one.nat for one in ends])
    relayed = np.outer(nat, nat) * (1.0 - between.punched)
    return _lines(ends, between, relayed, 1.0, _lines(ends, between, relayed, _DETOUR, None))


def _lines(
    ends: Sequence[Ends], between: BetweenSection, relayed: Floats, detour: float, by_relay: Lines | None
) -> Lines:
    count = len(ends)
    rtt, goodput, line = (np.zeros((count, count)) for _ in range(3))
    transport = transports.get(between.transport)
    most = between.relay if by_relay is None else math.inf
    for i, j in itertools.product(range(count), repeat=2):
        one, other = ends[i], ends[j]
        trip = between.latency + one.rtt_s + other.rtt_s + far_s(_distance_m(one, other, between))
        rate = min(one.up_bps, other.down_bps, between.rate or math.inf, most)
        rtt[i, j] = trip * detour
        lost = 1.0 - (1.0 - between.loss) * (1.0 - one.loss) * (1.0 - other.loss)
        each = rate / between.connections
        goodput[i, j] = between.connections * float(goodput_bps(transport, each, rtt[i, j], lost))
        line[i, j] = between.connections * float(goodput_bps(transport, each, rtt[i, j], 0.0))
    return Lines(rtt, goodput, line, relayed, by_relay)


def _distance_m(one: Ends, other: Ends, between: BetweenSection) -> float:
    if one.place is None or other.place is None:
        return between.distance
    return great_circle_m(one.place, other.place) * between.stretch


def ring(lines: Lines, counts: Sequence[int], chunk_bits: float) -> list[tuple[int, int]]:
    """Exchanges of a ring over all sites: the order of kinds whose slowest one is fastest, alike sites side by side.

    Args:
        lines: Between kinds.
        counts: Sites of each kind.
        chunk_bits: Of a message.
    """
    kinds = [kind for kind, count in enumerate(counts) if count]
    inner = [(kind, kind) for kind in kinds if counts[kind] > 1]
    if len(kinds) == 1:
        return inner
    took = chunk_bits / lines.goodput_bps + lines.rtt_s / 2.0
    orders = (
        [list(order) for order in itertools.permutations(kinds[1:])]
        if len(kinds) <= _MOST_TRIED
        else [_greedy(took, kinds)]
    )
    best = min(([kinds[0], *order] for order in orders), key=lambda order: max(took[i, j] for i, j in _around(order)))
    return [*inner, *_around(best)]


def _around(order: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(order, [*order[1:], order[0]], strict=True))


def _greedy(took: Floats, kinds: Sequence[int]) -> list[int]:
    """From the first kind on, always to the nearest that is left."""
    left, order = list(kinds[1:]), [kinds[0]]
    while left:
        order.append(min(left, key=lambda kind: took[order[-1], kind]))
        left.remove(order[-1])
    return order[1:]
