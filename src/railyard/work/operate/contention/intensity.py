"""Who goes first on shared links: by computation for a second of traffic, corrected for how jobs take turns.

A job's GPU intensity is its computation in a step over the time of its traffic. That ranks jobs of equal steps; of
others, those with shorter steps and with less computation to hide traffic behind should go before. How much, two jobs
on one link show: played in both orders, each loses so many seconds of traffic when the other goes first. Their
priorities are equal where both orders serve the same computation. All are compared with the job that sends most.

Classes are few: jobs in the order of priority are cut into consecutive groups, so that neighbours on a link are in
different ones, those of most intensity above all.

Source: J. Cao et al., "Crux: GPU-efficient communication scheduling for deep learning training", SIGCOMM 2024, sections
3.2, 4.2 and 4.3. There ten topological orders of who meets whom are cut, here the one by priority.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


STEP = 72
"""Positions of the shortest step: five degrees, as in CASSINI."""
TOLERANCE = 0.05
"""Share of a step by which a job may be off its place before its next step is delayed to it (CASSINI)."""
MOST_SHIFTS = 64 * STEP
"""Positions of the circle at most; steps without a small common multiple meet in every way on it."""


@dataclass(frozen=True)
class TrafficBeat:
    """When a job sends.

    Attributes:
        begins_s: From the begin of a step until it sends.
        share: For each link what it takes of it meanwhile; more than 1 where it takes longer than the link alone would.
    """

    period_s: float
    begins_s: float
    lasts_s: float
    share: Mapping[int, float]


class _Circle:
    """Demands on links around a circle."""

    def __init__(self, beats: Sequence[TrafficBeat]) -> None:
        self.quantum_s = min(beat.period_s for beat in beats) / STEP
        self.periods = [max(round(beat.period_s / self.quantum_s), 1) for beat in beats]
        self.size = min(math.lcm(*self.periods), MOST_SHIFTS)
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


def shifts(beats: Sequence[TrafficBeat]) -> list[float]:
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
    """What going back to its place costs a job, over its step: `TOLERANCE` every (TOLERANCE / drift)^2 steps."""
    return drift * drift / TOLERANCE


def excess(beats: Sequence[TrafficBeat], *, shifted: bool) -> float:
    """Demand beyond what links carry: with the best turns, or where everybody stands anywhere, on average."""
    return _turned(beats)[1] if shifted else _anywhere(beats)


def _turned(beats: Sequence[TrafficBeat]) -> tuple[list[float], float]:
    circle = _Circle(beats)
    turns = [0] * len(beats)
    for number in sorted(range(len(beats)), key=lambda one: (-_sent(beats[one]), one)):
        turns[number] = _best(circle, number)
        circle.demand += circle.added(number, turns[number])
    return [turn * circle.quantum_s for turn in turns], circle.excess()


def _sent(beat: TrafficBeat) -> float:
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


def _anywhere(beats: Sequence[TrafficBeat], draws: int = 16) -> float:
    random = np.random.default_rng(0)
    found = 0.0
    for _ in range(draws):
        circle = _Circle(beats)
        for number in range(len(beats)):
            circle.demand += circle.added(number, int(random.integers(circle.periods[number])))
        found += circle.excess() / draws
    return found


PERIODS = 200
"""Steps of the longer job for which two jobs are played."""
MOST = 100.0
"""The largest correction, and its inverse the smallest: of jobs that lose nothing by waiting, or gain nothing."""


@dataclass(frozen=True)
class JobTurn:
    """A step of a job as the other jobs on its links see it.

    Attributes:
        before_s: Computation before it sends.
        beside_s: Computation while it sends; the step ends with the later of the two.
        sent: Share of links' time that it takes, added up over links: the job with most is the one of comparison.
    """

    before_s: float
    beside_s: float
    sends_s: float
    accelerators: int
    sent: float = 0.0

    @property
    def intensity(self) -> float:
        """Accelerator-seconds of computation for a second of traffic."""
        return self.accelerators * (self.before_s + self.beside_s) / max(self.sends_s, 1e-12)

    @property
    def step_s(self) -> float:
        """The step alone."""
        return self.before_s + max(self.beside_s, self.sends_s)


def priorities(turns: Sequence[JobTurn]) -> list[float]:
    """The priority of each job; higher goes first."""
    reference = max(turns, key=lambda one: one.sent)
    return [one.intensity * correction(one, reference) for one in turns]


def correction(one: JobTurn, reference: JobTurn) -> float:
    """How much more computation a second of a job's traffic is worth than its intensity says."""
    if one == reference:
        return 1.0
    last_s = PERIODS * max(one.step_s, reference.step_s)
    behind, first = served_s(reference, one, last_s), served_s(one, reference, last_s)
    gains, costs = first[0] - behind[1], behind[0] - first[1]
    if gains <= 1e-9 * last_s and costs <= 1e-9 * last_s:
        return 1.0
    return min(max(gains / max(costs, 1e-12), 1 / MOST), MOST)


def served_s(first: JobTurn, second: JobTurn, last_s: float) -> tuple[float, float]:
    """Seconds of traffic of two jobs on one link until a time, the first always going first; both begin at once."""
    turns = (first, second)
    left = [[one.before_s, one.beside_s, one.sends_s] for one in turns]
    served, now = [0.0, 0.0], 0.0
    while now < last_s:
        user = next((job for job in (0, 1) if left[job][0] <= 0 < left[job][2]), -1)
        parts = [(job, 0 if left[job][0] > 0 else 1) for job in (0, 1)]
        running = [(job, part) for job, part in parts if left[job][part] > 0] + ([(user, 2)] if user >= 0 else [])
        span = min([left[job][part] for job, part in running], default=0.0)
        span = min(span, last_s - now)
        for job, part in running:
            left[job][part] = left[job][part] - span if left[job][part] > span * (1 + 1e-12) else 0.0
        if user >= 0:
            served[user] += span
        now += span
        for job in (0, 1):
            if max(left[job]) <= 0:
                left[job] = [turns[job].before_s, turns[job].beside_s, turns[job].sends_s]
    return served[0], served[1]


def classes(
    priority: Sequence[float], intensity: Sequence[float], meets: Callable[[int, int], bool], most: int
) -> list[int]:
    """The class of each job, 0 the lowest; who meets a job of higher priority is not in a higher class than that.

    Args:
        priority: Of each job.
        intensity: Of each job: what is lost if one that it meets, of lower priority, is of its class.
        meets: Whether two jobs share a link.
        most: Classes that there are.
    """
    layers = _layers(priority, meets)
    edges = [
        (layers[high], layers[low], intensity[high])
        for high in range(len(priority))
        for low in range(len(priority))
        if layers[high] < layers[low] and priority[high] > priority[low] and meets(high, low)
    ]
    group = _cut(max(layers) + 1, edges, most)
    return [max(group) - group[layer] for layer in layers]


def _layers(priority: Sequence[float], meets: Callable[[int, int], bool]) -> list[int]:
    """How many jobs stand above each in the longest chain of jobs that meet and are of higher priority."""
    found = [0] * len(priority)
    for job in sorted(range(len(priority)), key=lambda one: -priority[one]):
        above = [found[one] + 1 for one, other in enumerate(priority) if other > priority[job] and meets(one, job)]
        found[job] = max(above, default=0)
    return found


def _cut(count: int, edges: Sequence[tuple[int, int, float]], most: int) -> list[int]:
    """The group of each layer, consecutive ones, with the least weight of edges inside groups."""
    if count <= most:
        return list(range(count))
    inside = [
        [sum(weight for high, low, weight in edges if begin <= high and low < end) for end in range(count + 1)]
        for begin in range(count)
    ]
    lost = [0.0] + [float("inf")] * count
    cuts: list[list[int]] = []
    for _ in range(most):
        best = [
            min(((lost[at] + inside[at][end], at) for at in range(end)), default=(0.0, 0)) for end in range(count + 1)
        ]
        lost, cuts = [cost for cost, _ in best], [*cuts, [at for _, at in best]]
    found, end = [0] * count, count
    for number in range(most - 1, -1, -1):
        begin = cuts[number][end]
        found[begin:end] = [number] * (end - begin)
        end = begin
    return found
