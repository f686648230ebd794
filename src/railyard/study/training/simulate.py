"""One variant through its engine: every seed, the checkpoint's step, and the trials in which one resource is better."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from railyard.engine import Jitter
from railyard.engine import get as engine_named
from railyard.engine.fluid import FluidEngine
from railyard.engine.lowering import lower
from railyard.errors import Stopped
from railyard.fault import DegradeLink, Late, SlowAccelerator
from railyard.graph import Job, Kind, Merged
from railyard.measure import bottleneck
from railyard.percentile import percentile
from railyard.scenario.load import blaming
from railyard.study.training.deaths import priced, told_apart
from railyard.study.training.hash_seeds import hashes, redrawn
from railyard.study.training.storing import Saved, state_flows
from railyard.workload.training.loading import with_faster_loading
from railyard.workload.training.sync.meeting import meeting_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.fault import Fault
    from railyard.graph import Record, TaskGraph
    from railyard.measure.bottleneck import Bottleneck, Resource
    from railyard.result.fault import FaultFigures
    from railyard.study.training.prepare import Graphs, Prepared


@dataclass(frozen=True)
class Simulated:
    """What an engine found for one variant.

    Attributes:
        job: The variant, with the cluster whose hashes gave the timeline.
        timeline: The step under the seed whose step time is the median.
        samples_s: Step time under every seed.
        saved: What a checkpoint takes.
        bottleneck: What would help.
        meeting_s: How much longer a mean step is for meetings of workers that step by themselves.
        faults: What deaths cost.
    """

    job: Prepared
    timeline: Record
    samples_s: tuple[float, ...]
    saved: Saved
    bottleneck: Bottleneck
    meeting_s: float = 0.0
    faults: tuple[FaultFigures, ...] = ()


def simulate(job: Prepared, *, stop: Event, done: Callable[[str], None], workers: int = 1) -> Simulated:
    """Runs one variant.

    Args:
        job: The variant.
        stop: Ends the run when it is set.
        done: Told after each simulation what has been done.
        workers: Simulations at a time; engines free the GIL.

    Raises:
        InputError: Graph and cluster do not fit together.
        SimulationError: The run cannot finish.
        Stopped: `stop` was set.
    """
    with blaming(job.variant.draft, "workload", "training"):
        graph = job.graphs.of(job.training, job.cluster)
    whole = job
    bench = StepRuns(job, job.graphs, stop, done)
    deaths = told_apart(bench, graph)
    job = deaths.later(job)
    bench = replace(bench, job=job)
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        samples_s = bench.samples_s(graph, pool) if bench.random else ()
        seed = job.seeds[samples_s.index(percentile(sorted(samples_s), 0.5))] if samples_s else job.seeds[0]
        bench = replace(bench, job=replace(job, cluster=redrawn(job.cluster, seed)), seed=seed)
        timeline = bench.step(graph, bench.job.cluster, seed=seed)
        step_s = timeline.makespan_ps * 1e-12
        disturbed = bool(job.faults) or job.jitter != Jitter()
        saved, meeting_s = bench.checkpoint(step_s), bench.meeting_s(job.cluster, bench.job.cluster, step_s)
        stall_s = saved.stall_s / bench.saved_every
        found = bottleneck.resources(
            bench.job.cluster, timeline, jitter=disturbed, checkpoints=job.training.checkpoint is not None
        )
        tried = replace(bench.for_trials(graph, step_s), stall_s=stall_s)
        trials = {resource.name: pool.submit(tried.better, resource, bottleneck.FACTOR) for resource in found}
        search = bottleneck.find(step_s + stall_s + meeting_s, found, BottleneckTrials(trials, tried.better))
        lost = priced(deaths, replace(bench, job=replace(whole, cluster=redrawn(whole.cluster, seed))), graph, saved)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return Simulated(bench.job, timeline, samples_s or (step_s,) * len(job.seeds), saved, search, meeting_s, lost)


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


@dataclass(frozen=True)
class StepRuns:
    """Runs steps of one variant, changed in one thing at a time.

    Attributes:
        job: The variant.
        graphs: Task graphs.
        stop: Ends the run.
        done: Told of every simulation.
        seed: Of what is random.
        scale: What step times of trials are multiplied by.
        stall_s: What checkpoints add to the mean step.
    """

    job: Prepared
    graphs: Graphs
    stop: Event
    done: Callable[[str], None]
    seed: int = 0
    scale: float = 1.0
    stall_s: float = 0.0

    @property
    def saved_every(self) -> int:
        """Steps between checkpoints; 1 where there are none, whose stall is 0."""
        section = self.job.training.checkpoint
        return 1 if section is None else section.interval_steps

    def for_trials(self, graph: TaskGraph, step_s: float) -> StepRuns:
        """The bench on which resources are made better: the same, or the flow engine's where a run is dear.

        A dozen runs of every packet would take longer than the question is worth, so the flow engine says by which
        share the step gets shorter.
        """
        if isinstance(self.job.engine, FluidEngine):
            return self
        bench = replace(self, job=replace(self.job, engine=engine_named("flow")))
        plain_s = bench.step(graph, self.job.cluster, seed=self.seed).makespan_ps * 1e-12
        return replace(bench, scale=step_s / plain_s if plain_s > 0 else 1.0)

    def step(
        self,
        graph: TaskGraph,
        cluster: Cluster,
        *,
        seed: int,
        faults: tuple[Fault, ...] | None = None,
        jitter: Jitter | None = None,
    ) -> Record:
        """One step."""
        if self.stop.is_set():
            raise Stopped("stopped")
        with blaming(self.job.variant.draft):
            timeline = self.job.engine.simulate(
                [Job(graph)],
                cluster,
                seed=seed,
                faults=self.job.faults if faults is None else faults,
                jitter=self.job.jitter if jitter is None else jitter,
                policy=self.job.policy,
                progress=self._poll,
            )
        self.done(self.job.variant.name)
        return timeline

    @property
    def random(self) -> bool:
        """Whether seeds differ in anything that the variant has."""
        return len(self.job.seeds) > 1 and (self.job.jitter != Jitter() or hashes(self.job.cluster))

    def samples_s(self, graph: TaskGraph, pool: ThreadPoolExecutor) -> tuple[float, ...]:
        """Step time in seconds under every seed."""
        return tuple(pool.map(self.seed_s(graph), self.job.seeds))

    def seed_s(self, graph: TaskGraph) -> Callable[[int], float]:
        """Step time in seconds by seed; what communications load is found once where no fabric hashes."""
        job, engine = self.job, self.job.engine
        paths_stay = all(isinstance(fault, DegradeLink | Late | SlowAccelerator) for fault in job.faults)
        if not isinstance(engine, FluidEngine) or engine.background or hashes(job.cluster) or not paths_stay:
            return lambda seed: self.step(graph, redrawn(job.cluster, seed), seed=seed).makespan_ps * 1e-12
        lowered, merged = lower(graph, job.cluster, job.policy), Merged.of(graph)

        def run(seed: int) -> float:
            self._poll(0, 0, 0)
            timeline = engine.run(
                merged,
                lowered,
                job.cluster.links,
                seed=seed,
                faults=job.faults,
                jitter=job.jitter,
                progress=self._poll,
            )
            self.done(job.variant.name)
            return timeline.makespan_ps * 1e-12

        return run

    def better(self, resource: Resource, factor: float) -> float:
        """Step time in seconds when one resource is better by a factor."""
        cluster = resource.scaled(self.job.cluster, factor)
        training = self.job.training
        if resource.divides_loading:
            training = with_faster_loading(training, factor)
        built = cluster if resource.rebuilds_workload else self.job.cluster
        graph = self.graphs.of(training, built)
        faults, jitter = self.job.faults, self.job.jitter
        if resource.divides_jitter:
            jitter = jitter.steadier(factor)
            if factor >= bottleneck.UNLIMITED:
                faults = tuple(fault for fault in faults if not isinstance(fault, Late | SlowAccelerator))
        timeline = self.step(graph, cluster, seed=self.seed, faults=faults, jitter=jitter)
        step_s, stall_s = timeline.makespan_ps * 1e-12, self.stall_s
        if stall_s > 0 and resource.family == "storage":
            ended = self.step(self.graphs.of(training, self.job.cluster, checkpoint=True), cluster, seed=self.seed)
            stall_s = max(ended.makespan_ps * 1e-12 - step_s, 0.0) / self.saved_every
        return self.scale * step_s + stall_s + self.meeting_s(built, cluster, step_s)

    def checkpoint(self, step_s: float) -> Saved:
        """What a checkpoint takes, the step that ends with one and its reads and writes by themselves."""
        training = self.job.training
        if training.checkpoint is None:
            return Saved()
        graph = self.graphs.of(training, self.job.cluster, checkpoint=True)
        timeline = self.step(graph, self.job.cluster, seed=self.seed)
        alone = state_flows(graph, 1 if not training.checkpoint.asynchronous else training.checkpoint.interval_steps)
        plain: dict[str, Any] = {"faults": (), "jitter": Jitter()}
        # Terabytes packet by packet would take longer than the question is worth.
        bench = (
            self
            if isinstance(self.job.engine, FluidEngine)
            else replace(self, job=replace(self.job, engine=engine_named("flow")))
        )
        write_s, read_s = (
            bench.step(alone.turned(kind), self.job.cluster, seed=self.seed, **plain).makespan_ps * 1e-12
            for kind in (Kind.WRITE, Kind.READ)
        )
        return Saved(max(timeline.makespan_ps * 1e-12 - step_s, 0.0), write_s, read_s, alone.bytes, alone.writers)

    def meeting_s(self, built: Cluster, cluster: Cluster, step_s: float) -> float:
        """How much longer a mean step is for meetings of workers that step by themselves.

        Args:
            built: The cluster for which the graph is built.
            cluster: On which it runs.
            step_s: A step without a meeting.
        """
        share = meeting_steps(self.job.training)
        if not share:
            return 0.0
        graph = self.graphs.of(self.job.training, built, meeting=True)
        timeline = self.step(graph, cluster, seed=self.seed)
        return share * max(timeline.makespan_ps * 1e-12 - step_s, 0.0)

    def _poll(self, ended: int, total: int, now_ps: int) -> None:
        del ended, total, now_ps
        if self.stop.is_set():
            raise Stopped("stopped")
