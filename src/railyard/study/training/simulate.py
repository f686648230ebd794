"""One variant through its engine: every seed, the checkpoint's step, and the trials in which one resource is better."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.engine import Jitter, Probes
from railyard.measure import bottleneck
from railyard.percentile import percentile
from railyard.scenario.load import blaming
from railyard.study.training import trying
from railyard.study.training.deaths import priced, sorted_out
from railyard.study.training.hash_seeds import redrawn
from railyard.study.training.step_runs import StepRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from threading import Event

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.bottleneck import Bottleneck, Resource
    from railyard.result.fault import FaultFigures
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.storing import Saved


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


def simulate(
    job: Prepared, *, stop: Event, done: Callable[[str], None], workers: int = 1, searched: bool = True
) -> Simulated:
    """Runs one variant.

    Args:
        job: The variant.
        stop: Ends the run when it is set.
        done: Told after each simulation what has been done.
        workers: Simulations at a time; engines free the GIL.
        searched: Whether it is tried what would help.

    Raises:
        InputError: Graph and cluster do not fit together.
        SimulationError: The run cannot finish.
        Stopped: `stop` was set.
    """
    with blaming(job.variant.draft, "workload", "training"):
        graph = job.graphs.of(job.training, job.cluster)
    whole = job
    bench = StepRuns(job, job.graphs, stop, done)
    deaths = sorted_out(bench, graph)
    job = deaths.later(job)
    bench = replace(bench, job=job)
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        samples_s = bench.samples_s(graph, pool) if bench.random else ()
        seed = job.seeds[samples_s.index(percentile(sorted(samples_s), 0.5))] if samples_s else job.seeds[0]
        bench = replace(bench, job=replace(job, cluster=redrawn(job.cluster, seed)), seed=seed)
        timeline = bench.step(
            graph, bench.job.cluster, seed=seed, probes=Probes(full=True, windows=windows_of(bench.job.cluster))
        )
        step_s = timeline.makespan_ps * 1e-12
        disturbed = bool(job.faults) or job.jitter != Jitter()
        saved, meeting_s = bench.checkpoint(step_s), bench.meeting_s(job.cluster, bench.job.cluster, step_s)
        stall_s = saved.stall_s / bench.saved_every
        if searched:
            found = bottleneck.resources(
                bench.job.cluster, timeline, jitter=disturbed, checkpoints=job.training.checkpoint is not None
            )
            tried = replace(bench.for_trials(graph, step_s), stall_s=stall_s)
            trials = {resource.name: pool.submit(tried.better, resource, bottleneck.FACTOR) for resource in found}
            search = bottleneck.find(step_s + stall_s + meeting_s, found, BottleneckTrials(trials, tried.better))
            search = trying.with_changes(search, tried)
        else:
            search = bottleneck.UNSEARCHED
        lost = priced(deaths, replace(bench, job=replace(whole, cluster=redrawn(whole.cluster, seed))), graph, saved)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return Simulated(bench.job, timeline, samples_s or (step_s,) * len(job.seeds), saved, search, meeting_s, lost)


MOST_WINDOWS = 200
"""Of time in which the load of links is kept: a step of a second in windows of 5 to 10 ms."""

WINDOW_CELLS = 8_000_000
"""Of windows times links: 64 MB while a step runs, some megabytes on disk."""


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
