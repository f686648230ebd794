"""Cost of lockstep: while one member is late, all others of the collective wait.

GPU-seconds lost = sum over ranks of the `straggler` part of their step. One GPU of 10,000 that is 20 us late for a
collective of all costs 9,999 x 20 us = 0.2 GPU-seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.causes import Cause
from railyard.measure.result.step import LateRank, LockstepFigures

if TYPE_CHECKING:
    from railyard.measure.decompose import Decomposition

WORST = 5
"""Ranks that are named at most."""


def lockstep(decomposition: Decomposition) -> LockstepFigures:
    """Cost of lateness in one step: the result's `lockstep`."""
    waited_ps = decomposition.waited_for_ps
    order = np.argsort(-waited_ps, kind="stable")[:WORST]
    return LockstepFigures(
        gpu_seconds_lost_to_stragglers=float(
            decomposition.by_rank_ps[:, Cause.STRAGGLER].astype(np.float64).sum() * 1e-12
        ),
        events=decomposition.straggler_events,
        worst_ranks=tuple(
            LateRank(rank=int(rank), gpu_seconds=float(waited_ps[rank] * 1e-12))
            for rank in order
            if waited_ps[rank] > 0
        ),
    )
