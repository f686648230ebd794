"""Cost of lockstep: while one member is late, all others of the collective wait.

GPU-seconds lost = sum over ranks of the `straggler` part of their step. One GPU of 10,000 that is 20 us late for a
collective of all costs 9,999 x 20 us = 0.2 GPU-seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.causes import Cause
from railyard.measure.result.step import LateRank, LockstepFigures

if TYPE_CHECKING:
    from railyard.measure.decompose import Decomposition


@dataclass(frozen=True)
class Lockstep:
    """Cost of lateness in one step.

    Attributes:
        events: Collectives in which a rank waited for a straggler.
        worst: Ranks that others waited for, with the GPU-seconds that this cost; the most expensive first.
    """

    gpu_seconds_lost: float
    events: int
    worst: tuple[tuple[int, float], ...]

    def section(self) -> LockstepFigures:
        """The result's `lockstep`."""
        return LockstepFigures(
            gpu_seconds_lost_to_stragglers=self.gpu_seconds_lost,
            events=self.events,
            worst_ranks=tuple(LateRank(rank=rank, gpu_seconds=seconds) for rank, seconds in self.worst),
        )


def lockstep(decomposition: Decomposition, *, worst: int = 5) -> Lockstep:
    """Cost of lateness."""
    lost = float(decomposition.by_rank_ps[:, Cause.STRAGGLER].astype(np.float64).sum() * 1e-12)
    order = np.argsort(-decomposition.waited_for_ps, kind="stable")[:worst]
    named = tuple((int(rank), float(decomposition.waited_for_ps[rank] * 1e-12)) for rank in order)
    return Lockstep(lost, decomposition.straggler_events, tuple(pair for pair in named if pair[1] > 0))
