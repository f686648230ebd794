"""Requests through all stages: a stage's arrivals are the ends of those it waits for, plus the travel between.

Nothing flows back, so stage after stage is exact: when a stage runs, all its arrivals are known. Each visit names the
stage before it on the path that decides: of the stages that another one waits for, the last one needed.

    begin = end of the q-th predecessor (q: the quorum; all when there is none) + latency + bytes / rate
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving.running import STATUS
from railyard.engine.stage import CAUSES, PS, RequestRule, takers, visits
from railyard.graph import Label, Record
from railyard.graph.record import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.engine.stage import Stage
    from railyard.graph import RequestTable

    Progress = Callable[[str, int], None]

_NEVER = 2**62


@dataclass(frozen=True, eq=False)
class StageStep:
    """A stage and its place among the others.

    Attributes:
        after: Stages that it waits for; none: it begins with the request.
        quorum: It begins when so many of them are through; None: all.
    """

    stage: Stage
    after: tuple[str, ...] = ()
    quorum: int | None = None
    when: RequestRule = field(default_factory=RequestRule)


@dataclass(frozen=True)
class StageTransfer:
    """Transfer from one stage to the next.

    Attributes:
        latency_s: One way.
        rate_bps: Of their connection; None: the slower one's NIC.
    """

    latency_s: float = 0.0
    rate_bps: float | None = None


@dataclass(frozen=True, eq=False)
class _Point:
    """Position of each request after a stage; one row per request.

    Attributes:
        at_ps: i64[n], since when; `_NEVER` where it does not come so far.
        stage: i32[n], number of the stage that it was at last, -1 for none.
        carries: f64[n], bytes that travel on.
        nic_bps: f64[n], rate at which they leave.
    """

    at_ps: NDArray[np.int64]
    stage: NDArray[np.int32]
    carries: NDArray[np.float64]
    nic_bps: NDArray[np.float64]


def through(
    steps: Mapping[str, StageStep],
    requests: RequestTable,
    *,
    between: StageTransfer,
    seed: int,
    progress: Progress | None = None,
) -> Record:
    """Sends requests through all stages.

    Args:
        steps: By name; each after those that it waits for.
        requests: What is asked.
        between: From one stage to the next.
        seed: Of everything random.
        progress: Called with the stage, and how many requests it is through with.

    Returns:
        One row per request, from its arrival to its end, and a part a stage: a row a visit, in the order in which they
        came. `meta` has `outcome`: `overload` when the queue of any stage grew without bound.
    """
    count = len(requests)
    start = _Point(requests.arrival_ps, np.full(count, -1, np.int32), np.zeros(count), np.full(count, np.inf))
    points: dict[str, _Point] = {}
    took: dict[str, NDArray[np.bool_]] = {}
    parts: dict[str, Record] = {}
    for number, (name, step) in enumerate(steps.items()):
        when = step.when
        joined = _joined([points[other] for other in step.after], step.quorum) if step.after else start
        others = took[when.unless] if when.unless else None
        took[name] = takers(when, seed, name, requests.input_tokens, others) & (joined.at_ps < _NEVER)
        travel_ps = _travel_ps(joined, step.stage, between)
        came_ps = np.where(took[name], joined.at_ps + travel_ps, _NEVER)
        part = _visited(name, step.stage, requests, came_ps, seed=seed, progress=progress)
        predecessor = joined.stage[part.who]
        optional = {**part.optional, "predecessor": predecessor, "travel_ps": travel_ps[part.who]}
        parts[name] = replace(part, labels=(Label("", name),), optional=optional)
        points[name] = _behind(part, step.stage, joined, requests, number)
    last = [points[name] for name in steps if not any(name in step.after for step in steps.values())]
    return _journeys(requests, parts, _joined(last, None), seed)


def _joined(points: list[_Point], quorum: int | None) -> _Point:
    """Positions of the requests once so many of the points are reached: all columns of the one that decides."""
    if len(points) == 1:
        return points[0]
    times = np.stack([point.at_ps for point in points])
    order = np.argsort(times, axis=0, kind="stable")
    chosen = order[(quorum or len(points)) - 1]
    row = np.arange(times.shape[1])
    return _Point(
        times[chosen, row],
        np.stack([point.stage for point in points])[chosen, row],
        np.stack([point.carries for point in points])[chosen, row],
        np.stack([point.nic_bps for point in points])[chosen, row],
    )


def _travel_ps(joined: _Point, stage: Stage, between: StageTransfer) -> NDArray[np.int64]:
    """Travel times from the stages before to this one; the user's request is there at once."""
    rate = np.minimum(joined.nic_bps, min(stage.nic_bps, between.rate_bps or np.inf))
    travels = np.isfinite(joined.nic_bps) | (joined.carries > 0)
    seconds = np.where(travels, between.latency_s + 8 * joined.carries / rate, 0.0)
    return np.rint(seconds * PS).astype(np.int64)


def _visited(
    name: str,
    stage: Stage,
    requests: RequestTable,
    came_ps: NDArray[np.int64],
    *,
    seed: int,
    progress: Progress | None,
) -> Record:
    rows = np.argsort(came_ps, kind="stable")[: int((came_ps < _NEVER).sum())]
    if len(rows) == 0:
        return visits(rows, came_ps[rows], came_ps[rows], np.zeros((0, len(CAUSES))))
    asked = requests.take(rows, came_ps[rows])
    count = None if progress is None else lambda done, _now: progress(name, done)
    return stage.run(asked, rows, seed, count)


def _behind(part: Record, stage: Stage, joined: _Point, requests: RequestTable, number: int) -> _Point:
    """Positions of the requests after a stage: those that skip it keep theirs."""
    rows = part.who
    if len(rows) == 0:
        return joined
    at, last = joined.at_ps.copy(), joined.stage.copy()
    at[rows] = np.where(part.ended, part.end_ps, _NEVER)
    last[rows] = number
    carries, nic = joined.carries.copy(), joined.nic_bps.copy()
    carries[rows] = stage.sends_bytes(requests)[rows]
    nic[rows] = stage.nic_bps
    return _Point(at, last, carries, nic)


def _journeys(requests: RequestTable, parts: dict[str, Record], end: _Point, seed: int) -> Record:
    done, count = end.at_ps < _NEVER, len(requests)
    status = np.full(count, STATUS.index("unfinished"), np.uint8)
    for part in parts.values():
        status[part.who[part.column("status") == STATUS.index("dropped")]] = STATUS.index("dropped")
    status[done] = STATUS.index("done")
    columns = [column for part in parts.values() for column in (part.who.astype(np.int64), part.end_ps)]
    over = any(part.meta["overloaded"] for part in parts.values())
    return Record(
        rows="journeys",
        who=np.where(done, end.stage, -1).astype(np.int32),
        what=np.zeros(count, np.int32),
        start_ps=requests.arrival_ps,
        end_ps=np.where(done, end.at_ps, -1),
        size_bytes=np.zeros(count, np.int64),
        labels=(Label("", "request"),),
        optional={"status": status},
        parts=parts,
        meta={
            "engine": "stages",
            "seed": seed,
            "digest": fingerprint(*columns)[:16],
            "outcome": "overload" if over else "finished",
        },
        work=requests,
    )
