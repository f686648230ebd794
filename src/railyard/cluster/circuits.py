"""Circuits between servers that follow the demand of the next phase: for which pairs, and whether a change is worth it.

    demand of four servers             two ports a server: a circuit for the pair that would end last,
        a   b   c   d                  until no pair with two free ports is left
    a   -   8   1   1
    b   8   -   1   1        a === b   two circuits: 8 / 2
    c   1   1   -   4        c === d   two circuits: 4 / 2; the pairs between go by the packet NICs
    d   1   1   4   -

A change leaves all circuits dark for the time of the switch and until links are up again. Computation hides of it what
lies between the last exchange, or the moment at which the demand is known if that is later, and the next exchange.
Source: Liao et al., MixNet, SIGCOMM 2025: section 5.1 (the gate decides forward, backward is known), algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True)
class ServerPorts:
    """Number and rate of the NICs of a server.

    Attributes:
        optical: NICs on the optical circuit switch.
        packet: NICs on the packet network, which is never the bottleneck.
        bytes_s: Rate of one NIC, bytes per second, one way.
    """

    optical: int
    packet: int
    bytes_s: float


@dataclass(frozen=True, eq=False)
class Phase:
    """An exchange between servers.

    Attributes:
        demand: float64[servers, servers], bytes from row to column; nothing from a server to itself.
        own: int64[servers, servers], circuits for this demand; None: it takes the even ones, and waits for them.
        idle_s: Computation between the exchange before it and this one.
        known_s: How long before it begins its demand is known; 0 where a gate right in front of it decides.
    """

    demand: NDArray[np.float64]
    own: NDArray[np.int64] | None = None
    idle_s: float = 0.0
    known_s: float = np.inf


class Followed(NamedTuple):
    """What a phase does: circuits of each pair, int64[servers, servers]; seconds in the dark; seconds of its bytes."""

    circuits: NDArray[np.int64]
    dark_s: float
    sending_s: float

    @property
    def seconds(self) -> float:
        """From the end of the computation before it until its last byte."""
        return self.dark_s + self.sending_s


def sending_s(demand: NDArray[np.float64], circuits: NDArray[np.int64], ports: ServerPorts) -> float:
    """Seconds of an exchange: pairs with circuits send by these alone, the others share their servers' packet NICs."""
    wired = circuits > 0
    light = float(np.max(demand[wired] / circuits[wired], initial=0.0))
    return max(light, float(_packet_bytes(demand, wired).max()) / ports.packet) / ports.bytes_s


def circuits_for(demand: NDArray[np.float64], ports: ServerPorts) -> NDArray[np.int64]:
    """int64[servers, servers], circuits of each pair: the plan of so many ports or fewer that ends first.

    Only so is a port more never a loss: it can lead the search below to a worse plan, up to a third longer.
    """
    plans = (_one_by_one(demand, replace(ports, optical=optical)) for optical in range(ports.optical, 0, -1))
    return min(plans, key=lambda circuits: sending_s(demand, circuits, ports))


def _one_by_one(demand: NDArray[np.float64], ports: ServerPorts) -> NDArray[np.int64]:
    """int64[servers, servers], circuits of each pair: again and again one more for the pair that would end last.

    Pairs without a circuit end when the busier of their servers has sent and received all that its packet NICs carry.
    A pair's first circuits are as many as end no later; if no port is left for them, it stays as it is. Of pairs that
    end together the one with most bytes is first.
    """
    heavier = np.maximum(demand, demand.T)
    circuits, free = np.zeros(demand.shape, np.int64), np.full(len(demand), ports.optical)
    open_ = np.triu(heavier > 0, 1)
    while True:
        packets = _packet_bytes(demand, circuits > 0) / ports.packet
        ends = np.where(circuits > 0, heavier / np.maximum(circuits, 1), np.maximum(packets[:, None], packets))
        here, there = np.nonzero(open_ & (free[:, None] > 0) & (free > 0))
        if not len(here):
            return circuits
        last = np.lexsort((-heavier[here, there], -ends[here, there]))[0]
        one, other = int(here[last]), int(there[last])
        more = int(np.ceil(heavier[one, other] / ends[one, other])) if circuits[one, other] == 0 else 1
        if more > min(free[one], free[other]):
            open_[one, other] = False
            continue
        circuits[[one, other], [other, one]] += more
        free[[one, other]] -= more


def follow_demand(
    phases: Iterable[Phase], even: NDArray[np.int64], ports: ServerPorts, dead_s: float
) -> Iterator[Followed]:
    """What each phase does, one after another: keeps the circuits, or changes to its own, whichever ends first.

    So circuits stay where the dead time exceeds the gain. A phase without circuits of its own takes the even ones.

    Args:
        phases: The exchanges, in order.
        even: int64[servers, servers], circuits before the first one; they suit an exchange that is alike for all pairs.
        ports: NICs of each server.
        dead_s: Time without circuits when they change.
    """
    now = even
    for phase in phases:
        if phase.own is None:
            ways = [(even, 0.0 if now is even else dead_s - phase.idle_s)]
        else:
            ways = [(now, 0.0), (phase.own, dead_s - min(phase.idle_s, phase.known_s))]
        found = [
            Followed(circuits, max(0.0, dark_s), sending_s(phase.demand, circuits, ports)) for circuits, dark_s in ways
        ]
        best = min(found, key=lambda way: way.seconds)
        now = best.circuits
        yield best


def _packet_bytes(demand: NDArray[np.float64], wired: NDArray[np.bool_]) -> NDArray[np.float64]:
    """float64[servers], the larger of what a server sends and receives by its packet NICs."""
    left = np.where(wired, 0.0, demand)
    most: NDArray[np.float64] = np.maximum(left.sum(axis=0), left.sum(axis=1))
    return most
