"""Placement on the cubes of a torus: any cubes with optical circuit switches, blocks of neighbours with fixed fibre."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import placement_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest


@placement_policy("cubes", "Whole cubes of a torus: any with optical switches, else a fixed block of neighbours")
def _cubes(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    """A job of several cubes gets idle ones; a smaller one goes to the cube where it leaves the least room.

    With optical circuit switches any idle cubes of a pod form a slice. With fixed fibre a slice is one of the blocks
    into which its size divides the grid of cubes, all of them idle. Slices of one pod only: no fibre joins pods.
    """
    cubes, level = free.tree.cubes, len(free.tree.levels) - 1
    if cubes is None:
        return None
    members = free.tree.members[level]
    each = len(members[0])
    if request.nodes <= each:
        count = free.counts(level, request.each)
        fitting = np.flatnonzero(count >= request.nodes)
        if not len(fitting):
            return None
        inside = members[int(fitting[np.argmin(count[fitting])])]
        return inside[free.with_room(request.each)[inside]][: request.nodes]
    wanted = -(-request.nodes // each)
    idle = free.idle_in[level] == each
    blocks: Iterable[list[int]] = cubes.blocks(wanted)
    if cubes.switch is not None:
        pods = np.arange(cubes.count).reshape(cubes.pods, cubes.per_pod)
        blocks = (pod[idle[pod]][:wanted].tolist() for pod in pods)
    found = next((block for block in blocks if len(block) >= wanted and idle[block].all()), None)
    return None if found is None else np.concatenate([members[cube] for cube in found])[: request.nodes]
