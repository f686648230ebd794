"""Ranks that compute slower than their peers do the same work.

The pace of a rank is the time of its computations, without what communications took from them, over that of a nominal
accelerator. A rank is slow whose pace lies far from the median of all: further than six times the spread of the others
(from the median absolute deviation), and at least one percent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

LEAST = 0.01
SPREADS = 6.0
MAD_TO_SIGMA = 1.4826
"""Median absolute deviation of a normal distribution to its standard deviation."""


def computed_ps(record: Record) -> NDArray[np.int64]:
    """int64[tasks], how long each computation takes without communications beside it; 0 for what is none."""
    slowed = record.column("slowed_ps") if record.has("slowed_ps") else 0
    took = np.where(record.graph.on_accelerator & record.ended, record.end_ps - record.start_ps - slowed, 0)
    return np.asarray(np.maximum(took, 0), np.int64)


def paces(record: Record) -> NDArray[np.float64]:
    """float64[ranks], time over nominal time; nan of ranks that compute nothing."""
    graph, took = record.graph, computed_ps(record)
    mine = graph.on_accelerator
    spent = np.bincount(graph.rank[mine], weights=took[mine], minlength=graph.ranks)
    nominal = np.bincount(graph.rank[mine], weights=graph.duration_ps[mine], minlength=graph.ranks)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(nominal > 0, spent / nominal, np.nan)


def slow_ranks(pace: NDArray[np.float64]) -> dict[int, float]:
    """Ranks far slower than the median, with their pace over it."""
    known = np.isfinite(pace)
    if known.sum() < 3:
        return {}
    relative = pace / np.median(pace[known])
    spread = MAD_TO_SIGMA * float(np.median(np.abs(relative[known] - 1)))
    far = known & (relative > 1 + max(LEAST, SPREADS * spread))
    return {int(rank): float(relative[rank]) for rank in np.flatnonzero(far)}
