"""The update of state that lies in the cluster's memory pool: its parts are loaded, updated and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import Kind, Stream
from railyard.kit.errors import InputError
from railyard.kit.units import format_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.training.offload import Offload
    from railyard.work.training.parallel.step import Step

# What the buffers held is stored, and the first parts loaded in its place, from the beginning of the step on.
_START = -4


def update_in_parts(
    step: Step,
    offload: Offload,
    order: int,
    work: tuple[NDArray[np.float64], NDArray[np.int64]],
    awaited: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Adds loads, updates and stores.

    Args:
        step: With all passes.
        offload: What lies elsewhere.
        order: Of the updates.
        work: Parameters that one rank of every stage updates, float64[pp], and how long that takes, int64[pp] in ps.
        awaited: What loads wait for that have no buffer yet, int64[pp] each.

    Returns:
        int64[pp], the last update of every stage.

    Raises:
        InputError: The cluster has no memory pool, or one without room.
    """
    parameters, update_ps = work
    size = np.ceil(parameters * step.training.software.state_bytes(step.training.layout.zero))
    check_room(step.cluster, size * (1.0 - offload.resident))
    part_bytes = np.ceil(size / offload.parts).astype(np.int64)
    part_ps = np.rint(update_ps / offload.parts).astype(np.int64)
    ahead = offload.buffers if offload.overlap else 0
    # What frees the buffer of each part.
    free = [[_moves(step, Kind.STORE, _START, part_bytes)] for _ in range(ahead)] or [awaited]
    updates = awaited[-1]
    for part in range(offload.parts):
        loads = _moves(step, Kind.LOAD, _START if part < ahead else order, part_bytes)
        for one in free[part]:
            step.program.wait(loads, one)
        updates = _add(step, Kind.COMPUTE, Stream.COMPUTE, order, "update", duration_ps=part_ps)
        step.program.wait(updates, loads)
        if part < offload.parts - ahead:
            stores = _moves(step, Kind.STORE, order, part_bytes)
            step.program.wait(stores, updates)
            free.append([stores])
    return updates


def _moves(step: Step, kind: Kind, order: int, size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Loads or stores of a part."""
    stream, op = (Stream.LOAD, "load state") if kind == Kind.LOAD else (Stream.STORE, "store state")
    return _add(step, kind, stream, order, op, size_bytes=size_bytes)


def _add(step: Step, kind: Kind, stream: Stream, order: int, op: str, **columns: Any) -> NDArray[np.int64]:
    stages = np.arange(step.training.layout.pp)
    orders = np.full(len(stages), order)
    return step.program.add("rank", kind, stream, stage=stages, order=orders, phase="optimizer", op=op, **columns)


def check_room(cluster: Cluster, rank_bytes: NDArray[np.float64]) -> None:
    """Refuses state for which the memory pool has no room.

    Args:
        cluster: With the pool.
        rank_bytes: float64[pp], of one rank of every stage; stages fill servers one after another.

    Raises:
        InputError: There is no pool, or no room.
    """
    pool = cluster.memory_pool
    if pool is None:
        raise InputError("`offload` needs a memory pool in the cluster", key="offload")
    held = np.repeat(rank_bytes, cluster.ranks // len(rank_bytes))
    most = float(held.sum()) / pool.units
    if pool.unit.size:
        server = np.bincount(np.arange(cluster.ranks) // cluster.ranks_per_server, held) / pool.unit.shape[1]
        most = float(np.bincount(pool.unit[: len(server)].ravel(), np.repeat(server, pool.unit.shape[1])).max())
    if most > pool.capacity_bytes:
        raise InputError(
            "the state does not fit in the memory pool",
            key="offload",
            found=f"{format_size(int(most))} for one of its units",
            allowed=f"at most {format_size(pool.capacity_bytes)}",
        )
