"""`no PFC deadlock`: routes and priorities let no links wait for one another in a cycle.

A link that is paused waits for the links by which the switch at its end sends on what arrives there. Traffic that
pauses has one priority (`LOSSLESS`), which no switch changes, so that links alone are the channels. If no chain of such
waits closes, nothing can deadlock: W. Dally and C. Seitz, "Deadlock-free message routing in multiprocessor
interconnection networks", IEEE Trans. Computers C-36(5), 1987; for adaptive choices among equal-cost links every choice
counts, which is sufficient.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from railyard.ask.check.assertion import AssertionOutcome, assertions
from railyard.cluster.names import link_name
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.check.assertion import CheckSubject
    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Wiring


def waits(wiring: Wiring) -> NDArray[np.int64]:
    """Pairs of links of which the first waits for the second when the second is paused, each once, int64[2, waits].

    A pair is there where some port can send through both in sequence on its way to some other. Links out of
    ports wait, and nothing waits for them; links into ports are waited for, and wait for nothing: both are in no
    circle, and left out.
    """
    table = wiring.routing
    groups, widths = np.empty(0, np.int64), np.empty(0, np.int64)
    found: list[NDArray[np.int64]] = []
    size = max(len(table.choices), 1)
    for port in destinations(wiring).tolist():
        link, first, width = _arriving(wiring, port)
        groups, at = np.unique(np.concatenate([groups, first]), return_index=True)
        widths = np.concatenate([widths, width])[at]
        found.append(link * size + first)
        if len(found) > 64:
            found = [_distinct(np.concatenate(found))]
    keys = _distinct(np.concatenate(found)) if found else np.empty(0, np.int64)
    link, first = keys // size, keys % size
    width = widths[np.searchsorted(groups, first)]
    within = ranges(0, width)
    second = table.choices[np.repeat(first, width) + within].astype(np.int64)
    pairs = np.repeat(link, width) * wiring.links + second
    pairs = _distinct(pairs[(second >= 0) & (wiring.target[second] >= wiring.ports)])
    return np.stack([pairs // wiring.links, pairs % wiring.links])


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from 0 on, sorted, each once. `np.unique` hashes integers first, which takes ten times as long."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def circle(edges: NDArray[np.int64]) -> list[int]:
    """Links that wait for one another in a cycle, in its order; empty if there is none.

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


def destinations(wiring: Wiring) -> NDArray[np.int64]:
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


def _arriving(wiring: Wiring, port: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Links between switches by which traffic to one port arrives, and the groups of links by which it goes on.

    Returns:
        int64[], links; int64[], where their groups begin among all choices; int64[], how wide these are.
    """
    table, reached = wiring.routing, wiring.used[wiring.used != port].astype(np.int64)
    seen = np.zeros(wiring.nodes, np.bool_)
    seen[reached] = True
    arriving: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    while len(reached):
        _, link = choices(table, reached, port)
        between = (wiring.target[link] >= wiring.ports) & (wiring.source[link] >= wiring.ports)
        arriving.append(link[between])
        ahead = _distinct(wiring.target[link].astype(np.int64))
        reached = ahead[~seen[ahead] & (ahead >= wiring.ports)]
        seen[reached] = True
    link = _distinct(np.concatenate(arriving))
    node, first, width = _groups(table, wiring.target[link].astype(np.int64), port)
    return link[node], first, width


def _groups(
    table: Routes, node: NDArray[np.int64], port: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Groups of links by which nodes send on what is for a port: places of the nodes that have one, begin, width."""
    record = table.find(node.astype(np.int32), np.full(len(node), port, np.int32))
    there = np.flatnonzero(record >= 0)
    record = record[there]
    width = table.width[record].astype(np.int64)
    return there, table.first[record] + (port - table.lo[record]) // table.stride[record] * width, width


def choices(table: Routes, node: NDArray[np.int64], port: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The links by which nodes may send on what is for a port, with the node of each; none where there is no route."""
    there, first, width = _groups(table, node, port)
    within = ranges(0, width)
    link = table.choices[np.repeat(first, width) + within].astype(np.int64)
    return np.repeat(node[there], width)[link >= 0], link[link >= 0]


DEEPEST = 16
"""Switches and links on a way, at first; doubled where there are more."""


@dataclass(frozen=True)
class Cuts:
    """Parts whose loss separates two ports of different servers.

    Attributes:
        turned: Cables that paths to one destination use in both directions, which are not judged.
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
    """One of the ports on the same switches, and one of another server if there is one."""
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
    """A port of another server on the same switches as this one; None if there is none."""
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


SHOWN = 4


@dataclass(frozen=True)
class NoDeadlock:
    """Pauses cannot deadlock."""

    forms: ClassVar[tuple[str, ...]] = ("no PFC deadlock",)

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        if text.lower() != "no pfc deadlock":
            hint = did_you_mean(text, cls.forms)
            raise InputError(f"`{text}` is not an assertion", found=text, allowed=f"`{cls.forms[0]}`", hint=hint)
        return cls()

    def check(self, subject: CheckSubject) -> None:
        """See `Assertion`."""
        network = subject.cluster.back_end
        fabric, wiring = network.fabric, network.wiring
        if fabric.credit_buffer_bytes:
            raise InputError(
                f"the fabric `{fabric.name}` uses link credits, and scenarios do not describe virtual lanes",
                found=fabric.name,
            )
        if fabric.pauses and (wiring.detour is not None or wiring.routes_through_ports):
            message = f"`{network.topology}` sends traffic over paths outside its routing tables"
            raise InputError(message, found=network.topology)

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """See `Assertion`."""
        network = subject.cluster.back_end
        if not network.fabric.pauses:
            return AssertionOutcome(f"`{network.fabric.name}` does not pause", holds=True)
        edges = waits(network.wiring)
        found = circle(edges)
        if not found:
            return AssertionOutcome(f"{edges.shape[1]:,} link dependencies, no cycle", holds=True)
        names = [link_name(subject.cluster, network.link_offset + link) for link in found[:SHOWN]]
        more = ", ..." if len(found) > SHOWN else ""
        return AssertionOutcome(f"{len(found)} link dependencies form a cycle: {', '.join(names)}{more}", holds=False)


assertions.add("no", NoDeadlock)
