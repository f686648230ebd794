"""The whole way of a pipeline: prepare, simulate, measure, put together. Composes; computes nothing itself."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.measure.serving.capacity import Capacity, Point, capacity
from railyard.measure.serving.objective import goodput
from railyard.measure.serving.percentiles import quantiles
from railyard.scenario import folder as folders
from railyard.scenario import keep
from railyard.scenario.serving.execute import brief, check_engine, curve, mark_fronts, result_of
from railyard.scenario.serving.stages.keeping import write_variant
from railyard.scenario.serving.stages.measuring import LEFT_OUT, measure, objective_of, outcome
from railyard.scenario.serving.stages.prepare import prepare
from railyard.scenario.serving.stages.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.scenario.load import Draft
    from railyard.scenario.serving.measuring import Measured
    from railyard.scenario.serving.stages.prepare import PipelineJob
    from railyard.workload.serving.requests import Requests

    Tell = Callable[[str, float], None]


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
    """Runs a scenario with a pipeline, with every variant that it compares.

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
        result = result_of(draft, plain, measured, version, LEFT_OUT)
        if folder is not None:
            tell("writing the folder of the run", 1.0)
            keep.write_run(folder, plain, [job.variant.draft for job in jobs], result)
            if face is not None:
                face(result, folder)
    return result, None if out is None else out / name


def _one(job: PipelineJob, jobs: Sequence[PipelineJob], number: int, folder: Path | None, tell: Tell) -> Measured:
    """One variant: the run that was asked for, and the search for its capacity."""
    names = list(job.stages)
    total = max(len(job.requests), 1)

    def progress(stage: str, done: int) -> None:
        share = (names.index(stage) + min(done / total, 1.0)) / len(names)
        tell(f"{job.variant.name}: {stage}", (number + 0.9 * share) / len(jobs))

    journey = job.run(job.requests, progress)
    found = measure(job, journey)
    if folder is not None:
        write_variant(keep.place(folder, number, jobs), journey, found.requests)
    section = job.variant.draft.scenario.pipeline.capacity
    searched = None
    if section is not None:
        tell(f"capacity of {job.variant.name}", (number + 0.9) / len(jobs))
        searched = _search(job, section.first, section.tolerance)
        found.variant["warnings"] += brief(found, searched, section.first)
    found.variant["serving"].update(curve(found, searched))
    return found


def _search(job: PipelineJob, first: int, tolerance: float) -> Capacity:
    requests = job.requests.head(first)
    if requests.rate_per_s <= 0:
        raise job.variant.draft.blame(
            InputError("requests without a span of time have no rate to search", key="capacity"), "workload", "pipeline"
        )
    objective = objective_of(job)
    return capacity(
        lambda rate: _point(job, requests.scaled(rate=rate), rate),
        requests.rate_per_s,
        objective.attainment,
        tolerance=tolerance,
    )


def _point(job: PipelineJob, requests: Requests, rate: float) -> Point:
    journey = job.run(requests)
    found = shown(job.variant.draft.scenario.pipeline, journey).served
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
        overloaded=outcome(journey) == "overload",
    )
