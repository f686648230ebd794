"""Other traffic beside a job in the flow engine: every flow of its bursts is a fluid, and waits in the way of others.

A flow of an incast waits for the receiver's link. On networks that hold it back hop by hop (PFC, credits) its packets
then stand on the links before, and whoever shares one of these links waits behind them: it is charged there for more
than it carries. How much, and how many of the job's flows one of these flows counts as, is the fabric's `Behavior`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.lowering import Entities, Lowered
from railyard.graph import Communicators, Job, Kind, Label, Record, Stream, TaskGraph
from railyard.graph.merge import Merged, merge
from railyard.graph.record import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster, CsrWeighted
    from railyard.engine.bursts import Burst

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Flows:
    """The flows of bursts in columns; f rows.

    Attributes:
        source: int64[f], sending ports.
        target: int64[f], receiving ports.
        size_bytes: int64[f].
        start_ps: int64[f].
        fan_in: float64[f], of one burst's flows to the same receiver, over those from the same sender: by so many
            senders a receiver is outnumbered.
    """

    source: Ints
    target: Ints
    size_bytes: Ints
    start_ps: Ints
    fan_in: NDArray[np.float64]

    @staticmethod
    def of(bursts: Sequence[Burst]) -> Flows:
        """All flows of some bursts, burst after burst."""
        counts = [len(burst.source) for burst in bursts]
        return Flows(
            np.concatenate([burst.source for burst in bursts]),
            np.concatenate([burst.target for burst in bursts]),
            np.repeat([burst.size_bytes for burst in bursts], counts),
            np.repeat([burst.start_ps for burst in bursts], counts),
            np.concatenate([_times(burst.target) / _times(burst.source) for burst in bursts]),
        )


def _times(port: Ints) -> NDArray[np.float64]:
    """How often the port of each row is there."""
    _, inverse, count = np.unique(port, return_inverse=True, return_counts=True)
    return count[inverse.ravel()].astype(np.float64)


def with_background(
    merged: Merged, lowered: Lowered, cluster: Cluster, bursts: Sequence[Burst]
) -> tuple[Merged, Lowered]:
    """Jobs and their communications with the flows of bursts as tasks behind them.

    Args:
        merged: The jobs.
        lowered: Their communications.
        cluster: Whose back-end the bursts cross.
        bursts: At least one.
    """
    flows = Flows.of(bursts)
    graph = merged.graph
    ranks = np.arange(graph.ranks, dtype=np.int32)
    both = merge([Job(graph), Job(_graph(cluster, flows))], [ranks, np.arange(cluster.ranks, dtype=np.int32)])
    more = np.arange(len(flows.source), dtype=np.int32) + np.int32(len(lowered.entities))
    none = np.full(len(flows.source), "none")
    return both, Lowered(
        Entities.stacked([lowered.entities, _entities(cluster, flows)]),
        np.concatenate([lowered.entity, more]),
        np.concatenate([lowered.algorithm, none]),
        np.concatenate([lowered.protocol, none]),
    )


def foreground(record: Record, merged: Merged) -> Record:
    """What a record of jobs with other traffic behind them says of the jobs."""
    rows = slice(len(merged.graph))
    dropped = {"job"} if merged.alone else set()
    optional = {name: values[rows] for name, values in record.optional.items() if name not in dropped}
    start_ps, end_ps = record.start_ps[rows], record.end_ps[rows]
    digest = fingerprint(start_ps, end_ps, optional["blocker"], record.table("links")["bytes"])
    return Record.of_tasks(
        merged.graph,
        start_ps,
        end_ps,
        optional=optional,
        tables=record.tables,
        meta={**record.meta, "digest": digest},
        jobs=() if merged.graph is merged.jobs[0].work else merged.jobs,
    )


def _graph(cluster: Cluster, flows: Flows) -> TaskGraph:
    count = len(flows.source)
    port, first = np.unique(cluster.back_end.port_of_rank, return_index=True)
    rank = (first // cluster.back_end.port_of_rank.shape[1]).astype(np.int32)
    zero = np.zeros(count, np.int64)
    return TaskGraph(
        ranks=cluster.ranks,
        kind=np.full(count, int(Kind.TRANSFER), np.uint8),
        rank=rank[np.searchsorted(port, flows.source)],
        peer=rank[np.searchsorted(port, flows.target)],
        duration_ps=zero,
        size_bytes=flows.size_bytes.astype(np.int64),
        count=np.ones(count, np.int32),
        collective=zero.astype(np.uint8),
        stream=np.full(count, int(Stream.FREE), np.uint8),
        label=zero.astype(np.int32),
        dep_ptr=np.zeros(count + 1, np.int64),
        dep_idx=np.empty(0, np.int32),
        labels=[Label("background", "communication", "background")],
        communicators=Communicators(np.zeros(1, np.int64), np.empty(0, np.int32), []),
        release_ps=flows.start_ps.astype(np.int64),
    )


def _entities(cluster: Cluster, flows: Flows) -> Entities:
    """One entity a flow, on the links of the job's own fabric."""
    network, fabric = cluster.back_end, cluster.fabric
    source, target = flows.source.astype(np.int32), flows.target.astype(np.int32)
    count = len(source)
    usage = network.usage(source, target, np.arange(count, dtype=np.uint64))
    factor = _charged(cluster, usage, flows)
    share = usage.share * factor / fabric.payload_efficiency
    latency = network.path_latency_ps(source, target)
    bound = cluster.links.rate_bps[usage.link] / share
    alone_bps = np.minimum.reduceat(bound, usage.ptr[:-1])
    return Entities(
        link_ptr=usage.ptr,
        link_idx=usage.link,
        link_share=share,
        volume_bytes=flows.size_bytes.astype(np.float64),
        latency_ps=latency,
        rate_cap_bps=np.full(count, np.inf),
        fair_weight=np.full(count, fabric.qps * fabric.behaves.background_weight),
        even_latency_ps=latency,
        even_ps=latency + np.ceil(8e12 * flows.size_bytes / alone_bps).astype(np.int64),
    )


def _charged(cluster: Cluster, usage: CsrWeighted, flows: Flows) -> NDArray[np.float64]:
    """float64[entries of usage], what a byte counts as: at the receiver by incast, before it by what is withheld.

    A flow that gets 1/n of a link's rate and withholds a share h of every link that it comes through counts there as
    (1/n + h (1 - 1/n)) / (1/n) = 1 + h (n - 1) bytes a byte. Packets that are sprayed stand on several links between
    switches, so that h may exceed 1 there; of the sender's own link it cannot withhold more than all.
    """
    fabric, links, home = cluster.fabric, cluster.links, cluster.back_end.node_offset
    rows = usage.rows()
    crowd = np.maximum(flows.fan_in, 1.0)[rows]
    into = links.target[usage.link] == flows.target[rows] + home
    out = links.source[usage.link] == flows.source[rows] + home
    at_receiver = np.where(crowd > 1, 1.0 / fabric.incast_efficiency, 1.0)
    withheld = np.where(out, min(fabric.behaves.withheld, 1.0), fabric.behaves.withheld)
    charged = np.where(into, at_receiver, 1.0 + withheld * (crowd - 1.0))
    return charged * _sent_again(cluster, usage, flows)


def _sent_again(cluster: Cluster, usage: CsrWeighted, flows: Flows) -> NDArray[np.float64]:
    """float64[entries of usage]: how often a byte of an incast is sent, for packets lost behind long links."""
    plan, network, rows = cluster.plans["back_end"], cluster.back_end, usage.rows()
    if plan.crowded_share == 1:
        return np.ones(len(rows))
    tier = cluster.links.tier[network.link_offset] - network.wiring.tier[0] + plan.long_tier
    far = np.bincount(rows[cluster.links.tier[usage.link] == tier], minlength=len(flows.fan_in)) > 0
    return np.where(far & (flows.fan_in > 1), 1 / plan.crowded_share, 1.0)[rows]
