"""One trace through its engine: every seed, and the trials in which one resource is better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.machine import UNLIMITED
from railyard.engine import Jitter
from railyard.engine import get as engine_named
from railyard.engine.fluid import FluidEngine
from railyard.engine.unlimited import FREED, Conditions
from railyard.graph import Job
from railyard.kit.errors import InputError, Stopped
from railyard.kit.quantities import percentile
from railyard.measure import bottleneck
from railyard.measure.bottleneck import FLOPS, MEMORY, Resource
from railyard.measure.decompose import decompose
from railyard.measure.utilization import crosses, tax_of
from railyard.work.scenario.load import blaming
from railyard.work.training.graphs import hashes, redrawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.bottleneck import Bottleneck
    from railyard.measure.decompose import Decomposition
    from railyard.measure.result.step import TaxFigures
    from railyard.work.trace.prepare import PreparedTrace

SPEED = Resource("accelerator speed", "compute", rebuilds_workload=True)
"""A trace says how long computations took, not what bounded them."""


@dataclass(frozen=True, eq=False)
class SimulatedTrace:
    """What an engine found.

    Attributes:
        job: The variant, with the cluster whose hashes gave the record.
        record: The run under the seed whose length is the median, by ranks of the cluster.
        shares: Where its time goes, by ranks of the trace.
        samples_s: Length under every seed.
        tax: What networks cost.
        bottleneck: What would help.
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

    Args:
        job: The variant.
        stop: Ends the run when it is set.
        done: Told after each simulation what has been done.

    Raises:
        InputError: Trace and cluster do not fit together.
        SimulationError: The run cannot finish.
        Stopped: `stop` was set.
    """
    bench = _Bench(job, stop, done)
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
        job, record, shares, samples, _taxed(drawn, record, shares), search, _healthy_s(drawn) if job.faults else None
    )


def _healthy_s(bench: _Bench) -> float:
    """Length without faults, under the same seed."""
    healthy = replace(bench, job=replace(bench.job, faults=()))
    return healthy.run(bench.job.cluster, bench.seed).makespan_ps * 1e-12


def _by_trace(job: PreparedTrace, record: Record) -> Record:
    """A run by ranks of the trace, without the accelerators that it leaves idle between them."""
    graph = job.trace.graph
    return replace(record, who=graph.rank, work=graph)


def _taxed(bench: _Bench, record: Record, shares: Decomposition) -> TaxFigures:
    """What networks cost a run whose time goes where `shares` says."""
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
class _Bench:
    """Runs a trace, changed in one thing at a time.

    Attributes:
        job: The variant.
        stop: Ends the run.
        done: Told of every simulation.
        scale: What lengths of trials are multiplied by.
        seed: Of trials.
        cluster: Of trials.
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

    def for_trials(self, cluster: Cluster, seed: int, run_s: float) -> _Bench:
        """The bench on which resources are made better: where a run is dear, the flow engine's."""
        bench = replace(self, seed=seed, cluster=cluster)
        if isinstance(self.job.engine, FluidEngine):
            return bench
        bench = replace(bench, job=replace(self.job, engine=engine_named("flow")))
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
