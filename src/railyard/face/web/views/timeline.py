"""The timeline of a run at any zoom: lanes and looks once, then windows of pixels, then the slice under the pointer.

Slices of a lane do not overlap, so the busy time before any moment is a running sum and two binary searches give the
exact share of a pixel that is busy. Its look is that of one slice: the one that covers its middle, else the last that
begins in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.face.web.views import packed, view
from railyard.graph.job import track_name, tracks_of
from railyard.graph.parquet import read_record
from railyard.graph.record import tasks_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph.record import Record


NOTHING = -1
"""Look of a pixel in which no slice lies."""

FULL = 255
"""Busy from the first to the last moment of a pixel."""


@dataclass(frozen=True, eq=False)
class Strips:
    """The lanes of all ranks, each with its slices in the order of time.

    Attributes:
        rank: int32[lanes].
        lane: Names of the lanes, as in `track_name`.
        looks: Phase, operation and communicator of every look.
        ptr: int64[lanes + 1], first slice of each lane.
        start_ps, end_ps: int64[slices].
        look: int16[slices], into `looks`.
        row: int64[slices], of the record.
        busy_ps: int64[slices + 1], running sum of their lengths.
    """

    rank: NDArray[np.int32]
    lane: list[str]
    looks: list[tuple[str, str, str]]
    ptr: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    look: NDArray[np.int16]
    row: NDArray[np.int64]
    busy_ps: NDArray[np.int64]

    @property
    def last_ps(self) -> int:
        """End of the last slice."""
        return int(self.end_ps.max()) if len(self.end_ps) else 0

    def window(
        self, lanes: range, from_ps: float, to_ps: float, pixels: int
    ) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
        """Slices of some lanes between two moments.

        Args:
            lanes: Which.
            from_ps: The left edge.
            to_ps: The right edge, later.
            pixels: Width.

        Returns:
            int16[lanes, pixels] looks, `NOTHING` where no slice lies; uint8[lanes, pixels] busy share, `FULL` for all.
        """
        edges = np.linspace(from_ps, to_ps, pixels + 1)
        look = np.full((len(lanes), pixels), NOTHING, np.int16)
        share = np.zeros((len(lanes), pixels), np.uint8)
        for place, number in enumerate(lanes):
            low, high = int(self.ptr[number]), int(self.ptr[number + 1])
            if low < high:
                self._strip(slice(low, high), edges, look[place], share[place])
        return look, share

    def _strip(
        self, part: slice, edges: NDArray[np.float64], look: NDArray[np.int16], share: NDArray[np.uint8]
    ) -> None:
        start, end, before = self.start_ps[part], self.end_ps[part], self.busy_ps[part]
        at = np.searchsorted(start, edges, side="right") - 1
        seen = np.maximum(at, 0)
        begun = np.clip(np.minimum(edges, end[seen]) - start[seen], 0, None)
        busy = np.where(at < 0, 0.0, before[seen] - before[0] + begun)
        part_busy = np.diff(busy) / (edges[1] - edges[0])
        # A slice far narrower than a pixel must not vanish.
        touched = (part_busy > 0) | (np.diff(at) > 0)
        share[:] = np.where(touched, np.maximum(np.rint(np.clip(part_busy, 0, 1) * FULL), 1), 0)
        middle = np.searchsorted(start, (edges[:-1] + edges[1:]) / 2, side="right") - 1
        covers = (middle >= 0) & (end[np.maximum(middle, 0)] > (edges[:-1] + edges[1:]) / 2)
        last = np.maximum(np.where(covers, middle, at[1:]), 0)
        look[:] = np.where(touched, self.look[part][last], NOTHING)

    def slice_at(self, lane: int, moment_ps: float) -> int | None:
        """The slice of a lane that covers a moment, if there is one."""
        low, high = int(self.ptr[lane]), int(self.ptr[lane + 1])
        at = low + int(np.searchsorted(self.start_ps[low:high], moment_ps, side="right")) - 1
        return at if at >= low and self.end_ps[at] > moment_ps else None


def strips_of(record: Record) -> Strips:
    """The lanes of all ranks of a record of tasks or of measured kernels; slices without length are left out.

    Raises:
        InputError: Its rows occupy no ranks.
    """
    if record.rows == "kernels":
        rank, row = record.who.astype(np.int64), np.arange(len(record.who))
        stream = record.optional["stream"] if "stream" in record.optional else np.zeros(len(row), np.int64)
        names = {int(one): f"stream {one}" for one in np.unique(stream)}
    elif record.work is not None and record.rows == "tasks":
        found = tasks_of(record.graph, range(record.graph.ranks))
        rank, row = found.rank, found.task
        stream = tracks_of(rank, record.graph.stream[row].astype(np.int64), record.start_ps[row], record.end_ps[row])
        names = {int(one): track_name(int(one)) for one in np.unique(stream)}
    else:
        raise InputError(f"a record of {record.rows} has no lanes of ranks")
    kept = record.end_ps[row] > record.start_ps[row]
    return _sorted(record, rank[kept], stream[kept], row[kept], names)


def _sorted(
    record: Record, rank: NDArray[np.int64], stream: NDArray[np.int64], row: NDArray[np.int64], names: dict[int, str]
) -> Strips:
    order = np.lexsort((record.start_ps[row], stream, rank))
    rank, stream, row = rank[order], stream[order], row[order]
    fresh = np.flatnonzero((np.diff(rank, prepend=-1) != 0) | (np.diff(stream, prepend=-1) != 0))
    start = record.start_ps[row]
    end = _without_overlap(start, record.end_ps[row], fresh)
    index: dict[tuple[str, str, str], int] = {}
    look_of = np.array(
        [index.setdefault((one.phase, one.op, one.group), len(index)) for one in record.labels] or [0], np.int16
    )
    labels = record.what if record.work is None else record.graph.label
    return Strips(
        rank=rank[fresh].astype(np.int32),
        lane=[names[int(one)] for one in stream[fresh]],
        looks=list(index),
        ptr=np.append(fresh, len(row)).astype(np.int64),
        start_ps=start,
        end_ps=end,
        look=look_of[labels[row]],
        row=row,
        busy_ps=np.concatenate([[0], np.cumsum(end - start)]),
    )


def _without_overlap(start: NDArray[np.int64], end: NDArray[np.int64], fresh: NDArray[np.intp]) -> NDArray[np.int64]:
    """Measured slices of one stream may overlap by what their clock rounds: each ends where the next begins."""
    following = np.append(start[1:], np.iinfo(np.int64).max)
    following[fresh[1:] - 1] = np.iinfo(np.int64).max
    ended: NDArray[np.int64] = np.maximum(np.minimum(end, following), start)
    return ended


_RUNS = 3
"""Timelines that are kept ready."""


@lru_cache(maxsize=_RUNS)
def _opened(path: Path, changed_ns: int) -> tuple[Record, Strips]:
    del changed_ns
    record = read_record(path)
    return record, strips_of(record)


def _of(question: dict[str, Any]) -> tuple[Record, Strips]:
    path = Path(question["path"])
    return _opened(path, path.stat().st_mtime_ns)


@view("strips")
def head(question: dict[str, Any]) -> dict[str, Any]:
    """Lanes, looks and the end of a timeline.

    Args:
        question: `path` of the record.
    """
    _, strips = _of(question)
    return {
        "lanes": [{"rank": rank, "name": name} for rank, name in zip(strips.rank.tolist(), strips.lane, strict=True)],
        "looks": [{"phase": phase, "op": op, "group": group} for phase, op, group in strips.looks],
        "end_us": strips.last_ps / 1e6,
        "slices": len(strips.start_ps),
    }


@view("window")
def window(question: dict[str, Any]) -> bytes:
    """The pixels of a window: columns `look` (int16, -1 for nothing) and `busy` (uint8), lane after lane.

    Args:
        question: `path`, `first` and `count` of lanes, `from_us`, `to_us`, `pixels`.

    Raises:
        InputError: The window ends before it begins.
    """
    _, strips = _of(question)
    begin, end = question["from_us"] * 1e6, question["to_us"] * 1e6
    if not begin < end:
        raise InputError("the window ends before it begins", key="to_us", found=question["to_us"])
    first = min(question["first"], len(strips.rank))
    lanes = range(first, min(first + question["count"], len(strips.rank)))
    look, busy = strips.window(lanes, begin, end, question["pixels"])
    return packed({"first": first, "count": len(lanes)}, {"look": look, "busy": busy})


@view("slice")
def slice_at(question: dict[str, Any]) -> dict[str, Any]:
    """The slice under the pointer, `{}` where there is none.

    Args:
        question: `path`, `lane`, `at_us`.
    """
    record, strips = _of(question)
    if not 0 <= question["lane"] < len(strips.rank):
        return {}
    found = strips.slice_at(question["lane"], question["at_us"] * 1e6)
    if found is None:
        return {}
    row = int(strips.row[found])
    optional = {
        f"{name}_us": int(record.optional[f"{name}_ps"][row]) / 1e6
        for name in ("alone", "latency", "slowed")
        if f"{name}_ps" in record.optional
    }
    return {
        "look": int(strips.look[found]),
        "start_us": int(strips.start_ps[found]) / 1e6,
        "end_us": int(strips.end_ps[found]) / 1e6,
        "bytes": int(record.size_bytes[row]),
        **optional,
    }
