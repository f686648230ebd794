"""What an importer of work gives: a task graph, and what the file says that the graph does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.graph import TaskGraph


@dataclass(frozen=True)
class Failure:
    """A link that a connection matrix takes out.

    Attributes:
        switch: Tier of the switch: `TOR`, `AGG` or `CORE`.
        switch_id: Number of the switch in its tier.
        link_id: Number of its uplink.
        line: Line of the file.
    """

    switch: str
    switch_id: int
    link_id: int
    line: int


@dataclass(frozen=True, eq=False)
class Trace:
    """Work that was read from a file.

    Attributes:
        graph: Its tasks, all on the stream `FREE`; a rank is a host of a matrix, a rank of a schedule or a trace.
        line: int32[n], line of the file of each task, 0 where there is none.
        never: Lines of the tasks that nothing can ever start; they are not in the graph.
        lacks: What this file should say and does not, with counts.
        left_out: What files of this format say and the graph does not.
        failures: Links that the file takes out.
    """

    graph: TaskGraph
    line: NDArray[np.int32]
    never: tuple[int, ...] = ()
    lacks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def ranks(self) -> int:
        """Number of ranks or hosts."""
        return self.graph.ranks
