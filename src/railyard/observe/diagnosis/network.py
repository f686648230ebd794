"""The link, NIC or host that makes communications slow: routed paths of a cluster against measured durations.

The measured computations are replayed on the cluster as it should be; communications that took longer than in that
replay met something that the model does not know. Every part on their paths is a candidate. Each is replayed with the
one rate that explains the slowest communication, and the part is named whose replay gives all durations back, those of
the healthy communications too. Where several parts explain as much, none is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import node_name
from railyard.engine.flow import FLOW
from railyard.engine.lowering import lower
from railyard.errors import RailyardError
from railyard.fault.degrade_link import DegradeLink
from railyard.graph import Job, Kind
from railyard.observe.diagnosis.compute import computed_ps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import Record, TaskGraph

    Times = NDArray[np.float64]

LEAST = 0.005
"""Communications may take so much longer than expected, of what they take, and be healthy."""

SPREADS = 6.0
TRIED = 12
"""Candidates that are replayed, those first whose paths fit best."""

SEARCHES = 7
"""Replays by which the rate of a candidate is found: to 1 % of it, by bisection of its logarithm."""

SLOWEST = 0.02
"""Least share of its rate that a part is looked for at."""

EXPLAINED = 0.9
"""Of the delay, what a part must give back to be named."""

APART = 0.05
"""Of the delay, by how much it must do better than the next, which is no part of it."""


@dataclass(frozen=True)
class Part:
    """A candidate.

    Attributes:
        name: As faults write it.
        kind: link, nic or host.
        links: Physical links, both directions.
    """

    name: str
    kind: str
    links: tuple[int, ...]


@dataclass(frozen=True)
class Explained:
    """How well a part explains the delays.

    Attributes:
        part: Which.
        factor: The share of its rate that it has left.
        error: What remains unexplained, of all delay.
    """

    part: Part
    factor: float
    error: float


@dataclass(frozen=True)
class Delays:
    """Communications that took longer than they should.

    Attributes:
        late: bool[tasks].
        measured: float64[tasks], ps.
        expected: float64[tasks], ps.
        step_ps: Of the replay without faults.
    """

    late: NDArray[np.bool_]
    measured: Times
    expected: Times
    step_ps: int

    @property
    def worst(self) -> int:
        """The task that is late by most."""
        return int(np.argmax(np.where(self.late, self.measured - self.expected, -1)))


def measured_graph(record: Record) -> TaskGraph:
    """The tasks with computations as long as they were measured."""
    graph = record.graph
    return replace(graph, duration_ps=np.where(graph.on_accelerator, computed_ps(record), graph.duration_ps))


def _durations(record: Record) -> Times:
    return np.asarray(record.end_ps - record.start_ps, np.float64)


def delays(record: Record, graph: TaskGraph, cluster: Cluster) -> Delays:
    """What took longer than in a replay on the cluster as it should be."""
    healthy = FLOW.simulate([Job(graph)], cluster)
    measured, expected = _durations(record), _durations(healthy)
    moves = (graph.kind == Kind.COLLECTIVE) | (graph.kind == Kind.TRANSFER)
    moves &= record.ended & (expected > 0)
    ratio = np.ones(len(measured))
    ratio[moves] = measured[moves] / expected[moves]
    spread = float(np.median(np.abs(ratio[moves] - np.median(ratio[moves])))) if moves.any() else 0.0
    late = moves & (ratio > 1 + max(LEAST, SPREADS * 1.4826 * spread))
    return Delays(late, measured, expected, healthy.makespan_ps)


def explain(found: Delays, graph: TaskGraph, cluster: Cluster) -> list[Explained]:
    """Parts and how well they explain the delays, the best first."""
    tried = []
    for part in _fitting(found, graph, cluster):
        try:
            tried.append(_fitted(part, found, graph, cluster))
        except RailyardError:  # a part whose loss the engine cannot run explains nothing
            continue
    return sorted(tried, key=lambda one: (round(one.error, 3), len(one.part.links)))


def _fitting(found: Delays, graph: TaskGraph, cluster: Cluster) -> list[Part]:
    """Candidates by how well the communications that use them are those that are late."""
    lowered = lower(graph, cluster)
    entity = lowered.entity
    uses: dict[int, set[int]] = {}
    ptr, link = lowered.entities.link_ptr, lowered.entities.link_idx
    for number in range(len(lowered.entities)):
        for one in link[ptr[number] : ptr[number + 1]].tolist():
            uses.setdefault(one, set()).add(number)
    moves = entity >= 0
    count = max(len(lowered.entities), 1)
    late_of = np.bincount(entity[moves & found.late], minlength=count) > 0
    delay = np.bincount(
        entity[moves], weights=np.where(found.late, found.measured - found.expected, 0)[moves], minlength=count
    )
    all_delay = max(float(delay.sum()), 1.0)
    scored = []
    for part in parts(cluster):
        ids = {_bundle(cluster, one) for one in part.links} | set(part.links)
        users = set().union(*(uses.get(one, set()) for one in ids))
        if not users:
            continue
        those = np.array(sorted(users))
        covered = float(delay[those].sum()) / all_delay
        precise = float(late_of[those].mean())
        if covered > 0:
            scored.append((covered + 0.5 * precise, -len(part.links), part))
    scored.sort(key=lambda one: one[:2], reverse=True)
    return [part for _, _, part in scored[:TRIED]]


def _bundle(cluster: Cluster, link: int) -> int:
    return int(cluster.links.bundle_of[link])


def _fitted(part: Part, found: Delays, graph: TaskGraph, cluster: Cluster) -> Explained:
    """The part with the rate at which the worst communication takes as long as it did."""
    low, high = np.log(SLOWEST), 0.0
    worst, target = found.worst, found.measured[found.worst]
    best = Explained(part, 1.0, 1.0)
    for _ in range(SEARCHES):
        middle = (low + high) / 2
        took = _replayed(part, float(np.exp(middle)), graph, cluster)
        error = _error(took, found)
        if error < best.error:
            best = Explained(part, float(np.exp(middle)), error)
        if took[worst] > target:
            low = middle
        else:
            high = middle
    return best


def _replayed(part: Part, factor: float, graph: TaskGraph, cluster: Cluster) -> Times:
    faults = [DegradeLink(factor=factor, link=link) for link in part.links]
    return _durations(FLOW.simulate([Job(graph)], cluster, faults=faults))


def _error(took: Times, found: Delays) -> float:
    moved = found.expected > 0
    delay = float(np.abs(found.measured - found.expected)[moved & found.late].sum())
    off = np.abs(took - found.measured)[moved]
    slack = LEAST * found.expected[moved]  # what may differ in a healthy communication is no error
    return float(np.maximum(off - slack, 0).sum()) / max(delay, 1.0)


def parts(cluster: Cluster) -> Iterator[Part]:
    """Cables of the back-end, NICs and hosts.

    A NIC with one port and its cable are one part: no measurement of their traffic tells them apart.
    """
    links, network = cluster.links, cluster.back_end
    first, last = network.node_offset, network.node_offset + network.nodes
    inside = [
        (ends[: links.physical] >= first) & (ends[: links.physical] < last) for ends in (links.source, links.target)
    ]
    here = np.flatnonzero(inside[0] & inside[1]).tolist()
    cables: dict[tuple[int, int], list[int]] = {}
    for link in here:
        ends = sorted((int(links.source[link]), int(links.target[link])))
        cables.setdefault((ends[0], ends[1]), []).append(link)
    hosts: dict[str, list[int]] = {}
    nics: dict[str, list[int]] = {}
    for (one, other), those in cables.items():
        names = [node_name(cluster, node).removeprefix(f"{network.name} ") for node in (one, other)]
        attached = next((name for name in names if name.startswith("server ")), None)
        if attached is None:
            yield Part(" - ".join(names), "link", tuple(those))
            continue
        nics.setdefault(attached.replace(" NIC ", " nic "), []).extend(those)
        hosts.setdefault(attached.split(" NIC ")[0], []).extend(those)
    for name, those in nics.items():
        yield Part(name, "nic", tuple(those))
    for name, those in hosts.items():
        if len(those) > len(nics[next(nic for nic in nics if nic.startswith(f"{name} "))]):
            yield Part(name, "host", tuple(those))
