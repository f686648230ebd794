"""The contract of engines: the protocol, jitter and probes, and the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from railyard.engine.background import CLASSES
from railyard.graph.repeat import MergedJobs, merge
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import Job, Record


SEED_BITS = 40
"""A job's seed stands above these bits of the number of a task or rank, by which jitter is drawn."""


def joint(jobs: Sequence[Job], cluster: Cluster) -> tuple[MergedJobs, Cluster]:
    """The graph of all jobs and the cluster that it runs on.

    Scale-up domains are numbered in the order in which jobs fill them, so that a job that keeps domains together has
    neighbouring ranks wherever it lies, and what one job alone finds does not depend on where that is.

    Args:
        jobs: At least one; none shares an accelerator with another.
        cluster: The machine.

    Raises:
        InputError: A job lies outside the cluster, two share an accelerator, or one starts before the run.
    """
    if not jobs:
        raise InputError("there is no job to run")
    placements = [job.accelerators for job in jobs]
    _joint_check(jobs, placements, cluster)
    order = _domains_first(np.concatenate(placements), cluster)
    position = np.empty(cluster.ranks, np.int32)
    position[order] = np.arange(cluster.ranks, dtype=np.int32)
    return merge(jobs, [position[placement] for placement in placements]), cluster.arranged(order)


def _joint_check(jobs: Sequence[Job], placements: Sequence[NDArray[np.int32]], cluster: Cluster) -> None:
    taken = np.full(cluster.ranks, -1, np.int32)
    for number, (job, placement) in enumerate(zip(jobs, placements, strict=True)):
        if job.start_ps < 0:
            raise InputError("a job starts before the run", key="start", found=job.start_ps, allowed="at least 0 ps")
        if not 0 <= job.priority < CLASSES:
            raise InputError("there is no such class of traffic", key="priority", found=job.priority, allowed="0 to 7")
        outside = placement[(placement < 0) | (placement >= cluster.ranks)]
        if outside.size:
            raise InputError(
                f"job `{job.name}` has more ranks than the cluster, or lies outside it",
                found=f"accelerator {outside[0]}",
                allowed=f"0 to {cluster.ranks - 1}",
            )
        shared = placement[taken[placement] >= 0]
        if shared.size or len(np.unique(placement)) < len(placement):
            raise InputError(f"job `{job.name}` has an accelerator that another rank has already")
        taken[placement] = number


def _domains_first(accelerators: NDArray[np.int32], cluster: Cluster) -> NDArray[np.int32]:
    """int32[ranks], all accelerators: full domains by the first rank on them, those without ranks behind."""
    domain = cluster.scale_up_domain
    full = cluster.ranks // domain
    of_domain = accelerators // domain
    used, first = np.unique(of_domain[of_domain < full], return_index=True)
    rest = np.setdiff1d(np.arange(-(-cluster.ranks // domain)), used)
    domains = np.concatenate([used[np.argsort(first)], rest])
    order = (domains[:, None] * domain + np.arange(domain)).ravel()
    return order[order < cluster.ranks].astype(np.int32)


@dataclass(frozen=True)
class Keys:
    """Keys of draws of jitter.

    Attributes:
        task: int64[n]; None: the number of the task.
        rank: int64[ranks]; None: the number of the rank.
    """

    task: NDArray[np.int64] | None = None
    rank: NDArray[np.int64] | None = None


def jitter_keys(merged: MergedJobs) -> Keys:
    """Keys of the jitter of jobs: each job counts from its seed on, so that others do not change its draws."""
    if merged.alone and merged.jobs[0].seed == 0 and merged.ranks[0].size == merged.graph.ranks:
        return Keys()
    task, rank = np.empty(len(merged.graph), np.int64), np.zeros(merged.graph.ranks, np.int64)
    for job, first, to in zip(merged.jobs, merged.task_ptr, merged.ranks, strict=False):
        shift = job.seed << SEED_BITS
        task[first : first + len(job.work)] = shift + np.arange(len(job.work))
        rank[to] = shift + np.arange(len(to))
    return Keys(task, rank)


Progress = Callable[[int, int, int], None]
"""Called about twenty times a second with (tasks ended, tasks in all, simulated ps); may raise to end the run."""


def _check(holds: bool, message: str, key: str, found: object, allowed: str) -> None:
    if not holds:
        raise InputError(message, key=key, found=found, allowed=allowed)


@dataclass(frozen=True)
class Stall:
    """Interruptions of ranks of one kind: each holds up the computation of one rank, at a moment drawn by the seed.

    Attributes:
        rate_hz: Of one rank, per second of the step.
        mean_s: Mean length; lengths are exponential.
    """

    rate_hz: float
    mean_s: float

    def __post_init__(self) -> None:
        _check(0 <= self.rate_hz <= 1e3, "a rate per second", "jitter.stalls.rate_hz", self.rate_hz, "0 to 1000")
        _check(0 < self.mean_s <= 3600, "a mean length", "jitter.stalls.mean_s", self.mean_s, "above 0 s, at most 1 h")


@dataclass(frozen=True)
class Jitter:
    """Random differences in computation time: normal-like, mean 1, cut off at 0 and at six sigma; drawn by the seed.

    Attributes:
        sigma: Relative spread of each task, 0 to 1.
        rank_sigma: Relative spread between ranks, the same for a whole run, 0 to 1.
        step_sigma: Relative spread between steps, the same for all ranks, 0 to 1.
        stalls: Kinds of interruptions.
    """

    sigma: float = 0.0
    rank_sigma: float = 0.0
    step_sigma: float = 0.0
    stalls: tuple[Stall, ...] = ()

    def __post_init__(self) -> None:
        for key in ("sigma", "rank_sigma", "step_sigma"):
            value = getattr(self, key)
            _check(0 <= value <= 1, "a relative spread is a share", f"jitter.{key}", value, "0 to 1")

    def steadier(self, factor: float) -> Jitter:
        """The same with spreads and rates divided by a factor, above 0."""
        return Jitter(
            self.sigma / factor,
            self.rank_sigma / factor,
            self.step_sigma / factor,
            tuple(Stall(kind.rate_hz / factor, kind.mean_s) for kind in self.stalls),
        )


@dataclass(frozen=True)
class Probes:
    """Records that a run makes beyond the start and end of every task.

    Attributes:
        samples: At most so many samples of link utilization over the run, 0 for none; the interval doubles as the run
            goes on, so between half and all of them are used.
        links: Physical link ids to sample; None: all.
        full: Whether to count how long each link carries all that it can.
        windows: At most so many windows of time in which the load of every link is kept in a byte each, 0 for none; in
            place of `samples`.
    """

    samples: int = 0
    links: ArrayLike | None = None
    full: bool = False
    windows: int = 0

    def __post_init__(self) -> None:
        _check(0 <= self.windows <= 1 << 20, "a number of windows", "probes.windows", self.windows, "0 to 1048576")
        _check(not (self.windows and self.samples), "samples or windows", "probes.windows", self.windows, "one of both")
        _check(0 <= self.samples <= 1 << 20, "a number of samples", "probes.samples", self.samples, "0 to 1048576")


class Engine(Protocol):
    """Finds when everything in the jobs of a cluster happens."""

    @property
    def name(self) -> str:
        """Name that users write."""
        ...

    @property
    def summary(self) -> str:
        """How the engine finds times, in one sentence."""
        ...

    @property
    def left_out(self) -> tuple[str, ...]:
        """Effects that its result leaves out."""
        ...

    def simulate(
        self,
        jobs: Sequence[Job],
        cluster: Cluster,
        *,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        probes: Probes = Probes(),
        jitter: Jitter = Jitter(),
        policy: CollectivePolicy | None = None,
        progress: Progress | None = None,
    ) -> Record:
        """Runs all jobs to their end; they share the links of the cluster.

        Args:
            jobs: What runs, where, and from when on; at least one. Ranks of faults count from the first job's on.
            cluster: On what.
            seed: Of all that is random; the same seed gives the same bits.
            faults: What goes wrong, and when.
            probes: What to record beyond start and end.
            jitter: Random differences in computation time.
            policy: What is fixed about collectives; None: everything chosen as the library would.
            progress: Called now and then; see `Progress`.

        Returns:
            When every task ran, see `Record.of`; `meta` has engine, seed, digest, what is left out, and warnings.

        Raises:
            InputError: Jobs, cluster, faults or probes do not fit together.
            Hung: Communications wait for dead links that nothing brings back.
            SimulationError: The run cannot finish: tasks form a dependency cycle.
        """
        ...


engines: Registry[Engine] = Registry("engine", package="railyard.engine", part="engine")


def get(name: str) -> Engine:
    """The engine of that name.

    Raises:
        InputError: There is none; the key is `engine`.
    """
    try:
        return engines.get(name)
    except InputError as error:
        raise error.located(key="engine") from None
