"""How runs of one system scatter about a prediction that never saw their source, and what a few of them are worth.

The four widths of `railyard.work.training.pace` are those under which the left-out errors of published runs are most
likely: the integral over what the runs of a system share is Laplace's approximation about its most likely value. No
system counts for more than `MOST` runs. For judging a source they are fitted without it.

What all runs of a system share is a random effect with one draw a system: about twenty draws hardly tell its variance,
and the most likely one lies near zero too often (Gelman 2006, Bayesian Analysis 1(3)). So the width `system` is the
root of the mean variance over its likelihood, the other widths at their most likely values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from railyard.ask.calibrate.kinds.training import StepPaces, left_open, paces, predicted
from railyard.work.training import profiles
from railyard.work.training.pace import TAIL, Scatter, noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from railyard_validation.training.cases import Case

    F = NDArray[np.float64]
    Rows = NDArray[np.int64]

MOST = 10
FEWEST = 3
_START = Scatter(system=0.03, alike=0.06, reach=3.0, run=0.035)
_TRIES = 120
# Widths of what a system shares over which its likelihood is averaged, in equal steps.
_SYSTEMS = np.arange(0.0025, 0.2, 0.005)
# Standard deviations of a normal distribution between which eight of ten lie.
_EIGHT_OF_TEN = 1.2816


@dataclass(frozen=True)
class System:
    """Runs of one software on one device, of one source, under constants that have not seen that source."""

    source: str
    software: str
    device: str
    cases: tuple[Case, ...]
    paces: StepPaces

    @property
    def measured_s(self) -> F:
        """Seconds of each step."""
        return np.array([case.measured for case in self.cases])

    def part(self, rows: Rows) -> StepPaces:
        """What some of its runs say."""
        of = self.paces
        return StepPaces(of.at[rows], of.off[rows], of.slope[rows])


def systems(cases: Sequence[Case]) -> list[System]:
    """Runs by what they share."""
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        key = case.family, profiles.key_of(case.training.software), case.machine.accelerator.name
        groups.setdefault(key, []).append(case)
    return [
        System(*key, tuple(own), paces([(case.training, case.machine) for case in own], _measured(own)))
        for key, own in groups.items()
    ]


def _measured(cases: Sequence[Case]) -> F:
    return np.array([case.measured for case in cases])


def fit_scatter(known: Iterable[System]) -> Scatter:
    """The widths under which the errors of systems are most likely."""
    some = [system.paces for system in known if len(system.cases) >= FEWEST]

    def cost(logs: F) -> float:
        widths = Scatter(*np.exp(logs).tolist())
        return sum(_cost(found, widths) * min(1.0, MOST / len(found.off)) for found in some)

    start = np.log([_START.system, _START.alike, _START.reach, _START.run])
    found = minimize(cost, start, method="Nelder-Mead", options={"maxfev": _TRIES, "xatol": 0.05, "fatol": 0.05})
    costs = np.array([cost(np.array([width, *found.x[1:]])) for width in np.log(_SYSTEMS)])
    weights = np.exp(np.min(costs) - costs)
    common = np.sqrt(np.average(_SYSTEMS**2, weights=weights))
    return Scatter(*(float(f"{value:.3g}") for value in (common, *np.exp(found.x[1:]))))


def _cost(found: StepPaces, widths: Scatter) -> float:
    """Minus the logarithm of how likely a system's errors are."""
    shared, scale = widths.covariance(found.at, found.at), widths.run / found.slope
    gain = np.linalg.solve(shared + np.diag(noise(found.at, found.off, found.slope, widths)), found.off)
    likely = shared @ gain
    left = (found.off - likely) / scale
    each = lgamma((TAIL + 1) / 2) - lgamma(TAIL / 2) - 0.5 * np.log(TAIL * np.pi) - np.log(scale)
    each = each - (TAIL + 1) / 2 * np.log1p(left**2 / TAIL)
    curved = (TAIL + 1) / (TAIL + left**2) / scale**2
    volume = np.linalg.slogdet(np.eye(len(left)) + shared * curved)[1]
    return float(0.5 * likely @ gain + 0.5 * volume - np.sum(each))


@dataclass(frozen=True)
class Halves:
    """|error| of each run of a system, by calibration on some runs of the half that it is not in, mean over draws.

    Attributes:
        errors: [run].
        inside: Share of draws in which the run lay in its band, [run].
    """

    errors: F
    inside: F


def halves(system: System, widths: Scatter, count: int, draws: int) -> Halves:
    """Judges every run by so many runs of the other half, drawn anew each time.

    Args:
        system: Its runs, cut in two by turns.
        widths: How runs scatter, without this source.
        count: Runs to calibrate on; 0: none.
        draws: How often.
    """
    size = len(system.cases)
    errors, inside = np.zeros(size), np.zeros(size)
    random = np.random.default_rng(size)
    for half in (0, 1):
        judged, others = np.arange(half, size, 2), np.arange(1 - half, size, 2)
        for _ in range(draws if 0 < count < len(others) else 1):
            few = random.permutation(others)[:count]
            pace, width = _expected(system, few, judged, widths)
            jobs = [(system.cases[row].training, system.cases[row].machine) for row in judged]
            ratio = predicted(jobs, np.exp(pace)) / system.measured_s[judged]
            share = draws if 0 < count < len(others) else 1
            errors[judged] += np.abs(ratio - 1.0) / share
            inside[judged] += (np.abs(np.log(ratio)) <= _EIGHT_OF_TEN * width) / share
    return Halves(errors, inside)


def _expected(system: System, few: Rows, judged: Rows, widths: Scatter) -> tuple[F, F]:
    at, slope = system.paces.at[judged], system.paces.slope[judged]
    if not len(few):
        open_ = np.sqrt(slope**2 * (widths.system**2 + widths.alike**2) + widths.run**2 * TAIL / (TAIL - 2.0))
        return np.zeros(len(judged)), open_
    known = system.part(few)
    return left_open(known, noise(known.at, known.off, known.slope, widths), at, slope, widths)
