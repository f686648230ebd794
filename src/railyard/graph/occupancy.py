"""Which ranks a task occupies: one for most, every member of its communicator for a collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.task_graph import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph.task_graph import Communicators, TaskGraph


@dataclass(frozen=True)
class RankTasks:
    """Tasks with the ranks whose streams they occupy; a collective appears once for each member.

    Attributes:
        rank: int64[m].
        task: int64[m].
    """

    rank: NDArray[np.int64]
    task: NDArray[np.int64]


def members_of(
    communicators: Communicators, chosen: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The members of communicators, one after another.

    Args:
        communicators: All groups.
        chosen: int[k]; communicator indices, repeats allowed.

    Returns:
        Position in `chosen` of each entry (int64), and its member rank (int32).
    """
    sizes = np.diff(communicators.ptr)[chosen]
    position = np.repeat(np.arange(len(chosen), dtype=np.int64), sizes)
    ends = np.cumsum(sizes)
    within = np.arange(len(position), dtype=np.int64) - np.repeat(ends - sizes, sizes)
    return position, communicators.ranks[communicators.ptr[chosen][position] + within]


def tasks_of(graph: TaskGraph, ranks: Sequence[int]) -> RankTasks:
    """All tasks that occupy a stream of the given ranks, in no particular order."""
    wanted = np.zeros(graph.ranks, np.bool_)
    wanted[list(ranks)] = True
    collective = graph.kind == Kind.COLLECTIVE
    single = np.flatnonzero(~collective)
    single = single[wanted[graph.rank[single]]]
    shared = np.flatnonzero(collective)
    if not shared.size:
        return RankTasks(graph.rank[single].astype(np.int64), single)
    groups = np.arange(len(graph.communicators))
    position, member = members_of(graph.communicators, groups)
    touched = np.zeros(len(groups), np.bool_)
    touched[position[wanted[member]]] = True
    shared = shared[touched[graph.rank[shared]]]
    position, member = members_of(graph.communicators, graph.rank[shared])
    keep = wanted[member]
    rank = np.concatenate([graph.rank[single], member[keep]]).astype(np.int64)
    return RankTasks(rank, np.concatenate([single, shared[position[keep]]]))
