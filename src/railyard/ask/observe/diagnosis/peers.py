"""Communications against their expectation and one another: what times say, and how well a guess fits.

An observation is a communication of one group of ranks and size: the logarithm of its measured over its expected time,
the median over the times that it ran. Communications alike in kind, size, number of members and tiers crossed are
peers: whatever the model gets wrong is the same for all of them, and is taken out as their median, as far as a spread
of `BIAS` makes that likely. What remains is compared with a guess under Student's law, since a few communications are
always odd.

How far the model is from the record in what communications cost each other on shared links is up to the record: queues
decide who goes first, and a model of rates has none. So its own median error there is its spread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault.kinds import DegradeLink
from railyard.engine.contract import Probes, joint
from railyard.engine.flow import FLOW
from railyard.engine.lowering import lower
from railyard.graph import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.links import LinkTable
    from railyard.engine.lowering import LoweredGraph
    from railyard.graph import MergedJobs, Record, TaskGraph

    Floats = NDArray[np.float64]


ALIKE = 0.05
"""Share of all bytes that may use other links than expected: headers, acknowledgements, retransmissions."""

MOVES = frozenset({"adaptive", "spray", "cells", "ideal"})
"""Load balancing that leads packets around a slow cable: bytes that lie elsewhere say nothing of the paths."""


@dataclass(frozen=True)
class Routed:
    """A graph on the links of a cluster, ready to be replayed many times.

    Attributes:
        astray: Share of the counted bytes that lie on other links; nan where nobody counted, or no path is fixed.
        unused: Links between switches that the paths use and on which no byte was counted.
    """

    merged: MergedJobs
    lowered: LoweredGraph
    cluster: Cluster
    astray: float
    unused: tuple[int, ...] = ()

    @property
    def known(self) -> bool:
        """Whether the counters do not contradict the paths."""
        return not self.astray > ALIKE

    @property
    def fixed(self) -> bool:
        """Whether the fabric leads no packets around a slow cable."""
        return self.cluster.fabric.load_balancing not in MOVES

    def replay(self, links: Iterable[int] = (), factor: float = 1.0) -> Record:
        """Replays everything with some links at a share of their rate."""
        faults = [DegradeLink(factor=factor, link=link) for link in links] if factor < 1 else []
        return FLOW.run(self.merged, self.lowered, self.cluster.links, faults=faults, probes=Probes(full=True))


def routed(graph: TaskGraph, cluster: Cluster, record: Record, seeds: Iterable[int]) -> Routed:
    """The graph on the paths that fit the record's counters best.

    Args:
        graph: The tasks, with computations as they were measured.
        cluster: As its file describes it.
        record: What was measured.
        seeds: By how much the seed of the switches' hashes may be moved on.
    """
    counted = record.tables["links"]["bytes"] if "links" in record.tables else None
    found: list[Routed] = []
    for seed in dict.fromkeys([0, *seeds]):
        merged, arranged = joint([Job(graph)], _hashed(cluster, seed))
        lowered = lower(merged.graph, arranged)
        found.append(Routed(merged, lowered, arranged, *_astray(lowered, arranged, counted)))
        if counted is None or found[-1].known:
            break
    return min(found, key=lambda one: one.astray if np.isfinite(one.astray) else 0.0)


def _hashed(cluster: Cluster, shift: int) -> Cluster:
    if shift == 0:
        return cluster
    return cluster.with_networks(lambda network: replace(network, seed=network.seed + shift))


def _astray(
    lowered: LoweredGraph, cluster: Cluster, counted: NDArray[np.float64] | None
) -> tuple[float, tuple[int, ...]]:
    """The share of counted bytes on other links than expected, and links without any; sums are made equal first.

    Only of cables between switches: all that a NIC sends goes over its cable, however it is hashed.
    """
    links, entities = cluster.links, lowered.entities
    if cluster.fabric.load_balancing in MOVES:
        return float("nan"), ()
    if counted is None or len(counted) not in (links.physical, len(links)):
        return float("nan"), ()
    runs = np.bincount(lowered.entity[lowered.entity >= 0], minlength=len(entities))
    volume = np.repeat(entities.volume_bytes * runs, np.diff(entities.link_ptr))
    weights = entities.link_share * volume
    load = np.bincount(entities.link_idx, weights, len(links)).astype(np.float64)
    between = _between_switches(cluster)
    expected = _on(links, load)[between]
    seen = _on(links, np.asarray(counted * 1.0, np.float64))[between]
    if not expected.sum() * seen.sum() > 0:
        return float("nan"), ()
    unused = tuple(between[(expected > 0) & (seen == 0)].tolist())
    return float(np.abs(expected / expected.sum() - seen / seen.sum()).sum() / 2), unused


def _on(links: LinkTable, bytes_: NDArray[np.float64]) -> NDArray[np.float64]:
    return links.to_physical(bytes_) if len(bytes_) == len(links) else bytes_


def _between_switches(cluster: Cluster) -> NDArray[np.int64]:
    """Physical links of the back-end with a switch at either end: where hashes choose."""
    links, network = cluster.links, cluster.back_end
    first = network.node_offset + network.ports
    ends = np.stack([links.source[: links.physical], links.target[: links.physical]])
    return np.flatnonzero(((ends >= first) & (ends < network.node_offset + network.nodes)).all(axis=0))


BIAS = 0.04
"""Spread of the model's error from one class of communications to another, of their time: about that of the published
runs in docs/validation/collectives.md from 1 MiB on."""

FLOOR = 0.004
"""Least spread between peers, of their time: what engines' rounding and the order of events leave."""

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation of a normal distribution to its standard deviation."""

INEXACT = 0.25
"""Spread of a guess's own error, of the slowdown that it predicts: engines differ by as much where links are degraded
(docs/explanation/agreement-fabrics.md)."""

SHARED = (0.05, 1.5)
"""Least and most spread of the model's error in what a communication loses to others on its links, of that loss."""

SHARES = 0.02
"""Loss to others, as a log, from which a communication says how far the model is from the record in that."""

FEW = 8
"""Such communications that are needed; with fewer the spread is 1: the loss may be twice what it should be, or none."""

DEGREES = 4.0
"""Degrees of freedom of Student's law."""


@dataclass(frozen=True)
class Observed:
    """m communications.

    Attributes:
        entity: int64[m], rows of the lowered entities.
        ratio: float64[m], log of measured over expected time.
        spread: float64[m], of that, from its own variation over the times that it ran.
        peers: int64[m], number of its class.
        lost_ps: float64[m], measured less expected time, of all its runs.
        uncertain: float64[m], spread of the model's error in what others on its links cost it.
    """

    entity: NDArray[np.int64]
    ratio: Floats
    spread: Floats
    peers: NDArray[np.int64]
    lost_ps: Floats
    uncertain: Floats

    def __len__(self) -> int:
        return len(self.entity)

    def likelihood(self, guess: Floats) -> float:
        """How well predicted logarithms of slowdown fit, up to a constant; larger is better.

        Args:
            guess: float64[m], log of predicted over expected time.
        """
        rest = self.ratio - guess
        level = self._levels(rest)
        rest = rest - level[self.peers]
        base = max(FLOOR, MAD_TO_SIGMA * float(np.median(np.abs(rest))))
        sigma = np.sqrt(base**2 + self.spread**2 + (INEXACT * guess) ** 2 + self.uncertain**2)
        fit = 0.5 * (DEGREES + 1) * np.log1p((rest / sigma) ** 2 / DEGREES) + np.log(sigma)
        return -float(fit.sum()) - float(((level / BIAS) ** 2).sum()) / 2

    def _levels(self, rest: Floats) -> Floats:
        """The error of the model for each class: the median of its members, drawn towards none."""
        order = np.lexsort((rest, self.peers))
        count = np.bincount(self.peers)
        first = np.cumsum(count) - count
        middle = (rest[order][first + (count - 1) // 2] + rest[order][first + count // 2]) / 2
        return np.asarray(middle * count / (count + (FLOOR / BIAS) ** 2), np.float64)


def observed(measured: Floats, expected: Floats, graph: TaskGraph, lowered: LoweredGraph, cluster: Cluster) -> Observed:
    """Measurements of every communication.

    Args:
        measured: float64[tasks], ps; nan where it is not known.
        expected: float64[tasks], ps.
        graph: The tasks.
        lowered: Their communications.
        cluster: On which they run.
    """
    known = np.flatnonzero((lowered.entity >= 0) & (expected > 0) & np.isfinite(measured) & (measured > 0))
    known = known[np.argsort(lowered.entity[known], kind="stable")]
    entity, first, count = np.unique(lowered.entity[known], return_index=True, return_counts=True)
    log = np.log(measured[known] / expected[known])
    runs = np.split(log, first[1:])
    middle = np.array([np.median(one) for one in runs])
    spread = np.array([np.median(np.abs(one - mid)) for one, mid in zip(runs, middle, strict=True)])
    lost = np.add.reduceat(measured[known] - expected[known], first) if len(first) else np.empty(0)
    alone = lowered.entities.even_ps[entity]
    usual = np.array([np.median(one) for one in np.split(expected[known], first[1:])])
    return Observed(
        entity.astype(np.int64),
        middle,
        MAD_TO_SIGMA * spread / np.sqrt(count),
        _classes(graph, known[first], lowered, cluster),
        lost,
        _uncertain(middle, np.log(np.maximum(usual / np.maximum(alone, 1), 1.0))),
    )


def _uncertain(ratio: Floats, shared: Floats) -> Floats:
    """float64[m], spread of the model's error in the share that communications lose to others, from all of them."""
    known = shared > SHARES
    least, most = SHARED
    found = MAD_TO_SIGMA * float(np.median(np.abs(ratio[known]) / shared[known])) if known.sum() >= FEW else 1.0
    return shared * min(max(found, least), most)


def _classes(graph: TaskGraph, task: NDArray[np.int64], lowered: LoweredGraph, cluster: Cluster) -> NDArray[np.int64]:
    """Numbers of classes: kind, size, repetitions, members and tiers crossed."""
    entities, sizes = lowered.entities, np.diff(graph.communicators.ptr)
    tier = np.asarray(cluster.links.tier)
    number: dict[tuple[object, ...], int] = {}
    found = np.empty(len(task), np.int64)
    for row, (one, entity) in enumerate(zip(task.tolist(), lowered.entity[task].tolist(), strict=True)):
        links = entities.link_idx[entities.link_ptr[entity] : entities.link_ptr[entity + 1]]
        members = int(sizes[graph.rank[one]]) if graph.peer[one] < 0 and len(sizes) > graph.rank[one] else 0
        kind = (int(graph.kind[one]), int(graph.collective[one]), int(graph.size_bytes[one]), int(graph.count[one]))
        found[row] = number.setdefault((*kind, members, tuple(np.unique(tier[links]).tolist())), len(number))
    return found
