"""Background traffic of a job in the flow engine: every flow of its bursts is a fluid that competes with the others.

A flow of an incast waits for the receiver's link. On networks that hold it back hop by hop (PFC, credits) its packets
then stand on the links before, and whoever shares one of these links waits behind them: it is charged there for more
than it carries. How much, and how many of the job's flows one of these flows counts as, is the fabric's `Behavior`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from railyard.cluster.links import Entities
from railyard.engine.faults import REROUTED
from railyard.engine.lowering import LoweredGraph
from railyard.graph import Job, Kind, Label, Record, Stream, TaskGraph
from railyard.graph.record import fingerprint
from railyard.graph.repeat import MergedJobs, merge
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster

    Ints = NDArray[np.int64]
    from railyard.cluster import CsrWeighted
    from railyard.engine.faults import Row
    from railyard.graph import MergedJobs


Pattern = Literal["incast", "permutation", "all-to-all"]
PATTERNS: tuple[Pattern, ...] = ("incast", "permutation", "all-to-all")

MOST_FLOWS = 500_000


@dataclass(frozen=True)
class Bursts:
    """Bursts of one pattern; a slice of a step sees fewer of them, each whole.

    Attributes:
        pattern: `incast`: many ports send to one; `permutation`: each to another; `all-to-all`: each to every other.
        ports: Ports that take part, spread over the cluster; of an incast the senders.
        targets: Ports to which an incast goes, one after another.
        klass: Traffic class, 0 to 7; collectives are 0, storage is 1.
        name: What results call it, behind its pattern.
    """

    pattern: Pattern
    ports: int
    size_bytes: int
    every_ps: int
    targets: int = 1
    klass: int = 0
    name: str = "beside"

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise InputError("unknown pattern", key="pattern", found=self.pattern, allowed=PATTERNS)
        if not 0 <= self.klass <= 7:
            raise InputError("no such traffic class", found=self.klass, allowed="0 to 7")
        for name, least in (("ports", 2), ("targets", 1), ("size_bytes", 1), ("every_ps", 1)):
            if getattr(self, name) < least:
                raise InputError("out of range", key=name, found=getattr(self, name), allowed=f"at least {least}")

    def burst(self, ports: Ints, number: int) -> tuple[Ints, Ints]:
        """Sources and targets of one burst among the given ports."""
        if self.pattern == "incast":
            spots = np.linspace(0, len(ports), self.targets, endpoint=False).astype(np.int64)
            target = ports[spots[number % self.targets]]
            source = np.roll(ports, -number)[: self.ports + 1]
            source = source[source != target][: self.ports]
            return source, np.full(len(source), target)
        chosen = ports[np.linspace(0, len(ports), self.ports, endpoint=False).astype(np.int64)]
        if self.pattern == "permutation":
            return chosen, np.roll(chosen, 1 + number % (len(chosen) - 1))
        source, target = np.repeat(chosen, len(chosen)), np.tile(chosen, len(chosen))
        return source[source != target], target[source != target]


class Burst(NamedTuple):
    """One burst: flows of one size that start together.

    Attributes:
        source: int64[flows], sending ports.
        target: int64[flows], receiving ports.
        klass: Traffic class.
        word: What results call it.
    """

    source: Ints
    target: Ints
    start_ps: int
    size_bytes: int
    klass: int
    word: str


def fits(cluster: Cluster, background: Sequence[Bursts]) -> None:
    """Checks that the back-end has the ports that bursts need; keys are those of a scenario.

    Raises:
        InputError: It has fewer.
    """
    found = len(_ports(cluster))
    for index, one in enumerate(background):
        for name, most in (("ports", found - (one.pattern == "incast")), ("targets", found)):
            if getattr(one, name) > most:
                key, asked = f"packet.beside.{index}.{name}", getattr(one, name)
                raise InputError("the back-end has fewer ports", key=key, found=asked, allowed=f"at most {most}")


def _ports(cluster: Cluster) -> Ints:
    return np.unique(cluster.back_end.port_of_rank).astype(np.int64)


def until(cluster: Cluster, background: Sequence[Bursts], until_ps: int) -> Iterator[Burst]:
    """The bursts that begin before `until_ps`; the first one of each kind in any case.

    Raises:
        InputError: The cluster has fewer ports, or the bursts have too many flows.
    """
    fits(cluster, background)
    ports = _ports(cluster)
    shuffled = np.random.default_rng(len(ports)).permutation(ports)  # the same ports for every fabric and seed
    for index, one in enumerate(background):
        times = range(one.every_ps, max(until_ps, one.every_ps + 1), one.every_ps)
        each = len(one.burst(shuffled, 0)[0])
        if each * len(times) > MOST_FLOWS:
            found = f"{each} flows, {len(times)} times"
            raise InputError("the bursts have too many flows", key=f"packet.beside.{index}.every", found=found)
        for number, at in enumerate(times):
            yield Burst(*one.burst(shuffled, number), at, one.size_bytes, one.klass, f"{one.pattern} {one.name}")


ABOVE = 32.0
"""Times a class gets what the one below it gets of a full link: 97 %, near to strict priority, and no class starves.

Weights of 802.1Qaz (ETS) go from 1 to 100 %; Crux (SIGCOMM 2024) sets strict priorities, of which there are eight.
"""
CLASSES = 8


def prioritized(lowered: LoweredGraph, rows: Sequence[Row], merged: MergedJobs) -> LoweredGraph:
    """Weights by the classes of jobs; where all jobs are of one class nothing changes.

    Args:
        lowered: Entities of all jobs.
        rows: Changes of state; rows that entities take while links are dead are of the same class.
        merged: The jobs.
    """
    priority = np.array([job.priority for job in merged.jobs])
    if np.all(priority == priority[0]):
        return lowered
    named = lowered.entity >= 0
    factor = np.ones(len(lowered.entities))
    factor[lowered.entity[named]] = ABOVE ** priority[merged.job[named]]
    for _, kind, entity, row, _ in rows:
        if kind == REROUTED:
            factor[int(row)] = factor[entity]
    entities = replace(lowered.entities, fair_weight=lowered.entities.fair_weight * factor)
    return replace(lowered, entities=entities)


@dataclass(frozen=True)
class BurstFlows:
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
    def of(bursts: Sequence[Burst]) -> BurstFlows:
        """Flows of some bursts, burst after burst."""
        counts = [len(burst.source) for burst in bursts]
        return BurstFlows(
            np.concatenate([burst.source for burst in bursts]),
            np.concatenate([burst.target for burst in bursts]),
            np.repeat([burst.size_bytes for burst in bursts], counts),
            np.repeat([burst.start_ps for burst in bursts], counts),
            np.concatenate([_times(burst.target) / _times(burst.source) for burst in bursts]),
        )


def _times(port: Ints) -> NDArray[np.float64]:
    """Number of occurrences of the port of each row."""
    _, inverse, count = np.unique(port, return_inverse=True, return_counts=True)
    return count[inverse.ravel()].astype(np.float64)


def with_background(
    merged: MergedJobs, lowered: LoweredGraph, cluster: Cluster, bursts: Sequence[Burst]
) -> tuple[MergedJobs, LoweredGraph]:
    """Jobs and their communications with the flows of bursts as tasks behind them.

    Args:
        merged: The jobs.
        lowered: Their communications.
        cluster: Whose back-end the bursts cross.
        bursts: At least one.
    """
    flows = BurstFlows.of(bursts)
    graph = merged.graph
    ranks = np.arange(graph.ranks, dtype=np.int32)
    both = merge([Job(graph), Job(_graph(cluster, flows))], [ranks, np.arange(cluster.ranks, dtype=np.int32)])
    more = np.arange(len(flows.source), dtype=np.int32) + np.int32(len(lowered.entities))
    none = np.full(len(flows.source), "none")
    return both, LoweredGraph(
        Entities.stacked([lowered.entities, _entities(cluster, flows)]),
        np.concatenate([lowered.entity, more]),
        np.concatenate([lowered.algorithm, none]),
        np.concatenate([lowered.protocol, none]),
    )


def foreground(record: Record, merged: MergedJobs) -> Record:
    """The rows of the jobs in a record with background traffic."""
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


def _graph(cluster: Cluster, flows: BurstFlows) -> TaskGraph:
    port, first = np.unique(cluster.back_end.port_of_rank, return_index=True)
    rank = first // cluster.back_end.port_of_rank.shape[1]
    return TaskGraph.of(
        cluster.ranks,
        kind=Kind.TRANSFER,
        rank=rank[np.searchsorted(port, flows.source)],
        peer=rank[np.searchsorted(port, flows.target)],
        size_bytes=flows.size_bytes,
        stream=Stream.FREE,
        labels=[Label("background", "communication", "background")],
        release_ps=flows.start_ps.astype(np.int64),
    )


def _entities(cluster: Cluster, flows: BurstFlows) -> Entities:
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


def _charged(cluster: Cluster, usage: CsrWeighted, flows: BurstFlows) -> NDArray[np.float64]:
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


def _sent_again(cluster: Cluster, usage: CsrWeighted, flows: BurstFlows) -> NDArray[np.float64]:
    """float64[entries of usage]: how often a byte of an incast is sent, for packets lost behind long links."""
    plan, network, rows = cluster.plans["back_end"], cluster.back_end, usage.rows()
    if plan.crowded_share == 1:
        return np.ones(len(rows))
    tier = cluster.links.tier[network.link_offset] - network.wiring.tier[0] + plan.long_tier
    far = np.bincount(rows[cluster.links.tier[usage.link] == tier], minlength=len(flows.fan_in)) > 0
    return np.where(far & (flows.fan_in > 1), 1 / plan.crowded_share, 1.0)[rows]
