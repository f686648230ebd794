"""GraphCopies of one part of a job that all do the same, for instance the replicas of data parallelism."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.task_graph import TaskGraph
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class GraphCopies:
    """A task graph whose ranks are several copies of one part; what they do together each of them meets alike.

    Tasks of the whole graph come in slots: those of the copies, copy after copy, or those that all copies share.

    Attributes:
        count: Number of copies.
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
    graph: TaskGraph
    widths: NDArray[np.int64]
    own: NDArray[np.int64]
    shared: NDArray[np.bool_]
    requests: TaskGraph
    request_ptr: NDArray[np.int64]
    request: NDArray[np.int32]

    @property
    def tasks(self) -> NDArray[np.int32]:
        """int32[n], the task of `graph` that each task of the whole graph is or is a copy of."""
        own = np.repeat(self.own.astype(np.int32), self.widths)
        place = ranges(0, self.widths).astype(np.int32)
        place %= own
        place += np.repeat((np.cumsum(self.own) - self.own).astype(np.int32), self.widths)
        return place

    def among_copies(self, task: NDArray[np.int32]) -> NDArray[np.int32]:
        """Tasks of `graph` that tasks of the whole graph refer to, as tasks of the whole graph.

        A task of a copy refers to the same copy, a shared one to the last.

        Args:
            task: int32[n], by task of the whole graph; -1: none.
        """
        slot_of = np.repeat(np.arange(len(self.own)), self.own)
        first, own_first = np.cumsum(self.widths) - self.widths, np.cumsum(self.own) - self.own
        base = (first[slot_of] + np.arange(len(slot_of)) - own_first[slot_of]).astype(np.int32)
        step = np.where(self.shared, 0, self.own)[slot_of].astype(np.int32)
        copy = ranges(0, self.widths).astype(np.int32)
        copy //= np.repeat(self.own.astype(np.int32), self.widths)
        copy[np.repeat(self.shared, self.widths)] = self.count - 1
        return np.where(task >= 0, base[task] + step[task] * copy, -1).astype(np.int32)


@dataclass(frozen=True)
class SymmetricGraph(TaskGraph):
    """A whole graph that knows its copies.

    Attributes:
        symmetry: Which ranks are copies of which.
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
