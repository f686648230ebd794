"""A step again and again: one task graph of several steps, a rank starting the next when it has computed the last."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from railyard.graph.task_graph import Kind, Label, Stream, TaskGraph
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Waits = tuple[NDArray[np.int64], NDArray[np.int64]]
    """A task, and a task of the step before that it waits for; one pair an entry."""

T = TypeVar("T", bound=np.generic)


def repeat(graph: TaskGraph, steps: int) -> TaskGraph:
    """Several steps of a graph, behind one another; task t of step s is row s n + t.

    The order on streams holds from step to step. What waits for nothing in its step waits for the last computation of
    its ranks in the step before.

    Args:
        graph: One step; every rank computes in it (see `closed`).
        steps: At least 1.

    Raises:
        InputError: Tasks have release times, which hold for one step only.
    """
    if steps == 1:
        return graph
    if graph.release_ps is not None:
        raise InputError("work with release times happens once", found=f"{steps} steps", allowed=1)
    waits = _waits(graph)
    dep_ptr, dep_idx, dep_at = _dependencies(graph, waits, steps)
    need = graph.need
    if need is not None:
        later = need + np.bincount(waits[0], minlength=len(graph)).astype(np.int32)
        need = np.concatenate([need, *[later] * (steps - 1)])
    present = [name for name in _TILED if getattr(graph, name) is not None]
    tiled: dict[str, Any] = {name: np.tile(getattr(graph, name), steps) for name in present}
    return dataclasses.replace(
        graph,
        **tiled,
        dep_ptr=dep_ptr,
        dep_idx=dep_idx,
        dep_at=dep_at,
        need=need,
    )


def closed(graph: TaskGraph) -> TaskGraph:
    """The graph with a task behind all others, for work whose ranks do not all compute: the next step waits for it."""
    n = len(graph)
    waited_for = np.zeros(n, np.bool_)
    waited_for[graph.dep_idx] = True
    ends = np.flatnonzero(~waited_for)
    last = {"kind": Kind.COMPUTE, "rank": 0, "peer": -1, "count": 1, "stream": Stream.FREE, "label": len(graph.labels)}
    columns = ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label")
    grown: dict[str, Any] = {name: _grown(getattr(graph, name), last.get(name, 0)) for name in columns}
    return dataclasses.replace(
        graph,
        **grown,
        dep_ptr=_grown(graph.dep_ptr, graph.dep_ptr[-1] + len(ends)),
        dep_idx=np.concatenate([graph.dep_idx, ends.astype(np.int32)]),
        labels=[*graph.labels, Label("", "end of step")],
        loss_index=None if graph.loss_index is None else _grown(graph.loss_index, -1),
        release_ps=None if graph.release_ps is None else _grown(graph.release_ps, 0),
        delay_ps=None if graph.delay_ps is None else _grown(graph.delay_ps, 0),
        need=None if graph.need is None else _grown(graph.need, len(ends)),
        dep_at=None if graph.dep_at is None else np.concatenate([graph.dep_at, np.ones(len(ends), np.uint8)]),
    )


_TILED = (
    "kind",
    "rank",
    "peer",
    "duration_ps",
    "size_bytes",
    "count",
    "collective",
    "stream",
    "label",
    "loss_index",
    "delay_ps",
)


def _grown(column: NDArray[T], value: int) -> NDArray[T]:
    return np.concatenate([column, np.array([value], column.dtype)])


def _waits(graph: TaskGraph) -> Waits:
    """What waits for the step before, and for which of its tasks."""
    last = _last_computations(graph)
    free = np.diff(graph.dep_ptr) == 0
    queued = (graph.stream == Stream.COMPUTE) & (last[-1] < 0)
    begin = np.flatnonzero(free & ~queued)
    shared = graph.kind[begin] == Kind.COLLECTIVE
    single, group = begin[~shared], begin[shared]
    ptr, members = graph.communicators.ptr, graph.communicators.ranks
    size = np.diff(ptr)[graph.rank[group]]
    task = np.concatenate([single, np.repeat(group, size)])
    inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    member = members[np.repeat(ptr[graph.rank[group]], size) + inside]
    before = last[np.concatenate([graph.rank[single], member])]
    known = before >= 0
    return task[known], before[known]


def _last_computations(graph: TaskGraph) -> NDArray[np.int64]:
    """int64[ranks + 1], the last task of each rank's compute stream; in a closed graph its end, last too; else -1."""
    last = np.full(graph.ranks + 1, -1, np.int64)
    if len(graph) and graph.labels[graph.label[-1]].op == "end of step":
        return np.full(graph.ranks + 1, len(graph) - 1, np.int64)
    computes = np.flatnonzero((graph.stream == Stream.COMPUTE) & (graph.kind == Kind.COMPUTE))
    np.maximum.at(last, graph.rank[computes], computes)
    return last


def _dependencies(
    graph: TaskGraph, waits: Waits, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8] | None]:
    """The dependencies of all steps: pointers, tasks, and at which end of a transfer, where that is known."""
    n = len(graph)
    after = np.repeat(np.arange(n), np.diff(graph.dep_ptr))
    order = np.argsort(np.concatenate([after, waits[0]]), kind="stable")
    step = np.repeat([0, -n], [len(after), len(waits[0])])[order]
    later = np.concatenate([graph.dep_idx.astype(np.int64), waits[1]])[order] + step
    counts = np.diff(graph.dep_ptr)
    more = counts + np.bincount(waits[0], minlength=n)
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([counts, *[more] * (steps - 1)]))]).astype(np.int64)
    idx = np.concatenate([graph.dep_idx, *(later + s * n for s in range(1, steps))]).astype(np.int32)
    if graph.dep_at is None:
        return ptr, idx, None
    at = np.concatenate([graph.dep_at, np.ones(len(waits[0]), np.uint8)])[order]
    return ptr, idx, np.concatenate([graph.dep_at, *[at] * (steps - 1)])
