"""A step again and again: one task graph of several steps, a rank starting the next when it has computed the last."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from railyard.graph.job import Job
from railyard.graph.record import Record, fingerprint
from railyard.graph.task_graph import AT_RECEIVER, Communicators, Kind, Label, Stream, TaskGraph
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.graph.record import Table

    Waits = tuple[NDArray[np.int64], NDArray[np.int64]]
    """A task, and a task of the step before that it waits for; one pair an entry."""


T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class MergedJobs:
    """The graph of several jobs.

    Attributes:
        jobs: What they are of.
        task_ptr: int64[jobs + 1]; the tasks of job k are `task_ptr[k]` to `task_ptr[k + 1]`.
        ranks: int32[ranks of a job] a job: the rank in `graph` of each of its ranks.
    """

    graph: TaskGraph
    jobs: tuple[Job, ...]
    task_ptr: NDArray[np.int64]
    ranks: tuple[NDArray[np.int32], ...]

    @staticmethod
    def of(graph: TaskGraph) -> MergedJobs:
        """A graph as that of a single job."""
        return merge([Job(graph)], [np.arange(graph.ranks, dtype=np.int32)])

    @property
    def alone(self) -> bool:
        """Whether there is one job, whose graph it is."""
        return len(self.jobs) == 1

    @property
    def job(self) -> NDArray[np.int32]:
        """int32[n], the job of each task."""
        return np.repeat(np.arange(len(self.jobs), dtype=np.int32), np.diff(self.task_ptr))

    @property
    def every_rank(self) -> NDArray[np.int32]:
        """The rank in the graph of every rank of every job, job after job."""
        return np.concatenate(self.ranks)

    def record(
        self,
        start_ps: NDArray[np.int64],
        end_ps: NDArray[np.int64],
        *,
        optional: Mapping[str, NDArray[np.integer]],
        tables: Mapping[str, Table],
        meta: Mapping[str, object],
        parts: Mapping[str, Record] | None = None,
    ) -> Record:
        """What an engine found, with its fingerprint; see `Record.of_tasks`.

        Args:
            start_ps: int64[n].
            end_ps: int64[n].
            optional: Optional columns, `blocker` among them.
            tables: Side tables, `links` with `bytes` among them.
            meta: What the engine says of the run.
            parts: Other records of the run.
        """
        digest = fingerprint(start_ps, end_ps, optional["blocker"], tables["links"]["bytes"])
        return Record.of_tasks(
            self.graph,
            start_ps,
            end_ps,
            optional={**optional, **({} if self.alone else {"job": self.job})},
            tables=tables,
            parts=parts,
            meta={**meta, "digest": digest},
            jobs=() if self.graph is self.jobs[0].work else self.jobs,
        )


def merge(jobs: Sequence[Job], ranks: Sequence[NDArray[np.int32]]) -> MergedJobs:
    """One graph of all jobs; a single job whose ranks keep their numbers is its own graph.

    Args:
        jobs: At least one.
        ranks: int32[ranks of a job] a job: the rank in the merged graph of each of its ranks.
    """
    sizes = [len(job.work) for job in jobs]
    parts = [_moved(job, to) for job, to in zip(jobs, ranks, strict=True)]
    graph = parts[0] if len(parts) == 1 else _joined(parts)
    return MergedJobs(graph, tuple(jobs), np.cumsum([0, *sizes], dtype=np.int64), tuple(ranks))


def _moved(job: Job, to: NDArray[np.int32]) -> TaskGraph:
    """The graph of a job with its ranks renumbered, from its start on."""
    graph = job.work
    if not np.array_equal(to, np.arange(len(to))):
        graph = _renumbered(graph, to)
    if job.start_ps == 0:
        return graph
    release = 0 if graph.release_ps is None else graph.release_ps
    return dataclasses.replace(graph, release_ps=np.zeros(len(graph), np.int64) + job.start_ps + release)


def _renumbered(graph: TaskGraph, to: NDArray[np.int32]) -> TaskGraph:
    shared = graph.kind == Kind.COLLECTIVE
    groups = graph.communicators
    return dataclasses.replace(
        graph,
        ranks=int(to.max(initial=-1)) + 1,
        rank=np.where(shared, graph.rank, to[np.where(shared, 0, graph.rank)]),
        peer=np.where(graph.peer >= 0, to[np.maximum(graph.peer, 0)], graph.peer),
        communicators=Communicators(groups.ptr, to[groups.ranks], groups.group),
    )


def _joined(graphs: Sequence[TaskGraph]) -> TaskGraph:
    """Graphs behind one another: everything that a column points at is moved by what stands before it."""
    first = _firsts([len(graph) for graph in graphs])
    groups = _firsts([len(graph.communicators) for graph in graphs])
    labels = _firsts([len(graph.labels) for graph in graphs])
    shared = [graph.kind == Kind.COLLECTIVE for graph in graphs]
    loss_index, loss = _contention(graphs)
    return TaskGraph(
        ranks=max(graph.ranks for graph in graphs),
        kind=_column(graphs, "kind"),
        rank=np.concatenate(
            [graph.rank + np.int32(at) * is_shared for graph, at, is_shared in zip(graphs, groups, shared, strict=True)]
        ),
        peer=_column(graphs, "peer"),
        duration_ps=_column(graphs, "duration_ps"),
        size_bytes=_column(graphs, "size_bytes"),
        count=_column(graphs, "count"),
        collective=_column(graphs, "collective"),
        stream=_column(graphs, "stream"),
        label=_shifted([graph.label for graph in graphs], labels),
        dep_ptr=_pointers([graph.dep_ptr for graph in graphs]),
        dep_idx=_shifted([graph.dep_idx for graph in graphs], first),
        labels=[label for graph in graphs for label in graph.labels],
        communicators=_communicators([graph.communicators for graph in graphs]),
        release_ps=_optional(graphs, "release_ps", lambda graph: np.zeros(len(graph), np.int64)),
        delay_ps=_optional(graphs, "delay_ps", lambda graph: np.zeros(len(graph), np.int64)),
        need=_optional(graphs, "need", lambda graph: np.diff(graph.dep_ptr).astype(np.int32)),
        dep_at=_optional(graphs, "dep_at", lambda graph: np.full(len(graph.dep_idx), AT_RECEIVER, np.uint8)),
        loss_index=loss_index,
        loss=loss,
    )


def _column(graphs: Sequence[TaskGraph], name: str) -> NDArray[T]:
    return np.concatenate([getattr(graph, name) for graph in graphs])


def _firsts(sizes: Sequence[int]) -> list[int]:
    return list(accumulate([0, *sizes[:-1]]))


def _shifted(columns: Sequence[NDArray[np.int32]], first: Sequence[int]) -> NDArray[np.int32]:
    return np.concatenate([column + np.int32(at) for column, at in zip(columns, first, strict=True)])


def _pointers(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    counts = np.concatenate([np.diff(column) for column in columns])
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _communicators(groups: Sequence[Communicators]) -> Communicators:
    return Communicators(
        _pointers([group.ptr for group in groups]),
        np.concatenate([group.ranks for group in groups]),
        [name for group in groups for name in group.group],
    )


def _optional(graphs: Sequence[TaskGraph], name: str, usual: Callable[[TaskGraph], NDArray[T]]) -> NDArray[T] | None:
    """A column that some graphs may lack; `usual` is what it would say there."""
    columns: list[NDArray[T] | None] = [getattr(graph, name) for graph in graphs]
    if all(column is None for column in columns):
        return None
    return np.concatenate(
        [usual(graph) if column is None else column for graph, column in zip(graphs, columns, strict=True)]
    )


def _contention(graphs: Sequence[TaskGraph]) -> tuple[NDArray[np.int32] | None, NDArray[np.float64] | None]:
    """Which job slows which: tables of losses on a block diagonal, because communications slow only their own job."""
    if all(graph.loss_index is None for graph in graphs):
        return None, None
    losses = [np.zeros((0, 0)) if graph.loss is None else graph.loss for graph in graphs]
    rows, columns = (_firsts([loss.shape[axis] for loss in losses]) for axis in (0, 1))
    joined = np.zeros(np.sum([loss.shape for loss in losses], axis=0))
    shifted = []
    for graph, loss, row, column in zip(graphs, losses, rows, columns, strict=True):
        joined[row : row + loss.shape[0], column : column + loss.shape[1]] = loss
        index = np.full(len(graph), -1, np.int32) if graph.loss_index is None else graph.loss_index
        shift = np.where(graph.kind == Kind.COMPUTE, np.int32(row), np.int32(column))
        shifted.append(np.where(index < 0, index, index + shift).astype(np.int32))
    return np.concatenate(shifted), joined


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
    """Tasks that wait for the step before, and the tasks that they wait for."""
    last = _last_computations(graph)
    free = np.diff(graph.dep_ptr) == 0
    queued = (graph.stream == Stream.COMPUTE) & (last[-1] < 0)
    begin = np.flatnonzero(free & ~queued)
    shared = graph.kind[begin] == Kind.COLLECTIVE
    single, group = begin[~shared], begin[shared]
    ptr, members = graph.communicators.ptr, graph.communicators.ranks
    size = np.diff(ptr)[graph.rank[group]]
    task = np.concatenate([single, np.repeat(group, size)])
    member = members[ranges(ptr[graph.rank[group]], size)]
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
