"""Tracks to draw tasks on: one for each stream of a rank, and as many as it takes for those that overlap."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.task_graph import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

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
    """What a track is called: its stream, and from the second lane on its number."""
    return Stream(track).name.lower() if track <= _BEYOND else f"free {track - _BEYOND + 1}"
