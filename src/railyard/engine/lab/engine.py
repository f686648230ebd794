"""The engine `lab`: the work of a task graph done for real, by processes over shaped links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, RankDelay, RankSpeed
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.engine.contract import Jitter, Probes, Progress, engines, joint
from railyard.engine.faults import effects_of
from railyard.engine.faults import placed as placed_faults
from railyard.engine.flow import FLOW
from railyard.engine.lab import blueprint
from railyard.engine.lab.blueprint import Blueprint, played
from railyard.engine.lab.program import PIECE_S, PS, LabWork, TimeScale, programs
from railyard.engine.lab.wiring import Connections, laid_out
from railyard.engine.lowering import lower
from railyard.graph import Kind, Record, Stream
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.lab.blueprint import LabResult
    from railyard.engine.lowering import LoweredGraph
    from railyard.graph import Job, MergedJobs, TaskGraph
    from railyard.graph.record import Table


PS_PER_NS = 1000

STARVED = 0.03
"""Share of a run without a processor from which on these, and not links, may have set a rank's pace."""


def record_of(
    merged: MergedJobs,
    lowered: LoweredGraph,
    cluster: Cluster,
    plan: Blueprint,
    ran: LabResult,
    *,
    dilation: float,
    meta: dict[str, object],
) -> Record:
    """What happened, in the cluster's time.

    Args:
        merged: Jobs that were run.
        lowered: Their communications.
        cluster: On what.
        plan: Of the lab.
        ran: What ranks noted and ports counted.
        dilation: Seconds of the lab for one of the cluster.
        meta: Of the record, so far.
    """
    start, end = _times(merged.graph, ran, dilation)
    alone_ps = np.append(lowered.entities.even_ps, 0)[lowered.entity]
    latency_ps = np.append(lowered.entities.even_latency_ps, 0)[lowered.entity]
    return merged.record(
        start,
        end,
        optional={"blocker": blockers(merged.graph, end), "alone_ps": alone_ps, "latency_ps": latency_ps},
        tables={"links": _counters(cluster, plan, ran, dilation)},
        meta={**meta, "starved": ran.starved, "warnings": [*cluster.remarks, *_warnings(ran)]},
    )


def _warnings(ran: LabResult) -> list[str]:
    found = []
    if ran.starved > STARVED:
        found.append(f"a rank waited {ran.starved:.0%} of the time for a processor, which may have set its pace")
    if drops := sum(ran.counted.drops):
        found.append(f"{drops} packets were dropped at full queues")
    return found


def _times(graph: TaskGraph, ran: LabResult, dilation: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of each task: of a collective when its last member reached it and when its last one was through."""
    start, end = np.full(len(graph), -1, np.int64), np.full(len(graph), -1, np.int64)
    for times in ran.times:
        tasks = np.fromiter(times, np.int64, len(times))
        spans = np.array(list(times.values()), np.int64).reshape(-1, 2)
        start[tasks] = np.maximum(start[tasks], spans[:, 0])
        end[tasks] = np.maximum(end[tasks], spans[:, 1])
    scaled = [np.rint(column * (PS_PER_NS / dilation)).astype(np.int64) for column in (start, end)]
    return np.where(start < 0, -1, scaled[0]), np.where(end < 0, -1, scaled[1])


def _counters(cluster: Cluster, plan: Blueprint, ran: LabResult, dilation: float) -> Table:
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


LONGEST_S = 600.0
"""Longest run, by the time that the flow engine expects."""

WINDOW_S = 0.008
"""Window of a connection, as time of a NIC's link: more than an empty path and two turns of processes."""

SAMPLES_S = 0.01
"""Interval of samples of the queues."""

LEFT_OUT = (
    "accelerators: computations are waits of their length, noted as a device would; communications slow none",
    "RDMA: bytes go by the kernel's TCP, without pauses and without marks",
    "scale-up links: between ranks of a server bytes go through its memory, unshaped",
    "delays of cables and switches: the kernel's and the processes' take their place",
    "sums: bytes of reductions move, nothing is added",
)


@dataclass(frozen=True)
class LabEngine:
    """The engine; the record of `lab`. See `Engine` for the contract.

    It keeps the contract but for one thing: it is measured, so that a seed draws the same paths, and no two runs have
    the same times.

    Attributes:
        dilation: All runs that many times slower than the cluster would, and times are given as if it did not.
        routing: `static`, or `frr`: BGP unnumbered.
    """

    dilation: float = 1.0
    routing: str = "static"

    @property
    def name(self) -> str:
        """What users write."""
        return "lab"

    @property
    def summary(self) -> str:
        """How it finds times, in one sentence."""
        return "Measured: real processes in network namespaces over shaped links."

    @property
    def left_out(self) -> tuple[str, ...]:
        """What its result does not contain."""
        return LEFT_OUT

    def simulate(
        self,
        jobs: Sequence[Job],
        cluster: Cluster,
        *,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        probes: Probes = Probes(),  # noqa: B008 - frozen
        jitter: Jitter = Jitter(),  # noqa: B008 - frozen
        policy: CollectivePolicy | None = None,
        progress: Progress | None = None,
    ) -> Record:
        """Runs all jobs to their end; see `Engine.simulate`."""
        from railyard.collective.policy import CollectivePolicy

        blueprint.need(self.routing)
        if jitter != Jitter():
            raise InputError("the lab has jitter of its own", key="jitter", allowed="none, or another engine")
        if (protocol := cluster.spec.back_end.encryption.protocol) != "none":
            key = "cluster.back_end.encryption"
            raise InputError("the lab does not encrypt", key=key, found=protocol, allowed="none, or another engine")
        policy = policy or CollectivePolicy()
        merged, arranged = joint(jobs, cluster)
        there = placed_faults(faults, merged.every_rank)
        effects = [effect for _, effect in effects_of(there, ClusterPlaces.of(arranged))]
        lab = laid_out(arranged, self._rates(arranged, effects), self.routing)
        expected_s = self._expected_s(jobs, cluster, policy, faults, seed)
        lowered = lower(merged.graph, arranged, policy)
        connections = Connections(arranged, lab, policy.pxn)
        pace = self._pace(arranged, effects)
        plan = Blueprint(
            lab.wires,
            programs=programs(LabWork(merged.graph, lowered, arranged, policy), connections, pace),
            window_bytes=max(1 << 17, round(self._nic_bps(arranged) / 8 * WINDOW_S)),
            sample_s=SAMPLES_S if probes.full else 0.0,
            limit_s=60 + 5 * expected_s,
        )
        plan = replace(plan, connections=tuple(connections.listed))
        total = len(merged.graph)
        ran = played(plan, lambda: None if progress is None else progress(0, total, 0))
        if progress is not None:
            progress(total, total, round(expected_s / self.dilation / PS))
        meta: dict[str, object] = {
            "engine": self.name,
            "seed": seed,
            "left_out": [*LEFT_OUT, *cluster.fabric.left_out],
            "dilation": self.dilation,
            "expected_s": expected_s / self.dilation,
        }
        return record_of(merged, lowered, arranged, plan, ran, dilation=self.dilation, meta=meta)

    def _nic_bps(self, cluster: Cluster) -> float:
        """The slowest NIC's link, in the lab."""
        network = cluster.back_end
        first = [int(network.port_links(int(port))[0][0]) for port in np.unique(network.port_of_rank)]
        return float(cluster.links.line_bps[first].min()) / self.dilation

    def _rates(self, cluster: Cluster, effects: Sequence[Effect]) -> NDArray[np.float64]:
        """float64[links], bit/s in the lab."""
        rate = cluster.links.line_bps / self.dilation
        for effect in effects:
            if isinstance(effect, RankSpeed | RankDelay):
                continue
            if not isinstance(effect, LinkRate) or effect.factor <= 0 or not _lasts(effect):
                raise InputError(
                    "links of the lab are slower from the first moment to the last, or as they should be",
                    key="faults",
                    found=type(effect).__name__,
                    allowed="degrade-link and slow-accelerator that last the run, and late",
                )
            rate[effect.link] *= effect.factor
        return np.asarray(rate, np.float64)

    def _pace(self, cluster: Cluster, effects: Sequence[Effect]) -> TimeScale:
        slower: dict[int, float] = {}
        late: dict[int, tuple[tuple[float, float], ...]] = {}
        for effect in effects:
            if isinstance(effect, RankSpeed):
                if not _lasts(effect):
                    raise InputError("ranks of the lab are slower for the whole run", key="faults", found=effect.spell)
                slower[effect.rank] = slower.get(effect.rank, 1.0) / effect.factor
            elif isinstance(effect, RankDelay):
                span = (effect.at_ps * PS * self.dilation, effect.by_ps * PS * self.dilation)
                late[effect.rank] = (*late.get(effect.rank, ()), span)
        return TimeScale(self.dilation, self._nic_bps(cluster) / 8 * PIECE_S, slower, late)

    def _expected_s(
        self, jobs: Sequence[Job], cluster: Cluster, policy: CollectivePolicy, faults: Sequence[Fault], seed: int
    ) -> float:
        """Seconds of the lab that the flow engine expects.

        Raises:
            InputError: Nobody would wait that long.
        """
        found = FLOW.simulate(jobs, cluster, seed=seed, faults=faults, policy=policy)
        seconds = found.makespan_ps * PS * self.dilation
        if seconds > LONGEST_S:
            raise InputError(
                "the lab would take too long",
                key="lab.dilation",
                found=f"{seconds / 60:.0f} min",
                allowed=f"up to {LONGEST_S / 60:.0f} min",
                hint="take a smaller model or batch, fewer ranks, or a smaller dilation of faster links",
            )
        return seconds


def _lasts(effect: LinkRate | RankSpeed) -> bool:
    return effect.spell.begin_ps == 0 and effect.spell.end_ps is None


LAB = engines.add("lab", LabEngine())
