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
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]

AS_BAD = 0.5
"""Of the time of a part's worst link: others with as much are as bad."""

COMMON = 0.02
"""Share of all time at full load that says nothing of a link."""

LEAST = 1e-3
"""Of the step: less time than this at full load, or under pause, points at nothing."""


def pointed_at(record: Record, healthy: Record, physical: int) -> Floats:
    """float64[physical links], sum 1: of all time that is too much, the share of each link; all 0 where there is none.

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
    return found / total if total > LEAST * record.makespan_ps else np.zeros(physical)


def stands_out(share: Floats, links: Sequence[int]) -> float:
    """How much counters point at some links, 0 to 1: they are far worse than the others, and all that are as bad.

    Args:
        share: As of `pointed_at`.
        links: Of a part.
    """
    mine = share[list(links)]
    worst = float(mine.max())
    if worst <= 0:
        return 0.0
    others = np.delete(share, list(links))
    usual = float(np.quantile(others, 0.95)) if len(others) else 0.0
    bad = float(others[others >= AS_BAD * worst].sum())
    covered = float(mine[mine >= AS_BAD * worst].sum())
    return worst / (worst + usual + COMMON) * covered / (covered + bad)


def bad_share(share: Floats, carries: NDArray[np.bool_], links: Sequence[int]) -> float:
    """Of a part's cables that carry anything, those of which a port is about as bad as its worst one, 0 to 1.

    Args:
        share: As of `pointed_at`.
        carries: bool[physical links].
        links: Of a part, both directions of its cables: queues stand at one end of each.
    """
    mine = np.array(links, np.int64)
    used = int(carries[mine].sum())
    bad = int((share[mine] >= AS_BAD * max(float(share[mine].max()), 1e-12)).sum())
    return min(2 * bad / max(used, 1), 1.0)


def _origins(paused_ps: NDArray[np.int64], origin: NDArray[np.int32], physical: int) -> Floats:
    """Time under pause by the link whose queue caused it."""
    known = (paused_ps > 0) & (origin >= 0) & (origin < physical)
    weights = paused_ps[known].astype(np.float64)
    return np.bincount(origin[known], weights=weights, minlength=physical).astype(np.float64)
