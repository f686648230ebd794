"""The jobs of a run as columns: what every reader of a trace gives and the loop plays."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.operate.event import ANYWHERE, Ask
from railyard.work.operate.tree import UNNAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ZERO = ("tenant", "priority", "work", "ask", "replica", "load_ppm", "line")
"""Columns whose plainest value is 0."""
OPAQUE = 0
"""The class of work of jobs of which only the time is known."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs, n rows in the order of submission; times in microseconds from the start of the run.

    Attributes:
        name: Of each job, in the words of the trace.
        submit_us: int64[n], not falling.
        work_us: int64[n], how long it runs on all its nodes with nobody in its way and nothing failing; 0 or more.
        limit_us: int64[n], what its user promised it would take at most; a job that runs
            longer is ended. -1: none.
        nodes: int32[n], nodes wanted.
        each: int32[n], accelerators of each of them.
        least_nodes: int32[n], with how many it makes do (elastic); equal to `nodes` where it is not elastic.
        tenant: int32[n], index into `tenants`.
        priority: int32[n], larger goes first; what may preempt what (quality of service).
        work: int32[n], its class of work, a row of `classes`.
        after_ptr: int64[n + 1], CSR of the jobs that have to end before it can start.
        after: int32[], rows.
        ask: int32[n], what it asks of its place, a row of `asks`.
        replica: int32[n], nodes of each of its replicas, of a serving job; 0: it is none.
        load_ppm: int32[n], what is asked of a serving job, in millionths of what all its replicas can serve.
        line: int32[n], where it stands in its file; 0: in none.
        tenants: Names.
        classes: Names of classes of work; the first is "opaque".
        asks: What jobs ask of their places; the first asks for nothing.
        file: The file, for messages.
    """

    name: tuple[str, ...]
    submit_us: NDArray[np.int64]
    work_us: NDArray[np.int64]
    limit_us: NDArray[np.int64]
    nodes: NDArray[np.int32]
    each: NDArray[np.int32]
    least_nodes: NDArray[np.int32]
    tenant: NDArray[np.int32]
    priority: NDArray[np.int32]
    work: NDArray[np.int32]
    after_ptr: NDArray[np.int64]
    after: NDArray[np.int32]
    ask: NDArray[np.int32]
    replica: NDArray[np.int32]
    load_ppm: NDArray[np.int32]
    line: NDArray[np.int32]
    tenants: tuple[str, ...] = (UNNAMED,)
    classes: tuple[str, ...] = ("opaque",)
    asks: tuple[Ask, ...] = (ANYWHERE,)
    file: str = field(default="", compare=False)

    def __len__(self) -> int:
        return len(self.name)

    @property
    def accelerators(self) -> NDArray[np.int64]:
        """int64[n], accelerators of each job."""
        return self.nodes.astype(np.int64) * self.each

    @staticmethod
    def of(
        submit_us: NDArray[np.int64], work_us: NDArray[np.int64], nodes: NDArray[np.int32], **columns: Any
    ) -> JobTable:
        """A table in the order of submission; columns that are left out have the plainest values.

        Args:
            submit_us: int64[n].
            work_us: int64[n].
            nodes: int32[n].
            **columns: Any other attribute; `after` as a list of rows for each job.
        """
        count = len(submit_us)
        after: Sequence[Sequence[int]] = columns.pop("after", None) or [()] * count
        ptr = np.concatenate([[0], np.cumsum([len(rows) for rows in after], dtype=np.int64)]).astype(np.int64)
        plain: dict[str, Any] = {
            "name": tuple(str(number) for number in range(count)),
            "limit_us": np.full(count, -1, np.int64),
            "each": np.ones(count, np.int32),
            "least_nodes": np.asarray(nodes, np.int32),
            **{
                key: np.zeros(count, np.int32)
                for key in ("tenant", "priority", "work", "ask", "replica", "load_ppm", "line")
            },
        }
        table = JobTable(
            submit_us=np.asarray(submit_us, np.int64),
            work_us=np.asarray(work_us, np.int64),
            nodes=np.asarray(nodes, np.int32),
            after_ptr=ptr,
            after=np.array([row for rows in after for row in rows], np.int32),
            **{**plain, **columns},
        )
        return table.sorted()

    def sorted(self) -> JobTable:
        """The same in the order of submission; those of one moment keep their order."""
        order = np.argsort(self.submit_us, kind="stable")
        return self if np.array_equal(order, np.arange(len(self))) else self.take(order)

    def take(self, rows: NDArray[np.int64]) -> JobTable:
        """Some rows in some order; dependencies on rows that are left behind count as met."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        after = [
            [int(place[one]) for one in self.after[self.after_ptr[row] : self.after_ptr[row + 1]] if place[one] >= 0]
            for row in rows.tolist()
        ]
        plain = {
            item.name: getattr(self, item.name)[rows]
            for item in fields(self)
            if isinstance(getattr(self, item.name), np.ndarray) and not item.name.startswith("after")
        }
        return replace(
            self,
            **plain,
            name=tuple(self.name[row] for row in rows.tolist()),
            after_ptr=np.concatenate([[0], np.cumsum([len(one) for one in after])]).astype(np.int64),
            after=np.array([one for each in after for one in each], np.int32),
        )

    def refuse(self, row: int, message: str, **details: Any) -> InputError:
        """An error about one job, with its place in the file."""
        return InputError(
            f"job `{self.name[row]}`: {message}",
            file=self.file or None,
            line=int(self.line[row]) or None,
            **details,
        )


def check_dependencies(jobs: JobTable) -> None:
    """Refuses circles.

    Raises:
        InputError: Names the jobs of the circle.
    """
    count = len(jobs)
    if not len(jobs.after):
        return
    waits = np.diff(jobs.after_ptr).copy()
    order = np.argsort(jobs.after, kind="stable")
    owner = np.repeat(np.arange(count), waits)[order]
    start = np.searchsorted(jobs.after[order], np.arange(count + 1))
    ready = np.flatnonzero(waits == 0).tolist()
    met = len(ready)
    while ready:
        row = ready.pop()
        for later in owner[start[row] : start[row + 1]].tolist():
            waits[later] -= 1
            if waits[later] == 0:
                ready.append(later)
                met += 1
    if met < count:
        raise _circle(jobs, waits)


def _circle(jobs: JobTable, waits: NDArray[np.int64]) -> InputError:
    row = int(np.flatnonzero(waits)[0])
    seen: list[int] = []
    while row not in seen:
        seen.append(row)
        before = jobs.after[jobs.after_ptr[row] : jobs.after_ptr[row + 1]]
        row = int(before[waits[before] > 0][0])
    circle = [*seen[seen.index(row) :], row]
    words = " waits for ".join(f"`{jobs.name[one]}`" for one in circle[:6])
    return jobs.refuse(row, f"its dependencies go in a circle: {words}{' ...' if len(circle) > 6 else ''}")
