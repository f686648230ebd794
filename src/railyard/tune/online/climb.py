"""A climb along a ladder of settings during a run: one step tried at a time, kept when more is delivered, else undone.

Each trial compares two neighbouring spans of time: some periods before a step and as many after it, without the first,
in which queues still have what the old settings let in. A step stays where it delivers `margin` more than before; where
it does not, it is undone and the next trial waits twice as long (hysteresis). A step that delivers less than `floor` of
before in any period, or in which packets are lost, is undone at once (the safety limit). Settings off the ladder are
never used. When what is delivered changes by more than `shift` without a trial, the mix has changed: waiting begins
anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.engine.packet import Period

ROCE: tuple[Mapping[str, Any], ...] = (
    {"dcqcn_additive_bps": 3.2e8, "dcqcn_increase_interval_ps": 50_000_000},
    {"dcqcn_additive_bps": 1e9, "dcqcn_increase_interval_ps": 20_000_000},
    {"dcqcn_additive_bps": 4e9, "dcqcn_increase_interval_ps": 10_000_000},
    {"dcqcn_additive_bps": 2e10, "dcqcn_increase_interval_ps": 5_000_000},
)
"""How soon senders of RoCE take their rates back, slowest first; the first is what the fabric `roce` has, so that no
step leads below it."""


@dataclass
class Climb:
    """Decides for `railyard.engine.packet.Retuning`.

    Attributes:
        ladder: Settings, neighbours alike; each names the same keys.
        at: Where on it the run begins.
        span: Periods that are compared.
        margin: Of what is delivered, by which a step has to be better to stay.
        floor: Share of what was delivered before below which a step is undone at once.
        shift: Change of what is delivered that means another mix.
        longest: Periods between trials at most.
        steps: What was done: end of the period, place on the ladder, and why.
    """

    ladder: Sequence[Mapping[str, Any]] = ROCE
    at: int = 0
    span: int = 4
    margin: float = 0.03
    floor: float = 0.7
    shift: float = 0.5
    longest: int = 64
    steps: list[tuple[int, int, str]] = field(default_factory=list)
    _seen: list[float] = field(default_factory=list)
    _before: float = 0.0
    _from: int = -1
    _upwards: bool = True
    _wait: int = 0
    _left: int = 0

    def __call__(self, period: Period) -> Mapping[str, Any]:
        """Settings to change after a period; empty where none do."""
        self._seen.append(period.delivered_bytes / period.length_ps)
        if self._from >= 0:
            return self._tried(period)
        if len(self._seen) > 2 * self.span and self._shifted():
            self._wait = self._left = 0
        self._left -= 1
        if self._left > 0 or len(self._seen) < self.span or not self._mean():
            return {}
        return self._step(period)

    def _mean(self) -> float:
        return sum(self._seen[-self.span :]) / self.span

    def _shifted(self) -> bool:
        earlier = sum(self._seen[-2 * self.span : -self.span]) / self.span
        return abs(self._mean() - earlier) > self.shift * max(earlier, 1e-12)

    def _step(self, period: Period) -> Mapping[str, Any]:
        """Tries the next rung, that beyond the end turned about."""
        to = self.at + (1 if self._upwards else -1)
        if not 0 <= to < len(self.ladder):
            self._upwards = not self._upwards
            to = self.at + (1 if self._upwards else -1)
        self._before, self._from = self._mean(), self.at
        self._seen.clear()
        return self._go(period, to, "tried")

    def _tried(self, period: Period) -> Mapping[str, Any]:
        """Looks at a step that is being tried."""
        now = self._seen[-1]
        lost = period.dropped > 0 or period.retransmitted > 0
        if lost or (len(self._seen) > 1 and now < self.floor * self._before):
            return self._undo(period, "lost packets" if lost else "far worse")
        if len(self._seen) <= self.span:
            return {}
        if self._mean() < self._before * (1.0 + self.margin):
            return self._undo(period, "no better")
        self._from, self._wait, self._left = -1, 0, 0
        self.steps.append((period.end_ps, self.at, "kept"))
        return {}

    def _undo(self, period: Period, why: str) -> Mapping[str, Any]:
        back, self._from = self._from, -1
        self._upwards = not self._upwards
        self._wait = min(self.longest, max(2 * self._wait, 2 * self.span))
        self._left = self._wait
        self._seen.clear()
        return self._go(period, back, why)

    def _go(self, period: Period, to: int, why: str) -> Mapping[str, Any]:
        self.at = to
        self.steps.append((period.end_ps, to, why))
        return self.ladder[to]
