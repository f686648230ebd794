"""The fastest layout of a job on its own network: the closed form ranks all that fit, the engine steps the best few.

The closed form with contention (`designs.evaluate`) is a few percent off where layouts are alike, and by a law of its
own for each kind of layout: pipelined ones, and those that gather parameters layer by layer, which over distance may
take ten times as long. So the best of each kind is simulated, then what may still be fastest by what is known of the
error (`closed_error`; lower confidence bound: Srinivas et al., ICML 2010). It ends when none may be faster by `WORTH`,
after `MOST` simulations, or when these had `TASKS` tasks together: on a thousand accelerators the closed form has to
be trusted further than on a hundred, and where one step has more, altogether.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Job
from railyard.kit.errors import InputError, SimulationError
from railyard.model.machine import Machine
from railyard.work.study import compose
from railyard.work.training.closed_error import ClosedError
from railyard.work.training.designs import Site, estimate, evaluate
from railyard.work.training.layout import places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine import Engine
    from railyard.work.training.graphs import Graphs
    from railyard.work.training.spec import Layout, Training

MOST = 24
TASKS = 2_000_000
"""Tasks of all simulated steps together, 1 to 3 us each on one core."""

WORTH = 0.01
"""The search ends when no layout may be faster by this share."""

SHOWN = 6
"""The fastest and five runners-up."""

SURE = 2.0
"""Deviations of the closed form's error before a layout is given up."""


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
        base: The cluster before hashes are drawn; variants that differ in money only share the object.
        engine: That simulates a step.
        policy: What is fixed about collectives.
        graphs: Task graphs.
        seed: Of what is random.
        earlier: Choices of other variants; one that was made for the same job on the same cluster holds for this one.
        tried: The fastest layout and its runners-up, the fastest first; those that were simulated before the others.
        found: The jobs that were chosen among.
        simulated: How many of their steps were simulated.
        most: Of their steps that may be simulated; 0 trusts the closed form.
    """

    cluster: Callable[[Layout | None], Cluster]
    engine: Engine
    policy: CollectivePolicy
    graphs: Graphs
    seed: int = 0
    base: Cluster | None = None
    earlier: list[Fastest] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    found: list[Training] = field(default_factory=list)
    simulated: int = 0
    most: int = MOST

    def __call__(self, found: Sequence[Training]) -> Training:
        """The fastest of some jobs that differ in their layouts.

        Raises:
            InputError: No step of any of them can be simulated.
        """
        self.found = list(found)
        same = next((one for one in self.earlier if one.alike(self)), None)
        self.tried = self._searched(found) if same is None else same.tried
        self.earlier.append(self)
        return self.tried[0].training

    def alike(self, other: Fastest) -> bool:
        """Whether the other chooses among the same jobs on the same cluster."""
        same = self.base is not None and self.base is other.base and self.seed == other.seed
        return same and (self.engine, self.policy, self.found) == (other.engine, other.policy, other.found)

    def _searched(self, found: Sequence[Training]) -> list[Tried]:
        able = [job for job in found if compose.about_tasks(job) <= compose.MOST_TASKS]
        if not able:
            compose.check_step(found[0])
        closed = np.log(closed_s(able, self.cluster(None)))
        layouts = [job.layout for job in able]
        search = _Search(ClosedError(closed, places(layouts), kinds_of(layouts)))
        tasks = 0
        while len(search.known) < self.most and (number := search.next_one()) is not None:
            tasks += compose.about_tasks(able[number])
            if tasks > TASKS:
                break
            search.learn(number, self._step_s(able[number]))
        self.simulated = len(search.known)
        return [Tried(able[number], step_s, number in search.known) for number, step_s in search.ranked()[:SHOWN]]

    def _step_s(self, job: Training) -> float:
        """Its step on the engine; endless where it cannot be run."""
        cluster = self.cluster(job.layout)
        try:
            graph = self.graphs.of(job, cluster)
            record = self.engine.simulate([Job(graph)], cluster, seed=self.seed, policy=self.policy)
        except (InputError, SimulationError):
            return float("inf")
        return record.makespan_ps * 1e-12


def closed_s(jobs: Sequence[Training], cluster: Cluster) -> NDArray[np.float64]:
    """Steps in closed form, with contention where the topology has a closed form; without what waits for storage."""
    try:
        site = Site.of(cluster)
        site = replace(site, machine=replace(site.machine, storage=None))
    except InputError:
        machine = replace(Machine.of(cluster), storage=None)
        return np.asarray(estimate(jobs, [machine] * len(jobs)).step_s)
    return np.asarray(evaluate(jobs, [site] * len(jobs)).step.step_s)


def kinds_of(layouts: Sequence[Layout]) -> NDArray[np.int64]:
    """Layouts whose traffic is of one law: pipelined or not, gathered layer by layer or not."""
    return np.array([2 * (layout.zero == 3) + (layout.pp > 1) for layout in layouts], np.int64)


@dataclass
class _Search:
    """What is known of the steps of layouts.

    Attributes:
        error: Of their steps in closed form.
        known: Logarithm of simulated steps, by number.
        steps_s: The same steps, as they came.
    """

    error: ClosedError
    known: dict[int, float] = field(default_factory=dict)
    steps_s: dict[int, float] = field(default_factory=dict)

    def learn(self, number: int, step_s: float) -> None:
        """A step was simulated."""
        self.known[number] = float(np.log(step_s))
        self.steps_s[number] = step_s

    def next_one(self) -> int | None:
        """The layout to simulate next; None when the search is over."""
        if len(self.known) >= min(MOST, len(self.error.closed)):
            return None
        for number in self.error.best_of_kinds():
            if number not in self.known:
                return number
        expected, spread = self.error.expected(self.known)
        lower = expected - SURE * spread
        lower[list(self.known)] = np.inf
        number = int(np.argmin(lower))
        return None if lower[number] > min(self.known.values()) - WORTH else number

    def ranked(self) -> list[tuple[int, float]]:
        """Numbers and steps in s: those that were simulated by their steps, then the others by what is expected."""
        done = sorted(self.steps_s, key=self.steps_s.__getitem__)
        expected = self.error.expected(self.known)[0]
        rest = [int(number) for number in np.argsort(expected, kind="stable")[: SHOWN + MOST]]
        estimated = [(number, float(np.exp(expected[number]))) for number in rest if number not in self.known]
        return [*((number, self.steps_s[number]) for number in done), *estimated]
