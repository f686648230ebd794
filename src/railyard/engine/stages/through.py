"""Requests through all stages: a stage's arrivals are the ends of those it waits for, plus the travel between.

Nothing flows back, so stage after stage is exact: when a stage runs, all its arrivals are known. Along the way each
request adds up what its time is made of, on the path that decides: of the stages that another one waits for, the last
one needed.

    begin = end of the q-th predecessor (q: the quorum; all when there is none) + latency + bytes / rate
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from railyard.engine.stages.draws import Takers, takers
from railyard.engine.stages.stage import CAUSES, PS, Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.engine.stages.stage import Passed, Stage

    Progress = Callable[[str, int], None]

NEVER = 2**62
_TRANSFER = CAUSES.index("transfer")


R = TypeVar("R", bound=Asked)


@dataclass(frozen=True, eq=False)
class Step(Generic[R]):
    """A stage and its place among the others.

    Attributes:
        stage: What it does.
        after: Stages that it waits for; none: it begins with the request.
        quorum: It begins when so many of them are through; None: all.
        when: Which requests take it.
    """

    stage: Stage[R]
    after: tuple[str, ...] = ()
    quorum: int | None = None
    when: Takers = field(default_factory=Takers)


@dataclass(frozen=True)
class Between:
    """From one stage to the next.

    Attributes:
        latency_s: One way.
        rate_bps: Of their connection; None: the slower one's NIC.
    """

    latency_s: float = 0.0
    rate_bps: float | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """Where each request stands behind a stage; a row a request.

    Attributes:
        at_ps: i64[n], since when; `NEVER` where it does not come so far.
        spent: f64[n, stages, 4], seconds since its arrival by stage and cause.
        carries: f64[n], bytes that travel on.
        nic_bps: f64[n], rate at which they leave.
    """

    at_ps: NDArray[np.int64]
    spent: NDArray[np.float64]
    carries: NDArray[np.float64]
    nic_bps: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Visit:
    """What happened at one stage.

    Attributes:
        name: Of the stage.
        rows: i64[m], the requests that took it, by the time at which they came.
        begin: Where they stood when they came, the way there included.
        passed: What became of them, a row each; None when nobody took it.
    """

    name: str
    rows: NDArray[np.int64]
    begin: Point
    passed: Passed | None


@dataclass(frozen=True, eq=False)
class Journey(Generic[R]):
    """All requests through all stages.

    Attributes:
        requests: As they were asked.
        visits: Stage by stage.
        end: Behind the last stages.
    """

    requests: R
    visits: tuple[Visit, ...]
    end: Point

    def visit(self, name: str) -> Visit:
        """What happened at a stage."""
        return next(visit for visit in self.visits if visit.name == name)


def through(
    steps: Mapping[str, Step[R]],
    requests: R,
    *,
    between: Between,
    seed: int,
    progress: Progress | None = None,
) -> Journey[R]:
    """Sends requests through all stages.

    Args:
        steps: By name; each after those that it waits for.
        requests: What is asked.
        between: From one stage to the next.
        seed: Of everything random.
        progress: Called with the stage, and how many requests it is through with.
    """
    count, number = len(requests), {name: place for place, name in enumerate(steps)}
    start = Point(
        requests.arrival_ps,
        np.zeros((count, len(steps), len(CAUSES))),
        np.zeros(count),
        np.full(count, np.inf),
    )
    points: dict[str, Point] = {}
    took: dict[str, NDArray[np.bool_]] = {}
    visits = []
    for name, step in steps.items():
        stage, when = step.stage, step.when
        joined = _joined([points[other] for other in step.after], step.quorum) if step.after else start
        others = took[when.unless] if when.unless else None
        took[name] = takers(when, seed, name, requests.input_tokens, others) & (joined.at_ps < NEVER)
        begin = _arrived(joined, took[name], _travel_ps(joined, stage, between), number[name])
        visit = _visit(name, stage, begin, requests, seed=seed, progress=progress)
        visits.append(visit)
        points[name] = _behind(visit, stage, joined, requests, number[name])
    last = [points[name] for name in steps if not any(name in step.after for step in steps.values())]
    return Journey(requests, tuple(visits), _joined(last, None))


def _joined(points: list[Point], quorum: int | None) -> Point:
    """Where the requests stand once so many of the points are reached: all columns of the one that decides."""
    if len(points) == 1:
        return points[0]
    times = np.stack([point.at_ps for point in points])
    order = np.argsort(times, axis=0, kind="stable")
    chosen = order[(quorum or len(points)) - 1]
    row = np.arange(times.shape[1])
    return Point(
        times[chosen, row],
        np.stack([point.spent for point in points])[chosen, row],
        np.stack([point.carries for point in points])[chosen, row],
        np.stack([point.nic_bps for point in points])[chosen, row],
    )


def _travel_ps(joined: Point, stage: Stage[R], between: Between) -> NDArray[np.int64]:
    """From the stages before to this one; the user's request is there at once."""
    rate = np.minimum(joined.nic_bps, min(stage.nic_bps, between.rate_bps or np.inf))
    travels = np.isfinite(joined.nic_bps) | (joined.carries > 0)
    seconds = np.where(travels, between.latency_s + 8 * joined.carries / rate, 0.0)
    return np.rint(seconds * PS).astype(np.int64)


def _arrived(joined: Point, taken: NDArray[np.bool_], travel_ps: NDArray[np.int64], number: int) -> Point:
    """Where those that take a stage stand when they come to it."""
    spent = joined.spent.copy()
    spent[:, number, _TRANSFER] += np.where(taken, travel_ps / PS, 0.0)
    return replace(joined, at_ps=np.where(taken, joined.at_ps + travel_ps, NEVER), spent=spent)


def _visit(name: str, stage: Stage[R], begin: Point, requests: R, *, seed: int, progress: Progress | None) -> Visit:
    rows = np.argsort(begin.at_ps, kind="stable")[: int((begin.at_ps < NEVER).sum())]
    if len(rows) == 0:
        return Visit(name, rows, begin, None)
    asked = requests.take(rows, begin.at_ps[rows])
    count = None if progress is None else lambda done, _now: progress(name, done)
    return Visit(name, rows, begin, stage.run(asked, rows, seed, count))


def _behind(visit: Visit, stage: Stage[R], joined: Point, requests: R, number: int) -> Point:
    """Where the requests stand behind a stage: those that did not take it where they stood before."""
    passed, rows = visit.passed, visit.rows
    if passed is None:
        return joined
    at, spent = joined.at_ps.copy(), joined.spent.copy()
    at[rows] = np.where(passed.end_ps >= 0, passed.end_ps, NEVER)
    spent[rows] = visit.begin.spent[rows]
    spent[rows, number] += passed.parts
    carries, nic = joined.carries.copy(), joined.nic_bps.copy()
    carries[rows] = stage.sends_bytes(requests)[rows]
    nic[rows] = stage.nic_bps
    return Point(at, spent, carries, nic)
