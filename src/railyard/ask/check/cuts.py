"""Parts of a network without which some port reaches some other no more: on every way between the two.

A switch or link is on every way to a destination if it dominates the source in the graph of choices, read backwards
from the destination (R. Prosser, 1959; found by iteration as in any text on compilers). Chains of dominators are rows
of an array, and of several ways on what they have in common from the destination on is left. One destination stands for
all that switches reach by the same links, one source for all that hang on the same switches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.check.waits import choices, destinations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.topology.wiring import Wiring

DEEPEST = 16
"""Switches and links on a way, at first; doubled where there are more."""


@dataclass(frozen=True)
class Cuts:
    """What parts two ports of different servers when it is lost.

    Attributes:
        switches: By node: two ports that it parts.
        links: By link, in its direction.
        turned: Cables that ways to one destination use in both directions: of these nothing is said.
    """

    switches: dict[int, tuple[int, int]] = field(default_factory=dict)
    links: dict[int, tuple[int, int]] = field(default_factory=dict)
    turned: set[int] = field(default_factory=set)


def cuts(wiring: Wiring, server: NDArray[np.int64]) -> Cuts:
    """All of them but for the own links of ports, which only the ports that stand for others show.

    Args:
        wiring: A network whose ports pass nothing on.
        server: int64[ports], number of the server of each.
    """
    found = Cuts()
    sources = _sources(wiring, server)
    for port in destinations(wiring).tolist():
        others = _spread(wiring, port, server)
        chains = _chains(wiring, port, sources, found.turned)
        for source, chain in zip(sources.tolist(), chains.tolist(), strict=True):
            target = port if server[source] != server[port] else others
            if target is None or source == port:
                continue
            for part in chain:
                if part < 0:
                    break
                parts, number = (found.links, part) if part < wiring.links else (found.switches, part - wiring.links)
                parts[number] = min(parts.get(number, (source, target)), (source, target))
    return found


def _sources(wiring: Wiring, server: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of ports that hang on the same switches one, and one more of another server where there is one."""
    leaf: dict[int, list[int]] = {}
    own = np.flatnonzero(wiring.source < wiring.ports)
    for port, switch in zip(wiring.source[own].tolist(), wiring.target[own].tolist(), strict=True):
        leaf.setdefault(port, []).append(switch)
    chosen: dict[tuple[int, ...], list[int]] = {}
    for port in wiring.used.tolist():
        alike = chosen.setdefault(tuple(leaf.get(port, ())), [])
        if not alike or (len(alike) == 1 and server[alike[0]] != server[port]):
            alike.append(port)
    return np.array(sorted(port for alike in chosen.values() for port in alike), np.int64)


def _spread(wiring: Wiring, port: int, server: NDArray[np.int64]) -> int | None:
    """A port of another server that hangs on the same switches as this one; None where there is none."""
    own = wiring.source == port
    leaves = np.sort(wiring.target[own])
    near = np.flatnonzero(np.isin(wiring.target, leaves) & (wiring.source < wiring.ports))
    for other in np.unique(wiring.source[near]).tolist():
        if server[other] != server[port] and np.array_equal(np.sort(wiring.target[wiring.source == other]), leaves):
            return int(other)
    return None


def _chains(wiring: Wiring, port: int, sources: NDArray[np.int64], turned: set[int]) -> NDArray[np.int64]:
    """int64[sources, depth], parts on every way to a port, from it on: links, nodes behind them; -1 at the end."""
    switches = np.arange(wiring.ports, wiring.nodes, dtype=np.int64)
    node, link = choices(wiring.routing, switches, port)
    pairs, count = np.unique(link // 2, return_counts=True)
    turned.update(pairs[count > 1][_both(link, pairs[count > 1])].tolist())
    deepest = DEEPEST
    while True:
        chain = np.full((wiring.nodes, deepest), -1, np.int64)
        known = np.zeros(wiring.nodes, np.bool_)
        known[port] = True
        while True:
            new = _step(wiring, node, link, chain, known)
            if new is None:
                break
        out = chain.copy()
        _step(wiring, *choices(wiring.routing, sources, port), out, known)
        if (out[:, -1] < 0).all():
            return out[sources]
        deepest *= 2


def _both(link: NDArray[np.int64], cables: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[cables], whether both directions are among the links."""
    both: NDArray[np.bool_] = np.isin(2 * cables, link) & np.isin(2 * cables + 1, link)
    return both


def _step(
    wiring: Wiring, node: NDArray[np.int64], link: NDArray[np.int64], chain: NDArray[np.int64], known: NDArray[np.bool_]
) -> bool | None:
    """One round for nodes with choices, in place; None where nothing changed."""
    target = wiring.target[link].astype(np.int64)
    on = known[target]
    node, link, target = node[on], link[on], target[on]
    if not len(node):
        return None
    rows = chain[target]
    depth = (rows >= 0).sum(axis=1)
    at = np.arange(len(node))
    inner = (target >= wiring.ports) & (depth < chain.shape[1])
    rows[at[inner], depth[inner]] = wiring.links + target[inner]
    depth = depth + inner
    room = depth < chain.shape[1]
    rows[at[room], depth[room]] = link[room]
    first = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    same = np.minimum.reduceat(rows, first) == np.maximum.reduceat(rows, first)
    kept = np.where(np.logical_and.accumulate(same, axis=1), rows[first], -1)
    mine = node[first]
    if known[mine].all() and np.array_equal(chain[mine], kept):
        return None
    chain[mine], known[mine] = kept, True
    return True
