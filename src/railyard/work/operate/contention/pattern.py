"""Contention patterns: a job and its neighbors as classes of work, with the leaf of each node in rank order.

Leafs are numbered in the order in which they appear, the job's own first, so that equal patterns anywhere on the
cluster are the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Communicators, Kind, Label, Stream, TaskGraph
from railyard.graph.repeat import repeat
from railyard.graph.task_graph import CollectiveKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster


def out_bytes(groups: NDArray[np.integer], ranks: int, message_bytes: float) -> dict[int, float]:
    """Bytes of one all-reduce that leave each group, by group; groups that send nothing are left out.

    A ring in rank order carries 2 (n - 1) / n of the message from every node to the next.

    Args:
        groups: int[nodes], the group of each node in rank order.
        ranks: Accelerators of the job.
        message_bytes: Bytes that each rank reduces.
    """
    leaves = groups != np.roll(groups, -1)
    found, times = np.unique(groups[leaves], return_counts=True)
    each = 2.0 * (ranks - 1) / ranks * message_bytes
    return {int(group): each * int(count) for group, count in zip(found, times, strict=True)}


def uplinks_bps(cluster: Cluster, leafs: Sequence[NDArray[np.int32]]) -> list[float]:
    """Total uplink capacity of each leaf's switches in bit/s."""
    network, links = cluster.back_end, cluster.links
    between = [links.tiers.index(tier.name) for tier in network.tiers if tier.kind != "access"]
    up = np.isin(links.tier, between)
    up[network.bundle_offset :] = False  # bundles would count their cables twice
    found = []
    for nodes in leafs:
        ranks = (np.asarray(nodes)[:, None] * cluster.ranks_per_server + np.arange(cluster.ranks_per_server)).ravel()
        ports = np.unique(network.port_of_rank[ranks])
        switches = {int(links.target[link]) for port in ports.tolist() for link in network.port_links(int(port))[0]}
        found.append(float(links.rate_bps[up & np.isin(links.source, list(switches))].sum()))
    return found


UPDATE_PS = 1_000_000
"""A microsecond: the task that waits for the gradients needs a nonzero duration."""
LABELS = (Label("forward", "compute"), Label("backward", "compute"), Label("backward", "gradients", "dp"))


@dataclass(frozen=True)
class WorkClass:
    """The computation and traffic of a class of jobs.

    Attributes:
        compute_s: Computation of one accelerator per step.
        message_bytes: Bytes all-reduced per step: the gradients of one accelerator.
        overlap: Share of the computation that overlaps the all-reduce.
    """

    name: str
    compute_s: float
    message_bytes: int
    overlap: float

    def steps(self, ranks: int, count: int) -> TaskGraph:
        """A graph of `count` steps on `ranks` ranks."""
        return repeat(self._step(ranks), count)

    def _step(self, ranks: int) -> TaskGraph:
        """Rows: computation before the collective, overlapping computation, the collective, the join of both."""
        beside_ps = round(self.compute_s * self.overlap * 1e12)
        alone_ps = max(round(self.compute_s * 1e12) - beside_ps, 1)
        everyone = np.arange(ranks, dtype=np.int32)
        tasks, reduce = 3 * ranks + 1, 2 * ranks
        kind, stream, size = (np.full(tasks, usual) for usual in (Kind.COMPUTE, Stream.COMPUTE, 0))
        kind[reduce], stream[reduce], size[reduce] = Kind.COLLECTIVE, Stream.GRADIENT, self.message_bytes
        parts = [ranks, ranks, 1, ranks]
        waits = np.repeat([0, 0, ranks, 1], parts)
        return TaskGraph.of(
            ranks,
            kind=kind,
            rank=np.concatenate([everyone, everyone, everyone[:1], everyone]),
            duration_ps=np.repeat([alone_ps, beside_ps, 0, UPDATE_PS], parts),
            size_bytes=size,
            collective=CollectiveKind.ALL_REDUCE,
            stream=stream,
            label=np.repeat([0, 1, 2, 0], parts),
            dep_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(waits)]).astype(np.int64),
            dep_idx=np.concatenate([everyone, np.full(ranks, reduce, np.int32)]),
            labels=list(LABELS),
            communicators=Communicators.of([everyone], "dp"),
        ).validate()


@dataclass(frozen=True)
class PatternJob:
    """A job in a pattern.

    Attributes:
        leafs: Leaf of each node, in rank order.
    """

    work: int
    each: int
    leafs: tuple[int, ...]


Pattern = tuple[PatternJob, ...]
"""A job followed by its neighbors."""


def canonical(members: Sequence[PatternJob]) -> Pattern:
    """The same pattern with leafs renumbered and neighbors in a canonical order."""
    number: dict[int, int] = {}
    for leaf in members[0].leafs:
        number.setdefault(leaf, len(number))
    others = sorted(members[1:], key=lambda one: _look(one, number))
    found = []
    for one in (members[0], *others):
        for leaf in one.leafs:
            number.setdefault(leaf, len(number))
        found.append(PatternJob(one.work, one.each, tuple(number[leaf] for leaf in one.leafs)))
    return tuple(found)


def _look(one: PatternJob, number: dict[int, int]) -> tuple[object, ...]:
    """Sort key of a neighbor that does not depend on the numbering of leafs outside the job."""
    known = tuple(number.get(leaf, -1) for leaf in one.leafs)
    return (one.work, one.each, len(one.leafs), known, one.leafs)


def placed(pattern: Pattern, members: Sequence[NDArray[np.int32]], per_node: int) -> list[NDArray[np.int32]] | None:
    """Accelerators of each job of a pattern, on the largest leafs of a cluster; None: not enough nodes.

    Args:
        pattern: Leafs numbered from 0.
        members: Nodes of each leaf of the cluster.
        per_node: Accelerators per node.
    """
    leafs = sorted(members, key=len, reverse=True)
    if max(leaf for one in pattern for leaf in one.leafs) >= len(leafs):
        return None
    left = [iter(nodes.tolist()) for nodes in leafs]
    found = []
    for one in pattern:
        nodes = [next(left[leaf], -1) for leaf in one.leafs]
        if -1 in nodes:
            return None
        first = np.repeat(np.array(nodes, np.int32) * per_node, one.each)
        found.append(first + np.tile(np.arange(one.each, dtype=np.int32), len(nodes)))
    return found
