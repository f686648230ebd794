"""One variant through its engine: every seed, the checkpoint's step, and the trials in which one resource is better."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from railyard.engine import Jitter, Probes
from railyard.engine.flow import FREED
from railyard.kit.errors import InputError, Stalled
from railyard.kit.quantities import percentile
from railyard.measure import bottleneck
from railyard.measure.utilization import crosses, tax_of
from railyard.work.scenario.load import blaming
from railyard.work.study.compose import about_tasks
from railyard.work.study.deaths import words
from railyard.work.training import trying
from railyard.work.training.designs import DesignSite, evaluate
from railyard.work.training.faults import JobFaults, sorted_out
from railyard.work.training.graphs import redrawn
from railyard.work.training.losses import Losses
from railyard.work.training.step_runs import MeanStep, StepRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.engine.lowering import Free
    from railyard.graph import Record, TaskGraph
    from railyard.measure.bottleneck import Bottleneck, Resource, SimulateVariant
    from railyard.measure.result.network import FaultFigures
    from railyard.measure.result.step import TaxFigures
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.storing import Saved
    from railyard.work.training.trying import Stepped


@dataclass(frozen=True)
class Simulated:
    """Simulation results of one variant.

    Attributes:
        job: The variant in its later steps, with the cluster whose hashes gave the timeline.
        mean: The mean step, around the one under the seed whose step time is the median.
        healthy: The same job without any fault; None where the scenario has none.
        credits_s: The step of `timeline` where credits cross sites the other way; None where none cross.
    """

    job: Prepared
    mean: MeanStep
    samples_s: tuple[float, ...]
    tax: TaxFigures
    bottleneck: Bottleneck
    healthy: Stepped | None = None
    faults: tuple[FaultFigures, ...] = ()
    outcome: Literal["finished", "died", "stalled"] = "finished"
    credits_s: float | None = None

    @property
    def timeline(self) -> Record:
        """The step under the seed whose step time is the median."""
        return self.mean.record


def simulate(
    job: Prepared, *, stop: Event, done: Callable[[str], None], workers: int = 1, searched: bool = True
) -> Simulated:
    """Runs one variant.

    Args:
        job: The variant.
        stop: Ends the run when it is set.
        done: Called after each simulation with what was done.
        workers: Simulations at a time; engines free the GIL.
        searched: Whether it is tried what would help.

    Raises:
        InputError: Graph and cluster do not fit together.
        SimulationError: The run cannot finish.
        Stopped: `stop` was set.
    """
    with blaming(job.variant.draft, "workload", "training"):
        graph = job.graphs.of(job.training, job.cluster)
    whole = StepRuns(job, job.graphs, stop, done)
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        stepped = _stepped(whole, graph, pool)
        bench, step_s = stepped.bench, stepped.timeline.makespan_ps * 1e-12
        saved = bench.checkpoint(step_s)
        lost = stepped.losses(whole, graph, saved)
        bench = replace(bench, lost_s=sum(one.lost_s for one in lost))
        mean = MeanStep.of(bench, stepped.timeline, saved)
        tax = _taxed(whole, bench, mean, lost, pool)
        search = bottleneck.UNSEARCHED
        if searched:
            tried = replace(bench.for_trials(graph, step_s), stall_s=mean.stall_s)
            search = _searched(stepped, tried, mean.once_s + mean.meeting_s + mean.stall_s, pool)
            known = mean if tried.job is bench.job else None
            search = trying.with_changes(search, trying.Remedied(tried, job, stepped.faults, known), tax.tokens_lost)
            if stepped.healthy is not None:
                search = trying.with_repair(search, stepped.healthy.found, bench.job, mean)
        credits_s = bench.for_trials(graph, step_s).credits_s(graph) if job.cluster.back_end.credits_cross else None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return Simulated(
        bench.job,
        mean,
        stepped.samples_s,
        tax,
        search,
        None if stepped.healthy is None else stepped.healthy.found,
        lost,
        stepped.faults.outcome,
        credits_s,
    )


@dataclass(frozen=True)
class _Healthy:
    """A job without any of its faults.

    Attributes:
        samples_s: Steps under every seed under which they differ.
        found: Measured as the job itself is, under the seed whose step is the median.
    """

    samples_s: tuple[float, ...]
    found: Stepped

    @staticmethod
    def of(whole: StepRuns, graph: TaskGraph, pool: ThreadPoolExecutor) -> _Healthy:
        """`whole` runs the job with its faults."""
        bench = replace(whole, job=replace(whole.job, faults=()))
        samples_s = bench.samples_s(graph, pool) if bench.random else ()
        drawn = _drawn(bench, samples_s)
        found = trying.stepped(drawn.job, drawn)
        return _Healthy(samples_s or (found.mean.record.makespan_ps * 1e-12,), found)


def _drawn(bench: StepRuns, samples_s: Sequence[float]) -> StepRuns:
    """The bench under the seed whose step is the median of the samples, or under the first without samples."""
    job = bench.job
    seed = job.seeds[samples_s.index(percentile(sorted(samples_s), 0.5))] if samples_s else job.seeds[0]
    return replace(bench, job=replace(job, cluster=redrawn(job.cluster, seed)), seed=seed)


@dataclass(frozen=True)
class _Stepped:
    """Steps of a job.

    Attributes:
        bench: Of its later steps, under the seed whose step is the median.
        healthy: The job without any fault; None where there is none.
    """

    bench: StepRuns
    timeline: Record
    samples_s: tuple[float, ...]
    healthy: _Healthy | None
    faults: JobFaults

    def losses(self, whole: StepRuns, graph: TaskGraph, saved: Saved) -> tuple[FaultFigures, ...]:
        """What each fault cost; `whole` runs the job with all of them."""
        if self.healthy is None:
            return ()
        seed, job, samples_s = self.bench.seed, whole.job, self.healthy.samples_s
        without_s = samples_s[job.seeds.index(seed) if len(samples_s) > 1 else 0]
        drawn = replace(whole, job=replace(job, cluster=redrawn(job.cluster, seed)), seed=seed)
        return Losses(self.faults, drawn, graph, saved, without_s, self.timeline.makespan_ps * 1e-12).figures()


def _stepped(whole: StepRuns, graph: TaskGraph, pool: ThreadPoolExecutor) -> _Stepped:
    """A job's steps, without its faults and with them."""
    job = whole.job
    healthy = _Healthy.of(whole, graph, pool) if job.faults else None
    faults = JobFaults() if healthy is None else sorted_out(whole, graph, fmean(healthy.samples_s))
    try:
        return _played(replace(whole, job=faults.later(job)), graph, pool, healthy, faults)
    except Stalled:
        if not faults.slowing:
            raise
    faults = faults.stalled()
    return _played(replace(whole, job=faults.later(job)), graph, pool, healthy, faults)


def _played(
    bench: StepRuns, graph: TaskGraph, pool: ThreadPoolExecutor, healthy: _Healthy | None, faults: JobFaults
) -> _Stepped:
    """Steps of a job under every seed, that of the median with all that is measured of it."""
    samples_s = bench.samples_s(graph, pool) if bench.random else ()
    bench = _drawn(bench, samples_s)
    cluster = bench.job.cluster
    timeline = bench.step(graph, cluster, seed=bench.seed, probes=Probes(full=True, windows=windows_of(cluster)))
    every_s = samples_s or (timeline.makespan_ps * 1e-12,) * len(bench.job.seeds)
    return _Stepped(bench, timeline, every_s, healthy, faults)


def _taxed(
    whole: StepRuns, bench: StepRuns, mean: MeanStep, lost: Sequence[FaultFigures], pool: ThreadPoolExecutor
) -> TaxFigures:
    """What networks cost a mean step, what their faults took from the job once included.

    Args:
        whole: Runs the job with all its faults.
        bench: In its later steps, under the seed of the mean step.
        mean: That step.
        lost: What each fault cost.
        pool: Runs steps in parallel.
    """
    job = bench.job
    inside = not (crosses(mean.record, job.cluster) or mean.meeting_s or mean.stall_s or lost)

    def unlimited(free: Free) -> dict[str, float]:
        if free == "scale-out" and inside:
            return mean.by_cause()
        kept = {words(fault) for fault in whole.unlimited(free).job.faults}
        on = replace(bench.unlimited(free), lost_s=sum(one.lost_s for one in lost if one.what in kept))
        if free == "scale-out" or lost or job.faults or job.cluster.storage or job.cluster.memory_pool:
            return MeanStep.simulated(on).by_cause()
        conditions = (on.job.engine, job.jitter, on.seed)
        return on.graphs.once(job.training, job.cluster, conditions, lambda: MeanStep.simulated(on).by_cause())

    without_scale_out, without_networks = pool.map(unlimited, FREED)
    return tax_of(mean.by_cause(), without_scale_out, without_networks, bench.unlimited("all").job.engine.name)


def _searched(stepped: _Stepped, tried: StepRuns, mean_s: float, pool: ThreadPoolExecutor) -> Bottleneck:
    """What would help most of the resources that could be better."""
    job, step_s = stepped.bench.job, stepped.timeline.makespan_ps * 1e-12
    found = bottleneck.resources(
        job.cluster,
        stepped.timeline,
        jitter=bool(job.faults) or job.jitter != Jitter(),
        checkpoints=job.training.checkpoint is not None,
    )
    if about_tasks(job.training) > LARGE:
        closed = _closed(job, step_s, mean_s, found)
        if closed is not None:
            return bottleneck.find(mean_s, found, closed, bounds="none", engine="closed form")
    trials = {resource.name: pool.submit(tried.better, resource, bottleneck.FACTOR) for resource in found}
    return bottleneck.find(mean_s, found, BottleneckTrials(trials, tried.better), engine=tried.job.engine.name)


LARGE = trying.TASKS
"""Tasks of a step from which on resources are tried in closed form; `explain` always simulates them."""


def _closed(job: Prepared, step_s: float, mean_s: float, found: Sequence[Resource]) -> SimulateVariant | None:
    """Trials in closed form, all at once; None if a resource or the topology has no closed form.

    The simulated step changes by the ratio of two closed forms.
    """
    if job.faults or any(one.family in ("storage", "software") for one in found):
        return None
    try:
        sites = [*map(DesignSite.of, (job.cluster, *(one.scaled(job.cluster, bottleneck.FACTOR) for one in found)))]
    except InputError:  # the topology has none
        return None
    closed = evaluate([job.training] * len(sites), sites).step.step_s
    better = dict(zip((one.name for one in found), closed[1:] / closed[0] - 1.0, strict=True))

    def trial(resource: Resource, factor: float) -> float:
        del factor
        return mean_s + step_s * float(better[resource.name])

    return trial


MOST_WINDOWS = 200
"""Time windows for link load: a step of a second has windows of 5 to 10 ms."""

WINDOW_CELLS = 8_000_000
"""Windows times links, at most: 64 MB while a step runs, some megabytes on disk."""


def windows_of(cluster: Cluster) -> int:
    """Windows in which the load of a cluster's links is kept: fewer where there are many links."""
    return max(min(MOST_WINDOWS, WINDOW_CELLS // max(len(cluster.links), 1)), 2)


@dataclass(frozen=True)
class BottleneckTrials:
    """The trials of the bottleneck search, those that are always made already under way."""

    begun: Mapping[str, Future[float]]
    run: Callable[[Resource, float], float]

    def __call__(self, resource: Resource, factor: float) -> float:
        """Step time in seconds when one resource is better by a factor."""
        if factor == bottleneck.FACTOR and resource.name in self.begun:
            return self.begun[resource.name].result()
        return self.run(resource, factor)
