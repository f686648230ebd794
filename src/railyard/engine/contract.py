"""What every engine takes and gives: the protocol, jitter and probes, and the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import Job, Record

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
    """What is recorded beyond the start and end of every task.

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
        """What users write."""
        ...

    @property
    def summary(self) -> str:
        """How it finds times, in one sentence."""
        ...

    @property
    def left_out(self) -> tuple[str, ...]:
        """What its result does not contain."""
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


engines: Registry[Engine] = Registry("engine")


def get(name: str) -> Engine:
    """The engine of that name.

    Raises:
        InputError: There is none; the key is `engine`.
    """
    try:
        return engines.get(name)
    except InputError as error:
        raise error.located(key="engine") from None
