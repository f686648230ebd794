"""Ports of devices: which cage and lane each cable's ends take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.plan import NetworkPlan


@dataclass(frozen=True, eq=False)
class Sockets:
    """Ends of links at switches.

    Attributes:
        number: int32[ends], ports of the device counted straight on from 1, as InfiniBand does.
        cage: int32[ends], from 1.
        lane: int32[ends], from 0.
        lanes: int32[ends], ports that the cage is broken out into; 1: it is whole.
    """

    number: NDArray[np.int32]
    cage: NDArray[np.int32]
    lane: NDArray[np.int32]
    lanes: NDArray[np.int32]


def sockets(plan: NetworkPlan, switch: NDArray[np.int32], up: NDArray[np.bool_], rate: NDArray[np.float64]) -> Sockets:
    """Ports of switches in the order of their cables, those downwards first; a rate begins with a new cage.

    Args:
        plan: Of a network.
        switch: int32[ends], node of the network; not a switch where it is less than its ports.
        up: bool[ends], whether the end is the lower one of its cable.
        rate: float64[ends], bit/s.
    """
    order = np.lexsort((np.arange(len(switch)), up, switch))
    node, upper = switch[order], up[order]
    new_node = np.concatenate([[True], node[1:] != node[:-1]])
    start = np.maximum.accumulate(np.where(new_node, np.arange(len(node)), 0))
    number = np.arange(len(node)) - start + 1
    lanes = _lanes(plan, node, rate[order])
    new_half = new_node | np.concatenate([[True], (upper[1:] != upper[:-1]) & (lanes[1:] != lanes[:-1])])
    half = np.maximum.accumulate(np.where(new_half, np.arange(len(node)), 0))
    inside = np.arange(len(node)) - half
    cages_before = _cages_before(new_node, new_half, half, inside, lanes)
    cage = cages_before + inside // lanes + 1
    out = np.empty((4, len(node)), np.int32)
    out[:, order] = number, cage, inside % lanes, lanes
    return Sockets(*out)


def _lanes(plan: NetworkPlan, node: NDArray[np.int32], rate: NDArray[np.float64]) -> NDArray[np.int64]:
    """Ports of a rate that a cage of the switch can be broken out into."""
    whole = np.zeros(plan.wiring.nodes)
    for group in plan.wiring.groups:
        whole[group.first : group.first + group.count] = plan.switches[group.box].port_rate_bps
    return np.maximum((whole[node] / np.maximum(rate, 1.0) * (1 + 1e-9)).astype(np.int64), 1)


def _cages_before(
    new_node: NDArray[np.bool_],
    new_half: NDArray[np.bool_],
    half: NDArray[np.int64],
    inside: NDArray[np.int64],
    lanes: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Cages that the ports downwards of a switch take before those upwards, where these begin with a new one."""
    before = np.zeros(len(half), np.int64)
    for begin in np.flatnonzero(new_half & ~new_node):
        last = begin - 1
        before[begin] = inside[last] // lanes[last] + 1
    return before[half]
