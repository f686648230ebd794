"""A step under construction: what every part of the builder reads and adds to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

# Distance between the reductions of two virtual stages behind all pieces: room for two holdings and what they send.
STRIDE = 16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.training.parallel.data import DataPlan
    from railyard.work.training.parallel.parts import StageParts
    from railyard.work.training.parallel.pieces import Pieces
    from railyard.work.training.program import Program
    from railyard.work.training.schedule import Emission
    from railyard.work.training.spec import Training


@dataclass(frozen=True)
class Step:
    """One optimizer step.

    Attributes:
        training: The job.
        cluster: On which it runs.
        parts: What stages and their segments cost.
        emission: The operations of all pipeline ranks in one order.
        plan: What data parallelism does.
        pieces: The operations, cut where data-parallel traffic wants it.
        program: Takes the slots.
    """

    training: Training
    cluster: Cluster
    parts: StageParts
    emission: Emission
    plan: DataPlan
    pieces: Pieces
    program: Program

    @property
    def tail(self) -> int:
        """A place behind all pieces and reductions, in front of what ends the step."""
        return self.pieces.finish + STRIDE * self.parts.stages


@dataclass(frozen=True)
class Pending:
    """Slots that run beside the computation, in the order of their stream; the end of the step waits for them.

    Attributes:
        slots: int64[n].
        stage: int32[n], where each runs.
    """

    slots: NDArray[np.int64]
    stage: NDArray[np.int32]
