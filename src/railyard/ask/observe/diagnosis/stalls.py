"""How long each rank stood still in each step though it waited for no other rank: its host was late.

A rank that waits for others runs a communication, which spins until they are there. So a rank on which nothing runs
waits for its own host: for data, for launches, for a lock. The same holds where computations go on only some time after
the communication ended that they may have waited for, whatever other communication runs meanwhile. Stalls between steps
belong to the step that follows; what came before the first kernel is known where the profiler marked the step's begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.kernels import COMMUNICATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def stalls_of(record: Record, ranks: Ints) -> tuple[Floats, Floats]:
    """float64[steps, ranks], ps that each rank stood still, and that each step took it; nan where that is not known."""
    talks = np.array([label.phase == COMMUNICATION for label in record.labels], np.bool_)[record.what]
    steps = len(record.meta["steps"])
    still, took = np.full((steps, len(ranks)), np.nan), np.full((steps, len(ranks)), np.nan)
    step, began = record.column("step").astype(np.int64), record.meta["began_ps"]
    rows = np.flatnonzero(step >= 0)
    rows = rows[np.lexsort((record.start_ps[rows], record.who[rows]))]
    for mine in np.split(rows, np.flatnonzero(np.diff(record.who[rows])) + 1) if len(rows) else ():
        place = int(np.searchsorted(ranks, record.who[mine[0]]))
        of, start, end = step[mine], record.start_ps[mine], record.end_ps[mine]
        ran = np.unique(of)
        still[ran, place] = np.bincount(of, _stood(start, end, talks[mine]), steps)[ran]
        still[ran[0], place] += start[0] - began.get(str(ranks[place]), np.nan)
        last = np.full(steps, np.iinfo(np.int64).min)
        np.maximum.at(last, of, end)
        took[ran, place] = np.diff(np.r_[start[0], np.maximum.accumulate(last[ran])])
    return still, took


def _stood(start: Ints, end: Ints, talks: NDArray[np.bool_]) -> Floats:
    """float64[n], ps that the rank stood still before each of its kernels; 0 before the first.

    Args:
        start: int64[n], ps, ascending.
        end: int64[n], ps.
        talks: bool[n], which are communications.
    """
    lost = np.zeros(len(start))
    lost[1:] = np.maximum(start[1:] - np.maximum.accumulate(end)[:-1], 0)
    computes = np.flatnonzero(~talks)
    at = start[computes[1:]]
    free = np.maximum.accumulate(end[computes])[:-1]
    ended = np.sort(end[talks])
    before = np.searchsorted(ended, at, side="right")
    waited = np.r_[start[:1], ended][before]
    lost[computes[1:]] = np.maximum(at - np.maximum(free, waited), 0)
    return lost
