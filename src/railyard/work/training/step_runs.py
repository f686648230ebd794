"""Runs steps of one variant, unchanged or with one change at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from railyard.cluster.fabric import CREDITS
from railyard.cluster.fault import DegradeLink, Late, SlowAccelerator
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.machine import UNLIMITED
from railyard.engine import Jitter, Probes
from railyard.engine.faults import effects_of, slowed
from railyard.engine.flow import Conditions
from railyard.engine.fluid import FluidEngine
from railyard.engine.lowering import lower
from railyard.graph import Job, Kind, MergedJobs
from railyard.kit.errors import Stopped
from railyard.work.scenario.load import blaming
from railyard.work.training.graphs import hashes, redrawn
from railyard.work.training.loading import with_faster_loading
from railyard.work.training.parallel.finish import meeting_steps
from railyard.work.training.prepare import fluid
from railyard.work.training.storing import Saved, protected_s, state_flows

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.engine.lowering import Free
    from railyard.graph import Record, TaskGraph
    from railyard.measure.bottleneck import Resource
    from railyard.work.training.graphs import Graphs
    from railyard.work.training.prepare import Prepared


@dataclass(frozen=True)
class StepRuns:
    """Runs steps of one variant, changed in one thing at a time.

    Attributes:
        scale: Factor on step times of trials.
        stall_s: Checkpoint time per mean step.
        lost_s: Time that faults take from the job once.
    """

    job: Prepared
    graphs: Graphs
    stop: Event
    done: Callable[[str], None]
    seed: int = 0
    scale: float = 1.0
    stall_s: float = 0.0
    lost_s: float = 0.0

    @property
    def saved_every(self) -> int:
        """Steps between checkpoints; 1 where there are none, whose stall is 0."""
        section = self.job.training.checkpoint
        return 1 if section is None else section.interval_steps

    def fluid(self) -> StepRuns:
        """The bench on the flow engine, where a run of its own engine is expensive."""
        engine = fluid(self.job.engine)
        return self if engine is self.job.engine else replace(self, job=replace(self.job, engine=engine))

    def for_trials(self, graph: TaskGraph, step_s: float) -> StepRuns:
        """The bench on which resources are made better: the same, or the flow engine's if a run is expensive.

        A dozen packet simulations would take too long for this question, so the flow engine gives the relative change
        of the step.
        """
        bench = self.fluid()
        if bench is self:
            return self
        plain_s = bench.step(graph, self.job.cluster, seed=self.seed).makespan_ps * 1e-12
        return replace(bench, scale=step_s / plain_s if plain_s > 0 else 1.0)

    def unlimited(self, free: Free) -> StepRuns:
        """The bench on which the scale-out network, or all networks, have no limit."""
        job = self.job
        on = Conditions(job.engine, job.cluster, job.policy, job.faults).unlimited(free)
        return replace(self, job=replace(job, **on._asdict()), scale=1.0)

    def step(
        self,
        graph: TaskGraph,
        cluster: Cluster,
        *,
        seed: int,
        faults: tuple[Fault, ...] | None = None,
        jitter: Jitter | None = None,
        probes: Probes = Probes(),  # noqa: B008 - frozen
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
                probes=probes,
                policy=self.job.policy,
                progress=self._poll,
            )
        self.done(self.job.variant.name)
        return timeline

    @property
    def random(self) -> bool:
        """Whether seeds change anything in the variant."""
        return len(self.job.seeds) > 1 and (self.job.jitter != Jitter() or hashes(self.job.cluster))

    def samples_s(self, graph: TaskGraph, pool: ThreadPoolExecutor) -> tuple[float, ...]:
        """Step time in seconds under every seed."""
        return tuple(pool.map(self.seed_s(graph), self.job.seeds))

    def seed_s(self, graph: TaskGraph) -> Callable[[int], float]:
        """Step time in seconds by seed; communication loads are computed once if no fabric hashes."""
        job, engine = self.job, self.job.engine
        paths_stay = all(isinstance(fault, DegradeLink | Late | SlowAccelerator) for fault in job.faults)
        if not isinstance(engine, FluidEngine) or engine.background or hashes(job.cluster) or not paths_stay:
            return lambda seed: self.step(graph, redrawn(job.cluster, seed), seed=seed).makespan_ps * 1e-12
        known = slowed(job.cluster, effects_of(job.faults, ClusterPlaces.of(job.cluster)))
        lowered, merged = lower(graph, known, job.policy), MergedJobs.of(graph)

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
        """Step time in seconds with one resource improved by a factor."""
        cluster = resource.scaled(self.job.cluster, factor)
        training = self.job.training
        if resource.divides_loading:
            training = with_faster_loading(training, factor)
        built = cluster if resource.rebuilds_workload else self.job.cluster
        graph = self.graphs.of(training, built)
        faults, jitter = self.job.faults, self.job.jitter
        if resource.divides_jitter:
            jitter = jitter.steadier(factor)
            if factor >= UNLIMITED:
                faults = tuple(fault for fault in faults if not isinstance(fault, Late | SlowAccelerator))
        timeline = self.step(graph, cluster, seed=self.seed, faults=faults, jitter=jitter)
        step_s, stall_s = timeline.makespan_ps * 1e-12, self.stall_s
        if stall_s > 0 and resource.family == "storage":
            ended = self.step(self.graphs.of(training, self.job.cluster, checkpoint=True), cluster, seed=self.seed)
            stall_s = max(ended.makespan_ps * 1e-12 - step_s, 0.0) / self.saved_every
        return self.scale * step_s + stall_s + self.meeting_s(built, cluster, step_s)

    def credits_s(self, graph: TaskGraph) -> float:
        """Step time in seconds when credits cross sites the other way."""
        cluster = self.job.cluster
        cluster = cluster.credited(next(each for each in CREDITS if each != cluster.fabric.credits))
        return self.scale * self.step(graph, cluster, seed=self.seed).makespan_ps * 1e-12

    def stalled(self, step_s: float) -> Saved:
        """Checkpoint time of the step that ends with one."""
        training = self.job.training
        if training.checkpoint is None:
            return Saved()
        graph = self.graphs.of(training, self.job.cluster, checkpoint=True)
        timeline = self.step(graph, self.job.cluster, seed=self.seed)
        return Saved(max(timeline.makespan_ps * 1e-12 - step_s, 0.0))

    def checkpoint(self, step_s: float) -> Saved:
        """The same, with its reads and writes simulated separately."""
        training = self.job.training
        if training.checkpoint is None:
            return Saved()
        graph = self.graphs.of(training, self.job.cluster, checkpoint=True)
        alone = state_flows(graph, 1 if not training.checkpoint.asynchronous else training.checkpoint.interval_steps)
        plain: dict[str, Any] = {"faults": (), "jitter": Jitter()}
        bench = self.fluid()  # terabytes packet by packet would take longer than the question is worth
        write_s, read_s = (
            bench.step(alone.turned(kind), self.job.cluster, seed=self.seed, **plain).makespan_ps * 1e-12
            for kind in (Kind.WRITE, Kind.READ)
        )
        write_s, read_s = protected_s(training.checkpoint, alone, write_s, read_s)
        return replace(self.stalled(step_s), write_s=write_s, read_s=read_s, bytes=alone.bytes, writers=alone.writers)

    def meeting_s(self, built: Cluster, cluster: Cluster, step_s: float) -> float:
        """Additional mean step time for synchronizing workers with local updates.

        Args:
            built: The cluster for which the graph is built.
            cluster: The cluster on which it runs.
            step_s: A step without a synchronization.
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
