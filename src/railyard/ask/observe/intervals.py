"""Unions of intervals of time, as rows of begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Spans = NDArray[np.int64]


def union(start: NDArray[np.int64], end: NDArray[np.int64]) -> Spans:
    """int64[m, 2], what any of the intervals covers, as intervals that do not touch, by time."""
    order = np.argsort(start, kind="stable")
    begin, reach = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    if not len(begin):
        return np.empty((0, 2), np.int64)
    first = np.r_[True, begin[1:] > reach[:-1]]
    last = np.r_[first[1:], True]
    return np.stack([begin[first], reach[last]], axis=1)


def length(spans: Spans) -> int:
    """How long they are together."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def common(one: Spans, other: Spans) -> int:
    """How long both cover the same time."""
    both = union(np.concatenate([one[:, 0], other[:, 0]]), np.concatenate([one[:, 1], other[:, 1]]))
    return length(one) + length(other) - length(both)
