"""`first-fit`: the first nodes with room, whatever they are joined to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    found = np.flatnonzero(free.room >= request.each)[: request.nodes]
    return found.astype(np.int32) if len(found) == request.nodes else None


FIRST_FIT = policies.add(
    "first-fit", NodePolicy("first-fit", "The first nodes with room in the order of the racks.", _place)
)
