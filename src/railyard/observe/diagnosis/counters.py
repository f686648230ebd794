"""Counters of ports, read for what they cause: where packets queue, not who has to wait for that.

A port that carries all that it can marks packets, or lets them wait; whoever is behind it has to pause. So a port that
is
full for longer than it should be points at itself, and one that was told to pause points downstream, at the queue from
which the pause came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]

COMMON = 0.02
"""Share of all time at full load that says nothing of a link."""

LEAST = 1e-3
"""Of the step: less time than this at full load, or under pause, points at nothing."""


def pointed_at(record: Record, healthy: Record, physical: int) -> Floats:
    """float64[physical links], 0 to 1, how much counters point at each link; all 0 where they do not.

    A link's share of all time that is too much, over that share, the share of those that are nearly the worst and
    `COMMON`: close to 1 for a link that stands out, one half and less where many are alike.

    Args:
        record: What was measured.
        healthy: What should have been, with the same counters.
        physical: Number of physical links.
    """
    table, usual = record.tables.get("links", {}), healthy.tables["links"]
    if "pause_origin" in table and "paused_ps" in table:
        found = _origins(table["paused_ps"], table["pause_origin"], physical)
    elif "full_ps" in table:
        found = np.maximum(table["full_ps"][:physical].astype(np.float64) - usual["full_ps"][:physical], 0)
    else:
        found = np.zeros(physical)
    total = float(found.sum())
    if not total > LEAST * record.makespan_ps:
        return np.zeros(physical)
    share = found / total
    return np.asarray(share / (share + np.quantile(share, 0.95) + COMMON), np.float64)


def _origins(paused_ps: NDArray[np.int64], origin: NDArray[np.int32], physical: int) -> Floats:
    """Time under pause by the link whose queue caused it."""
    known = (paused_ps > 0) & (origin >= 0) & (origin < physical)
    weights = paused_ps[known].astype(np.float64)
    return np.bincount(origin[known], weights=weights, minlength=physical).astype(np.float64)
