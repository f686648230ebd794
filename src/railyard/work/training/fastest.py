"""The fastest layout of a job on its own network: the closed form ranks all that fit, the engine steps the best few.

The closed form with contention (`designs.evaluate`) is a few percent off where layouts are alike, and by a law of its
own for each kind of layout: pipelined ones, and those that gather parameters layer by layer, which over distance may
take ten times as long. So the best of each kind is simulated, then what may still be fastest by what is known of the
error (`closed_error`; lower confidence bound: Srinivas et al., ICML 2010). It ends when none may be faster by `WORTH`,
after `MOST` simulations, or when these had `TASKS` tasks together: on a thousand accelerators the closed form has to
be trusted further than on a hundred, and where one step has more, altogether.

Own runs know the pace of layouts like theirs, and of others less. The fastest by expected step would then often be one
whose error is unknown, so the layout is taken whose step is shortest at the upper end of its band (`pace_of`): it is
equal to the fastest within that error, or faster. Without own runs all layouts err alike, and it is the fastest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, RankDeath, RankSpeed
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.graph import Job
from railyard.kit.errors import InputError, SimulationError
from railyard.measure.result.section import EIGHT_OF_TEN
from railyard.model.machine import Machine
from railyard.work.study import compose
from railyard.work.study.deaths import cut_off, cut_off_by, dead_links, parted, words
from railyard.work.training.designs import DesignSite, estimate, evaluate
from railyard.work.training.layout import places
from railyard.work.training.memory import memory
from railyard.work.training.pace import pace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator
    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.cluster.fault.recovery import Recovery
    from railyard.collective import CollectivePolicy
    from railyard.engine import Engine
    from railyard.measure.result.step import LayoutFigures, LayoutRow
    from railyard.work.training.graphs import Graphs
    from railyard.work.training.spec import Layout, Training


@dataclass(frozen=True, eq=False)
class ClosedFaults:
    """What faults leave of a cluster.

    Attributes:
        ended: The first fault that ends the job, in words; empty where it goes on.
        lost_s: From the abort until the processes run again, without loading and repeated work; 0 where it goes on.
    """

    cluster: Cluster
    ended: str = ""
    lost_s: float = 0.0


def closed_faults(cluster: Cluster, faults: Sequence[Fault], recovery: Recovery) -> ClosedFaults:
    """A cluster under faults.

    Raises:
        InputError: A fault names a place that is not there.
    """
    places, found = ClusterPlaces.of(cluster), ClosedFaults(cluster)
    lasting: list[Effect] = []
    for fault in faults:
        effects = tuple(fault.effects(places))
        spell_s = None if (length := getattr(fault, "for_ps", None)) is None else length * 1e-12
        lost_s = _lost_s(effects, spell_s, cluster, recovery)
        if lost_s:
            found = replace(found, ended=found.ended or words(fault), lost_s=found.lost_s + lost_s)
        elif spell_s is None:
            lasting += effects
    return replace(found, cluster=_slowed(cluster, lasting)) if lasting else found


def _lost_s(effects: Sequence[Effect], spell_s: float | None, cluster: Cluster, recovery: Recovery) -> float:
    """What a fault that ends the job takes; 0 of one that does not."""
    killed = {rank for effect in effects if isinstance(effect, RankDeath) for rank in effect.ranks}
    dead = dead_links(effects)
    hung = len(dead) > 0 and bool(cut_off(dead, cluster) or (not cluster.is_bound and parted(dead, cluster)))
    if not killed and (not hung or (spell_s is not None and spell_s < recovery.abort_s)):
        return 0.0
    abort_s = recovery.process_s if killed else recovery.abort_s
    hosts = len({rank // cluster.ranks_per_server for rank in killed | cut_off_by(effects, cluster)})
    return abort_s + sum(
        seconds for _, seconds in recovery.restart(hosts=hosts, spell_s=spell_s, read_s=0.0, unsaved_s=0.0)
    )


def _slowed(cluster: Cluster, effects: Sequence[Effect]) -> Cluster:
    """The cluster with every tier at the rate of what is slowest in it."""
    pace = min((effect.factor for effect in effects if isinstance(effect, RankSpeed)), default=1.0)
    kept = _kept(cluster, (effect for effect in effects if isinstance(effect, LinkRate)))
    access = {tier.name for tier in cluster.back_end.tiers if tier.kind == "access"}
    return cluster.scaled(
        flops=pace,
        memory_bandwidth=pace,
        nic=min((kept[name] for name in access if name in kept), default=1.0),
        fabric_tiers={name: factor for name, factor in kept.items() if name not in access},
    )


def _kept(cluster: Cluster, effects: Iterable[LinkRate]) -> dict[str, float]:
    """Share of its rate that is left of each tier that loses any."""
    links = cluster.links
    rate = links.rate_bps.copy()
    for effect in effects:
        rate[effect.link] *= effect.factor
    rate = links.with_bundles(rate)
    found = {}
    for number in np.unique(links.tier[: links.physical][rate[: links.physical] < links.rate_bps[: links.physical]]):
        name = links.tiers[number]
        mine = np.flatnonzero((links.tier == number) & (links.rate_bps > 0))
        bundles = mine[mine >= links.physical]
        alone = mine[mine < links.physical]
        kept = rate[bundles] / links.rate_bps[bundles] if len(bundles) else _by_link(cluster, alone, rate)
        found[name] = float(max(kept.min(initial=1.0) if len(kept) else 0.0, _LEAST))
    return found


_LEAST = 1e-3
"""Rate left on a tier that is dead and that the job does not need: a closed form divides by it."""


def _by_link(cluster: Cluster, alone: NDArray[np.int64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[], of hashed links: the slowest that is alive, and what switches with dead ones have left."""
    links = cluster.links
    alive = alone[rate[alone] > 0]
    total, left = (
        np.bincount(links.source[some], links.rate_bps[some], minlength=cluster.nodes) for some in (alone, alive)
    )
    switches = np.flatnonzero((total > 0) & (left > 0))
    return np.concatenate([rate[alive] / links.rate_bps[alive], left[switches] / total[switches]])


# Deviations of the three that are shared and of the rest, as logarithms. Those of kinds and neighbours are the least,
# and a first guess that counts as so many misses; what is missed by a factor of ten is not missed alike, so the guess
# grows with the misses. Neighbours lie up to about two doublings apart.
_ALL, _KIND, _NEAR, _REST = 0.1, 0.1, 0.03, 0.01
_GROWS = 0.2
_GUESS, _REACH = 3.0, 2.0


@dataclass(frozen=True)
class ClosedError:
    """Layouts in closed form, and how their errors go together.

    Attributes:
        closed: float64[n], logarithms of steps in closed form.
        places: float64[n, sizes], where layouts lie, in doublings.
        kinds: int64[n], layouts whose traffic is of one law.
    """

    closed: NDArray[np.float64]
    places: NDArray[np.float64]
    kinds: NDArray[np.int64]

    def best_of_kinds(self) -> list[int]:
        """The layout of each kind that is fastest in closed form, the fastest first."""
        order = np.argsort(self.closed, kind="stable")
        _, first = np.unique(self.kinds[order], return_index=True)
        return [int(order[place]) for place in np.sort(first)]

    def expected(self, known: Mapping[int, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and how far they may be off: float64[n] logarithms, and deviations.

        Args:
            known: Logarithms of simulated steps, by number; endless where a layout cannot be run.
        """
        seen = np.array([number for number, value in known.items() if np.isfinite(value)], np.int64)
        if not seen.size:
            return self.closed.copy(), np.full(len(self.closed), np.hypot(_ALL, _KIND))
        misses = np.array([known[int(number)] for number in seen]) - self.closed[seen]
        near = self._alike(seen, seen)
        kind, neighbour = self._kind_variance(seen, misses), self._near_variance(seen, misses, near)
        same = self.kinds[:, None] == self.kinds[seen]
        to_all = _ALL**2 + kind * same + neighbour * self._alike(np.arange(len(self.closed)), seen)
        among = _ALL**2 + kind * same[seen] + neighbour * near + _REST**2 * np.eye(seen.size)
        solved = np.linalg.solve(among, np.column_stack([misses, to_all.T]))
        left = _ALL**2 + kind + neighbour - np.sum(to_all * solved[:, 1:].T, axis=1)
        return self.closed + to_all @ solved[:, 0], np.sqrt(np.maximum(left, 0.0))

    def _alike(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """How much the errors of neighbours go together: float64[a, b]."""
        away = np.zeros((one.size, other.size))
        for column in self.places.T:
            away += np.abs(column[one][:, None] - column[other])
        return np.asarray(np.exp(-away / _REACH))

    def _kind_variance(self, seen: NDArray[np.int64], misses: NDArray[np.float64]) -> float:
        """Variance that the layouts of a kind share."""
        means = np.array([misses[self.kinds[seen] == kind].mean() for kind in np.unique(self.kinds[seen])])
        return max(_KIND**2, float(np.mean((means - np.median(means)) ** 2)))

    def _near_variance(self, seen: NDArray[np.int64], misses: NDArray[np.float64], near: NDArray[np.float64]) -> float:
        """Variance that neighbours share: misses about the mean of their kind, each as far as it says something new."""
        squares, count = _GUESS * (_NEAR**2 + _GROWS**2 * float(np.mean(misses**2))), _GUESS
        for kind in np.unique(self.kinds[seen]):
            (some,) = np.nonzero(self.kinds[seen] == kind)
            new = np.linalg.inv(near[np.ix_(some, some)] + (_REST / _NEAR) ** 2 * np.eye(some.size))
            apart = misses[some] - (new @ misses[some]).sum() / new.sum()
            squares, count = squares + float(apart @ new @ apart), count + some.size - 1
        return squares / count


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
class TriedLayout:
    """One layout that may be the fastest.

    Attributes:
        step_s: Its step; where it was not simulated in closed form, with the error of its neighbours taken out.
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
        earlier: Choices of other variants; one that was made for the same job on the same cluster holds for this one.
        tried: The fastest layout and its runners-up, the fastest first; those that were simulated before the others.
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
    tried: list[TriedLayout] = field(default_factory=list)
    found: list[Training] = field(default_factory=list)
    simulated: int = 0
    most: int = MOST

    def __call__(self, found: Sequence[Training]) -> Training:
        """The fastest of some jobs that differ in their layouts.

        A bound has the layout of the fastest product with the same job: losses by cause compare on one layout only.

        Raises:
            InputError: No step of any of them can be simulated.
        """
        self.found = list(found)
        same = next((one for one in self.earlier if one.alike(self)), None)
        self.tried = self._searched(self._led() or found) if same is None else same.tried
        self.earlier.append(self)
        return self.tried[0].training

    def _led(self) -> list[Training]:
        """For a bound, the job of the fastest earlier product; empty for a product or where there is none."""
        products = [one for one in self.earlier if one.base is not None and not one.base.is_bound]
        if self.base is None or not self.base.is_bound:
            return []
        like = [one.tried[0] for one in products if one.found == self.found]
        return [min(like, key=lambda one: one.step_s).training] if like else []

    def alike(self, other: Fastest) -> bool:
        """Whether the other chooses among the same jobs on the same cluster."""
        same = self.base is not None and self.base is other.base and self.seed == other.seed
        return same and (self.engine, self.policy, self.found) == (other.engine, other.policy, other.found)

    def _searched(self, found: Sequence[Training]) -> list[TriedLayout]:
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
        chosen = self._surest(able, search)
        while search.known and tasks <= TASKS and chosen not in search.known:
            tasks += compose.about_tasks(able[chosen])
            search.learn(chosen, self._step_s(able[chosen]))
            chosen = self._surest(able, search)
        self.simulated = len(search.known)
        ranked = sorted(search.ranked()[:SHOWN], key=lambda row: row[0] != chosen)
        if ranked[0][0] != chosen:
            ranked = [next(row for row in search.ranked() if row[0] == chosen), *ranked[:-1]]
        return [TriedLayout(able[number], step_s, number in search.known) for number, step_s in ranked]

    def _surest(self, able: Sequence[Training], search: _Search) -> int:
        """The layout whose step is shortest at the upper end of what own runs leave open, if by more than `WORTH`."""
        device, ranked = self.cluster(None).accelerator.name, search.ranked()
        upper = [np.log(step_s) + EIGHT_OF_TEN * pace_of(able[number], device)[1] for number, step_s in ranked]
        least = int(np.argmin(upper))
        return ranked[least if upper[least] < upper[0] - WORTH else 0][0]

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
        site = DesignSite.of(cluster)
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


def layout_figures(layout: Layout) -> LayoutFigures:
    """A layout as a result has it."""
    from railyard.measure.result.step import LayoutFigures

    return LayoutFigures(words=str(layout), parallelism=layout.parallelism())


def layout_rows(tried: Sequence[TriedLayout], accelerator: Accelerator) -> tuple[LayoutRow, ...]:
    """What `auto` chose among, as a result has it."""
    from railyard.measure.result.step import LayoutRow

    fullest = [memory(one.training, accelerator).fullest for one in tried]
    return tuple(
        LayoutRow(
            layout=layout_figures(one.layout),
            step_seconds=one.step_s,
            simulated=one.simulated,
            memory_bytes=full.total_bytes,
            capacity_bytes=full.capacity_bytes,
        )
        for one, full in zip(tried, fullest, strict=True)
    )
