"""Before and after on what a search has not seen: steps, and the tails of what was sent in them, pair by pair.

A draw and a load are one pair. How much shorter a tail is, is one number a pair; the geometric mean of these ratios has
a 90 % interval (Student, of logarithms). Times are kept as quantiles of each run (nearest rank), finer towards the
slowest: runs have 10^5 flows.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.quantities import interval, percentile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

COLLECTIVES, FLOWS = "collectives", "flows"
"""What is timed: collectives from when the last rank has come to them to their end, the same before and after; and on
packets flows between NICs until the sender has the last acknowledgement, whose number and size settings may change."""

SHARES: tuple[float, ...] = tuple(
    np.concatenate(
        [np.arange(1, 100) / 100, 1 - np.arange(9, 0, -1) / 1e3, 1 - np.arange(9, 0, -1) / 1e4, [1.0]]
    ).tolist()
)
"""Shares of which quantiles are kept."""

TAILS: Mapping[str, float] = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "slowest": 1.0}
"""Quantiles that are compared."""

_FEWEST = {"p99": 100, "p99.9": 1000}
"""Of so many or more; the slowest is that quantile of fewer."""


@dataclass(frozen=True)
class Times:
    """How long things took in one run.

    Attributes:
        count: Of them.
        quantiles_us: At `SHARES`, microseconds.
    """

    count: int
    quantiles_us: tuple[float, ...]

    @classmethod
    def of(cls, values_us: NDArray[np.float64]) -> Times:
        """Of values in microseconds, at least one."""
        ordered = np.sort(values_us)
        return cls(len(ordered), tuple(float(percentile(ordered, share)) for share in SHARES))

    def at(self, share: float) -> float:
        """A quantile that is kept."""
        return self.quantiles_us[SHARES.index(share)]

    def plain(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Run:
    """A step of a draw and a load.

    Attributes:
        step_s: Its length.
        slice: Of how many bytes one was simulated; times of flows are of such a slice.
        times: By what was timed.
    """

    step_s: float
    slice: float
    times: Mapping[str, Times]

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Run:
        """Of what a worker gave."""
        times = {what: Times(one["count"], tuple(one["quantiles_us"])) for what, one in plain["times"].items()}
        return cls(float(plain["step_s"]), float(plain["slice"]), times)


Pair = tuple[Run, Run]
"""As written, and with the settings."""


@dataclass(frozen=True)
class TailGain:
    """A quantile before and after.

    Attributes:
        what: `collectives` or `flows`.
        tail: Key of `TAILS`.
        before_us: Geometric mean over the pairs.
        after_us: The same.
        gain: Share by which the latter is shorter, and the ends of its 90 % interval.
    """

    what: str
    tail: str
    before_us: float
    after_us: float
    gain: tuple[float, float, float]


def tail_gains(pairs: Sequence[Pair]) -> list[TailGain]:
    """Every quantile of which there are enough, of everything that all runs timed."""
    found = []
    for what in _timed(pairs):
        fewest = min(run.times[what].count for pair in pairs for run in pair)
        for tail, share in TAILS.items():
            if fewest < _FEWEST.get(tail, 0):
                continue
            before, after = (np.array([pair[at].times[what].at(share) for pair in pairs]) for at in (0, 1))
            if not (before > 0).all() or not (after > 0).all():
                continue
            found.append(TailGain(what, tail, _middle(before), _middle(after), _shorter(before, after)))
    return found


def _shorter(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float, float]:
    """Of ratios: the mean of their logarithms, so that what doubles and what halves cancel."""
    mean, low, high = interval(np.log(after / before).tolist())
    return -math.expm1(mean), -math.expm1(high) if high < math.inf else -math.inf, -math.expm1(low)


def _middle(values: NDArray[np.float64]) -> float:
    return float(np.exp(np.log(values).mean()))


def _timed(pairs: Sequence[Pair]) -> list[str]:
    return [what for what in (COLLECTIVES, FLOWS) if pairs and all(what in run.times for pair in pairs for run in pair)]


Curve = tuple[tuple[float, float], ...]


def curves(pairs: Sequence[Pair]) -> dict[str, tuple[Curve, Curve]]:
    """Of everything that was timed, as written and with the settings: points (us, share that took longer)."""
    return {what: (_pooled(pairs, what, 0), _pooled(pairs, what, 1)) for what in _timed(pairs)}


def _pooled(pairs: Sequence[Pair], what: str, at: int) -> Curve:
    """Share of all that took longer: every kept quantile stands for those between it and the one below."""
    runs = [pair[at].times[what] for pair in pairs]
    steps = np.diff(np.array((0.0, *SHARES)))
    times, place = np.unique(np.concatenate([run.quantiles_us for run in runs]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([steps * run.count for run in runs]))
    longer = np.maximum(1.0 - np.cumsum(counts) / counts.sum(), 0.0)
    kept = np.searchsorted(-longer, -(1.0 - np.array((0.0, *SHARES)))).clip(0, len(times) - 1)
    return tuple((float(times[row]), float(longer[row])) for row in np.unique(kept).tolist())
