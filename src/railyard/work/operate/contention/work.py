"""What a step of a job computes and sends, as a task graph: data parallelism, or a class given in numbers.

A step computes `alone_s` with nothing to hide communication behind, then `beside_s` during which its gradients are
reduced over all ranks; the next step waits for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railyard.graph import Communicators, Kind, Label, Stream, TaskGraph
from railyard.graph.repeat import repeat
from railyard.graph.task_graph import CollectiveKind

UPDATE_PS = 1_000_000
"""A microsecond: what waits for the gradients has to be something."""
LABELS = (Label("forward", "compute"), Label("backward", "compute"), Label("backward", "gradients", "dp"))


@dataclass(frozen=True)
class WorkClass:
    """A class of work.

    Attributes:
        name: How it is called.
        compute_s: Computation of a step of one accelerator.
        message_bytes: What the accelerators reduce with one another a step, the size of one's gradients.
        overlap: Share of the computation beside which that happens.
    """

    name: str
    compute_s: float
    message_bytes: int
    overlap: float

    def steps(self, ranks: int, count: int) -> TaskGraph:
        """So many steps on so many ranks."""
        return repeat(self._step(ranks), count)

    def _step(self, ranks: int) -> TaskGraph:
        """Rows: first computations, those beside the collective, the collective, what waits for both."""
        beside_ps = round(self.compute_s * self.overlap * 1e12)
        alone_ps = max(round(self.compute_s * 1e12) - beside_ps, 1)
        everyone = np.arange(ranks, dtype=np.int32)
        tasks, reduce = 3 * ranks + 1, 2 * ranks
        kind = np.full(tasks, Kind.COMPUTE, np.uint8)
        kind[reduce] = Kind.COLLECTIVE
        stream = np.full(tasks, Stream.COMPUTE, np.uint8)
        stream[reduce] = Stream.GRADIENT
        size = np.zeros(tasks, np.int64)
        size[reduce] = self.message_bytes
        parts = [ranks, ranks, 1, ranks]
        waits = np.repeat([0, 0, ranks, 1], parts)
        return TaskGraph(
            ranks=ranks,
            kind=kind,
            rank=np.concatenate([everyone, everyone, everyone[:1], everyone]),
            peer=np.full(tasks, -1, np.int32),
            duration_ps=np.repeat(np.array([alone_ps, beside_ps, 0, UPDATE_PS], np.int64), parts),
            size_bytes=size,
            count=np.ones(tasks, np.int32),
            collective=np.full(tasks, CollectiveKind.ALL_REDUCE, np.uint8),
            stream=stream,
            label=np.repeat(np.array([0, 1, 2, 0], np.int32), parts),
            dep_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(waits)]).astype(np.int64),
            dep_idx=np.concatenate([everyone, np.full(ranks, reduce, np.int32)]),
            labels=list(LABELS),
            communicators=Communicators(np.array([0, ranks], np.int64), everyone, ["dp"]),
        ).validate()
