"""GraphCopies of one part of a job that all do the same, for instance the replicas of data parallelism."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from railyard.graph.record import Record
from railyard.graph.task_graph import TaskGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class GraphCopies:
    """A task graph whose ranks are several copies of one part; what they do together each of them meets alike.

    Tasks of the whole graph come in slots: those of the copies, copy after copy, or those that all copies share.

    Attributes:
        count: Number of copies.
        width: Ranks of a copy that follow one another in the job, before the same ranks of the next copy.
        graph: The tasks of the first copy and the shared ones, on as many ranks as a copy has.
        widths: int64[slots], tasks of each slot in the whole graph.
        own: int64[slots], the same in `graph`.
        shared: bool[slots], slots of shared tasks.
        requests: The different communications of all copies, by the ranks of the job.
        request_ptr: int64[k+1]; request `request_ptr[k]` is the k-th different communication of `graph`, those behind
            it are the same of the other copies, none if it is shared.
        request: int32[tasks of `graph`], the different communication that each is; -1 for computations.
    """

    count: int
    width: int
    graph: TaskGraph
    widths: NDArray[np.int64]
    own: NDArray[np.int64]
    shared: NDArray[np.bool_]
    requests: TaskGraph
    request_ptr: NDArray[np.int64]
    request: NDArray[np.int32]

    def over_ranks(self, values: NDArray[_T]) -> NDArray[_T]:
        """Values of the ranks of the first copy for all ranks of the job, along the first axis."""
        blocks = values.reshape(-1, 1, self.width, *values.shape[1:])
        return np.repeat(blocks, self.count, axis=1).reshape(-1, *values.shape[1:])

    @property
    def times(self) -> NDArray[np.int64]:
        """int64[n], how many tasks of the whole graph each task of `graph` stands for."""
        return np.repeat(np.where(self.shared, 1, self.count), self.own)

    @property
    def first(self) -> NDArray[np.int64]:
        """int64[n], the task of the whole graph that each task of `graph` is."""
        return np.repeat(np.cumsum(self.widths - self.own) - self.widths + self.own, self.own) + np.arange(
            self.own.sum()
        )

    def over_tasks(self, values: NDArray[_T]) -> NDArray[_T]:
        """Values of the tasks of `graph` for all tasks of the whole graph."""
        return values[self._places[1]]

    def among_copies(self, task: NDArray[np.int32]) -> NDArray[np.int32]:
        """Tasks of `graph` that tasks of `graph` refer to, for all tasks of the whole graph, as tasks of that.

        A task of a copy refers to the same copy, a shared one to the last.

        Args:
            task: int32[n], by task of `graph`; -1: none.
        """
        known, next_copy = task >= 0, np.where(self.times > 1, np.repeat(self.own, self.own), 0)
        found = self.over_tasks(np.where(known, self.first[task], -1).astype(np.int32))
        found += self.over_tasks(np.where(known, next_copy[task], 0).astype(np.int32)) * self._places[0]
        return found

    @cached_property
    def _places(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """For each task of the whole graph, its copy (the last if it is shared) and its task of `graph`."""
        own, before = self.own.astype(np.int32), np.cumsum(self.own) - self.own
        at = np.arange(self.widths.sum(), dtype=np.int32)
        at -= np.repeat((np.cumsum(self.widths) - self.widths).astype(np.int32), self.widths)
        copy, task = np.divmod(at, np.repeat(own, self.widths))
        copy[np.repeat(self.shared, self.widths)] = self.count - 1
        task += np.repeat(before.astype(np.int32), self.widths)
        return copy, task


@dataclass(frozen=True)
class SymmetricGraph(TaskGraph):
    """A whole graph that knows its copies.

    Attributes:
        symmetry: Groups of ranks that are copies of one another.
        whole: The graph that they are of.
    """

    symmetry: GraphCopies = field(kw_only=True, repr=False, compare=False)
    whole: TaskGraph = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def joined(cls, whole: TaskGraph, symmetry: GraphCopies) -> SymmetricGraph:
        """A graph with its copies."""
        columns = {column.name: getattr(whole, column.name) for column in fields(whole)}
        return cls(**columns, symmetry=symmetry, whole=whole)


def copies_of(graph: TaskGraph) -> GraphCopies | None:
    """The copies that a graph consists of; None once a column was replaced, the table of losses excepted."""
    if not isinstance(graph, SymmetricGraph):
        return None
    columns = [column.name for column in fields(TaskGraph) if column.name not in ("ranks", "loss")]
    same = all(getattr(graph, name) is getattr(graph.whole, name) for name in columns)
    return graph.symmetry if same else None


@dataclass(frozen=True, eq=False)
class CopiesRecord(Record):
    """The record of a symmetric graph; what has one row per task or link is made when it is first read.

    Attributes:
        first: The record of the first copy and of shared work, without side tables.
        whole: The record that it is of.
    """

    first: Record = field(kw_only=True, repr=False)
    whole: Record = field(kw_only=True, repr=False)

    @classmethod
    def known(cls, work: TaskGraph, first: Record, expand: Callable[[], Record]) -> CopiesRecord:
        """A record of `work` of which that of the first copy is known; `expand` makes the whole one."""
        record = object.__new__(cls)
        vars(record).update(
            rows=first.rows, labels=work.labels, parts={}, work=work, jobs=(), first=first, expand=expand
        )
        return record

    def __getattr__(self, name: str) -> Any:
        """A column that has not been read before."""
        if name not in self.__dataclass_fields__ or "expand" not in vars(self):
            raise AttributeError(name)
        whole = vars(self).pop("expand")()
        vars(self).update({column.name: getattr(whole, column.name) for column in fields(whole)}, whole=whole)
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        """All columns: a copy in another process has nothing to make them from."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def makespan_ps(self) -> int:
        """Time from zero to the end of the last row."""
        return self.first.makespan_ps if "expand" in vars(self) else super().makespan_ps


def first_of(record: Record) -> tuple[Record, GraphCopies] | None:
    """The record of the first of several copies, and these; None once what happened was replaced."""
    if not isinstance(record, CopiesRecord):
        return None
    columns = ("who", "what", "start_ps", "end_ps", "labels", "optional", "work")
    same = "expand" in vars(record) or all(getattr(record, name) is getattr(record.whole, name) for name in columns)
    copies = copies_of(record.graph) if same else None
    return None if copies is None else (record.first, copies)
