"""A job: work, the accelerators that its ranks run on, and when it starts."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.task_graph import Stream
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    from railyard.graph.task_graph import TaskGraph


_BEYOND = max(Stream)
"""Tracks from here on are further lanes of the stream `FREE`."""


def tracks_of(rank: Ints, stream: Ints, start: Ints, end: Ints) -> Ints:
    """The track of each slice: its stream, and beyond all streams the further lanes of the stream `FREE`.

    Slices of one lane do not overlap; each takes the lowest lane that is free when it starts (greedy colouring of an
    interval graph, which needs no more lanes than slices that overlap at one time).

    Args:
        rank: int64[m].
        stream: int64[m].
        start: int64[m], in any unit of time.
        end: int64[m], in the same unit.

    Returns:
        int64[m].
    """
    track = stream.copy()
    free = np.flatnonzero(stream == Stream.FREE)
    free = free[np.lexsort((end[free], start[free], rank[free]))]
    for part in np.split(free, np.flatnonzero(np.diff(rank[free])) + 1):
        lanes = _lanes(start[part].tolist(), end[part].tolist())
        track[part] = np.where(lanes > 0, _BEYOND + lanes, Stream.FREE)
    return track


def _lanes(start: list[int], end: list[int]) -> Ints:
    """The lane of each slice of one rank, by ascending start."""
    busy: list[tuple[int, int]] = []
    idle: list[int] = []
    lanes = np.zeros(len(start), np.int64)
    for number, (begins, ends) in enumerate(zip(start, end, strict=True)):
        while busy and busy[0][0] <= begins:
            heapq.heappush(idle, heapq.heappop(busy)[1])
        lanes[number] = heapq.heappop(idle) if idle else len(busy)
        heapq.heappush(busy, (ends, int(lanes[number])))
    return lanes


def track_name(track: int) -> str:
    """Name of a track: its stream, and from the second lane on its number."""
    return Stream(track).name.lower() if track <= _BEYOND else f"free {track - _BEYOND + 1}"


@dataclass(frozen=True, eq=False)
class Job:
    """Work on a part of a cluster.

    Attributes:
        placement: int32[ranks], the accelerator of each rank; None: rank r on accelerator r.
        start_ps: No task starts earlier.
        seed: With the seed of a run decides the job's jitter, whatever else runs.
        priority: Class of its traffic on links that it shares with other jobs, 0 to 7; higher ones go first.
    """

    work: TaskGraph
    placement: NDArray[np.int32] | None = None
    start_ps: int = 0
    name: str = ""
    seed: int = 0
    priority: int = 0

    @property
    def accelerators(self) -> NDArray[np.int32]:
        """int32[ranks], the accelerator of each rank.

        Raises:
            InputError: The placement has not as many accelerators as the work has ranks.
        """
        if self.placement is None:
            return np.arange(self.work.ranks, dtype=np.int32)
        if len(self.placement) < self.work.ranks:
            raise InputError(
                f"the placement of job `{self.name}` has too few accelerators",
                found=len(self.placement),
                allowed=f"{self.work.ranks} (ranks)",
            )
        return np.asarray(self.placement, np.int32)
