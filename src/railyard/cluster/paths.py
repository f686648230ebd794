"""Flows through a routing table: one hashed path each, or an even split over all equal-cost paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import hashing
from railyard.cluster.links import Csr, CsrWeighted
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes

_MOST_HOPS = 1024


def _next_links(
    table: Routes, node: NDArray[np.int32], port: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First choice and width of the group by which each node reaches its port; a width of 0 where there is none."""
    record = table.find(node, port)
    found = record >= 0
    if not found.all():
        record = np.where(found, record, 0)
    group = (port - table.lo[record]) // table.stride[record]
    width = table.width[record]
    first = table.first[record] + group.astype(np.int64) * width
    if not found.all():
        width = np.where(found, width, 0).astype(np.int32)
        first = np.where(found, first, 0)
    connected = table.choices.take(first, mode="clip") >= 0
    return first, np.where(connected, width, 0).astype(np.int32)


def refuse(source: NDArray[np.int32], port: NDArray[np.int32], bad: NDArray[np.bool_]) -> None:
    """Raises InputError for the first of the bad pairs, if there is one."""
    if not bad.any():
        return
    flow = int(np.flatnonzero(bad)[0])
    raise InputError(
        f"there is no path from port {int(source[flow])} to port {int(port[flow])}",
        key="cluster.back_end.topology",
        hint="a rail-only network joins only NICs of the same rail: cross over by scale-up first",
    )


def walked(
    table: Routes, target: NDArray[np.int32], source: NDArray[np.int32], port: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """The path of first choices of every pair as CSR, and whether it arrives."""
    return _walk(table, target, source, port)


def hashed(
    table: Routes,
    target: NDArray[np.int32],
    source: NDArray[np.int32],
    port: NDArray[np.int32],
    *,
    entropy: NDArray[np.uint64] | None = None,
    salt: NDArray[np.uint32] | None = None,
) -> Csr:
    """One path per flow; at every switch the flow's entropy and the switch's salt are hashed to an equal-cost link.

    Args:
        table: Routes.
        target: int32[links], the node to which a link leads.
        source: int32[flows], node at which each flow begins.
        port: int32[flows], port at which it ends.
        entropy: uint64[flows], what the switches hash; None takes the first link everywhere.
        salt: uint32[nodes].

    Raises:
        InputError: A pair has no path.
    """
    ptr, link, ok = _walk(table, target, source, port, entropy=entropy, salt=salt)
    refuse(source, port, ~ok)
    return Csr(ptr, link)


def _walk(
    table: Routes,
    target: NDArray[np.int32],
    source: NDArray[np.int32],
    port: NDArray[np.int32],
    *,
    entropy: NDArray[np.uint64] | None = None,
    salt: NDArray[np.uint32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    flows = len(source)
    ok = np.ones(flows, np.bool_)
    key = np.zeros(flows, np.uint32) if entropy is None else hashing.path_keys(entropy)
    active = np.flatnonzero(source != port)
    node, goal = source[active], port[active]
    steps: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    while len(active):
        if len(steps) > _MOST_HOPS:
            raise SimulationError("routing loop: the topology's routing table is wrong")
        first, width = _next_links(table, node, goal)
        if (lost := width == 0).any():
            ok[active[lost]] = False
            active, node, goal, first, width = (part[~lost] for part in (active, node, goal, first, width))
        if salt is not None and bool((width > 1).any()):
            first = first + hashing.chosen(key[active], salt[node], width)
        link = table.choices[first]
        steps.append((active, link))
        node = target[link]
        if not (there := node == goal).any():
            continue
        active, node, goal = active[~there], node[~there], goal[~there]
    return (*_assembled(flows, steps), ok)


def _assembled(
    flows: int, steps: list[tuple[NDArray[np.int64], NDArray[np.int32]]]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """CSR from the link that each flow took at each hop."""
    length = np.zeros(flows, np.int64)
    for flow, _ in steps:
        length[flow] += 1
    ptr = np.concatenate([[0], np.cumsum(length)])
    link = np.empty(ptr[-1], np.int32)
    for hop, (flow, taken) in enumerate(steps):
        link[ptr[flow] + hop] = taken
    return ptr, link


def spread(table: Routes, target: NDArray[np.int32], source: NDArray[np.int32], port: NDArray[np.int32]) -> CsrWeighted:
    """The share of each flow on every link when each switch splits evenly over all equal-cost links.

    A table without a choice anywhere (that of the bundles of a Clos) is walked like a hashed path; otherwise the front
    of every flow is expanded hop by hop, and parts of one flow that meet again at a node are added up.

    Raises:
        InputError: A pair has no path.
    """
    if table.widest == 1:
        return hashed(table, target, source, port).weighted()
    flow = np.flatnonzero(source != port)
    node, share = source[flow], np.ones(len(flow))
    rows, links, shares = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
    for _ in range(_MOST_HOPS):
        if not len(flow):
            return CsrWeighted.gathered(
                len(source), np.concatenate(rows), np.concatenate(links), np.concatenate(shares)
            )
        first, width = _next_links(table, node, port[flow])
        refuse(source[flow], port[flow], width == 0)
        flow, link, share = _fanned(table, flow, first, width, share)
        rows.append(flow)
        links.append(link)
        shares.append(share)
        flow, node, share = _met(table.nodes, flow, target[link], share)
        away = node != port[flow]
        flow, node, share = flow[away], node[away], share[away]
    raise SimulationError("routing loop: the topology's routing table is wrong")


def _fanned(
    table: Routes,
    flow: NDArray[np.int64],
    first: NDArray[np.int64],
    width: NDArray[np.int32],
    share: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """One entry per equal-cost link of each front entry."""
    begin = np.concatenate([[0], np.cumsum(width, dtype=np.int64)])
    within = np.arange(begin[-1], dtype=np.int64) - np.repeat(begin[:-1], width)
    link = table.choices[np.repeat(first, width) + within]
    return np.repeat(flow, width), link, np.repeat(share / width, width)


def _met(
    nodes: int, flow: NDArray[np.int64], node: NDArray[np.int32], share: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Adds up the parts of a flow that arrive at the same node."""
    keys, inverse = np.unique(flow * nodes + node, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=share, minlength=len(keys)).astype(np.float64)
    return keys // nodes, (keys % nodes).astype(np.int32), total
