"""`random`: any free nodes, in any order: what a placement costs that knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    room = np.flatnonzero(free.with_room(request.each))
    if len(room) < request.nodes:
        return None
    draw = np.random.Generator(np.random.Philox(key=[request.seed, request.job]))
    return draw.choice(room, request.nodes, replace=False).astype(np.int32)


policies.add("random", NodePolicy("random", "Any free nodes in any order", _place, seeded=True))
