"""At which result of a test another design is the best, and what results say of the plan.

A test observes how far the model is off as a logarithm: a weighted sum of factors of the plan (`designs/doubt.py`), all
of them normal. What results say of each factor is therefore Gaussian conditioning: with factors f of mean m and
covariance C, tests A f and results y, the mean moves by G (y - A m), G = C A' (A C A')^-1, and draws of f become draws
given the results when G (y - A f) is added to each of them (Matheron's rule). A result at the expected value A m leaves
the plan as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs.decide import compared
from railyard.ask.plan.designs.doubt import EIGHT_OF_TEN, worth
from railyard.ask.plan.designs.price import Goodputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.constraints import Constraint
    from railyard.ask.plan.designs.doubt import Choice, Doubts
    from railyard.ask.plan.designs.planned import Planned

    F = NDArray[np.float64]

REACH = 4.0
"""Standard deviations of a result within which flips are looked for."""

_STEPS = 800
_FINER = 3
"""Times that the interval in which the best design changes is cut into `_STEPS` again."""


@dataclass(frozen=True)
class Trial:
    """A test of a pilot pod.

    Attributes:
        name: Of the test.
        kind: `collective`, `step` or `service`.
        choice: Number of the choice whose design the pod is of.
        servers: Of the pod.
        ranks: Accelerators that take part.
        unit: Of the value.
        rate: Whether the value falls as times grow.
        predicted: By the model, as it stands.
        weights: Of each factor in the logarithm of time over the one predicted.
        collective: Of a collective: which.
        command: What is run.
    """

    name: str
    kind: str
    choice: int
    servers: int
    ranks: int
    unit: str
    rate: bool
    predicted: float
    weights: Mapping[str, float]
    collective: str = ""
    command: str = ""

    def error(self, value: float) -> float:
        """Logarithm of the time measured over the one predicted."""
        return math.log(value / self.predicted) * (-1.0 if self.rate else 1.0)

    def value(self, error: float) -> float:
        """The value at that logarithm."""
        return self.predicted * math.exp(-error if self.rate else error)


@dataclass(frozen=True)
class Flip:
    """A result at which another design becomes the best.

    Attributes:
        value: Of the test, in its unit.
        above: Whether the other design is the best above it, rather than below.
        choice: Number of the other design.
        chance: That the result lies where the recommendation is another.
    """

    value: float
    above: bool
    choice: int
    chance: float


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Factors of the model with what is known of them.

    Attributes:
        names: Of the factors.
        mean: float64[factors], as logarithms.
        covariance: float64[factors, factors].
    """

    names: tuple[str, ...]
    mean: F
    covariance: F

    @classmethod
    def of(cls, doubts: Doubts) -> Beliefs:
        """Before anything was measured: factors are independent."""
        found = {name: one for name, one in sorted(doubts.factors.items()) if one.kind == "model"}
        mean = np.array([(one.low + one.high) / 2 for one in found.values()])
        half = np.array([(one.high - one.low) / 2 for one in found.values()])
        return cls(tuple(found), mean, np.diag((half / EIGHT_OF_TEN) ** 2))

    def rows(self, tests: Sequence[Trial]) -> F:
        """float64[tests, factors]: what each test observes."""
        return np.array([[test.weights.get(name, 0.0) for name in self.names] for test in tests])

    def spread(self, test: Trial) -> tuple[float, float]:
        """Mean and standard deviation of the error that a test would show."""
        row = self.rows([test])[0]
        return float(row @ self.mean), math.sqrt(max(float(row @ self.covariance @ row), 0.0))

    def gain(self, tests: Sequence[Trial]) -> F:
        """float64[factors, tests]: by how much each factor moves for each unit of a result beyond its mean."""
        rows = self.rows(tests)
        found: F = self.covariance @ rows.T @ np.linalg.pinv(rows @ self.covariance @ rows.T, hermitian=True)
        return found

    def moved(self, tests: Sequence[Trial], errors: Sequence[float]) -> dict[str, float]:
        """How far each factor's mean moves when tests show these errors."""
        beyond = np.array(errors) - self.rows(tests) @ self.mean
        return dict(zip(self.names, (self.gain(tests) @ beyond).tolist(), strict=True))

    def given(self, tests: Sequence[Trial], errors: Sequence[float]) -> Beliefs:
        """The same once tests have shown these errors."""
        moved = np.array(list(self.moved(tests, errors).values()))
        left = self.covariance - self.gain(tests) @ self.rows(tests) @ self.covariance
        return Beliefs(self.names, self.mean + moved, (left + left.T) / 2)

    def redrawn(self, values: Mapping[str, F], tests: Sequence[Trial], errors: Sequence[float]) -> dict[str, F]:
        """Draws of all factors, those of the model given what tests have shown."""
        drawn = np.array([values[name] for name in self.names])
        drawn = drawn + self.gain(tests) @ (np.array(errors)[:, None] - self.rows(tests) @ drawn)
        return {**values, **dict(zip(self.names, drawn, strict=True))}


def best(planned: Planned, moved: Mapping[str, F]) -> NDArray[np.int64]:
    """int64[n]: the best choice where factors lie so far from their middle; ties as the plan breaks them.

    Designs that miss a constraint there are left out, unless all do.

    Args:
        planned: With its choices.
        moved: float64[n] by factor.
    """
    what, choices, shares = planned.objectives[0], planned.choices, planned.shares
    count = len(next(iter(moved.values())))
    pairs = zip(compared(choices, moved, planned.objectives, shares), choices, strict=True)
    figures = [row.get(what.name, np.full(count, one.figures[what.name])) for row, one in pairs]
    costs = what.sign * np.array(figures)
    bounds = [one for one in planned.constraints if one.figure]
    if bounds:
        kept = np.array([_kept(planned, choice, bounds, moved, count) for choice in choices])
        costs = np.where(kept | ~kept.any(axis=0), costs, np.inf)
    least = costs.min(axis=0)
    first: NDArray[np.int64] = np.argmax(costs <= least + 1e-9 * np.abs(least), axis=0)
    return first


def _kept(
    planned: Planned, choice: Choice, bounds: Sequence[Constraint], moved: Mapping[str, F], count: int
) -> NDArray[np.bool_]:
    """bool[n]: whether a choice keeps every bound."""
    found = worth(choice, moved, planned.shares, Goodputs()).by_demand
    pairs = list(zip(found, choice.outcomes, strict=True))
    kept = np.ones(count, bool)
    for bound in bounds:
        figures = [row.get(bound.figure, np.full(count, one.figures[bound.figure])) for row, one in pairs]
        columns = np.array(figures).T
        kept &= [bound.keeps([{bound.figure: value} for value in column], frozenset()) for column in columns]
    return kept


def flips(planned: Planned, beliefs: Beliefs, test: Trial) -> tuple[Flip, ...]:
    """Results on either side of the expected one at which another design is the best, the likelier first.

    Args:
        planned: With its choices.
        beliefs: Before the test.
        test: What is measured.
    """
    mean, deviation = beliefs.spread(test)
    if deviation <= 0.0:
        return ()
    gain = beliefs.gain([test])[:, 0]

    def winners(errors: F) -> NDArray[np.int64]:
        return best(planned, {name: each * errors for name, each in zip(beliefs.names, gain, strict=True)})

    ends = np.linspace(-REACH, REACH, 2 * _STEPS + 1) * deviation
    chosen = winners(ends)
    now, law = int(winners(np.zeros(1))[0]), NormalDist(0.0, deviation)
    found = []
    for way in (-1, 1):
        side = ends * way >= 0.0
        errors, there = ends[side][::way], chosen[side][::way]
        other = np.flatnonzero(there != now)
        if not len(other):
            continue
        at = int(other[0])
        near, far = errors[at - 1] if at else 0.0, errors[at]
        for _ in range(_FINER):
            between = np.linspace(near, far, _STEPS + 1)
            first = int(np.flatnonzero(winners(between) != now)[0])
            near, far = between[max(first - 1, 0)], between[first]
        width = ends[1] - ends[0]
        beyond = sum(law.pdf(float(one)) for one in errors[other]) * width
        chance = float(min(beyond, 1.0 - law.cdf(abs(float(far)))))
        design = int(winners(np.array([far]))[0])
        found.append(Flip(test.value(mean + float(far)), (way > 0) != test.rate, design, chance))
    return tuple(sorted(found, key=lambda one: -one.chance))
