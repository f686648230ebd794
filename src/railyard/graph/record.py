"""The second waist: what happened, simulated by any engine or measured: one row a task, request or flow.

Who, what, when and how many bytes are always there. All else is optional: columns and side tables, each declared once
in `columns.py`. A measure requires what it needs and so says what a record lacks.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.columns import COLUMNS, CORE, ROWS, TABLES
from railyard.graph.request_table import RequestTable
from railyard.graph.task_graph import Kind, TaskGraph
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.graph.job import Job
    from railyard.graph.task_graph import Communicators, Label

    Table = Mapping[str, NDArray[Any]]


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
    return position, communicators.ranks[ranges(communicators.ptr[chosen], sizes)]


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


@dataclass(frozen=True, eq=False)
class Record:
    """Events of a run or of a measurement, n rows.

    Attributes:
        rows: What a row is, a name of `columns.ROWS`: it says what `who` means.
        who: int32[n].
        what: int32[n], index into `labels`.
        start_ps: int64[n]; of a collective, when its last member had reached it; -1 where it never started.
        end_ps: int64[n]; -1 where it never ended.
        size_bytes: int64[n].
        labels: The label table.
        optional: Columns of `columns.COLUMNS`, by name; n rows each.
        tables: Side tables of `columns.TABLES`, by name, each a column by name.
        parts: Records of its parts, by name: the flows of a step, the visits of a stage.
        meta: Engine, seed, digest, what the engine leaves out; JSON values only. No `engine`: a measured cluster.
        work: What ran, where that is known.
        jobs: What ran together, where there are several or one that was placed; rows are those of job after job.
    """

    rows: str
    who: NDArray[np.int32]
    what: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    labels: Sequence[Label] = ()
    optional: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    parts: Mapping[str, Record] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    work: TaskGraph | RequestTable | None = None
    jobs: tuple[Job, ...] = ()

    def __post_init__(self) -> None:
        ROWS.get(self.rows)
        for name, column in CORE.items():
            column.checked(getattr(self, name), len(self), "a record")
        for name, values in self.optional.items():
            COLUMNS.get(name).checked(values, len(self), "a record")
        for name, table in self.tables.items():
            _check_table(name, table)

    def __len__(self) -> int:
        return len(self.who)

    @staticmethod
    def of_tasks(
        graph: TaskGraph,
        start_ps: NDArray[np.int64],
        end_ps: NDArray[np.int64],
        *,
        optional: Mapping[str, NDArray[Any]] | None = None,
        tables: Mapping[str, Table] | None = None,
        parts: Mapping[str, Record] | None = None,
        meta: dict[str, object] | None = None,
        jobs: tuple[Job, ...] = (),
    ) -> Record:
        """Record of the times of a graph's tasks, one row per task.

        Args:
            graph: The tasks.
            start_ps: int64[n].
            end_ps: int64[n].
            optional: See `Record`.
            tables: See `Record`.
            parts: See `Record`.
            meta: See `Record`.
            jobs: See `Record`.
        """
        return Record(
            rows="tasks",
            who=np.asarray(graph.rank, np.int32),
            what=np.asarray(graph.label, np.int32),
            start_ps=start_ps,
            end_ps=end_ps,
            size_bytes=np.asarray(graph.size_bytes, np.int64),
            labels=graph.labels,
            optional=optional or {},
            tables=tables or {},
            parts=parts or {},
            meta={} if meta is None else meta,
            work=graph,
            jobs=jobs,
        )

    def of(self, job: int) -> Record:
        """The rows of one of several jobs, with its own tasks, ranks and labels; what is shared stays behind.

        Args:
            job: Its number.

        Raises:
            InputError: There is no such job.
        """
        if not self.jobs and job == 0:
            return self
        if not 0 <= job < len(self.jobs):
            raise InputError("there is no such job", found=job, allowed=f"0 to {len(self.jobs) - 1}")
        first = sum(len(before.work) for before in self.jobs[:job])
        rows = slice(first, first + len(self.jobs[job].work))
        optional = {name: values[rows] for name, values in self.optional.items() if name != "job"}
        if "blocker" in optional:
            optional["blocker"] = _inside(optional["blocker"], rows)
        return Record.of_tasks(
            self.jobs[job].work,
            self.start_ps[rows],
            self.end_ps[rows],
            optional=optional,
            meta={**self.meta, "job": self.jobs[job].name},
        )

    @property
    def graph(self) -> TaskGraph:
        """The tasks that ran.

        Raises:
            InputError: The record is not that of a task graph.
        """
        if not isinstance(self.work, TaskGraph):
            raise InputError(f"the record ({self.origin}) has no task graph", found=f"rows: {self.rows}")
        return self.work

    @property
    def requests(self) -> RequestTable:
        """The requests of the run.

        Raises:
            InputError: The record is not that of a request table.
        """
        if not isinstance(self.work, RequestTable):
            raise InputError(f"the record ({self.origin}) has no request table", found=f"rows: {self.rows}")
        return self.work

    @property
    def origin(self) -> str:
        """Origin of the record, in words."""
        engine = self.meta.get("engine")
        return "of a measured cluster" if engine is None else f"of the engine `{engine}`"

    @property
    def makespan_ps(self) -> int:
        """Time from zero to the end of the last row."""
        return int(self.end_ps.max()) if self.end_ps.size else 0

    @property
    def duration_ps(self) -> NDArray[np.int64]:
        """int64[n], from start to end; -1 where a row has not ended. Of a flow, its completion time."""
        return np.where(self.ended, self.end_ps - self.start_ps, -1)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """bool[n], rows that ended."""
        return np.asarray(self.end_ps >= 0)

    def digest(self) -> str:
        """Fingerprint that the engine took: equal digests mean equal runs, bit by bit; empty for a measured cluster."""
        return str(self.meta.get("digest", ""))

    def has(self, name: str) -> bool:
        """Whether an optional column is there."""
        return name in self.optional

    def column(self, name: str) -> NDArray[Any]:
        """A column by name.

        Raises:
            InputError: The record does not have it; names those that it has.
        """
        if name in CORE:
            return np.asarray(getattr(self, name))
        if name not in self.optional:
            COLUMNS.get(name)
            raise InputError(f"this record ({self.origin}) has no column `{name}`", allowed=[*CORE, *self.optional])
        return self.optional[name]

    def table(self, name: str) -> Table:
        """A side table by name.

        Raises:
            InputError: The record does not have it; names those that it has.
        """
        if name not in self.tables:
            TABLES.get(name)
            raise InputError(f"this record ({self.origin}) has no table `{name}`", allowed=list(self.tables))
        return self.tables[name]

    def take(self, rows: NDArray[np.integer[Any]]) -> Record:
        """Some rows. The task graph, and blockers, which are numbers of rows, stay behind."""
        core = {name: self.column(name)[rows] for name in CORE}
        kept = {name: values[rows] for name, values in self.optional.items() if name != "blocker"}
        return replace(self, **core, optional=kept, work=None)

    def require(self, measure: str, *columns: str, tables: Sequence[str] = (), graph: bool = False) -> None:
        """Makes sure that a measure finds what it needs.

        Args:
            measure: In words.
            columns: Optional columns that it reads.
            tables: Side tables that it reads.
            graph: Whether it reads the task graph.

        Raises:
            InputError: Names everything that is missing, and what is there.
        """
        missing = [f"column {name}" for name in columns if name not in self.optional]
        missing += [f"table {name}" for name in tables if name not in self.tables]
        missing += ["task graph"] if graph and not isinstance(self.work, TaskGraph) else []
        if missing:
            raise InputError(
                f"{measure} needs what this record ({self.origin}) does not have: {', '.join(missing)}",
                found=", ".join(self._contents()),
            )

    def _contents(self) -> Iterator[str]:
        yield from (f"column {name}" for name in (*CORE, *self.optional))
        yield from (f"table {name}" for name in self.tables)
        if self.work is not None:
            yield "task graph" if isinstance(self.work, TaskGraph) else "request table"


def fingerprint(*columns: NDArray[Any]) -> str:
    """SHA-256 over columns: equal digests mean equal runs, bit by bit."""
    text = hashlib.sha256()
    for column in columns:
        text.update(np.ascontiguousarray(column).data)
    return text.hexdigest()


def _inside(blocker: NDArray[np.int32], rows: slice) -> NDArray[np.int32]:
    """Row numbers counted from the first of some rows; -1 where they lie outside."""
    inside = (blocker >= rows.start) & (blocker < rows.stop)
    return np.where(inside, blocker - rows.start, -1).astype(np.int32)


def _check_table(name: str, table: Table) -> None:
    kind = TABLES.get(name)
    length = len(next(iter(table.values()), ()))
    for key, values in table.items():
        if key not in kind.columns:
            raise InputError(f"no such column of the table `{name}`", found=key, allowed=list(kind.columns))
        kind.columns[key].checked(values, length, f"table `{name}`")
