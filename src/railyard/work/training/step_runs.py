"""Runs steps of one variant, unchanged or with one change at a time, and computes the mean step of a job from them."""

from __future__ import annotations

import math
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
from railyard.kit.quantities import halved, percentile
from railyard.measure.decompose import OUTAGE, decompose
from railyard.measure.result.step import StepFigures
from railyard.work.scenario.load import blaming
from railyard.work.training.graphs import hashes, redrawn
from railyard.work.training.jitter import law_of
from railyard.work.training.loading import with_faster_loading
from railyard.work.training.parallel.finish import meeting_steps
from railyard.work.training.prepare import fluid
from railyard.work.training.storing import Saved, loading_of, protected_s, state_flows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.engine.lowering import Free
    from railyard.graph import Record, TaskGraph
    from railyard.measure.bottleneck import Resource
    from railyard.measure.decompose import Decomposition
    from railyard.work.training.graphs import Graphs
    from railyard.work.training.jitter import JitterLaw
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training
    from railyard.work.training.storing import Loading


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


_HALVINGS = 30


@dataclass(frozen=True)
class Around:
    """The law of jitter around each undisturbed step."""

    law: JitterLaw
    ranks: int
    micro_batches: int

    @staticmethod
    def of(job: Prepared) -> Around | None:
        """None where the scenario draws differences itself or wants none."""
        if job.variant.draft.scenario.jitter.law != "quantiles" or job.jitter != Jitter():
            return None
        return Around(law_of(job.cluster.accelerator), job.cluster.ranks, job.training.layout.micro_batches)

    def quantile(self, samples_s: Sequence[float], quantile: float) -> float:
        """The quantile of steps whose samples are equally likely."""
        steps = sorted(set(samples_s))
        reached = [step + self.law.delay_s(quantile, self.ranks, step, self.micro_batches) for step in steps]

        def below(middle: float) -> bool:
            shares = [self.law.share_below(middle - s, self.ranks, s, self.micro_batches) for s in samples_s]
            return math.fsum(shares) / len(shares) < quantile

        low, high = min(reached), max(reached)
        return sum(halved(below, low, high, _HALVINGS if high > low else 0)) / 2.0


@dataclass(frozen=True)
class StepTimes:
    """Step times of one variant.

    Attributes:
        samples_s: One per seed, in seed order; at least one.
        around: Jitter law around these; None if the samples are all variation there is.
    """

    samples_s: tuple[float, ...]
    around: Around | None = None

    @property
    def mean_s(self) -> float:
        """Mean step of a long job: its duration is this times the number of steps."""
        return math.fsum(self.samples_s) / len(self.samples_s)

    def section(self, *, mean_s: float | None = None, more_s: float = 0.0, **faulty: float) -> StepFigures:
        """The result's `step`.

        Args:
            mean_s: Mean step of a long job, if it is not the mean of the samples.
            more_s: Additional average time of every step over its sample; already in `mean_s`.
            faulty: Further figures of a job with faults.
        """
        return StepFigures(
            seconds=self.mean_s if mean_s is None else mean_s,
            p50_s=self.quantile(0.50) + more_s,
            p95_s=self.quantile(0.95) + more_s,
            p99_s=self.quantile(0.99) + more_s,
            samples=tuple(sample_s + more_s for sample_s in self.samples_s),
            jitter="" if self.around is None else self.around.law.source,
            **faulty,
        )

    def quantile(self, share: float) -> float:
        """Quantile of the steps: by the law around the samples, else by nearest rank among them."""
        if self.around is None:
            return percentile(sorted(self.samples_s), share)
        return self.around.quantile(self.samples_s, share)


def lost_in(training: Training, step_s: float, lost_s: float, mtbf_h: float) -> float:
    """Time lost once to faults that is charged to the priced tokens, s.

    A job without a token budget has no length over which to spread a loss. The loss then counts once per the job's mean
    time between failures, and a step gets its share of that.

    Args:
        training: The job.
        step_s: Its mean step, without that.
        lost_s: What faults take from the whole job.
        mtbf_h: Mean time between failures of the whole job.
    """
    return lost_s if training.tokens else lost_s * step_s / (mtbf_h * 3600)


def _outage_s(job: Prepared, step_s: float, lost_s: float) -> float:
    """Share of a mean step of the time that faults take from the whole job once, s."""
    tokens = float(job.training.tokens or job.training.step_tokens)
    return lost_in(job.training, step_s, lost_s, mtbf_h(job)) / math.ceil(tokens / job.training.step_tokens)


def mtbf_h(job: Prepared) -> float:
    """Mean time between failures of a whole job, h."""
    return job.assumptions.mtbf_h.typical / job.cluster.ranks


@dataclass(frozen=True, eq=False)
class MeanStep:
    """A mean step; seconds.

    Attributes:
        once_s: Its length; on a bench for trials, times the bench's scale.
        loading: How its samples are loaded; None where it reads none.
        meeting_s: Additional mean step time for synchronizing workers with local updates.
        lost_s: Time that faults take from the whole job once.
        outage_s: Share of that per step.
    """

    record: Record
    shares: Decomposition
    once_s: float
    loading: Loading | None
    meeting_s: float
    saved: Saved
    saved_every: int
    lost_s: float
    outage_s: float

    @staticmethod
    def of(bench: StepRuns, record: Record, saved: Saved) -> MeanStep:
        """The mean step of a bench's job, one of whose steps is known, and what its checkpoints take."""
        shares, plain_s, cluster = decompose(record), record.makespan_ps * 1e-12, bench.job.cluster
        once_s = bench.scale * plain_s
        waited_s = sum(row.seconds for row in shares.rows if row.cause == "data")
        loading = loading_of(bench.job, record, once_s, bench.scale * waited_s)
        meeting_s = bench.meeting_s(cluster, cluster, plain_s)
        step_s = once_s + meeting_s + (0.0 if loading is None else loading.variation_s)
        lost = bench.lost_s, _outage_s(bench.job, step_s, bench.lost_s)
        return MeanStep(record, shares, once_s, loading, meeting_s, saved, bench.saved_every, *lost)

    @staticmethod
    def simulated(bench: StepRuns) -> MeanStep:
        """The mean step of a bench's job, of a step that is simulated for it; its checkpoints only stall."""
        record = bench.step(bench.graphs.of(bench.job.training, bench.job.cluster), bench.job.cluster, seed=bench.seed)
        return MeanStep.of(bench, record, bench.stalled(record.makespan_ps * 1e-12))

    @property
    def varied_s(self) -> float:
        """Additional mean step time because sample sizes vary."""
        return 0.0 if self.loading is None else self.loading.variation_s

    @property
    def step_s(self) -> float:
        """Step without checkpoint stalls and outages."""
        return self.once_s + self.varied_s + self.meeting_s

    @property
    def stall_s(self) -> float:
        """Checkpoint stalls."""
        return self.saved.stall_s / self.saved_every

    @property
    def mean_s(self) -> float:
        """Total."""
        return self.step_s + self.stall_s + self.outage_s

    @property
    def added(self) -> tuple[tuple[str, str, float], ...]:
        """Parts beyond its record: cause, phase, seconds."""
        return (
            ("data", "variation", self.varied_s),
            ("outer update", "meeting", self.meeting_s),
            ("checkpoint", "checkpoint", self.stall_s),
            (OUTAGE, "", self.outage_s),
        )

    def by_cause(self) -> dict[str, float]:
        """Seconds by cause; they sum to the mean step."""
        scale = self.once_s / self.shares.step_s
        found = {cause: scale * seconds for cause, seconds in self.shares.by_cause().items()}
        for cause, _, seconds in self.added:
            found[cause] = found.get(cause, 0.0) + seconds
        return found
