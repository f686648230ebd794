"""What passes between two users of a node: what the last one left is erased, and the next one has it attested.

Both are part of an allocation: nodes are given, cleared, and only then does the job's own setup begin. A node that has
never been used is clean. Of nodes that several jobs share, a part counts as all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.work.operate.state import State


def cleared_us(state: State, job: int, nodes: NDArray[np.int32]) -> int:
    """Notes that a job takes nodes over.

    Args:
        state: Of the run.
        job: Who takes them.
        nodes: int32[n], those that it did not have until now.

    Returns:
        How long clearing them takes, microseconds.
    """
    rules = state.rules.turnaround
    user = job if rules.between == "jobs" else state.tenant[job]
    before = state.used_by[nodes]
    foreign = int(((before >= 0) & (before != user)).sum())
    state.used_by[nodes] = user
    erased = foreign > 0 and rules.erase_us > 0
    state.erased += foreign if erased else 0
    return (rules.erase_us if erased else 0) + rules.attested_us(len(nodes) * state.each[job])
