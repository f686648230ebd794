"""The timeline of a run at any zoom: lanes and looks once, then windows of pixels, then the slice under the pointer."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.face.web.views import packed, view
from railyard.graph.parquet import read_record
from railyard.graph.strips import Strips, strips_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.graph.record import Record

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
