"""`conservative`: nobody delays anybody who came before.

Every job that waits gets the earliest time at which enough accelerators are free until its promised end, after those
of the jobs before it. Source: A. Mu'alem, D. Feitelson, "Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 2001. The profile counts accelerators, not which nodes
they are on.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from railyard.operate.discipline import Backfill, backfills

if TYPE_CHECKING:
    from railyard.operate.discipline import Queue


class _Profile:
    """Free accelerators from each time on."""

    def __init__(self, scheduler: Queue) -> None:
        self.scheduler = scheduler
        state = scheduler.state
        self.times, self.free = [state.now_us], [state.free.accelerators]
        for end_us, job in state.ends:
            end = max(end_us, state.now_us)
            if end == self.times[-1]:
                self.free[-1] += state.held(job)
            else:
                self.times.append(end)
                self.free.append(self.free[-1] + state.held(job))

    def blocked(self, job: int) -> bool:
        start = self.earliest(job)
        self.reserve(start, start + self.scheduler.promise_us(job), self.scheduler.state.accelerators[job])
        return True

    def admits(self, job: int) -> bool:
        return self.earliest(job) <= self.scheduler.state.now_us

    def started(self, job: int) -> None:
        state = self.scheduler.state
        self.reserve(state.now_us, self.scheduler.promised_us(job), state.accelerators[job])

    def earliest(self, job: int) -> int:
        """When it fits until its promised end."""
        wanted, long = self.scheduler.state.accelerators[job], self.scheduler.promise_us(job)
        first = 0
        for place, free in enumerate(self.free):
            if place > first and self.times[place] >= self.times[first] + long:
                break
            if free < wanted:
                first = place + 1
        return self.times[min(first, len(self.times) - 1)]

    def reserve(self, start: int, end: int, wanted: int) -> None:
        """Takes accelerators out of the profile from `start` to `end`."""
        first, last = self._split(start), self._split(end)
        for place in range(first, last):
            self.free[place] -= wanted

    def _split(self, time: int) -> int:
        place = bisect_right(self.times, time) - 1
        if self.times[place] == time:
            return place
        self.times.insert(place + 1, time)
        self.free.insert(place + 1, self.free[place])
        return place + 1


CONSERVATIVE = backfills.add(
    "conservative", Backfill("conservative", "Who delays nobody that came before may overtake.", _Profile)
)
