"""Requests through all stages: a stage's arrivals are the ends of those it waits for, plus the way between.

Nothing flows back, so stage after stage is exact: when a stage runs, all its arrivals are known. Along the way each
request adds up what its time is made of, on the path that decides: of the stages that another one waits for, the last
one needed.

    begin = end of the q-th predecessor (q: the quorum; all when there is none) + latency + bytes / rate
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.scenario.pipeline import waits_for
from railyard.study.pipeline.draws import takers
from railyard.study.pipeline.stage import CAUSES, PS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.scenario.pipeline import PipelineSection
    from railyard.study.pipeline.stage import Passed, Stage
    from railyard.workload.serving.requests import Requests

    Tell = Callable[[str, int], None]

NEVER = 2**62
_TRANSFER = CAUSES.index("transfer")


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
class Journey:
    """All requests through all stages.

    Attributes:
        requests: As they were asked.
        visits: Stage by stage.
        end: Behind the last stages.
    """

    requests: Requests
    visits: tuple[Visit, ...]
    end: Point

    def visit(self, name: str) -> Visit:
        """What happened at a stage."""
        return next(visit for visit in self.visits if visit.name == name)


def through(
    section: PipelineSection,
    stages: Mapping[str, Stage],
    requests: Requests,
    seed: int,
    tell: Tell | None = None,
) -> Journey:
    """Sends requests through all stages.

    Args:
        section: As written.
        stages: By name, in the order of the section.
        requests: What is asked.
        seed: Of everything random.
        tell: Told the stage, and how many requests it is through with.
    """
    count, number = len(requests), {name: place for place, name in enumerate(stages)}
    start = Point(
        requests.arrival_ps,
        np.zeros((count, len(stages), len(CAUSES))),
        np.zeros(count),
        np.full(count, np.inf),
    )
    points: dict[str, Point] = {}
    took: dict[str, NDArray[np.bool_]] = {}
    visits = []
    for name, stage in stages.items():
        said = section.stages[name]
        waited = [points[other] for other in waits_for(section.stages, name)]
        joined = _joined(waited, said.quorum) if waited else start
        when = said.when
        others = took[when.unless] if when.unless else None
        took[name] = takers(when, seed, name, requests.input_tokens, others) & (joined.at_ps < NEVER)
        begin = _arrived(joined, took[name], _way_ps(joined, stage, section), number[name])
        visit = _visit(name, stage, begin, requests, seed=seed, tell=tell)
        visits.append(visit)
        points[name] = _behind(visit, stage, joined, requests, number[name])
    last = [points[name] for name in stages if not any(name in waits_for(section.stages, other) for other in stages)]
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


def _way_ps(joined: Point, stage: Stage, section: PipelineSection) -> NDArray[np.int64]:
    """From the stages before to this one; the user's request is there at once."""
    between = section.between
    rate = np.minimum(joined.nic_bps, min(stage.nic_bps, between.rate or np.inf))
    travels = np.isfinite(joined.nic_bps) | (joined.carries > 0)
    seconds = np.where(travels, between.latency + 8 * joined.carries / rate, 0.0)
    return np.rint(seconds * PS).astype(np.int64)


def _arrived(joined: Point, taken: NDArray[np.bool_], way_ps: NDArray[np.int64], number: int) -> Point:
    """Where those that take a stage stand when they come to it."""
    spent = joined.spent.copy()
    spent[:, number, _TRANSFER] += np.where(taken, way_ps / PS, 0.0)
    return replace(joined, at_ps=np.where(taken, joined.at_ps + way_ps, NEVER), spent=spent)


def _visit(name: str, stage: Stage, begin: Point, requests: Requests, *, seed: int, tell: Tell | None) -> Visit:
    rows = np.argsort(begin.at_ps, kind="stable")[: int((begin.at_ps < NEVER).sum())]
    if len(rows) == 0:
        return Visit(name, rows, begin, None)
    asked = requests.take(rows, begin.at_ps[rows])
    progress = None if tell is None else lambda done, _now: tell(name, done)
    return Visit(name, rows, begin, stage.run(asked, rows, seed, progress))


def _behind(visit: Visit, stage: Stage, joined: Point, requests: Requests, number: int) -> Point:
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
