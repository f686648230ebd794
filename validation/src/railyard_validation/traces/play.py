"""When every kernel and communication of a job runs: streams, launches, and members that wait for one another.

The host launches ahead of the accelerator and catches up once a step. A communication begins on a rank when its inputs
are there and the one before it on its stream has ended; it ends for all members together, its transfer after the last
of them began. So a late rank makes the others wait inside their kernels, as NCCL does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard_validation.traces.job import Communication, Join, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from railyard_validation.traces.job import Job

LAUNCH_US = 4.5
"""Host time of a launch: of the order of 5 us in published traces (cudaLaunchKernel in those of HTA's tests)."""

AHEAD_US = 9.0
"""From a launch to the start of its kernel on an idle device."""

SKEW_US = 3.0
"""Within which the kernels of one collective end on its members."""


@dataclass
class Conduct:
    """How ranks and network behave; every function may be replaced by one with a fault.

    Attributes:
        kernel: Rank, step, kernel: factor on its time.
        launch: Rank, step: factor on the host's time per launch.
        stall_us: Rank, step: how long the host prepares data before the step.
        transfer: Step, communication: factor on its time alone.
        noise: Standard deviation of one kernel's time.
        outliers: Share of kernels that take 1.5 to 3 times as long.
        network_noise: Standard deviation of one transfer's time.
    """

    kernel: Callable[[int, int, Kernel], float] = lambda _rank, _step, _kernel: 1.0
    launch: Callable[[int, int], float] = lambda _rank, _step: 1.0
    stall_us: Callable[[int, int], float] = lambda _rank, _step: 0.0
    transfer: Callable[[int, Communication], float] = lambda _step, _communication: 1.0
    noise: float = 0.005
    outliers: float = 0.001
    network_noise: float = 0.03


@dataclass
class Event:
    """What the profiler notes of a kernel or a communication.

    Attributes:
        what: Which.
        step: In which step.
        launched, start, end: us of the job's true time; the end is nan until all members have begun.
        number: Of a communication on its stream.
        before: The one before it on its stream, until that one's end is known.
    """

    what: Kernel | Communication
    step: int
    launched: float
    start: float
    end: float = float("nan")
    number: int = -1
    before: Event | None = None


@dataclass
class _Rank:
    """Where a rank is.

    Attributes:
        events: So far.
        host: Until when its host is busy, us.
        device: Until when its computations run, us.
        streams: Last communication of each stream.
        open: Communications that were launched since the last join.
        waits: Communications that computations wait for.
    """

    events: list[Event] = field(default_factory=list)
    host: float = 0.0
    device: float = 0.0
    streams: dict[str, Event] = field(default_factory=dict)
    open: list[Event] = field(default_factory=list)
    waits: list[Event] = field(default_factory=list)


class Play:
    """One run of a job."""

    def __init__(self, job: Job, conduct: Conduct, rng: np.random.Generator) -> None:
        self._job, self._conduct, self._rng = job, conduct, rng
        self._ranks = [_Rank() for _ in range(job.ranks)]
        self._members: dict[tuple[str, int], dict[int, Event]] = defaultdict(dict)
        self._counted: dict[tuple[int, str], int] = defaultdict(int)

    def events(self) -> tuple[list[list[Event]], NDArray[np.float64]]:
        """Events of every rank, and float64[ranks, steps + 1], when its host began each step and ended, us."""
        starts = np.zeros((self._job.ranks, self._job.steps + 1))
        waiting = {rank: self._runs(rank, starts) for rank in range(self._job.ranks)}
        while waiting:
            moved = False
            for rank, runs in list(waiting.items()):
                try:
                    moved |= next(runs)
                except StopIteration:
                    del waiting[rank]
                    moved = True
            assert moved or not waiting, "communications of the scripted job do not fit together"
        return [one.events for one in self._ranks], starts

    def _runs(self, rank: int, starts: NDArray[np.float64]) -> Iterator[bool]:
        """Goes on as far as other ranks allow; yields whether anything happened since."""
        mine, done = self._ranks[rank], 0
        for step in range(self._job.steps):
            starts[rank, step] = mine.host
            mine.host += self._conduct.stall_us(rank, step)
            for what in self._job.step(rank):
                while mine.waits and not self._ended(mine):
                    yield done > 0
                    done = 0
                self._launch(rank, step, what)
                done += 1
            while mine.waits and not self._ended(mine):
                yield done > 0
                done = 0
            mine.host = max(mine.host, mine.device)
        starts[rank, -1] = mine.host

    def _ended(self, mine: _Rank) -> bool:
        """Whether all that computations wait for has ended; then they go on from there."""
        if any(np.isnan(self._end(event)) for event in mine.waits):
            return False
        mine.device = max(mine.device, *(event.end for event in mine.waits))
        mine.waits = []
        return True

    def _end(self, event: Event) -> float:
        """When a communication ends, nan while a member is missing."""
        assert isinstance(event.what, Communication)
        if not np.isnan(event.end):
            return event.end
        members = self._members[event.what.stream, event.number]
        if len(members) < len(event.what.ranks) or not all(self._began(one) for one in members.values()):
            return float("nan")
        factor = self._conduct.transfer(event.step, event.what)
        took = event.what.us * factor * self._jitter(self._conduct.network_noise)
        end = max(one.start for one in members.values()) + took
        for one in members.values():
            one.end = end + float(self._rng.uniform(0, SKEW_US))
        return event.end

    def _began(self, event: Event) -> bool:
        """Whether the one before it on its stream has ended, so that its own start is known."""
        if event.before is not None and not np.isnan(self._end(event.before)):
            event.start = max(event.start, event.before.end)
            event.before = None
        return event.before is None

    def _launch(self, rank: int, step: int, what: Kernel | Communication | Join) -> None:
        mine = self._ranks[rank]
        if isinstance(what, Join):
            mine.waits, mine.open = mine.open, []
            return
        mine.host += LAUNCH_US * self._conduct.launch(rank, step) * self._jitter(0.1)
        ready = max(mine.device, mine.host + AHEAD_US)
        event = Event(what, step, mine.host, ready)
        mine.events.append(event)
        if isinstance(what, Kernel):
            factor = self._conduct.kernel(rank, step, what) * self._jitter(self._conduct.noise)
            if self._rng.random() < self._conduct.outliers:
                factor *= float(self._rng.uniform(1.5, 3.0))
            event.end = mine.device = ready + what.us * factor
            return
        event.number = self._counted[rank, what.stream]
        self._counted[rank, what.stream] += 1
        event.before = mine.streams.get(what.stream)
        mine.streams[what.stream] = event
        self._members[what.stream, event.number][rank] = event
        (mine.waits if what.blocking else mine.open).append(event)

    def _jitter(self, sigma: float) -> float:
        return float(np.exp(self._rng.normal(0.0, sigma)))
