"""Which links wait for which: the channel dependency graph of a network's routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.topology.wiring import Wiring
    from railyard.routes import Routes


def waits(wiring: Wiring) -> NDArray[np.int64]:
    """Pairs of links of which the first waits for the second when the second is paused, each once, int64[2, waits].

    A pair is there where some port can send through both, one after the other, on its way to some other. Links out of
    ports wait, and nothing waits for them; links into ports are waited for, and wait for nothing: both are in no
    circle, and left out.

    Args:
        wiring: A network whose ports pass nothing on.
    """
    found: list[NDArray[np.int64]] = []
    for port in _destinations(wiring).tolist():
        found.append(np.unique(_to(wiring, port)))
        if len(found) > 64:
            found = [np.unique(np.concatenate(found))]
    keys = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    return np.stack([keys // wiring.links, keys % wiring.links])


def circle(edges: NDArray[np.int64]) -> list[int]:
    """Links that wait for one another in a circle, in its order; empty where there is none.

    Args:
        edges: int64[2, waits].
    """
    if not edges.shape[1]:
        return []
    alive = np.ones(edges.shape[1], np.bool_)
    size = int(edges.max()) + 1
    while True:
        leaving = np.bincount(edges[0, alive], minlength=size) > 0
        still = alive & leaving[edges[1]]
        if np.array_equal(still, alive):
            break
        alive = still
    if not alive.any():
        return []
    following = dict(zip(edges[0, alive].tolist(), edges[1, alive].tolist(), strict=True))
    walked: list[int] = []
    link = int(edges[0, alive][0])
    while link not in walked:
        walked.append(link)
        link = following[link]
    return walked[walked.index(link) :]


def _destinations(wiring: Wiring) -> NDArray[np.int64]:
    """One port in use for each set of them that all switches reach by the same links between switches.

    Ports between which no group of any record changes, except for groups of links into ports, are of one set.
    """
    table = wiring.routing
    cuts = [np.array([0], np.int64)]
    inner = _leads_to_switches(wiring)
    for record in np.flatnonzero(inner).tolist():
        cuts.append(np.arange(table.lo[record], table.hi[record], table.stride[record], dtype=np.int64))
        cuts.append(np.array([table.hi[record]], np.int64))
    cuts += [table.lo[~inner].astype(np.int64), table.hi[~inner].astype(np.int64)]
    ports = wiring.used.astype(np.int64)
    belongs = np.searchsorted(np.unique(np.concatenate(cuts)), ports, side="right")
    return ports[np.unique(belongs, return_index=True)[1]]


def _leads_to_switches(wiring: Wiring) -> NDArray[np.bool_]:
    """bool[records], whether any of a record's choices ends at a switch."""
    table = wiring.routing
    switch = np.concatenate([[0], np.cumsum((wiring.target >= wiring.ports)[np.maximum(table.choices, 0)])])
    end = table.first + table.groups() * table.width
    leads: NDArray[np.bool_] = switch[end] > switch[table.first]
    return leads


def _to(wiring: Wiring, port: int) -> NDArray[np.int64]:
    """Waits of traffic to one port, as `first * links + second`."""
    table, reached = wiring.routing, wiring.used[wiring.used != port].astype(np.int64)
    seen = np.zeros(wiring.nodes, np.bool_)
    seen[reached] = True
    pairs: list[NDArray[np.int64]] = []
    while len(reached):
        _, link = _choices(table, reached, port)
        between = (wiring.target[link] >= wiring.ports) & (wiring.source[link] >= wiring.ports)
        pairs.append(link[between])
        ahead = np.unique(wiring.target[link]).astype(np.int64)
        reached = ahead[~seen[ahead] & (ahead >= wiring.ports)]
        seen[reached] = True
    arriving = np.unique(np.concatenate(pairs)) if pairs else np.empty(0, np.int64)
    if not len(arriving):
        return arriving
    node, link = _choices(table, np.unique(wiring.target[arriving]).astype(np.int64), port)
    between = wiring.target[link] >= wiring.ports
    node, link = node[between], link[between]
    order = np.argsort(node, kind="stable")
    node, link = node[order], link[order]
    at = wiring.target[arriving]
    begin, end = np.searchsorted(node, at), np.searchsorted(node, at, side="right")
    count = end - begin
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    keys: NDArray[np.int64] = np.repeat(arriving, count) * wiring.links + link[np.repeat(begin, count) + within]
    return keys


def _choices(table: Routes, node: NDArray[np.int64], port: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The links by which nodes may send on what is for a port, with the node of each; none where there is no route."""
    record = table.find(node.astype(np.int32), np.full(len(node), port, np.int32))
    node, record = node[record >= 0], record[record >= 0]
    width = table.width[record].astype(np.int64)
    first = table.first[record] + (port - table.lo[record]) // table.stride[record] * width
    within = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
    link = table.choices[np.repeat(first, width) + within].astype(np.int64)
    return np.repeat(node, width)[link >= 0], link[link >= 0]
