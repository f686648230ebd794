"""How far a plan is: the time it took over that and what is left, at the pace that was seen of each kind of work."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.work.scenario.plan_section import PlanSection


USUAL_S = {"closed form": 0.3, "flow": 5.0, "serving": 0.5, "packet": 60.0, "chances": 2.0}
"""Seconds of a task of each kind before one was seen: only the order of magnitude is meant."""


@dataclass
class Ahead:
    """Tasks of a plan that are still to come, at most.

    Attributes:
        steps: Kind of work and tasks left of every step, in order.
        clock: Seconds, rising.
    """

    steps: list[tuple[str, int]]
    clock: Callable[[], float] = time.monotonic
    at: int = -1
    _seen: dict[str, tuple[float, int]] = field(default_factory=dict)
    _begun: float = field(init=False)
    _last: float = field(init=False)
    _share: float = 0.0

    @classmethod
    def of(cls, planned: PlannedDesigns, section: PlanSection, chunk: int) -> Ahead:
        """The tasks of every step of a plan at most, and the chances."""
        space, effort = planned.space, section.effort
        demands, engine = len(space.demands), planned.engine
        runs = effort.serving if engine == "serving" else effort.flow
        layouts = effort.layouts if engine == "flow" and effort.flow else 0
        points = space.size if space.size <= effort.designs else effort.samples
        return cls(
            [
                ("closed form", 1 + math.ceil((points - 1) * demands / chunk)),  # one design first
                (engine, layouts * demands),
                (engine, runs * demands),
                (engine, effort.rivals * demands if runs else 0),
                (engine, demands if runs else 0),
                ("chances", 1),
            ]
        )

    def __post_init__(self) -> None:
        self._begun = self._last = self.clock()

    def step(self) -> None:
        """The next step begins; what the one before left undone is not done any more."""
        self.at += 1
        self._last = self.clock()

    def ended(self, kind: str) -> None:
        """A task of a kind has ended."""
        now = self.clock()
        spent, count = self._seen.get(kind, (0.0, 0))
        self._seen[kind] = spent + now - self._last, count + 1
        self._last = now
        left = self.steps[self.at]
        self.steps[self.at] = left[0], max(left[1] - 1, 0)

    def share(self, until: float) -> float:
        """Part of the plan's time that is over, less than 1, never less than before.

        Args:
            until: Of the clock, when the plan's time is spent.
        """
        now = self.clock()
        left_s = sum(self._pace_s(kind) * count for kind, count in self.steps[max(self.at, 0) :])
        left_s = max(min(left_s, until - now), 1e-9)
        self._share = max(self._share, (now - self._begun) / (now - self._begun + left_s))
        return self._share

    def _pace_s(self, kind: str) -> float:
        spent, count = self._seen.get(kind, (0.0, 0))
        return spent / count if count else USUAL_S[kind]
