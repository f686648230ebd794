"""Time shifts by which jobs that share links send while the others compute.

A job repeats its step; on a circle as long as a common multiple of all steps its traffic is a set of arcs. Turning a
job on the circle is starting it later. What is sought are turns with which on no link more is sent at once than it
carries: the excess, a mean over the circle added up over links, is what is made small, job after job, those that send
most first.

Source: S. Rajasekaran, M. Ghobadi, A. Akella, "CASSINI: network-aware job scheduling in machine learning clusters",
NSDI 2024 (arXiv 2308.00852). Theirs finds turns link by link and carries them over a tree of jobs and links; here the
jobs of a pattern are turned one after another with all their links at once, which needs no tree without circles.

Steps are not all of one length: jobs drift from their places, and one that is too far off waits until it is back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

STEP = 72
"""Positions of the shortest step: five degrees, as in CASSINI."""
TOLERANCE = 0.05
"""Share of a step by which a job may be off its place before its next step is delayed to it (CASSINI)."""
MOST = 64 * STEP
"""Positions of the circle at most; steps without a small common multiple meet in every way on it."""


@dataclass(frozen=True)
class Beat:
    """When a job sends.

    Attributes:
        period_s: Its step alone.
        begins_s: From the begin of a step until it sends.
        lasts_s: How long.
        share: For each link what it takes of it meanwhile; more than 1 where it takes longer than the link alone would.
    """

    period_s: float
    begins_s: float
    lasts_s: float
    share: Mapping[int, float]


class _Circle:
    """Demands on links around a circle."""

    def __init__(self, beats: Sequence[Beat]) -> None:
        self.quantum_s = min(beat.period_s for beat in beats) / STEP
        self.periods = [max(round(beat.period_s / self.quantum_s), 1) for beat in beats]
        self.size = min(math.lcm(*self.periods), MOST)
        self.links = sorted({link for beat in beats for link in beat.share})
        self.demand = np.zeros((len(self.links), self.size))
        self.beats = beats

    def sends(self, number: int) -> NDArray[np.float64]:
        """float64[positions], the share of each position during which a job sends if it is not shifted."""
        beat, period = self.beats[number], self.periods[number]
        begin = beat.begins_s / self.quantum_s
        end = min(begin + beat.lasts_s / self.quantum_s, begin + period)
        edges = np.arange(2 * period + 1, dtype=float)
        covered: NDArray[np.float64] = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0.0, 1.0)
        found: NDArray[np.float64] = covered.reshape(2, period).sum(axis=0)
        return found

    def shares(self, number: int) -> NDArray[np.float64]:
        """float64[links]."""
        share = self.beats[number].share
        return np.array([min(share.get(link, 0.0), 1.0) for link in self.links])

    def added(self, number: int, turn: int) -> NDArray[np.float64]:
        """float64[links, positions], what a job adds with a turn."""
        around = np.resize(np.roll(self.sends(number), turn), self.size)
        return self.shares(number)[:, None] * around

    def excess(self, extra: NDArray[np.float64] | float = 0.0) -> float:
        """Demand beyond what links carry, a mean over the circle, added up over links."""
        return float(np.maximum(self.demand + extra - 1.0, 0.0).sum()) / self.size


def shifts(beats: Sequence[Beat]) -> list[float]:
    """How much later each job begins, in seconds, less than its step."""
    return _turned(beats)[0]


def off_beat(quantile: float) -> float:
    """How far off its place a job is, over its step, in a share of its steps.

    Steps of random length make its place a random walk that begins anew at `TOLERANCE`: the time that such a walk
    spends at each distance falls linearly to there, whatever the length of its steps.
    """
    side = quantile if quantile < 0.5 else 1.0 - quantile
    return math.copysign(TOLERANCE * (1.0 - math.sqrt(2.0 * side)), quantile - 0.5)


def realigning(drift: float) -> float:
    """What going back to its place costs a job, over its step: `TOLERANCE` every (TOLERANCE / drift)^2 steps.

    Args:
        drift: Standard deviation of a step's length, over the step.
    """
    return drift * drift / TOLERANCE


def excess(beats: Sequence[Beat], *, shifted: bool) -> float:
    """Demand beyond what links carry: with the best turns, or where everybody stands anywhere, on average."""
    return _turned(beats)[1] if shifted else _anywhere(beats)


def _turned(beats: Sequence[Beat]) -> tuple[list[float], float]:
    circle = _Circle(beats)
    turns = [0] * len(beats)
    for number in sorted(range(len(beats)), key=lambda one: (-_sent(beats[one]), one)):
        turns[number] = _best(circle, number)
        circle.demand += circle.added(number, turns[number])
    return [turn * circle.quantum_s for turn in turns], circle.excess()


def _sent(beat: Beat) -> float:
    return sum(beat.share.values()) * beat.lasts_s / beat.period_s


def _best(circle: _Circle, number: int) -> int:
    """The second of the longest run of turns with the least excess: close behind what is there, so that more fits."""
    period = circle.periods[number]
    found = np.array([circle.excess(circle.added(number, turn)) for turn in range(period)])
    good = found <= found.min() + 1e-12
    if good.all():
        return 0
    first = int(np.flatnonzero(~good)[0])
    turned = np.append(np.roll(good, -first), False)
    edges = np.flatnonzero(np.diff(turned.astype(int)))
    begins, ends = edges[0::2] + 1, edges[1::2] + 1
    longest = int(np.argmax(ends - begins))
    return int(first + min(begins[longest] + 1, ends[longest] - 1)) % period


def _anywhere(beats: Sequence[Beat], draws: int = 16) -> float:
    random = np.random.default_rng(0)
    found = 0.0
    for _ in range(draws):
        circle = _Circle(beats)
        for number in range(len(beats)):
            circle.demand += circle.added(number, int(random.integers(circle.periods[number])))
        found += circle.excess() / draws
    return found
