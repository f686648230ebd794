"""What runs on an engine teach of the closed form: its error is alike for layouts that are alike, on any network."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.designs.outcome import layout_of
from railyard.work.training.closed_error import ClosedError
from railyard.work.training.fastest import SURE, WORTH, kinds_of
from railyard.work.training.layout import places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.outcome import Outcome

    F = NDArray[np.float64]

_WITH_STEP = {"cpmt": 1, "jct": 1, "step": 1, "tokens_per_s": -1, "tokens_per_watt": -1, "mfu": -1, "carbon": 1}
"""Figures that grow or fall with the step."""


@dataclass
class _Seen:
    """Runs under one demand.

    Attributes:
        layouts: Fields of the layout of each.
        closed: Logarithms of their steps in closed form.
        steps: Logarithms of their steps on the engine.
    """

    layouts: list[Mapping[str, Any]] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)


@dataclass
class Lessons:
    """What the closed form missed so far, by demand: demands differ in their models."""

    _seen: dict[int, _Seen] = field(default_factory=dict)

    def learn(self, outcome: Outcome, raw: Outcome) -> None:
        """A point was run.

        Args:
            outcome: What the engine found.
            raw: What the closed form found of the same point.
        """
        layout = dict(outcome.layouts[0])
        at = next((at for at, each in enumerate(raw.layouts) if dict(each) == layout), None)
        if at is not None:
            seen = self._seen.setdefault(outcome.demand, _Seen())
            seen.layouts.append(layout)
            seen.closed.append(float(np.log(raw.steps_s[at])))
            seen.steps.append(float(np.log(outcome.step_s)))

    def next_ones(self, raw: Outcome, demand: int, count: int) -> list[Mapping[str, Any]]:
        """Layouts of a point that may be its fastest, the best of each kind before all; none where none may be by much.

        Args:
            raw: What the closed form found of it.
            demand: Number of the demand.
            count: How many, at most.
        """
        seen = self._seen.get(demand, _Seen())
        known = [dict(each) for each in seen.layouts]
        alone = _error(list(raw.layouts), np.log(raw.steps_s))
        firsts = [raw.layouts[at] for at in alone.best_of_kinds() if dict(raw.layouts[at]) not in known]
        if firsts:
            return firsts[:count]
        expected, spread = self._expected(raw)
        lower = expected - SURE * spread
        order = [int(at) for at in np.argsort(lower, kind="stable") if lower[at] < min(seen.steps) - WORTH]
        return [raw.layouts[at] for at in order if dict(raw.layouts[at]) not in known][:count]

    def corrected(self, raw: Outcome) -> Outcome:
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

    def _expected(self, raw: Outcome) -> tuple[F, F]:
        """Logarithms of the steps of a point's layouts, and how far they may be off."""
        seen = self._seen.get(raw.demand, _Seen())
        closed = np.concatenate([seen.closed, np.log(raw.steps_s)])
        error = _error([*seen.layouts, *raw.layouts], closed)
        expected, spread = error.expected(dict(enumerate(seen.steps)))
        return expected[len(seen.steps) :], spread[len(seen.steps) :]


def _error(values: list[Mapping[str, Any]], closed: F) -> ClosedError:
    layouts = [layout_of(each) for each in values]
    return ClosedError(closed, places(layouts), kinds_of(layouts))
