"""What every stage is to those around it: requests come in at times, go out at times, and these are made of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from railyard.engine.serving.results import STATUS
from railyard.graph import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.graph import RequestTable

    Progress = Callable[[int, int], None]

CAUSES = ("queue", "compute", "collectives", "transfer")
"""Of which every time is made: waiting, computing, collectives that nothing hides, data on its way."""
PS = 1e12


SPENT = tuple(f"{cause}_s" for cause in CAUSES)
"""Columns of a request's time at a stage."""
FIRST = tuple(f"first_{cause}_s" for cause in CAUSES)
"""The same up to the first token of a language model."""
SERVING = "serving"
"""Part of a record of visits: the run of the serving engine, where the stage has one."""


class Stage(Protocol):
    """A stage, ready to run."""

    @property
    def nic_bps(self) -> float:
        """Rate at which one of its requests' data may come and go; infinite where nothing bounds it."""

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """f64[n], what each request carries on from here."""

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Serves requests.

        Args:
            requests: Those that take the stage, with the times at which they come, ascending.
            rows: int64[m], their numbers among all requests.
            seed: Of everything random.
            progress: Called with how many have left, and the simulated time in ps.

        Returns:
            What `visits` makes.
        """


def parts(**seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """f64[m, 4] of columns by cause; causes that are left out are zero."""
    count = len(next(iter(seconds.values())))
    return np.column_stack([seconds.get(cause, np.zeros(count)) for cause in CAUSES])


def columns(names: tuple[str, ...], seconds: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The parts of a time as columns of a record.

    Args:
        names: `SPENT` or `FIRST`.
        seconds: f64[m, 4], by `CAUSES`.
    """
    return {name: np.ascontiguousarray(seconds[:, place]) for place, name in enumerate(names)}


def visits(
    rows: NDArray[np.int64],
    start_ps: NDArray[np.int64],
    end_ps: NDArray[np.int64],
    spent: NDArray[np.float64],
    *,
    refused: NDArray[np.bool_] | None = None,
    overloaded: bool = False,
    optional: Mapping[str, NDArray[Any]] | None = None,
    run: Record | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Record:
    """What became of the requests of one stage; a row a request, in the order in which they came.

    Args:
        rows: int64[m], their numbers among all requests.
        start_ps: int64[m], when they came.
        end_ps: int64[m], when the stage was through with them; -1 where it never was.
        spent: f64[m, 4], seconds from start to end by `CAUSES`.
        refused: bool[m], it can never be served here; None: all can.
        overloaded: The stage's queue grew without bound.
        optional: Further columns.
        run: Of the serving engine; None where the stage has none.
        meta: What else is known of the stage.
    """
    left = np.where(False if refused is None else refused, STATUS.index("dropped"), STATUS.index("unfinished"))
    status = np.where(end_ps >= 0, STATUS.index("done"), left).astype(np.uint8)
    return Record(
        rows="visits",
        who=rows.astype(np.int32),
        what=np.zeros(len(rows), np.int32),
        start_ps=start_ps,
        end_ps=end_ps,
        size_bytes=np.zeros(len(rows), np.int64),
        optional={**columns(SPENT, spent), "status": status, **(optional or {})},
        parts={} if run is None else {SERVING: run},
        meta={"overloaded": overloaded, **(meta or {})},
    )
