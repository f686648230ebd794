"""What the model expects, kept true while a cluster drifts: constants by class of collectives, learned as they run.

Of each class (kind, ranks) the measured time is taken as `extra + factor * expected`. Both drift slowly: a Kalman
filter follows them, with the spread of their walk as its memory, so that old collectives are forgotten. An outlier
counts for no more than three spreads. What is applied changes only when the estimate has left it by more than it may be
wrong (hysteresis), and each such change is an event that people should see. Errors are those of predictions made before
the collective was known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HOUR_S = 3600.0

PRIOR_FACTOR, PRIOR_EXTRA_S = 0.15, 30e-6
"""Spreads of what the model may be wrong by before anything was measured: about its worst published classes, and the
latency of a slow stack (docs/validation/collectives.md)."""

WALK_FACTOR, WALK_EXTRA_S = 0.02, 2e-6
"""By how much they drift in an hour: what is forgotten."""

NOISE = 0.05
"""Spread of one collective's time before the class has shown its spread."""

FOLLOWED = 0.02
"""Weight of the latest collective in the class's spread."""

OUTLIER = 3.0
"""Spreads beyond which a collective counts for no more."""

LEAST, SURE = 0.01, 2.0
"""Of the prediction, and spreads of its estimate: what is applied changes only by more than both."""


@dataclass(frozen=True)
class Seen:
    """A collective that ended.

    Attributes:
        at_s: When, Unix time.
        name: Of its class.
        expected_s: What the model expects of it, above 0.
        seconds: What it took, above 0.
    """

    at_s: float
    name: str
    expected_s: float
    seconds: float


@dataclass(frozen=True)
class Change:
    """Constants of a class were changed.

    Attributes:
        at_s: When.
        name: Of the class.
        before, after: Predicted over expected time of the collective at hand.
    """

    at_s: float
    name: str
    before: float
    after: float


@dataclass
class Constants:
    """A class.

    Attributes:
        extra_s, factor: As applied.
        estimate: float64[2], extra in s and factor, as estimated.
        covariance: float64[2, 2], of that.
        noise: Spread of one collective's time, of it.
        at_s: Of the last collective; nan before the first.
        count: Collectives so far.
    """

    extra_s: float = 0.0
    factor: float = 1.0
    estimate: Floats = field(default_factory=lambda: np.array([0.0, 1.0]))
    covariance: Floats = field(default_factory=lambda: np.diag([PRIOR_EXTRA_S**2, PRIOR_FACTOR**2]))
    noise: float = NOISE
    at_s: float = math.nan
    count: int = 0

    def predicted_s(self, expected_s: float) -> float:
        """What such a collective takes, as applied."""
        return max(self.extra_s + self.factor * expected_s, 0.05 * expected_s)

    def learn(self, one: Seen) -> bool:
        """Takes in a collective; True where what is applied has changed."""
        hours = 0.0 if math.isnan(self.at_s) else max(one.at_s - self.at_s, 0.0) / HOUR_S
        self.covariance = self.covariance + np.diag([WALK_EXTRA_S**2, WALK_FACTOR**2]) * hours
        row = np.array([1.0, one.expected_s])
        should = float(row @ self.estimate)
        spread = self.noise * max(should, one.expected_s * 0.05)
        unsure = float(row @ self.covariance @ row) + spread**2
        rest = one.seconds - should
        limit = OUTLIER * math.sqrt(unsure)
        kept = min(max(rest, -limit), limit)
        gain = self.covariance @ row / unsure
        self.estimate = self.estimate + gain * kept
        self.covariance = self.covariance - np.outer(gain, row @ self.covariance)
        self.noise = math.sqrt((1 - FOLLOWED) * self.noise**2 + FOLLOWED * (kept / max(should, 1e-12)) ** 2)
        self.at_s, self.count = one.at_s, self.count + 1
        return self._applied(one.expected_s, row)

    def _applied(self, expected_s: float, row: Floats) -> bool:
        """Takes the estimate over where it has left what is applied."""
        now, new = self.predicted_s(expected_s), float(row @ self.estimate)
        sure = math.sqrt(max(float(row @ self.covariance @ row), 0.0))
        if abs(new - now) <= max(LEAST * now, SURE * sure):
            return False
        self.extra_s, self.factor = self.estimate.tolist()
        return True


@dataclass
class Hour:
    """Errors of an hour, as shares of the measured times.

    Attributes:
        start_s: Unix time at which it begins.
        model: Of the model as it is, summed.
        applied: Of the constants that were applied at the time, summed.
        count: Collectives.
    """

    start_s: float
    model: float = 0.0
    applied: float = 0.0
    count: int = 0

    def plain(self) -> dict[str, float | int]:
        """Mean absolute percentage errors, as shares."""
        return {
            "start_s": self.start_s,
            "collectives": self.count,
            "mape_model": self.model / max(self.count, 1),
            "mape": self.applied / max(self.count, 1),
        }


@dataclass
class Drift:
    """All classes.

    Attributes:
        classes: By name.
        hours: In order.
        changes: In order.
    """

    classes: dict[str, Constants] = field(default_factory=dict)
    hours: list[Hour] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def take(self, seen: Iterable[Seen]) -> None:
        """Takes in collectives in the order of time; those older than the latest hour belong to it."""
        for one in seen:
            mine = self.classes.setdefault(one.name, Constants())
            predicted = mine.predicted_s(one.expected_s)
            hour = self._hour(one.at_s)
            hour.model += abs(one.expected_s / one.seconds - 1)
            hour.applied += abs(predicted / one.seconds - 1)
            hour.count += 1
            if mine.learn(one):
                after = mine.predicted_s(one.expected_s) / one.expected_s
                self.changes.append(Change(one.at_s, one.name, predicted / one.expected_s, after))

    def _hour(self, at_s: float) -> Hour:
        start = at_s // HOUR_S * HOUR_S
        if not self.hours or start > self.hours[-1].start_s:
            self.hours.append(Hour(start))
        return self.hours[-1]
