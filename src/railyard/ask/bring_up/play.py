"""One draw of how a cluster is built: crews, racks, repairs and burn-in as events.

A crew takes a waiting repair, else the next lot of cables of the order once its rack is delivered; nobody overtakes. A
lot is a shift's cables of one rack, so that several crews cable a rack of many; the first sets it up. With an audit the
crew that finishes a rack mends its wrong cables at once. Without one they show when burn-in ends, wait for a crew, and
burn-in runs again; those of a rack of switches show a burn-in's time after it was cabled. Servers that fail burn-in are
replaced, and their own burn-in runs again. Times are in days of the calendar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.bring_up.site import Site


@dataclass(frozen=True)
class Pace:
    """How fast work goes, in days of the calendar, and how often it goes wrong.

    Attributes:
        crews: At a time.
        install_d: A rack, without its cables.
        pulls: Cables a crew and shift: a day.
        repair_d: A wrong cable.
        burn_in_d: A rack.
        replacement_d: A server.
        miscabling: Share of cables.
        rejected: Share of servers.
        audit: Whether wrong cables are found when the rack is cabled.
    """

    crews: int
    install_d: float
    pulls: float
    repair_d: float
    burn_in_d: float
    replacement_d: float
    miscabling: float
    rejected: float
    audit: bool


class Built(NamedTuple):
    """A draw.

    Attributes:
        ready_d: float64[racks], when the servers of each earn, those apart that were replaced; of others when they are
            built.
        replaced: int64[racks], servers that were replaced.
        replaced_d: float64[racks], when these earn.
        wrong: Cables that were plugged wrong.
        crew_d: Days of crews at work.
    """

    ready_d: NDArray[np.float64]
    replaced: NDArray[np.int64]
    replaced_d: NDArray[np.float64]
    wrong: int
    crew_d: float


_DELIVERED, _CREW, _CABLED, _BURNT = range(4)


class _Play:
    """What has happened so far."""

    def __init__(self, site: Site, pace: Pace, order: Sequence[int], delivered_d: NDArray[np.float64]) -> None:
        self.site, self.pace, self.delivered_d = site, pace, delivered_d
        self.events: list[tuple[float, int, int]] = []
        self.repairs: list[tuple[float, int]] = []
        self.idle = 0
        self.next = 0
        self.left = [0] * len(site)
        self.done = [0.0] * len(site)
        self.lots = list(self._lots(order, delivered_d))
        self.crew_d = 0.0
        self.sound = np.full(len(site), np.inf)
        self.burnt = np.full(len(site), np.inf)
        self.waiting: dict[int, list[int]] = {}
        self.missing = [0] * len(site)

    def _lots(self, order: Sequence[int], delivered_d: NDArray[np.float64]) -> Iterator[tuple[float, int, float]]:
        """Of each piece of work the day from which on it can be done, its rack, and the days that it takes."""
        for rack, day in zip(order, delivered_d.tolist(), strict=True):
            count = max(math.ceil(self.site.cables[rack] / self.pace.pulls), 1)
            self.left[rack] = count
            each = self.site.cables[rack] / count / self.pace.pulls
            yield day, rack, self.pace.install_d + each
            for _ in range(1, count):
                yield day, rack, each

    def run(self, wrong: NDArray[np.int64]) -> None:
        """Until all is built."""
        self.wrong = wrong.copy()
        for rack, near in enumerate(self.site.near):
            needed = {rack, *near}
            self.missing[rack] = len(needed)
            for one in needed:
                self.waiting.setdefault(one, []).append(rack)
        self.events = [(day, _DELIVERED, 0) for day in np.unique(self.delivered_d).tolist()]
        self.idle = self.pace.crews
        heapify(self.events)
        while self.events:
            now, kind, what = heappop(self.events)
            if kind == _DELIVERED:
                self._call(now, self.idle)
            elif kind == _CREW:
                self._work(now)
            elif kind == _CABLED:
                self._cabled(now, what)
            else:
                self._burnt(now, what)

    def _work(self, now: float) -> None:
        """A crew is free: a repair, else the next rack, else it waits."""
        if self.repairs:
            _, rack = heappop(self.repairs)
            spent = self.wrong[rack] * self.pace.repair_d
            self.wrong[rack] = 0
            heappush(self.events, (now + spent, _CABLED, rack))
        elif self.next < len(self.lots) and self.lots[self.next][0] <= now:
            _, rack, spent = self.lots[self.next]
            self.next += 1
            self.left[rack] -= 1
            if not self.left[rack] and self.pace.audit:
                spent += self.wrong[rack] * self.pace.repair_d
                self.wrong[rack] = 0
            self.done[rack] = max(self.done[rack], now + spent)
            if not self.left[rack]:
                heappush(self.events, (self.done[rack], _CABLED, rack))
        else:
            self.idle += 1
            return
        self.crew_d += spent
        heappush(self.events, (now + spent, _CREW, 0))

    def _cabled(self, now: float, rack: int) -> None:
        """Its cables are plugged, the wrong ones too, or they were mended."""
        first = self.sound[rack] == np.inf
        self.sound[rack] = now
        if not first:
            if self.site.servers[rack]:
                heappush(self.events, (now + self.pace.burn_in_d, _BURNT, rack))
            return
        if not self.site.servers[rack] and self.wrong[rack]:
            heappush(self.events, (now + self.pace.burn_in_d, _BURNT, rack))
        for one in self.waiting[rack]:
            self.missing[one] -= 1
            if not self.missing[one] and self.site.servers[one]:
                heappush(self.events, (now + self.pace.burn_in_d, _BURNT, one))

    def _burnt(self, now: float, rack: int) -> None:
        """Burn-in shows what is wrong still."""
        self.burnt[rack] = now
        if self.wrong[rack]:
            heappush(self.repairs, (now, rack))
            self._call(now, min(self.idle, 1))

    def _call(self, now: float, crews: int) -> None:
        """Idle crews look for work."""
        self.idle -= crews
        for _ in range(crews):
            heappush(self.events, (now, _CREW, 0))


def play(
    site: Site, pace: Pace, order: Sequence[int], delivered_d: NDArray[np.float64], random: np.random.Generator
) -> Built:
    """One draw.

    Args:
        site: The racks.
        pace: How fast, and how often what goes wrong.
        order: Of the racks.
        delivered_d: float64[racks], when the rack at each place of the order is there.
        random: Draws wrong cables and rejected servers, rack by rack, whatever the order.
    """
    wrong = random.binomial(site.cables, pace.miscabling)
    replaced = random.binomial(site.servers, pace.rejected)
    state = _Play(site, pace, order, delivered_d)
    state.run(wrong)
    ready = np.where(site.servers > 0, state.burnt, state.sound)
    needed = [(*near, *far) for near, far in zip(site.near, site.far, strict=True)]
    above = np.array([max((state.sound[one] for one in those), default=0.0) for those in needed])
    ready = np.where(site.servers > 0, np.maximum(ready, above), ready)
    again = np.maximum(state.burnt + pace.replacement_d + pace.burn_in_d, above)
    return Built(ready, replaced, np.where(replaced > 0, again, ready), int(wrong.sum()), state.crew_d)
