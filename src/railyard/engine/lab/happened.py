"""From the times that ranks noted to the record of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Record, Stream
from railyard.graph.record import fingerprint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.lab.blueprint import Blueprint, Ran
    from railyard.engine.lowering import Lowered
    from railyard.graph import Merged, TaskGraph
    from railyard.graph.record import Table

PS_PER_NS = 1000

STARVED = 0.03
"""Share of a run without a processor from which on these, and not links, may have set a rank's pace."""


@dataclass(frozen=True, eq=False)
class Played:
    """What was run.

    Attributes:
        merged: The tasks.
        lowered: Their communications.
        cluster: On what.
        plan: The lab.
        dilation: Seconds of the lab for one of the cluster.
    """

    merged: Merged
    lowered: Lowered
    cluster: Cluster
    plan: Blueprint
    dilation: float


def record_of(played: Played, ran: Ran, meta: dict[str, object]) -> Record:
    """What happened, in the cluster's time.

    Args:
        played: What was run.
        ran: What ranks noted and ports counted.
        meta: Of the record, so far.
    """
    merged, lowered, cluster, dilation = played.merged, played.lowered, played.cluster, played.dilation
    graph = merged.graph
    start, end = _times(graph, ran, dilation)
    counted = _counters(cluster, played.plan, ran, dilation)
    alone_ps = np.append(lowered.entities.even_ps, 0)[lowered.entity]
    latency_ps = np.append(lowered.entities.even_latency_ps, 0)[lowered.entity]
    optional = {"blocker": blockers(graph, end), "alone_ps": alone_ps, "latency_ps": latency_ps}
    if not merged.alone:
        optional["job"] = merged.job
    meta["starved"] = ran.starved
    meta["warnings"] = [*cluster.remarks, *_warnings(ran)]
    meta["digest"] = fingerprint(start, end, optional["blocker"], counted["bytes"])
    return Record.of_tasks(
        graph,
        start,
        end,
        optional=optional,
        tables={"links": counted},
        meta=meta,
        jobs=() if graph is merged.jobs[0].work else merged.jobs,
    )


def _warnings(ran: Ran) -> list[str]:
    found = []
    if ran.starved > STARVED:
        found.append(f"a rank waited {ran.starved:.0%} of the time for a processor, which may have set its pace")
    if drops := sum(ran.counted.drops):
        found.append(f"{drops} packets were dropped at full queues")
    return found


def _times(graph: TaskGraph, ran: Ran, dilation: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of each task: of a collective when its last member reached it and when its last one was through."""
    start, end = np.full(len(graph), -1, np.int64), np.full(len(graph), -1, np.int64)
    for times in ran.times:
        tasks = np.fromiter(times, np.int64, len(times))
        spans = np.array(list(times.values()), np.int64).reshape(-1, 2)
        start[tasks] = np.maximum(start[tasks], spans[:, 0])
        end[tasks] = np.maximum(end[tasks], spans[:, 1])
    scaled = [np.rint(column * (PS_PER_NS / dilation)).astype(np.int64) for column in (start, end)]
    return np.where(start < 0, -1, scaled[0]), np.where(end < 0, -1, scaled[1])


def _counters(cluster: Cluster, plan: Blueprint, ran: Ran, dilation: float) -> Table:
    links, ports = cluster.links, plan.wires.ports
    sent, full = np.zeros(links.physical), np.zeros(links.physical)
    link = np.array([port.link for port in ports])
    sent[link] = ran.counted.bytes
    full[link] = np.array(ran.counted.full_s) / dilation
    table: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {"bytes": sent}
    if plan.sample_s > 0:
        table["full_ps"] = np.rint(full * 1e12).astype(np.int64)
    return table


def blockers(graph: TaskGraph, end: NDArray[np.int64]) -> NDArray[np.int32]:
    """int32[n], of what each task waited for, what ended last before it started; -1: nothing."""
    found = np.full(len(graph), -1, np.int32)
    last: dict[tuple[int, int], int] = {}
    for task in range(len(graph)):
        before = graph.dependencies(task).tolist()
        stream = int(graph.stream[task])
        if stream != Stream.FREE:
            ranks = _occupied(graph, task)
            before += [last[rank, stream] for rank in ranks if (rank, stream) in last]
            last.update(dict.fromkeys([(rank, stream) for rank in ranks], task))
        ended = [one for one in before if end[one] >= 0]
        if ended:
            found[task] = max(ended, key=lambda one: (end[one], one))
    return found


def _occupied(graph: TaskGraph, task: int) -> list[int]:
    """Ranks whose stream a task holds."""
    if graph.kind[task] == Kind.COLLECTIVE:
        members: list[int] = graph.communicators.members(int(graph.rank[task])).tolist()
        return members
    return [int(graph.rank[task])]
