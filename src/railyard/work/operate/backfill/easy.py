"""`easy`: nobody delays the first job that waits.

Source: D. Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995. The first job's start is foreseen from the ends that
running jobs promised, by nodes and accelerators of nodes; where it asks for more (one leaf, segments), its policy is
tried on what will be free then, and who would not be gone in time keeps off those nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import NO_NODES, Backfill, backfills

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.work.operate.discipline import Queue


class _Easy:
    def __init__(self, scheduler: Queue) -> None:
        self.scheduler = scheduler
        self.first = -1
        self.shadow_us = -1
        self.extra = 0
        self.nodes = NO_NODES

    def blocked(self, job: int) -> bool:
        if self.first < 0:
            self.first = job
        return True

    def admits(self, job: int) -> bool:
        if self.first < 0:
            return True
        if self.shadow_us < 0:
            self.shadow_us, self.extra, self.nodes = self.scheduler.foreseen(self.first)
        return self._in_time(job) or bool(len(self.nodes)) or self.scheduler.state.nodes[job] <= self.extra

    def kept(self, job: int) -> NDArray[np.int32]:
        return NO_NODES if self._in_time(job) else self.nodes

    def started(self, job: int) -> None:
        if self.shadow_us >= 0 and not self._in_time(job):
            self.extra -= self.scheduler.state.nodes[job]

    def _in_time(self, job: int) -> bool:
        return self.scheduler.promised_us(job) <= self.shadow_us


EASY = backfills.add("easy", Backfill("easy", "Who does not delay the first that waits may overtake.", _Easy))
