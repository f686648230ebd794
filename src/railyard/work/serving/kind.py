"""One model that answers requests, on the serving engine; with the search for its capacity."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.work.serving.capacity import RUN_SHARE, explain, is_worth, with_curve, with_fronts, with_trials
from railyard.work.serving.expected import key_figures
from railyard.work.serving.measuring import as_served, latencies, measure, objective_of, write_variant
from railyard.work.serving.prepare import ENGINE, check_engine, crosses, prepare, unlimited
from railyard.work.study.kind import StudyKind, kinds

if TYPE_CHECKING:
    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.serving.latencies import Served
    from railyard.work.serving.measuring import MeasuredServing
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.study.tasks import Control

_LOGGED = 16
"""Replicas whose iterations go into the trace."""


@dataclass(frozen=True)
class Answered:
    """A run of the serving engine.

    Attributes:
        job: With its requests as they were sent.
        unlimited: The requests on a scale-out network without limit, and on networks without limit.
    """

    job: ServingJob
    run: Record
    unlimited: tuple[Served, Served]


def _run(job: ServingJob, control: Control) -> Answered:
    name, total = job.variant.name, len(job.requests)
    logged = range(min(_LOGGED, job.deployment.replicas)) if control.recorded else ()
    run = job.run(
        job.requests,
        log=logged,
        progress=lambda done, _now: control.progress(f"serving {name}", RUN_SHARE * done / total),
    )
    sent = job.as_sent(run)
    return Answered(sent, run, _unlimited(job, latencies(sent, sent.requests, run), control))


def _unlimited(job: ServingJob, found: Served, control: Control) -> tuple[Served, Served]:
    """The requests without limits of the scale-out network, and of all networks; as they are where nothing crosses."""
    control.progress(f"{job.variant.name} on networks without limit", RUN_SHARE)
    with ThreadPoolExecutor(max_workers=control.workers) as pool:
        none = pool.submit(lambda: as_served(unlimited(job, "all")))
        outside = as_served(unlimited(job, "scale-out")) if crosses(job) else found
        return outside, none.result()


def _search(answered: Answered, found: MeasuredServing, control: Control) -> MeasuredServing:
    """The capacity, where the scenario asks for it, and the points of the fronts."""
    job = answered.job
    if is_worth(found.variant.serving):
        control.progress(f"one more replica of {job.variant.name}", RUN_SHARE)
        found = with_trials(found, job, objective_of(job.section.slo), as_served)
    return with_curve(
        found, job, objective=objective_of(job.section.slo), serve=lambda some: _served(job, some), control=control
    )


def _served(job: ServingJob, requests: RequestTable) -> tuple[Served, bool]:
    run = job.run(requests)
    return latencies(job, requests, run), run.meta["overloaded"]


SERVING = kinds.add(
    "serving",
    StudyKind(
        name="serving",
        check=check_engine,
        prepare=prepare,
        engine=lambda _job: ENGINE,
        run=_run,
        measure=lambda answered: measure(answered.job, answered.run, answered.unlimited),
        search=_search,
        relate=with_fronts,
        write=lambda folder, answered, found: write_variant(folder, answered.job, answered.run, found.requests),
        faulty=True,
        expected=key_figures,
        explain=explain,
    ),
)
