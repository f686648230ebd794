"""The paths that communications took: as the cluster's file routes them, checked by counters of ports.

Where switches hash, which flows share a cable is up to a seed that no plan knows. Bytes that ports counted tell: the
seeds
that the file and the record name are tried, and the one is taken whose flows give the counted bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault.degrade_link import DegradeLink
from railyard.engine.contract import Probes
from railyard.engine.flow import FLOW
from railyard.engine.joint import joint
from railyard.engine.lowering import lower
from railyard.graph import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.links import LinkTable
    from railyard.engine.lowering import Lowered
    from railyard.graph import Merged, Record, TaskGraph

ALIKE = 0.05
"""Of all bytes, what may lie on other links than expected: headers, acknowledgements, retransmissions."""

MOVES = frozenset({"adaptive", "spray", "cells", "ideal"})
"""Load balancing that leads packets around a slow cable: bytes that lie elsewhere say nothing of the paths."""


@dataclass(frozen=True)
class Routed:
    """A graph on the links of a cluster, ready to be replayed many times.

    Attributes:
        merged: The graph.
        lowered: Its communications.
        cluster: With the links that they use.
        astray: Share of the counted bytes that lie on other links; nan where nobody counted, or no path is fixed.
    """

    merged: Merged
    lowered: Lowered
    cluster: Cluster
    astray: float

    @property
    def known(self) -> bool:
        """Whether the counters do not contradict the paths."""
        return not self.astray > ALIKE

    @property
    def fixed(self) -> bool:
        """Whether the fabric leads no packets around a slow cable."""
        return self.cluster.fabric.load_balancing not in MOVES

    def replay(self, links: Iterable[int] = (), factor: float = 1.0) -> Record:
        """All of it again, with some links at a share of their rate."""
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
        found.append(Routed(merged, lowered, arranged, _astray(lowered, arranged, counted)))
        if counted is None or found[-1].known:
            break
    return min(found, key=lambda one: one.astray if np.isfinite(one.astray) else 0.0)


def _hashed(cluster: Cluster, shift: int) -> Cluster:
    if shift == 0:
        return cluster
    return cluster.with_networks({id(one): replace(one, seed=one.seed + shift) for one in cluster.networks})


def _astray(lowered: Lowered, cluster: Cluster, counted: NDArray[np.float64] | None) -> float:
    """The share of counted bytes on other links than expected; their sums are made equal first.

    Only of cables between switches: all that a NIC sends goes over its cable, however it is hashed.
    """
    links, entities = cluster.links, lowered.entities
    if cluster.fabric.load_balancing in MOVES:
        return float("nan")
    if counted is None or len(counted) not in (links.physical, len(links)):
        return float("nan")
    runs = np.bincount(lowered.entity[lowered.entity >= 0], minlength=len(entities))
    volume = np.repeat(entities.volume_bytes * runs, np.diff(entities.link_ptr))
    weights = entities.link_share * volume
    load = np.bincount(entities.link_idx, weights, len(links)).astype(np.float64)
    between = _between_switches(cluster)
    expected = _on(links, load)[between]
    seen = _on(links, np.asarray(counted * 1.0, np.float64))[between]
    if not expected.sum() * seen.sum() > 0:
        return float("nan")
    return float(np.abs(expected / expected.sum() - seen / seen.sum()).sum() / 2)


def _on(links: LinkTable, bytes_: NDArray[np.float64]) -> NDArray[np.float64]:
    return links.to_physical(bytes_) if len(bytes_) == len(links) else bytes_


def _between_switches(cluster: Cluster) -> NDArray[np.int64]:
    """Physical links of the back-end with a switch at either end: where hashes choose."""
    links, network = cluster.links, cluster.back_end
    first = network.node_offset + network.ports
    ends = np.stack([links.source[: links.physical], links.target[: links.physical]])
    return np.flatnonzero(((ends >= first) & (ends < network.node_offset + network.nodes)).all(axis=0))
