"""What runs on an engine teach of the closed form: its error is alike for layouts that are alike, on any network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.judgement import parts, values
from railyard.ask.plan.outcome import layout_of
from railyard.work.study.tasks import need
from railyard.work.training.fastest import SURE, WORTH, ClosedError, kinds_of
from railyard.work.training.layout import places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.outcome import DesignOutcome
    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.plan.space import DesignSpace

    F = NDArray[np.float64]


POPULATION = 48
"""Points of a generation: two tasks of the sweep."""

_STALE = 50
"""Generations in a row without a new point, after which the search ends."""

_FOR_EVER = 10**9
"""Generations; the budget of points ends the search."""

_WORST = 1e30
"""Objectives of an impossible point."""


def search(planned: PlannedDesigns, budget: int, seed: int) -> Iterator[list[int]]:
    """Points to look at next; between two of these the last have to be known to `planned`.

    Raises:
        InputError: pymoo is not installed.
    """
    sampler = _Sampler(planned.space, len(planned.objectives), seed)
    asked: set[int] = set()
    stale = 0
    while stale < _STALE:
        generation = sampler.ask()
        fresh = [point for point in dict.fromkeys(generation) if point not in asked][: budget - len(asked)]
        stale = 0 if fresh else stale + 1
        asked.update(fresh)
        if fresh:
            yield sorted(fresh)
        if len(asked) == budget:
            return
        sampler.tell([_seen(planned, point) for point in generation])


def _seen(planned: PlannedDesigns, point: int) -> tuple[list[float], float]:
    """Objectives of a point, less is better, and by how much it misses its constraints, in all."""
    point = planned.twin_of.get(point, point)
    rows = None if point in planned.failed else planned.rows(point)
    if rows is None:
        return [_WORST] * len(planned.objectives), _WORST
    found = parts(planned, point)
    excess = [max(one.excess(rows, found), 0.0) for one in planned.constraints]
    table = values(planned, [point])[0] if point not in planned.missed else _unjudged(planned, point)
    return [float(value) for value in table], min(math.fsum(excess), _WORST)


def _unjudged(planned: PlannedDesigns, point: int) -> list[float]:
    """Objectives of a point that misses a constraint, which has no regret."""
    figures = planned.figures(point) or {}
    return [one.sign * figures.get(one.name, _WORST) for one in planned.objectives]


class _Sampler:
    """Generations of points.

    Children have each value of either parent, and one in as many as there are keys is drawn again: values are places in
    lists, of which most have no order.
    """

    def __init__(self, space: DesignSpace, objectives: int, seed: int) -> None:
        need("pymoo.config", "search").Config.warnings["not_compiled"] = (
            False  # it prints on stdout, which is for results
        )
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.mutation import Mutation
        from pymoo.core.problem import Problem
        from pymoo.operators.crossover.ux import UX
        from pymoo.operators.sampling.rnd import IntegerRandomSampling

        class Redrawn(Mutation):  # type: ignore[misc]
            def _do(self, problem: Any, x: Any, *_more: Any, random_state: Any, **_others: Any) -> Any:
                drawn = np.floor(random_state.random(x.shape) * (problem.xu + 1)).astype(int)
                return np.where(random_state.random(x.shape) < 1 / problem.n_var, drawn, x)

        self.space = space
        most = np.array([len(values) - 1 for values in space.values])
        self._problem = Problem(
            n_var=len(most), n_obj=objectives, n_ieq_constr=1, xl=np.zeros_like(most), xu=most, vtype=int
        )
        self._search = NSGA2(POPULATION, IntegerRandomSampling(), crossover=UX(), mutation=Redrawn())
        self._search.setup(self._problem, termination=("n_gen", _FOR_EVER), seed=seed, verbose=False)
        self._asked: Any = None

    def ask(self) -> list[int]:
        """A generation, some of it perhaps known; fewer where nearly all points of the space are in the last."""
        self._asked = self._search.ask()
        return [self.space.number(place) for place in self._asked.get("X").astype(int).tolist()]

    def tell(self, seen: Sequence[tuple[list[float], float]]) -> None:
        """Takes the values of the last generation, in the order in which it was asked for."""
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        table = StaticProblem(
            self._problem, F=np.array([figures for figures, _ in seen]), G=np.array([[excess] for _, excess in seen])
        )
        Evaluator().eval(table, self._asked)
        self._search.tell(infills=self._asked)


_WITH_STEP = {"cpmt": 1, "jct": 1, "step": 1, "tokens_per_s": -1, "tokens_per_watt": -1, "mfu": -1, "carbon": 1}
"""Figures that grow or fall with the step."""


@dataclass
class _DemandRuns:
    layouts: list[Mapping[str, Any]] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)


@dataclass
class Lessons:
    """What the closed form missed so far, by demand: demands differ in their models."""

    _seen: dict[int, _DemandRuns] = field(default_factory=dict)

    def learn(self, outcome: DesignOutcome, raw: DesignOutcome) -> None:
        """A point was run."""
        layout = dict(outcome.layouts[0])
        at = next((at for at, each in enumerate(raw.layouts) if dict(each) == layout), None)
        if at is not None:
            seen = self._seen.setdefault(outcome.demand, _DemandRuns())
            seen.layouts.append(layout)
            seen.closed.append(float(np.log(raw.steps_s[at])))
            seen.steps.append(float(np.log(outcome.step_s)))

    def next_ones(self, raw: DesignOutcome, demand: int, count: int) -> list[Mapping[str, Any]]:
        """At most `count` layouts of a point that may be its fastest, the best of each kind first."""
        seen = self._seen.get(demand, _DemandRuns())
        known = [dict(each) for each in seen.layouts]
        alone = _error(list(raw.layouts), np.log(raw.steps_s))
        firsts = [raw.layouts[at] for at in alone.best_of_kinds() if dict(raw.layouts[at]) not in known]
        if firsts:
            return firsts[:count]
        expected, spread = self._expected(raw)
        lower = expected - SURE * spread
        order = [int(at) for at in np.argsort(lower, kind="stable") if lower[at] < min(seen.steps) - WORTH]
        return [raw.layouts[at] for at in order if dict(raw.layouts[at]) not in known][:count]

    def corrected(self, raw: DesignOutcome) -> DesignOutcome:
        """The outcome with what was missed of its layouts; the one that is then the fastest comes first."""
        if not raw.layouts or raw.demand not in self._seen:
            return raw
        expected = self._expected(raw)[0]
        order = np.argsort(expected, kind="stable").tolist()
        step_s = float(np.exp(expected[order[0]]))
        scale = step_s / raw.step_s
        figures = {name: value * scale ** _WITH_STEP.get(name, 0) for name, value in raw.figures.items()}
        if "jct" in figures:
            figures["done"] = figures.get("delivery", 0.0) + figures["jct"]
        return replace(
            raw,
            step_s=step_s,
            layouts=tuple(raw.layouts[at] for at in order),
            steps_s=tuple(float(np.exp(expected[at])) for at in order),
            figures=figures,
        )

    def left(self) -> list[float]:
        """What is still missed of each run when it is left out of what is known, as logarithms."""
        found = []
        for seen in self._seen.values():
            error = _error(seen.layouts, np.array(seen.closed))
            for out in range(len(seen.steps) if len(seen.steps) > 1 else 0):
                rest = {at: step for at, step in enumerate(seen.steps) if at != out}
                found.append(seen.steps[out] - float(error.expected(rest)[0][out]))
        return found

    def _expected(self, raw: DesignOutcome) -> tuple[F, F]:
        """Logarithms of the steps of a point's layouts, and how far they may be off."""
        seen = self._seen.get(raw.demand, _DemandRuns())
        closed = np.concatenate([seen.closed, np.log(raw.steps_s)])
        error = _error([*seen.layouts, *raw.layouts], closed)
        expected, spread = error.expected(dict(enumerate(seen.steps)))
        return expected[len(seen.steps) :], spread[len(seen.steps) :]


def _error(values: list[Mapping[str, Any]], closed: F) -> ClosedError:
    layouts = [layout_of(each) for each in values]
    return ClosedError(closed, places(layouts), kinds_of(layouts))
