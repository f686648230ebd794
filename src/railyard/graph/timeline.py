"""The second waist: when every task ran, what each link carried, as columns of integer picoseconds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph.task_graph import TaskGraph


@dataclass(frozen=True)
class LinkSeries:
    """Utilization of chosen links over time.

    Attributes:
        time_ps: int64[t], start of each sample.
        link: int32[k], link indices.
        utilization: float32[t, k], share of the line rate, 0 to 1.
    """

    time_ps: NDArray[np.int64]
    link: NDArray[np.int32]
    utilization: NDArray[np.float32]


@dataclass(frozen=True)
class Timeline:
    """What happened: one entry a task of `graph`.

    Attributes:
        graph: The tasks.
        start_ps: int64[n]; for a collective, when its last member had reached it.
        end_ps: int64[n].
        blocker: int32[n]; the task whose end let this one start, -1 when nothing did.
        alone_ps: int64[n]; how long a communication takes with the network to itself and its flows spread evenly over
            equal links, 0 for computation. What it takes longer is contention, with others or (where flows are hashed)
            among its own.
        latency_ps: int64[n]; the part of `alone_ps` that does not shrink with bandwidth.
        link_bytes: float64[L]; bytes on the wire of every link.
        meta: Engine, seed, what the engine leaves out; JSON values only.
        link_series: Sampled link utilization, where probes asked for it.
        beside_ps: int64[n]; how much longer each computation took because of communications beside it; None where the
            graph has no such thing.
    """

    graph: TaskGraph
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    blocker: NDArray[np.int32]
    alone_ps: NDArray[np.int64]
    latency_ps: NDArray[np.int64]
    link_bytes: NDArray[np.float64]
    meta: dict[str, object] = field(default_factory=dict)
    link_series: LinkSeries | None = None
    beside_ps: NDArray[np.int64] | None = None

    @property
    def makespan_ps(self) -> int:
        """From time zero to the end of the last task."""
        return int(self.end_ps.max()) if self.end_ps.size else 0

    def digest(self) -> str:
        """SHA-256 over the columns: equal digests mean equal runs, bit by bit."""
        fingerprint = hashlib.sha256()
        for column in (self.start_ps, self.end_ps, self.blocker, self.link_bytes):
            fingerprint.update(np.ascontiguousarray(column).data)
        return fingerprint.hexdigest()

    def write_parquet(self, path: Path) -> None:
        """Writes graph and timeline, one row a task, as one Parquet file."""
        from railyard.graph import columns

        columns.write_timeline(self, path)

    @staticmethod
    def read_parquet(path: Path) -> Timeline:
        """Reads what `write_parquet` wrote.

        Raises:
            InputError: The file is missing or is no timeline.
        """
        from railyard.graph import columns

        return columns.read_timeline(path)
