"""Priorities of jobs on shared links: computation per second of traffic, corrected for how jobs alternate.

A job's GPU intensity is its computation per step divided by the time of its traffic. It ranks jobs with equal steps.
Among other jobs, those with shorter steps and less computation to hide traffic behind should go first. The correction
comes from playing two jobs on one link in both orders: each loses some seconds of traffic when the other goes first,
and their priorities are equal if both orders serve the same computation. Every job is compared with the one that sends
most.

There are few priority classes. Jobs in priority order are cut into consecutive groups such that jobs sharing a link
fall into different groups, the most intense ones first.

Source: J. Cao et al., "Crux: GPU-efficient communication scheduling for deep learning training", SIGCOMM 2024,
sections 3.2, 4.2 and 4.3. Crux cuts ten topological orders of the conflict graph; here only the priority order is cut.
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
"""Positions in the shortest step: five degrees each, as in CASSINI."""
TOLERANCE = 0.05
"""Drift, as a share of a step, beyond which a job's next step is delayed to realign it (CASSINI)."""
MOST_SHIFTS = 64 * STEP
"""Maximum positions on the circle; steps without a small common multiple meet at every offset on it."""


@dataclass(frozen=True)
class TrafficBeat:
    """Times in its step at which a job sends.

    Attributes:
        begins_s: Time from the start of a step until it sends.
        share: Share of each link that the job uses while sending; above 1 if it takes longer than the link alone would.
    """

    period_s: float
    begins_s: float
    lasts_s: float
    share: Mapping[int, float]


class _Circle:
    """Link demands over one common period of the jobs' steps."""

    def __init__(self, beats: Sequence[TrafficBeat]) -> None:
        self.quantum_s = min(beat.period_s for beat in beats) / STEP
        self.periods = [max(round(beat.period_s / self.quantum_s), 1) for beat in beats]
        self.size = min(math.lcm(*self.periods), MOST_SHIFTS)
        self.links = sorted({link for beat in beats for link in beat.share})
        self.demand = np.zeros((len(self.links), self.size))
        self.beats = beats

    def sends(self, number: int) -> NDArray[np.float64]:
        """float64[positions], the share of each position during which an unshifted job sends."""
        beat, period = self.beats[number], self.periods[number]
        begin = beat.begins_s / self.quantum_s
        end = min(begin + beat.lasts_s / self.quantum_s, begin + period)
        edges = np.arange(2 * period + 1, dtype=float)
        covered: NDArray[np.float64] = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0.0, 1.0)
        found: NDArray[np.float64] = covered.reshape(2, period).sum(axis=0)
        return found

    def shares(self, number: int) -> NDArray[np.float64]:
        share = self.beats[number].share
        return np.array([min(share.get(link, 0.0), 1.0) for link in self.links])

    def added(self, number: int, turn: int) -> NDArray[np.float64]:
        """float64[links, positions], the demand that a job adds when shifted by `turn` positions."""
        around = np.resize(np.roll(self.sends(number), turn), self.size)
        return self.shares(number)[:, None] * around

    def excess(self, extra: NDArray[np.float64] | float = 0.0) -> float:
        """Demand above link capacity, averaged over the circle and summed over links."""
        return float(np.maximum(self.demand + extra - 1.0, 0.0).sum()) / self.size


def shifts(beats: Sequence[TrafficBeat]) -> list[float]:
    """Delay of each job's start in seconds, less than its step."""
    return _turned(beats)[0]


def off_beat(quantile: float) -> float:
    """How far a job has drifted, as a share of its step, at a quantile of its steps.

    Random step lengths make the offset a random walk that restarts at zero when it reaches `TOLERANCE`. The time that
    such a walk spends at each distance falls linearly to zero there, whatever the length of the steps.
    """
    side = quantile if quantile < 0.5 else 1.0 - quantile
    return math.copysign(TOLERANCE * (1.0 - math.sqrt(2.0 * side)), quantile - 0.5)


def realigning(drift: float) -> float:
    """Cost of realigning a job, as a share of its step: `TOLERANCE` every (TOLERANCE / drift)^2 steps."""
    return drift * drift / TOLERANCE


def excess(beats: Sequence[TrafficBeat], *, shifted: bool) -> float:
    """Demand above link capacity: with the best shifts, or averaged over arbitrary offsets."""
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
    """The second of the longest run of shifts with the least excess: right behind the traffic that is there."""
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
"""Steps of the longer job for which two jobs are simulated together."""
MOST = 100.0
"""Upper limit of the correction; its inverse is the lower limit. Jobs that lose or gain nothing by waiting reach it."""


@dataclass(frozen=True)
class JobTurn:
    """A job's step as seen by the jobs that share its links.

    Attributes:
        before_s: Computation before it sends.
        beside_s: Computation while it sends; the step ends with the later of the two.
        sent: Share of link time that it uses, summed over links; the job with the largest is the reference.
    """

    before_s: float
    beside_s: float
    sends_s: float
    accelerators: int
    sent: float = 0.0

    @property
    def intensity(self) -> float:
        """Accelerator-seconds of computation per second of traffic."""
        return self.accelerators * (self.before_s + self.beside_s) / max(self.sends_s, 1e-12)

    @property
    def step_s(self) -> float:
        """Step time of the job alone."""
        return self.before_s + max(self.beside_s, self.sends_s)


def priorities(turns: Sequence[JobTurn]) -> list[float]:
    """Priority of each job; higher goes first."""
    reference = max(turns, key=lambda one: one.sent)
    return [one.intensity * correction(one, reference) for one in turns]


def correction(one: JobTurn, reference: JobTurn) -> float:
    """How much more computation a second of the job's traffic is worth than its intensity says."""
    if one == reference:
        return 1.0
    last_s = PERIODS * max(one.step_s, reference.step_s)
    behind, first = served_s(reference, one, last_s), served_s(one, reference, last_s)
    gains, costs = first[0] - behind[1], behind[0] - first[1]
    if gains <= 1e-9 * last_s and costs <= 1e-9 * last_s:
        return 1.0
    return min(max(gains / max(costs, 1e-12), 1 / MOST), MOST)


def served_s(first: JobTurn, second: JobTurn, last_s: float) -> tuple[float, float]:
    """Seconds of traffic of two jobs served on one link until `last_s`, if the first always goes first."""
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
    """Class of each job, 0 the lowest; a job is never in a higher class than a higher-priority job on the same link.

    Args:
        priority: Priority of each job.
        intensity: Intensity of each job: the loss if a lower-priority job on the same link gets the same class.
        meets: Whether two jobs share a link.
        most: Number of classes.
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
    """Length of the longest chain of higher-priority jobs on shared links above each job."""
    found = [0] * len(priority)
    for job in sorted(range(len(priority)), key=lambda one: -priority[one]):
        above = [found[one] + 1 for one, other in enumerate(priority) if other > priority[job] and meets(one, job)]
        found[job] = max(above, default=0)
    return found


def _cut(count: int, edges: Sequence[tuple[int, int, float]], most: int) -> list[int]:
    """Cuts layers into consecutive groups with the least edge weight inside groups; returns each layer's group."""
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
