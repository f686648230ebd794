"""The whole way of a pipeline: prepare, simulate, measure, put together. Composes; computes nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.scenario import keep
from railyard.scenario.serving.curves import add_curve
from railyard.scenario.serving.execute import RUN, Whole, check_engine
from railyard.scenario.serving.stages.keeping import write_variant
from railyard.scenario.serving.stages.measuring import LEFT_OUT, measure, objective_of, outcome
from railyard.scenario.serving.stages.prepare import prepare
from railyard.scenario.serving.stages.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.measure.serving.served import Served
    from railyard.scenario.load import Draft
    from railyard.scenario.serving.execute import Face, Tell
    from railyard.scenario.serving.measuring import Measured
    from railyard.scenario.serving.stages.prepare import PipelineJob
    from railyard.workload.serving.requests import Requests


def execute(
    draft: Draft,
    varies: Sequence[str],
    *,
    version: str,
    engine: str | None,
    out: Path | None,
    face: Face | None,
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
    whole = Whole(draft, keep.resolved(draft, varies), jobs, version, LEFT_OUT, tell)
    return whole.run(lambda number, place: _one(jobs[number], place, whole.share_of(number)), out, face)


def _one(job: PipelineJob, folder: Path | None, tell: Tell) -> Measured:
    """One variant: the run that was asked for, and the search for its capacity."""
    name, names, total = job.variant.name, list(job.stages), max(len(job.requests), 1)

    def progress(stage: str, done: int) -> None:
        share = (names.index(stage) + min(done / total, 1.0)) / len(names)
        tell(f"{name}: {stage}", RUN * share)

    journey = job.run(job.requests, progress)
    found = measure(job, journey)
    if folder is not None:
        write_variant(folder, journey, found.requests)
    section = job.variant.draft.scenario.pipeline.capacity
    if section is not None:
        tell(f"capacity of {name}", RUN)
    add_curve(
        found,
        section,
        job.variant.draft,
        requests=job.requests,
        objective=objective_of(job),
        serve=lambda some: _served(job, some),
    )
    return found


def _served(job: PipelineJob, requests: Requests) -> tuple[Served, bool]:
    journey = job.run(requests)
    return shown(job.variant.draft.scenario.pipeline, journey).served, outcome(journey) == "overload"
