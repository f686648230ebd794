"""Settings that follow a run: as bold as pauses allow, by counters that tell so in one period.

What is delivered in a period hangs on what there is to send: in a changing mix it varies by a fifth under the same
settings, as much as settings are worth, and senders that were cut need 50 us and more to show it. A trial of
two settings against one another measures the mix. Marks and pauses are of the settings themselves: where senders are
told to slow down and links do not stand, there is room to take rates back sooner; where links stand longer
than under the settings before, there is none.

So the run goes up a list of settings, the fabric's first, after `hold` periods in which senders were told to slow
down, and back in the same period in which links stand `excess` times as long as before (rollback); it then waits, twice
as long each time (hysteresis). Lost packets lead to the first settings for good (the safety limit). Settings off the
list are never used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.retuning import Retuning
from railyard.errors import InputError

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
        settings: Neighbours alike; each names the same keys.
        hold: Periods with notifications before a step up.
        excess: Times as long as under the settings before that links may stand.
        least: Links that may stand all of a period, whatever was before.
        longest: Periods between a step back and the next one up, at most.
        at: Where on the list the run is.
        steps: What was done: end of the period, place on the list, and why.
    """

    settings: Sequence[Mapping[str, Any]] = ROCE
    hold: int = 1
    excess: float = 2.0
    least: float = 4.0
    longest: int = 256
    at: int = 0
    steps: list[tuple[int, int, str]] = field(default_factory=list)
    _stood: dict[int, float] = field(default_factory=dict)
    _held: int = 0
    _wait: int = 0
    _left: int = 0
    _lost: bool = False

    def __call__(self, period: Period) -> Mapping[str, Any]:
        """Settings to change after a period; empty where none do."""
        if self._lost:
            return {}
        if period.dropped > 0 or period.retransmitted > 0:
            self._lost = True
            return {} if self.at == 0 else self._go(period, 0, "lost packets")
        stands = period.paused_ps / period.length_ps
        if self.at > 0 and stands > max(self.least, self.excess * self._stood.get(self.at - 1, 0.0)):
            self._wait = min(self.longest, max(2 * self._wait, 8))
            self._left = self._wait
            return self._go(period, self.at - 1, "links stand")
        self._stood[self.at] = max(stands, self._stood.get(self.at, 0.0))
        self._left -= 1
        self._held += period.cnps > 0
        if self._held < self.hold or self._left > 0 or self.at + 1 == len(self.settings):
            return {}
        return self._go(period, self.at + 1, "room")

    def _go(self, period: Period, to: int, why: str) -> Mapping[str, Any]:
        self.at, self._held = to, 0
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
