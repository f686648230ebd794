"""Which points of a large space are looked at: NSGA-II of pymoo over the places of values, feasible points first.

Points are asked for a generation at a time and what they are is given in the order in which they were asked for: the
same seed and the same number of points give the same points on any number of cores, and after a kill.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.designs.judgement import parts, values
from railyard.work.study.tasks import need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.ask.plan.designs.planned import Planned
    from railyard.ask.plan.designs.space import Space

POPULATION = 48
"""Of a generation: two tasks of the sweep."""

_STALE = 50
"""Generations in a row without a new point, after which the search ends."""

_FOR_EVER = 10**9
"""Generations; the budget of points ends the search."""

_WORST = 1e30
"""Of objectives of a point that cannot be."""


def search(planned: Planned, budget: int, seed: int) -> Iterator[list[int]]:
    """Points to look at next; between two of these the last have to be known to `planned`.

    Args:
        planned: What was found so far.
        budget: Different points, at most.
        seed: Of the search.

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


def _seen(planned: Planned, point: int) -> tuple[list[float], float]:
    """Objectives of a point, less is better, and by how much it misses its constraints, in all."""
    rows = None if point in planned.failed else planned.rows(point)
    if rows is None:
        return [_WORST] * len(planned.objectives), _WORST
    found = parts(planned, point)
    excess = [max(one.excess(rows, found), 0.0) for one in planned.constraints]
    table = values(planned, [point])[0] if point not in planned.missed else _unjudged(planned, point)
    return [float(value) for value in table], min(math.fsum(excess), _WORST)


def _unjudged(planned: Planned, point: int) -> list[float]:
    """Objectives of a point that misses a constraint, which has no regret."""
    figures = planned.figures(point) or {}
    return [one.sign * figures.get(one.name, _WORST) for one in planned.objectives]


class _Sampler:
    """Generations of points.

    Children have each value of either parent, and one in as many as there are keys is drawn anew: values are places in
    lists, of which most have no order.

    Args:
        space: All points.
        objectives: How many each point has.
        seed: Of all that is drawn.
    """

    def __init__(self, space: Space, objectives: int, seed: int) -> None:
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
        """What the last generation is worth, in the order in which it was asked for."""
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        table = StaticProblem(
            self._problem,
            F=np.array([figures for figures, _ in seen]),
            G=np.array([[excess] for _, excess in seen]),
        )
        Evaluator().eval(table, self._asked)
        self._search.tell(infills=self._asked)
