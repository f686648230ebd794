"""`worst`: one node of every narrowest group in turn, neighbours in rank as far apart as can be: a bound."""

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
    keys = [_turn(group[room]) for group in free.tree.group]  # the narrowest level decides first
    order = np.lexsort(keys) if keys else np.arange(len(room))
    return room[order][: request.nodes].astype(np.int32)


def _turn(group: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64[nodes], how many nodes of the same group stand before each."""
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], group[order])
    turn = np.empty(len(group), np.int64)
    turn[order] = np.arange(len(group)) - first
    return turn


policies.add("worst", NodePolicy("worst", "A node of every narrowest group in turn: as scattered as can be", _place))
