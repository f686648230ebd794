"""Settings that follow a run: which phase it is in is read from pauses, and each phase has settings of its own.

What is delivered in a period hangs on what there is to send: in a changing mix it varies by a fifth under the same
settings, as much as settings are worth, and senders that were cut need 50 us and more to show it. A trial of
two settings against one another measures the mix. Pauses are of the phase itself, and show within a period:

- where flows only meet on links by chance, as in a collective whose paths collide, few links stand. Senders that take
  their rates back soon end sooner, by a quarter and more;
- where many send to one port for long, as a neighbour's writes to storage, links stand all over the network, and
  whoever crosses them waits too. Senders that take their rates back soon keep it so: those who only pass by take up to
  three times as long.

So a run begins with the fabric's settings, takes the last of the list once senders are told to slow down and few links
stand, and is back at the first in the same period in which more than `crowded` of all links stand (rollback). It stays
there until fewer than half as many have stood for `hold` periods, a dozen of the first settings' own clocks, so that
what was cut in the crowd has taken its rate back; where the bold settings did not last, twice as long each time
(hysteresis). Lost packets lead to the first settings for good (the safety limit). Settings off the list are
never used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.retuning import Retuning
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.engine.packet.retuning import Period
    from railyard.engine.packet.settings import Settings

ROCE: tuple[Mapping[str, Any], ...] = (
    {"dcqcn_additive_bps": 3.2e8, "dcqcn_increase_interval_ps": 50_000_000},
    {"dcqcn_additive_bps": 4e9, "dcqcn_increase_interval_ps": 10_000_000},
    {"dcqcn_additive_bps": 2e10, "dcqcn_increase_interval_ps": 5_000_000},
)
"""How soon senders of RoCE take their rates back, slowest first; the first is what the fabric `roce` has, so that no
step leads below it."""

PERIOD_PS = 10_000_000
"""Between two readings: some round trips."""


@dataclass
class Follow:
    """Decides for `railyard.engine.packet.Retuning`.

    Attributes:
        settings: First those for a crowded network, last those for a calm one; each names the same keys.
        crowded: Share of all links beyond which a network is crowded while they stand; calm is below half of it.
        hold: Calm periods after a crowded one before the last settings are taken again.
        short: Periods that these have to last: else the next wait is twice as long.
        longest: Periods of such a wait, at most.
        at: Where on the list the run is.
        steps: What was done: end of the period, place on the list, and why.
    """

    settings: Sequence[Mapping[str, Any]] = ROCE
    crowded: float = 0.05
    hold: int = 64
    short: int = 16
    longest: int = 512
    at: int = 0
    steps: list[tuple[int, int, str]] = field(default_factory=list)
    _wait: int = 0
    _left: int = 0
    _lasted: int = 0
    _lost: bool = False

    def __call__(self, period: Period) -> Mapping[str, Any]:
        """Settings to change after a period; empty where none do."""
        if self._lost:
            return {}
        if period.dropped > 0 or period.retransmitted > 0:
            self._lost = True
            return self._go(period, 0, "lost packets")
        self._lasted += 1
        stand = period.paused_ps / period.length_ps / period.links
        if stand > self.crowded:
            if self.at > 0:
                lasted = self._lasted >= self.short
                self._wait = self.hold if lasted else min(self.longest, max(2 * self._wait, self.hold))
            self._left = max(self._wait, self.hold)
            return self._go(period, 0, "links stand")
        if self._left > 0:
            self._left = self._left - 1 if stand < self.crowded / 2 else max(self._left, self.hold)
            return {}
        return self._go(period, len(self.settings) - 1, "room") if period.cnps > 0 else {}

    def _go(self, period: Period, to: int, why: str) -> Mapping[str, Any]:
        if to == self.at:
            return {}
        self.at, self._lasted = to, 0
        self.steps.append((period.end_ps, to, why))
        return self.settings[to]


def following(settings: Settings) -> Retuning:
    """What lets a run's settings follow it: its own first, then those of the list that take rates back sooner.

    Raises:
        InputError: The run has no such settings: it is no RoCE.
    """
    parts = (settings.transport, settings.switching, settings.rdma_control)
    if parts != ("rdma", "pfc", "dcqcn"):
        raise InputError(
            "settings follow a run where DCQCN runs over switches with PFC",
            key="packet.online",
            found=", ".join(map(str, parts)),
            allowed="rdma, pfc, dcqcn: the fabric `roce`",
        )
    own = {name: getattr(settings, name) for name in ROCE[0]}
    sooner = [one for one in ROCE if one["dcqcn_additive_bps"] > own["dcqcn_additive_bps"]]
    return Retuning(PERIOD_PS, Follow((own, *sooner)))
