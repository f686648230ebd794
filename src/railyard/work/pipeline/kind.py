"""Stages that requests go through, each on hardware of its own; with the search for their capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.work.pipeline.measuring import measure, shown, write_variant
from railyard.work.pipeline.model_stage import prepare
from railyard.work.serving.capacity import RUN_SHARE, explain, with_curve, with_fronts
from railyard.work.serving.measuring import objective_of
from railyard.work.serving.prepare import ENGINE, check_engine
from railyard.work.study.kind import StudyKind, kinds

if TYPE_CHECKING:
    from railyard.graph import Record, RequestTable
    from railyard.measure.serving.latencies import Served
    from railyard.work.pipeline.model_stage import PipelineJob
    from railyard.work.serving.measuring import MeasuredServing
    from railyard.work.study.tasks import Control


@dataclass(frozen=True, eq=False)
class Traversed:
    """Requests that went through all stages."""

    job: PipelineJob
    journey: Record


def _run(job: PipelineJob, control: Control) -> Traversed:
    name, names, total = job.variant.name, list(job.stages), max(len(job.requests), 1)

    def progress(stage: str, done: int) -> None:
        share = (names.index(stage) + min(done / total, 1.0)) / len(names)
        control.progress(f"{name}: {stage}", RUN_SHARE * share)

    return Traversed(job, job.run(job.requests, progress))


def _search(traversed: Traversed, found: MeasuredServing, control: Control) -> MeasuredServing:
    """The capacity, where the scenario asks for it, and the points of the fronts."""
    job = traversed.job
    return with_curve(
        found, job, objective=objective_of(job.section.slo), serve=lambda some: _served(job, some), control=control
    )


def _served(job: PipelineJob, requests: RequestTable) -> tuple[Served, bool]:
    journey = job.run(requests)
    return shown(job.section, journey).served, journey.meta["outcome"] == "overload"


PIPELINE = kinds.add(
    "pipeline",
    StudyKind(
        name="pipeline",
        check=check_engine,
        prepare=prepare,
        engine=lambda _job: ENGINE,
        run=_run,
        measure=lambda traversed: measure(traversed.job, traversed.journey),
        search=_search,
        relate=with_fronts,
        write=lambda folder, traversed, found: write_variant(folder, traversed.journey, found.requests),
        explain=explain,
    ),
)
