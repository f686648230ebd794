"""`communication`: groups of ranks that talk most each in one leaf, and neighbours in rank in one leaf.

A job says the sizes in nodes of its communication groups from the innermost (a stage's data-parallel group, say). Each
group goes into the narrowest switch that holds it, leafs with room for several first, so that few leafs are touched;
groups that find no leaf are laid over the emptiest. Arnold (NeurIPS 2025) aligns data- and pipeline-parallel groups
with leafs so: 1.67 times less spread and 10.6 % more throughput at more than 9,600 GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.event import Request
    from railyard.work.operate.free import Free


def _place(request: Request, free: Free) -> NDArray[np.int32] | None:
    tree = free.tree
    room = free.with_room(request.each)
    if int(room.sum()) < request.nodes:
        return None
    if not tree.levels:
        return np.flatnonzero(room)[: request.nodes].astype(np.int32)
    left = [members[room[members]].tolist() for members in tree.members[-1]]
    size = next((one for one in request.groups if 1 < one <= max(map(len, left))), 1)
    found: list[int] = []
    groups, rest = divmod(request.nodes, size)
    for group in (*[size] * groups, *([rest] if rest else [])):
        found += _group(tree.parent[-1], left, group, request.nodes - len(found))
    return np.array(found, np.int32)


def _group(above: NDArray[np.int32], left: list[list[int]], size: int, wanted: int) -> list[int]:
    """Takes the nodes of one group: of the leaf that holds them most tightly, else of the emptiest."""
    found: list[int] = []
    while len(found) < size:
        lack = size - len(found)
        fitting = [leaf for leaf, nodes in enumerate(left) if len(nodes) >= lack]
        room = np.bincount(above, weights=[len(nodes) for nodes in left]).tolist()
        if fitting:
            leaf = min(fitting, key=lambda one: _order(len(left[one]), wanted, room[above[one]], one))
        else:
            leaf = max(range(len(left)), key=lambda one: (len(left[one]), room[above[one]], -one))
        found += left[leaf][:lack]
        left[leaf] = left[leaf][lack:]
    return found


def _order(nodes: int, wanted: int, near: float, leaf: int) -> tuple[int, float, float, int]:
    """Leafs that hold all that is still wanted come first, the fullest of them; of the others the emptiest."""
    return (0, nodes, -near, leaf) if nodes >= wanted else (1, -nodes, -near, leaf)


policies.add(
    "communication",
    NodePolicy(
        "communication",
        "Groups of ranks that talk most each in one leaf, few leafs in all",
        _place,
        source="after Arnold (NeurIPS 2025)",
    ),
)
