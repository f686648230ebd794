"""A queue, first come first served, in front of servers that take one request each: M/G/c without approximations."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def starts(arrival_ps: NDArray[np.int64], service_ps: NDArray[np.int64], servers: int | None) -> NDArray[np.int64]:
    """When each request's service begins.

    Args:
        arrival_ps: int64[n], ascending.
        service_ps: int64[n].
        servers: How many; None: one for everybody.
    """
    if servers is None:
        return arrival_ps.copy()
    begins = np.empty_like(arrival_ps)
    free = [0] * min(servers, max(len(arrival_ps), 1))
    for row, (arrives, takes) in enumerate(zip(arrival_ps.tolist(), service_ps.tolist(), strict=True)):
        begin = max(arrives, free[0])
        begins[row] = begin
        heapq.heapreplace(free, begin + takes)
    return begins
