"""One trace through its engine: every seed, and the trials in which one resource is better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.machine import UNLIMITED
from railyard.cluster.notes import circuits_stay, notes_of
from railyard.engine import Jitter
from railyard.engine.flow import FREED, Conditions
from railyard.graph import AT_SENDER, Job, Kind
from railyard.kit.errors import InputError, Stopped
from railyard.kit.quantities import percentile
from railyard.measure import bottleneck
from railyard.measure import picture as timeline_tracks
from railyard.measure.bottleneck import FLOPS, MEMORY, Resource
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.decompose import decompose, lockstep, stages
from railyard.measure.network import network_use
from railyard.measure.picture import topology_picture
from railyard.measure.result.network import FaultCost
from railyard.measure.result.step import MemoryFigures, StorageFigures, TimeShare
from railyard.measure.result.variants import TraceFigures, TraceVariant
from railyard.measure.utilization import crosses, tax_of, utilization
from railyard.work.scenario.load import blaming
from railyard.work.study.deaths import listed, words
from railyard.work.study.kind import MeasuredVariant
from railyard.work.study.provenance import sources_of
from railyard.work.training.collectives import collective_rows, packets_of
from railyard.work.training.graphs import hashes, redrawn
from railyard.work.training.prepare import fluid
from railyard.work.training.step_runs import StepTimes

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.graph import Record, TaskGraph
    from railyard.measure.bottleneck import Bottleneck
    from railyard.measure.decompose import Decomposition
    from railyard.measure.result.step import TaxFigures
    from railyard.work.trace.prepare import PreparedTrace


NO_TOKENS = "cost per million tokens: a trace says nothing of tokens, so cost is by the hour and by the run"
ONE_END = "acknowledgements on their way back: what waits for a sender waits until the receiver has every byte"


def measure(simulated: SimulatedTrace) -> MeasuredVariant[TraceVariant]:
    """Everything about one variant."""
    job, record = simulated.job, simulated.record
    traces = simulated.by_trace
    decomposition = simulated.shares
    carried = network_use(record, job.cluster, decomposition)
    bill = parts_of_rows(bill_of(job.cluster))
    cost = hourly(decomposition, job.cluster.accelerator, bill, job.assumptions)
    busy = utilization(decomposition, None)
    ranks = timeline_tracks.sample_ranks(stages(traces.graph), busy.per_rank)
    rare: dict[str, Any] = {}
    steps: dict[str, float] = {}
    if simulated.healthy_s is not None:
        lost_s = record.makespan_ps * 1e-12 - simulated.healthy_s  # a trace makes no tokens: faults cost it time
        none = dict.fromkeys(("tokens_lost", "job_s", "cpmt_usd", "job_usd"))
        rare["fault_cost"] = FaultCost(what=listed(map(words, job.faults)), step_s=lost_s, **none)
        steps["without_faults_s"] = simulated.healthy_s
    variant = TraceVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        bound=job.cluster.is_bound,
        outcome="finished",
        trace=_about(job),
        step=StepTimes(simulated.samples_s).section(mean_s=record.makespan_ps * 1e-12, **steps),
        utilization=busy.section(),
        tax=simulated.tax,
        time=_time(decomposition),
        lockstep=lockstep(decomposition),
        jct=None,
        power=cost.power.section(),
        capex=cost.capex.section(job.cluster.fitting_nics_usd),
        cost=cost.section(),
        cpmt=None,
        bottleneck=simulated.bottleneck.led_by(simulated.tax).section(),
        network=carried.figures,
        memory=MemoryFigures(rows=()),
        timeline=timeline_tracks.tracks(traces, ranks),
        topology=topology_picture(job.cluster, carried.load),
        storage=StorageFigures(data=None, checkpoint=None),
        collectives=collective_rows(record, job.cluster, job.policy),
        warnings=(
            *record.meta.get("warnings", []),
            *job.trace.lacks,
            *_never(job),
            *notes_of(job.cluster),
            *circuits_stay(job.cluster),
        ),
        digest=str(record.meta["digest"]),
        **packets_of(record, job.cluster),
        **rare,
    )
    sources = tuple(sources_of([job.cluster], cost.sources))
    return MeasuredVariant(variant, sources, _left_out(simulated), (), tuple(ranks))


def _about(job: PreparedTrace) -> TraceFigures:
    graph = job.trace.graph
    kinds = np.bincount(graph.kind, minlength=len(Kind))
    return TraceFigures(
        file=job.variant.draft.scenario.trace.file,
        format=job.format,
        ranks=graph.ranks,
        computations=int(kinds[Kind.COMPUTE]),
        transfers=int(kinds[Kind.TRANSFER]),
        collectives=int(kinds[Kind.COLLECTIVE]),
        lacks=tuple(job.trace.lacks),
    )


def _time(decomposition: Decomposition) -> tuple[TimeShare, ...]:
    return tuple(
        TimeShare(cause=row.cause, group=row.group, phase=row.phase, seconds=row.seconds, share=row.share)
        for row in decomposition.rows
    )


def _never(job: PreparedTrace) -> list[str]:
    lines = job.trace.never
    if not lines:
        return []
    shown = ", ".join(map(str, lines[:3])) + (", ..." if len(lines) > 3 else "")
    return [f"{len(lines)} tasks wait for events that never happen and do not run (lines {shown})"]


def _left_out(simulated: SimulatedTrace) -> tuple[str, ...]:
    job = simulated.job
    found = [*simulated.record.meta["left_out"], *job.trace.left_out, NO_TOKENS]
    if _waits_for_senders(job.trace.graph):
        found.append(ONE_END)
    if job.trace.failures:
        found.append(f"{len(job.trace.failures)} links that the matrix takes out of a tree of its own")
    return tuple(found)


def _waits_for_senders(graph: TaskGraph) -> bool:
    if graph.dep_at is None:
        return False
    return bool((graph.kind[graph.dep_idx[graph.dep_at == AT_SENDER]] == Kind.TRANSFER).any())


SPEED = Resource("accelerator speed", "compute", rebuilds_workload=True)
"""A trace says how long computations took, not what bounded them."""


@dataclass(frozen=True, eq=False)
class SimulatedTrace:
    """What an engine found.

    Attributes:
        job: The variant, with the cluster whose hashes gave the record.
        record: The run under the seed whose length is the median, by ranks of the cluster.
        shares: Where its time goes, by ranks of the trace.
        healthy_s: Its length without the scenario's faults; None where there are none.
    """

    job: PreparedTrace
    record: Record
    shares: Decomposition
    samples_s: tuple[float, ...]
    tax: TaxFigures
    bottleneck: Bottleneck
    healthy_s: float | None

    @property
    def by_trace(self) -> Record:
        """The run by ranks of the trace."""
        return _by_trace(self.job, self.record)


def simulate(job: PreparedTrace, *, stop: Event, done: Callable[[str], None]) -> SimulatedTrace:
    """Runs one variant.

    Raises:
        InputError: Trace and cluster do not fit together.
        SimulationError: The run cannot finish.
        Stopped: `stop` was set.
    """
    bench = TraceBench(job, stop, done)
    seeds = job.seeds if job.jitter != Jitter() or hashes(job.cluster) else job.seeds[:1]
    records = {seed: bench.run(redrawn(job.cluster, seed), seed) for seed in seeds}
    lengths = {seed: record.makespan_ps for seed, record in records.items()}
    if not max(lengths.values()):
        error = InputError("nothing in the trace takes any time", key="file")
        raise job.variant.draft.blame(error, "workload", "trace")
    middle = percentile(sorted(lengths.values()), 0.5)
    chosen = next(seed for seed in seeds if lengths[seed] == middle)
    record, cluster = records[chosen], redrawn(job.cluster, chosen)
    tried = bench.for_trials(cluster, chosen, record.makespan_ps * 1e-12)
    known = bottleneck.resources(cluster, record, jitter=bool(job.faults))
    found = [one for one in known if one not in (FLOPS, MEMORY)]
    computes = bool(job.trace.graph.duration_ps[job.trace.graph.on_accelerator].any())
    trials = [*([SPEED] if computes else []), *found]
    search = bottleneck.find(record.makespan_ps * 1e-12, trials, tried, engine=tried.job.engine.name)
    lasted = tuple(lengths[seed] * 1e-12 for seed in seeds)
    samples = lasted * (len(job.seeds) // len(lasted))
    job = replace(job, cluster=cluster)
    drawn = replace(bench, job=job, seed=chosen)
    shares = decompose(_by_trace(job, record))
    return SimulatedTrace(
        job,
        record,
        shares,
        samples,
        trace_tax(drawn, record, shares),
        search,
        _healthy_s(drawn) if job.faults else None,
    )


def _healthy_s(bench: TraceBench) -> float:
    """Length without faults, under the same seed."""
    healthy = replace(bench, job=replace(bench.job, faults=()))
    return healthy.run(bench.job.cluster, bench.seed).makespan_ps * 1e-12


def _by_trace(job: PreparedTrace, record: Record) -> Record:
    """A run by ranks of the trace, without the accelerators that it leaves idle between them."""
    graph = job.trace.graph
    return replace(record, who=graph.rank, work=graph)


def trace_tax(bench: TraceBench, record: Record, shares: Decomposition) -> TaxFigures:
    """What networks cost a run whose time goes where `shares` says.

    Raises:
        SimulationError: A run cannot finish.
        Stopped: `bench.stop` was set.
    """
    job = bench.job
    plain = Conditions(job.engine, job.cluster, job.policy, job.faults)

    def spent(on: Conditions) -> dict[str, float]:
        run = replace(bench, job=replace(job, **on._asdict())).run(on.cluster, bench.seed)
        return decompose(_by_trace(job, run)).by_cause()

    without_scale_out, without_networks = map(plain.unlimited, FREED)
    found = shares.by_cause()
    outside = spent(without_scale_out) if crosses(record, job.cluster) else found
    taxed = found, outside, spent(without_networks)
    return tax_of(*taxed, without_networks.engine.name, slows=job.trace.graph.loss_index is not None)


@dataclass(frozen=True, eq=False)
class TraceBench:
    """Runs a trace, changed in one thing at a time.

    Attributes:
        scale: What lengths of trials are multiplied by.
    """

    job: PreparedTrace
    stop: Event
    done: Callable[[str], None]
    scale: float = 1.0
    seed: int = 0
    cluster: Cluster | None = None

    def run(self, cluster: Cluster, seed: int, *, faster: float = 1.0, steady: float = 1.0) -> Record:
        """The trace on a cluster, computations so many times faster and jitter so many times less."""
        job = self.job
        graph = job.trace.graph
        if faster != 1:
            shorter = np.where(graph.on_accelerator, np.rint(graph.duration_ps / faster), graph.duration_ps)
            graph = replace(graph, duration_ps=shorter.astype(np.int64))
        with blaming(job.variant.draft):
            record = job.engine.simulate(
                [Job(graph, job.placement)],
                cluster,
                seed=seed,
                faults=job.faults if steady < UNLIMITED else (),
                jitter=job.jitter if steady == 1 else job.jitter.steadier(steady),
                policy=job.policy,
                progress=self._poll,
            )
        self.done(job.variant.name)
        return record

    def for_trials(self, cluster: Cluster, seed: int, run_s: float) -> TraceBench:
        """The bench on which resources are improved: where a run is slow, the flow engine's."""
        bench, engine = replace(self, seed=seed, cluster=cluster), fluid(self.job.engine)
        if engine is self.job.engine:
            return bench
        bench = replace(bench, job=replace(self.job, engine=engine))
        plain_s = bench.run(cluster, seed).makespan_ps * 1e-12
        return replace(bench, scale=run_s / plain_s if plain_s > 0 else 1.0)

    def __call__(self, resource: Resource, factor: float) -> float:
        """Length in seconds when one resource is better by a factor."""
        cluster = self.job.cluster if self.cluster is None else self.cluster
        better = resource.scaled(cluster, factor)
        faster = factor if resource.rebuilds_workload else 1.0
        steady = factor if resource.divides_jitter else 1.0
        return self.scale * self.run(better, self.seed, faster=faster, steady=steady).makespan_ps * 1e-12

    def _poll(self, ended: int, total: int, now_ps: int) -> None:
        del ended, total, now_ps
        if self.stop.is_set():
            raise Stopped("stopped")
