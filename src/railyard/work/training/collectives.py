"""Table of a step's collectives: what runs, its algorithm, its time alone and its actual time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.names import link_name
from railyard.collective import lower_collectives
from railyard.collective.model_error import band_of
from railyard.collective.policy import kind_word
from railyard.graph import CollectiveKind, Kind
from railyard.graph.symmetry import first_of
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import JobFacts
from railyard.measure.cost.evaluate import evaluate
from railyard.measure.job import Checkpointing
from railyard.measure.network import Probed, packet_section
from railyard.measure.result.network import CollectiveRow, PacketFigures, QueueRow, QueueSeries
from railyard.work.training.step_runs import lost_in, mtbf_h

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.graph import Record, TaskGraph
    from railyard.measure.cost.evaluate import Economics
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training
    from railyard.work.training.step_runs import MeanStep
    from railyard.work.training.storing import Saved


def economics(job: Prepared, mean: MeanStep) -> Economics:
    """Cost and power of a variant with this mean step.

    Raises:
        InputError: The job would never end.
    """
    facts = JobFacts(
        tokens=float(job.training.tokens or job.training.step_tokens),
        tokens_per_step=float(job.training.step_tokens),
        step_s=mean.step_s,
        accelerators=job.cluster.ranks,
        checkpointing=_checkpointing(job.training, mean.saved, mean.step_s),
        lost_s=lost_in(job.training, mean.step_s, mean.lost_s, mtbf_h(job)),
    )
    return evaluate(
        decomposition=mean.shares,
        accelerator=job.cluster.accelerator,
        parts=parts_of_rows(bill_of(job.cluster)),
        job=facts,
        assumptions=job.assumptions,
    )


def _checkpointing(training: Training, saved: Saved, step_s: float) -> Checkpointing:
    section = training.checkpoint
    if section is None:
        return Checkpointing()
    return Checkpointing(
        stall_s=saved.stall_s,
        write_s=saved.write_s,
        interval_s=section.interval_steps * step_s,
        read_s=saved.read_s,
        lost_s=section.memory_interval_steps * step_s if section.memory_copies else None,
    )


_PS_PER_US = 1e6


class PacketNumbers(TypedDict, total=False):
    """Packet figures of a variant; empty if another engine ran."""

    packet: PacketFigures


def packets_of(timeline: Record, cluster: Cluster) -> PacketNumbers:
    """The packet figures of a variant; empty if another engine ran."""
    if "flows" not in timeline.parts:
        return {}
    from railyard.engine.packet.assembly import HostNames

    flows = timeline.parts["flows"]
    section = packet_section(
        flows,
        flows.meta["packets"],
        constants={**flows.meta["constants"], "slice": float(timeline.meta["slice"])},
        repeats=flows.meta["repeats"],
        left_out=timeline.meta["left_out"],
        probed=_queues(flows, cluster),
        name=HostNames(**flows.meta["hosts"]),
    )
    return {"packet": section}


def _queues(flows: Record, cluster: Cluster) -> Probed:
    """Depth, load, marks and pauses of the sampled links over time."""
    if "queue_series" not in flows.tables:
        return {}
    series, sampled = flows.table("queue_series"), flows.table("sampled_links")
    time, link, depth = series["time_ps"], sampled["link"], series["depth_bytes"]
    if not len(link):
        return {}
    span = np.maximum(np.diff(time, prepend=0), 1).astype(np.float64)[:, None]
    carried = np.diff(series["carried_bytes"], axis=0, prepend=0) * 8e12 / span / sampled["rate_bps"]
    paused = np.diff(series["paused_ps"], axis=0, prepend=0) / span
    marks = np.diff(series["marks"], axis=0, prepend=0)
    links = cluster.links
    order = np.argsort(-depth.sum(axis=0), kind="stable")
    rows = tuple(
        QueueRow(
            link=link_name(cluster, int(link[at])),
            tier=links.tiers[int(links.tier[link[at]])],
            depth_bytes=tuple(depth[:, at].tolist()),
            utilization=tuple(np.round(carried[:, at], 4).tolist()),
            marks=tuple(marks[:, at].tolist()),
            paused_share=tuple(np.round(paused[:, at], 4).tolist()),
        )
        for at in order.tolist()
    )
    return {"queues": QueueSeries(time_us=tuple((time / _PS_PER_US).tolist()), rows=rows)}


MOST_ROWS = 60

FELT = 0.02
"""Share of the total collective time that is worth a warning."""


def collective_rows(timeline: Record, cluster: Cluster, policy: CollectivePolicy) -> tuple[CollectiveRow, ...]:
    """One row for each group, kind, size and count; the most time-consuming first."""
    timeline.require("the table of collectives", "alone_ps", graph=True)
    graph, of_copies = timeline.graph, first_of(timeline)
    seen, copies = of_copies or (timeline, None)
    tasks = np.flatnonzero(seen.graph.kind == Kind.COLLECTIVE)
    if not tasks.size:
        return ()
    stands_for = np.ones(len(tasks), np.int64) if copies is None else copies.times[tasks]
    first, inverse = _alike(seen.graph, tasks)
    times = np.bincount(inverse, stands_for).astype(np.int64)
    took_ps = (seen.end_ps - seen.start_ps)[tasks] * stands_for
    mean_s = np.bincount(inverse, took_ps) / times * 1e-12
    alone_s = np.bincount(inverse, seen.column("alone_ps")[tasks] * stands_for) / times * 1e-12
    order = np.argsort(-mean_s * times, kind="stable")[:MOST_ROWS]
    chosen = tasks[first[order]] if copies is None else copies.first[tasks[first[order]]]
    requests = (graph.rank[chosen], graph.collective[chosen], graph.size_bytes[chosen], graph.count[chosen])
    table = lower_collectives(cluster, graph.communicators, requests, policy=policy)
    rows = []
    for position, (row, task) in enumerate(zip(order.tolist(), chosen.tolist(), strict=True)):
        kind, algorithm = kind_word(CollectiveKind(int(graph.collective[task]))), str(table.algorithm[position])
        ranks = len(graph.communicators.members(int(graph.rank[task])))
        size, architecture = int(graph.size_bytes[task]), cluster.accelerator.architecture
        band = band_of(kind, size, ranks=ranks, algorithm=algorithm, architecture=architecture)
        rows.append(
            CollectiveRow(
                group=graph.communicators.group[graph.rank[task]],
                kind=kind,
                ranks=ranks,
                size_bytes=size,
                count=int(graph.count[task]),
                times=int(times[row]),
                algorithm=algorithm,
                protocol=str(table.protocol[position]),
                alone_s=float(alone_s[row]),
                mean_s=float(mean_s[row]),
                low_s=float(alone_s[row]) * band.low,
                high_s=float(alone_s[row]) * band.high,
                beyond=band.beyond,
            )
        )
    return tuple(rows)


def beyond_logs(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    """A warning about collectives that were never measured and that affect the step."""
    total_s = math.fsum(row.mean_s * row.times for row in rows)
    felt: dict[tuple[str, str, int], CollectiveRow] = {}
    for row in rows:
        if row.beyond and row.mean_s * row.times > FELT * total_s:
            felt.setdefault((row.group, row.kind, row.ranks), row)
    if felt:
        named = ", ".join(f"{row.kind} of {row.group} ({'; '.join(row.beyond)}; {_band(row)})" for row in felt.values())
        yield f"beyond published logs, so that their bands are wider: {named}"


def _band(row: CollectiveRow) -> str:
    """`-21 to +94 %`: the band of a time."""
    low, high = (100 * (end / row.alone_s - 1) for end in (row.low_s, row.high_s))
    return f"{low:+.0f} to {high:+.0f} %"


def _alike(graph: TaskGraph, tasks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First task of each class of equal (group, kind, size, count), and the class of each task."""
    names = {name: number for number, name in enumerate(dict.fromkeys(graph.communicators.group))}
    group = np.array([names[name] for name in graph.communicators.group], np.int64)[graph.rank[tasks]]
    columns = (group, graph.collective[tasks], graph.size_bytes[tasks], graph.count[tasks])
    inverse = np.zeros(len(tasks), np.int64)
    for column in columns:
        _, own = np.unique(column, return_inverse=True)
        _, inverse = np.unique(inverse * (int(own.max(initial=0)) + 1) + own.ravel(), return_inverse=True)
    _, first = np.unique(inverse, return_index=True)
    return first, inverse.ravel()
