"""The fastest layout of a job on its own network: the closed form ranks all that fit, the engine steps the best few.

The closed form with contention (`designs.evaluate`) is some ten percent off, and not the same for all layouts: over
distance, or where parameters are gathered layer by layer, it is off by more. Its error is alike for layouts that are
alike. So the error of those that were simulated is carried over to their neighbours, as a Gaussian process over sizes
in doublings does (Rasmussen and Williams, 2006, ch. 2), and the layout that may be fastest by the lower end of what is
then known is simulated next (lower confidence bound: Srinivas et al., ICML 2010). It ends when none may be faster by
`WORTH`, after `MOST` simulations, or when these had `TASKS` tasks together: on a thousand accelerators the closed form
has to be trusted further than on a hundred. At the end the fastest is tried with other micro-batches, sharding and
recomputation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.errors import InputError, SimulationError
from railyard.graph import Job
from railyard.model.machine import Machine
from railyard.study import bounds
from railyard.study.training.designs import Site, evaluate
from railyard.workload.training.estimate import estimate
from railyard.workload.training.layout import places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine import Engine
    from railyard.study.training.graphs import Graphs
    from railyard.workload.training.spec import Layout, Training

FIRST = 3
"""Layouts that are simulated before anything is known of the closed form's error, and at least."""

MOST = 24
TASKS = 1_000_000
"""Tasks of all simulated steps together, about 3 us each on one core."""

WORTH = 0.005
"""The search ends when no layout may be faster by this share."""

SHOWN = 6
"""The fastest and five runners-up."""

# The closed form's error: a tenth either way that all layouts of a scenario share, and as much that those share which
# lie up to about two doublings apart, more where steps showed more; what is left between neighbours; deviations
# before a layout is given up.
_SPREAD, _REACH, _REST, _SURE = 0.1, 2.0, 0.01, 1.5

# Last columns of places: micro-batch, sharding and recomputation.
_WAYS = 3


@dataclass(frozen=True)
class Tried:
    """One layout that may be the fastest.

    Attributes:
        training: The job under it.
        step_s: Its step; where it was not simulated in closed form, with the error of its neighbours taken out.
        simulated: Whether it was.
    """

    training: Training
    step_s: float
    simulated: bool

    @property
    def layout(self) -> Layout:
        """Its layout."""
        return self.training.layout


@dataclass
class Fastest:
    """Chooses the fastest of many layouts on one cluster.

    Attributes:
        cluster: On what the job runs, or for a layout the cluster with fewer ranks a domain.
        engine: That simulates a step.
        policy: What is fixed about collectives.
        graphs: Task graphs.
        seed: Of what is random.
        tried: The fastest layout and its runners-up, the fastest first; those that were simulated before the others.
        enumerated: How many fit.
    """

    cluster: Callable[[Layout | None], Cluster]
    engine: Engine
    policy: CollectivePolicy
    graphs: Graphs
    seed: int = 0
    tried: list[Tried] = field(default_factory=list)
    enumerated: int = 0

    def __call__(self, found: Sequence[Training]) -> Training:
        """The fastest of some jobs that differ in their layouts.

        Raises:
            InputError: No step of any of them can be simulated.
        """
        self.enumerated = len(found)
        able = [job for job in found if bounds.about_tasks(job) <= bounds.MOST_TASKS]
        if not able:
            bounds.check_step(found[0])
        closed_s = _closed_s(able, self.cluster(None))
        search = _Search(places([job.layout for job in able]), np.log(closed_s))
        tasks = 0
        while (number := search.next_one()) is not None and (len(search.known) < FIRST or tasks < TASKS):
            search.learn(number, self._step_s(able[number]))
            tasks += bounds.about_tasks(able[number])
        while (number := search.twin()) is not None and tasks < TASKS:
            search.learn(number, self._step_s(able[number]))
            tasks += bounds.about_tasks(able[number])
        self.tried = [Tried(able[number], step_s, number in search.known) for number, step_s in search.ranked()[:SHOWN]]
        return self.tried[0].training

    def _step_s(self, job: Training) -> float:
        """Its step on the engine; endless where it cannot be run."""
        cluster = self.cluster(job.layout)
        try:
            graph = self.graphs.of(job, cluster)
            record = self.engine.simulate([Job(graph)], cluster, seed=self.seed, policy=self.policy)
        except (InputError, SimulationError):
            return float("inf")
        return record.makespan_ps * 1e-12


def _closed_s(jobs: Sequence[Training], cluster: Cluster) -> NDArray[np.float64]:
    """Steps in closed form, with contention where the topology has a closed form."""
    try:
        site = Site.of(cluster)
    except InputError:
        return np.asarray(estimate(jobs, [Machine.of(cluster)] * len(jobs)).step_s)
    return np.asarray(evaluate(jobs, [site] * len(jobs)).step.step_s)


@dataclass
class _Search:
    """What is known of the steps of layouts.

    Attributes:
        places: float64[n, sizes], where layouts lie.
        closed: float64[n], logarithm of their steps in closed form.
        known: Logarithm of simulated steps, by number.
    """

    places: NDArray[np.float64]
    closed: NDArray[np.float64]
    known: dict[int, float] = field(default_factory=dict)

    def learn(self, number: int, step_s: float) -> None:
        """A step was simulated."""
        self.known[number] = float(np.log(step_s))

    def next_one(self) -> int | None:
        """The layout to simulate next; None when the search is over."""
        if len(self.known) >= min(MOST, len(self.closed)):
            return None
        lower = self._lower()
        lower[list(self.known)] = np.inf
        number = int(np.argmin(lower))
        fastest = min(self.known.values(), default=np.inf)
        able = sum(map(np.isfinite, self.known.values()))
        over = able >= FIRST and lower[number] > fastest - WORTH
        return None if over else number

    def twin(self) -> int | None:
        """A layout of the fastest one's degrees, batched, sharded or recomputed otherwise; None when all are known.

        The closed form errs most between these: what parameters and gradients wait for is of another law each.
        """
        best = min(self.known, key=self.known.__getitem__)
        alike = np.flatnonzero((self.places[:, :-_WAYS] == self.places[best, :-_WAYS]).all(axis=1))
        return next((int(number) for number in alike if int(number) not in self.known), None)

    def ranked(self) -> list[tuple[int, float]]:
        """Numbers and steps in s: those that were simulated by their steps, then the others by what is expected."""
        done = sorted(self.known, key=self.known.__getitem__)
        expected = self._expected()[0]
        rest = [int(number) for number in np.argsort(expected, kind="stable")[: SHOWN + MOST]]
        steps = [(number, self.known[number]) for number in done]
        steps += [(number, float(expected[number])) for number in rest if number not in self.known]
        return [(number, float(np.exp(step))) for number, step in steps]

    def _lower(self) -> NDArray[np.float64]:
        """Below which a step hardly lies: float64[n], logarithms."""
        expected, spread = self._expected()
        return expected - _SURE * spread

    def _expected(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Logarithms of steps and how far they may be off: float64[n] each."""
        numbers = [number for number, value in self.known.items() if np.isfinite(value)]
        if len(numbers) < min(FIRST, len(self.closed)):
            return self.closed.copy(), np.zeros(len(self.closed))
        seen = self.places[numbers]
        misses = np.array([self.known[number] for number in numbers]) - self.closed[numbers]
        shared, apart = _SPREAD, max(_SPREAD, float(np.sqrt(np.mean(misses**2))))
        to_all = shared**2 + apart**2 * _alike(self.places, seen)
        among = shared**2 + apart**2 * _alike(seen, seen) + _REST**2 * np.eye(len(numbers))
        solved = np.linalg.solve(among, np.column_stack([misses, to_all.T]))
        left = shared**2 + apart**2 - np.sum(to_all * solved[:, 1:].T, axis=1)
        return self.closed + to_all @ solved[:, 0], np.sqrt(np.maximum(left, 0.0))


def _alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much the errors of layouts go together: float64[a, b]."""
    away = np.abs(one[:, None] - other[None]).sum(axis=2)
    return np.asarray(np.exp(-away / _REACH))
