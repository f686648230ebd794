"""The whole way of a serving run: prepare, simulate, measure, put together. Composes; computes nothing itself."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.measure.serving.capacity import Capacity, Point, capacity, front
from railyard.measure.serving.objective import goodput
from railyard.measure.serving.percentiles import quantiles
from railyard.scenario import folder as folders
from railyard.scenario import keep
from railyard.scenario.serving.keeping import write_variant
from railyard.scenario.serving.measuring import LEFT_OUT, Measured, latencies, measure, objective_of
from railyard.scenario.serving.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railyard.scenario.load import Draft
    from railyard.scenario.serving.prepare import ServingJob
    from railyard.workload.serving.requests import Requests

    Tell = Callable[[str, float], None]

ENGINE = "serving"
_LOGGED = 16
"""Replicas whose iterations go into the trace."""
_USUAL = ("flow", ENGINE)
_TURNS = 10
"""A trial whose requests come for less than so many times an answer is short: of 500, 1,000, 4,000 and 16,000 requests
of 20 s each, the most in time a second came out as 16.1 (1.6 times), 12.8 (4 times), 11.9 (17 times) and 11.7."""


def execute(
    draft: Draft,
    varies: Sequence[str],
    *,
    version: str,
    engine: str | None,
    out: Path | None,
    face: Callable[[dict[str, Any], Path], None] | None,
    tell: Tell,
) -> tuple[dict[str, Any], Path | None]:
    """Runs a serving scenario with every variant that it compares.

    Args:
        draft: The scenario.
        varies: `key=a,b,c` in place of what the scenario compares.
        version: Of this package.
        engine: Asked for on the command line.
        out: Where the folder of the run is put; None writes nothing.
        face: Writes further files (the report) into the folder.
        tell: Told what is being done, and its share from 0 to 1.

    Returns:
        The result, and the folder.

    Raises:
        InputError: The scenario cannot be run; nothing has been written then.
    """
    check_engine(draft, engine)
    jobs = prepare(draft, varies)
    plain = keep.resolved(draft, varies)
    name = folders.name_of(plain, version)
    with nullcontext(None) if out is None else folders.whole(out, name) as folder:
        measured = [_one(job, jobs, number, folder, tell) for number, job in enumerate(jobs)]
        mark_fronts([found.variant["serving"] for found in measured])
        result = result_of(draft, plain, measured, version)
        if folder is not None:
            tell("writing the folder of the run", 1.0)
            keep.write_run(folder, plain, [job.variant.draft for job in jobs], result)
            if face is not None:
                face(result, folder)
    return result, None if out is None else out / name


def check_engine(draft: Draft, engine: str | None) -> None:
    """Refuses engines of training steps.

    Raises:
        InputError: It is one of them.
    """
    name = engine or draft.scenario.engine
    if name not in _USUAL:
        error = InputError(
            "requests are served by the serving engine, which shares links as `flow` does",
            key="engine",
            found=name,
            hint="leave `engine` out",
        )
        raise error.located(file=f"--engine {name}") if engine else draft.blame(error)


def _one(job: ServingJob, jobs: Sequence[ServingJob], number: int, folder: Path | None, tell: Tell) -> Measured:
    """One variant: the run that was asked for, and the search for its capacity."""
    total = len(job.requests)

    def progress(done: int, _now: int) -> None:
        tell(f"serving {job.variant.name}", (number + 0.9 * done / total) / len(jobs))

    logged = range(min(_LOGGED, job.deployment.replicas)) if folder is not None else ()
    run = job.run(job.requests, log=logged, progress=progress)
    found = measure(job, run)
    if folder is not None:
        write_variant(keep.place(folder, number, jobs), job, run, found.requests)
    section = job.variant.draft.scenario.serving.capacity
    searched = None
    if section is not None:
        tell(f"capacity of {job.variant.name}", (number + 0.9) / len(jobs))
        searched = _search(job, section.first, section.tolerance)
        found.variant["warnings"] += brief(found, searched, section.first)
    found.variant["serving"].update(curve(found, searched))
    return found


def _search(job: ServingJob, first: int, tolerance: float) -> Capacity:
    requests = job.requests.head(first)
    if requests.rate_per_s <= 0:
        raise job.variant.draft.blame(
            InputError("requests without a span of time have no rate to search", key="capacity"), "workload", "serving"
        )
    objective = objective_of(job)
    return capacity(
        lambda rate: _point(job, requests.scaled(rate=rate), rate),
        requests.rate_per_s,
        objective.attainment,
        tolerance=tolerance,
    )


def _point(job: ServingJob, requests: Requests, rate: float) -> Point:
    run = job.run(requests)
    found = latencies(job, requests, run)
    good = goodput(found, objective_of(job))
    ttft, tpot = quantiles(found.ttft_s), quantiles(found.tpot_s)
    return Point(
        rate_per_s=rate,
        attainment=good.attainment,
        goodput_per_s=good.requests_per_s,
        ttft_p50_s=ttft["p50"],
        ttft_p99_s=ttft["p99"],
        tpot_p50_s=tpot["p50"],
        tpot_p99_s=tpot["p99"],
        output_tokens_per_s=good.all_output_tokens_per_s,
        overloaded=run.overloaded,
    )


def brief(found: Measured, searched: Capacity, first: int) -> list[str]:
    """Says when the trial of the load found was too short for queues to build up, as after `capacity.first`."""
    asked = found.variant["serving"]["requests"]
    at = next((point for point in searched.points if point.rate_per_s == searched.rate_per_s), None)
    if at is None or at.ttft_p50_s is None:
        return []
    came_s = min(first, asked["count"]) / at.rate_per_s
    answer_s = at.ttft_p50_s + (at.tpot_p50_s or 0.0) * (asked["output_tokens_mean"] - 1)
    if came_s >= _TURNS * answer_s:
        return []
    more = "`capacity.first`" if first < asked["count"] else "`capacity.first` and the number of requests"
    return [
        f"{at.rate_per_s:.3g} requests a second in time were found with {min(first, asked['count'])}, which come within"
        f" {came_s / answer_s:.1f} times what an answer takes: queues do not build up so soon, and fewer may last;"
        f" raise {more}"
    ]


def curve(found: Measured, searched: Capacity | None) -> dict[str, Any]:
    """The capacity curve, and the points of the fronts: every load that was tried, with the run itself."""
    serving = found.variant["serving"]
    own = Point(
        serving["requests"]["rate_per_s"],
        serving["slo"]["attainment"],
        serving["slo"]["goodput_rps"],
        serving["ttft_s"]["p50"],
        serving["ttft_s"]["p99"],
        serving["tpot_s"]["p50"],
        serving["tpot_s"]["p99"],
        serving["throughput"]["output_tokens_per_s"],
        serving["outcome"] == "overload",
    )
    points = [own] if searched is None else list(searched.points)
    usd_per_s = found.cost.usd_per_h.typical / 3600
    told = None
    if searched is not None:
        told = {
            "rate_per_s": searched.rate_per_s,
            "bounded": searched.bounded,
            "points": [dict(vars(point)) for point in searched.points],
        }
    pareto = [
        {
            "rate_per_s": point.rate_per_s,
            "per_user": 1 / point.tpot_p50_s,
            "per_gpu": point.output_tokens_per_s / serving["throughput"]["accelerators"],
            "per_usd": point.output_tokens_per_s / usd_per_s,
        }
        for point in points
        if point.tpot_p50_s and not point.overloaded
    ]
    return {"capacity": told, "pareto": pareto}


def mark_fronts(servings: Sequence[dict[str, Any]]) -> None:
    """Marks the points that no other point of any variant beats, by accelerator and by dollar."""
    points = [point for serving in servings for point in serving["pareto"]]
    for figure, mark in (("per_gpu", "front"), ("per_usd", "front_usd")):
        best = front([(point["per_user"], point[figure]) for point in points])
        for point, on_front in zip(points, best, strict=True):
            point[mark] = on_front


def result_of(
    draft: Draft, plain: dict[str, Any], measured: Sequence[Measured], version: str, left_out: Sequence[str] = LEFT_OUT
) -> dict[str, Any]:
    """All variants with where they come from, as `result.json` has it."""
    return {
        "format": "railyard/1",
        "name": draft.scenario.name,
        "scenario": plain,
        "provenance": {
            "version": version,
            "engine": ENGINE,
            "seed": draft.scenario.seed,
            "digest": measured[0].variant["digest"],
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": [source.to_json() for source in _once(found.sources for found in measured)],
            "left_out": list(left_out),
            "defaults": _once(found.defaults for found in measured),
        },
        "variants": [found.variant for found in measured],
    }


def _once(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """All items in order, each once."""
    return list(dict.fromkeys(item for items in lists for item in items))
