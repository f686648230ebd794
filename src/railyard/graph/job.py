"""A job: work, the accelerators that its ranks run on, and when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph.task_graph import TaskGraph


@dataclass(frozen=True, eq=False)
class Job:
    """Work on a part of a cluster.

    Attributes:
        work: What runs.
        placement: int32[ranks], the accelerator of each rank; None: rank r on accelerator r.
        start_ps: No task starts earlier.
        name: In tables and messages.
        seed: With the seed of a run decides the job's jitter, whatever runs beside it.
        priority: Class of its traffic on links that it shares with other jobs, 0 to 7; higher ones go first.
    """

    work: TaskGraph
    placement: NDArray[np.int32] | None = None
    start_ps: int = 0
    name: str = ""
    seed: int = 0
    priority: int = 0

    @property
    def accelerators(self) -> NDArray[np.int32]:
        """int32[ranks], the accelerator of each rank.

        Raises:
            InputError: The placement has not as many accelerators as the work has ranks.
        """
        if self.placement is None:
            return np.arange(self.work.ranks, dtype=np.int32)
        if len(self.placement) < self.work.ranks:
            raise InputError(
                f"the placement of job `{self.name}` has too few accelerators",
                found=len(self.placement),
                allowed=f"{self.work.ranks} (ranks)",
            )
        return np.asarray(self.placement, np.int32)
