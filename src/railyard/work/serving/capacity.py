"""A deployment over the load: the search for its capacity, and the points of the fronts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, SimulationError
from railyard.measure.result.serving import CapacityFigures, FrontPoint, LoadPoint, ReplicaTrial
from railyard.measure.result.variants import ServedVariant, ServingVariant
from railyard.measure.serving.latencies import quantiles
from railyard.measure.serving.objective import capacity, front, goodput
from railyard.work.scenario.load import Variant
from railyard.work.serving.figures import idle_of
from railyard.work.serving.measuring import as_served, objective_of
from railyard.work.serving.prepare import job_of
from railyard.work.serving.summary import repeated, scaled
from railyard.work.study.provenance import Memo
from railyard.work.study.study import prepared_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.graph.request_table import RequestTable
    from railyard.measure.result.reading import Result
    from railyard.measure.result.serving import ModelServing, ServingFigures
    from railyard.measure.serving.latencies import Served
    from railyard.measure.serving.objective import Objective
    from railyard.work.pipeline.model_stage import PipelineJob
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.measuring import MeasuredServing
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.serving.section import CapacitySection
    from railyard.work.study.tasks import Control

    Progress = Callable[[str, float], None]
    ServeMore = Callable[[ServingJob], Served]
    Serve = Callable[[RequestTable], tuple[Served, bool]]
    """Serves requests: what the users saw, and whether the queue could never drain."""


QUEUED = 0.5
"""Share of the 99th percentile of the first token that is queue, from which on a run is worth the trials."""
_POOLS = "workload.serving.pools"


def is_worth(serving: ServingFigures) -> bool:
    """Whether requests are late, or wait so long for a replica that one more could matter."""
    parts = serving.ttft_parts.get("p99")
    late = serving.slo.attainment < serving.slo.target
    return late or (parts is not None and parts.queue_s > QUEUED * parts.total_s)


def with_trials(found: MeasuredServing, job: ServingJob, objective: Objective, serve: ServeMore) -> MeasuredServing:
    """Adds the result's `trials`: the same requests with one more replica or a larger TP, a pool at a time."""
    trials = tuple(trial(job, change, objective, serve) for change in _changes(job, found.variant.serving))
    serving = found.variant.serving.model_copy(update={"trials": trials})
    return replace(found, variant=found.variant.model_copy(update={"serving": serving}))


@dataclass(frozen=True)
class Change:
    """One more replica of a pool, or the same accelerators in replicas of more tensor parallel ranks.

    Attributes:
        tp: Ranks then; None for one more replica.
    """

    pool: PlacedPool
    replicas: int
    tp: int | None = None


def _changes(job: ServingJob, serving: ServingFigures) -> Iterator[Change]:
    """One more replica of each pool; where compute is most of a late first token, every larger TP within a server."""
    parts = serving.ttft_parts.get("p99")
    for pool in job.pools:
        yield Change(pool, pool.replicas + 1)
        each, tp = pool.accelerators // pool.replicas, pool.section.tp
        if pool.ffn is not None or parts is None or parts.compute_s < parts.queue_s:
            continue
        for times in (2, 4, 8):
            if pool.replicas % times == 0 and times * each <= pool.cluster.server.accelerators:
                yield Change(pool, pool.replicas // times, times * tp)


def trial(job: ServingJob, change: Change, objective: Objective, serve: ServeMore) -> ReplicaTrial:
    """What a change of a pool gives, or why it cannot be made.

    Accelerators that belong to no pool are taken first; the cluster grows by whole servers for the rest.
    """
    pool = change.pool
    each = pool.accelerators // pool.replicas
    replicas, served, reason, bought = change.replicas, None, "", 0
    try:
        if change.tp is None:
            more = _with_one_more(job, pool, each)
            bought = more.cluster.ranks - job.cluster.ranks
        else:
            values = {f"{_POOLS}.{pool.role}.replicas": replicas, f"{_POOLS}.{pool.role}.tp": change.tp}
            more = _with_values(job, values, f"TP {change.tp} of {pool.role}")
        served = serve(more)
    except (InputError, SimulationError) as error:
        text = error.problems[0].message if isinstance(error, InputError) else str(error)
        reason = text.splitlines()[0]
    good = None if served is None else goodput(served, objective)
    return ReplicaTrial(
        pool=pool.role,
        replicas=replicas,
        accelerators=each if change.tp is None else pool.accelerators // replicas,
        bought=bought,
        tp=change.tp,
        ttft_p99_s=None if served is None else quantiles(served.ttft_s)["p99"],
        tpot_p99_s=None if served is None else quantiles(served.tpot_s)["p99"],
        attainment=None if good is None else good.attainment,
        goodput_rps=None if good is None else good.requests_per_s,
        reason=reason,
    )


def _with_one_more(job: ServingJob, pool: PlacedPool, each: int) -> ServingJob:
    """The job with a replica more, on accelerators that idle or on servers more.

    Raises:
        InputError: Such a cluster cannot be.
    """
    if pool.home or pool.server is not None or pool.ffn is not None:
        raise InputError("a pool on servers of its own grows with them; try it by hand")
    changes = {f"{_POOLS}.{one.role}.replicas": one.replicas + (one is pool) for one in job.pools}
    missing = max(each - idle_of(job, pool.home), 0)
    if missing:
        server = job.cluster.server.accelerators
        changes["cluster.accelerators"] = job.cluster.ranks + math.ceil(missing / server) * server
    return _with_values(job, changes, f"one more replica of {pool.role}")


def _with_values(job: ServingJob, changes: Mapping[str, int], origin: str) -> ServingJob:
    draft = job.variant.draft.with_values(changes, origin)
    return job_of(Variant(job.variant.name, job.variant.settings, draft), Memo())


_TURNS = 10
"""A trial that seems in time counts where its requests come for so many times as long as an answer takes: queues do not
build up sooner. Of 500, 1,000, 4,000 and 16,000 requests of 20 s each, the most in time a second came out as 16.1 (1.6
times), 12.8 (4 times), 11.9 (17 times) and 11.7."""
_LONGEST = 64
"""Times the requests of a first trial, the most that one is given."""
_LONGEST_S = 7 * 86400.0
"""A load at which a first trial would take longer than a week is not tried: its requests do not meet one another, so
that fewer a second cannot help. The engine's clock ends at 26 days."""


RUN_SHARE = 0.9
"""Share of a variant's time for the requested run, for the progress bar only."""


def with_curve(
    found: MeasuredServing, job: ServingJob | PipelineJob, *, objective: Objective, serve: Serve, control: Control
) -> MeasuredServing:
    """Adds the result's `capacity` and `pareto`: every load that was tried, or the run itself where none was.

    Args:
        found: The run that was asked for.
        job: Its requests are sent faster and slower, as many of them as a load wants, where its section asks for it.
        objective: To be met.
        serve: Simulates a load.
        control: Of the study.

    Raises:
        InputError: The requests have no rate.
    """
    serving, warnings, curve = found.variant.serving, found.variant.warnings, None
    points: tuple[LoadPoint, ...] = (_as_asked(serving),)
    if job.section.capacity is not None:
        control.progress(f"capacity of {job.variant.name}", RUN_SHARE)
        curve, trials = _searched(job.section.capacity, job.variant.draft, job.requests, objective, serve)
        warnings, points = (*warnings, *_trials(trials)), curve.points
    front_points = _front_points(points, serving.throughput.accelerators, found.cost.usd_per_h.typical / 3600)
    searched = serving.model_copy(update={"capacity": curve, "pareto": front_points})
    variant = found.variant.model_copy(update={"serving": searched, "warnings": warnings})
    return replace(found, variant=variant)


def _front_points(points: Sequence[LoadPoint], accelerators: int, usd_per_s: float) -> tuple[FrontPoint, ...]:
    """Loads that were answered; whether others beat them, all variants together show."""
    return tuple(
        FrontPoint(
            rate_per_s=point.rate_per_s,
            per_user=1 / point.tpot_p50_s,
            per_gpu=point.output_tokens_per_s / accelerators,
            per_usd=point.output_tokens_per_s / usd_per_s,
            front=False,
            front_usd=False,
        )
        for point in points
        if point.tpot_p50_s and not point.overloaded
    )


def _searched(
    section: CapacitySection, draft: Draft, requests: RequestTable, objective: Objective, serve: Serve
) -> tuple[CapacityFigures, _Lasting]:
    start = requests.head(section.first).rate_per_s
    if start <= 0:
        error = InputError("requests that all arrive at once have no rate to search", key="capacity")
        raise draft.blame(error, "workload", draft.kind)
    trials = _Lasting(min(section.first, len(requests)), requests, objective, serve)
    found = capacity(
        trials.point, start, objective.attainment, tolerance=section.tolerance, slowest=trials.first / _LONGEST_S
    )
    return found, trials


@dataclass
class _Lasting:
    """Loads by so many requests that they last; no trial has fewer than one before it, so that they can be compared.

    Attributes:
        first: Requests of the first trial.
        requests: Sent as fast or slow as a load has it; from the beginning again where they are too few.
        count: Requests of the next trial.
        brief: A trial in time was given the most requests, and they lasted less than they should.
    """

    first: int
    requests: RequestTable
    objective: Objective
    serve: Serve
    count: int = 0
    brief: bool = False

    def point(self, rate_per_s: float) -> LoadPoint:
        """A load. One that misses the objective by few requests would miss it by more as well."""
        most = _LONGEST * self.first
        self.count = max(self.count, self.first)
        while True:
            found, overloaded = self.serve(scaled(repeated(self.requests, self.count), rate=rate_per_s))
            point = _point(rate_per_s, found, self.objective, overloaded=overloaded)
            lasts = rate_per_s * _TURNS * float(found.e2e_s[found.done].mean()) if found.done.any() else 0.0
            missed = overloaded or point.attainment < self.objective.attainment
            if missed or self.count >= min(lasts, most):
                self.brief |= not missed and self.count < lasts
                return point
            self.count = min(max(math.ceil(lasts), 2 * self.count), most)


def _trials(trials: _Lasting) -> list[str]:
    """Says how long trials were, where they were longer than asked for or not long enough."""
    most, asked = trials.count, len(trials.requests)
    again = f" (the scenario's {asked:,}, repeated)" if most > asked else ""
    if trials.brief:
        return [
            f"capacity: may be lower, for {most:,} requests{again} last less than {_TURNS} times as long as an answer;"
            " raise `capacity.first`"
        ]
    if most <= trials.first:
        return []
    return [
        f"capacity: trials send up to {most:,} requests{again} instead of {trials.first:,}, so that queues have time"
        " to build up"
    ]


def _point(rate_per_s: float, found: Served, objective: Objective, *, overloaded: bool) -> LoadPoint:
    good = goodput(found, objective)
    ttft, tpot = quantiles(found.ttft_s), quantiles(found.tpot_s)
    return LoadPoint(
        rate_per_s=rate_per_s,
        attainment=good.attainment,
        goodput_per_s=good.requests_per_s,
        ttft_p50_s=ttft["p50"],
        ttft_p99_s=ttft["p99"],
        tpot_p50_s=tpot["p50"],
        tpot_p99_s=tpot["p99"],
        output_tokens_per_s=good.all_output_tokens_per_s,
        requests=len(found),
        overloaded=overloaded,
    )


def _as_asked(serving: ServingFigures) -> LoadPoint:
    """The run that was asked for, as a point of the curve."""
    return LoadPoint(
        rate_per_s=serving.requests.rate_per_s,
        attainment=serving.slo.attainment,
        goodput_per_s=serving.slo.goodput_rps,
        ttft_p50_s=serving.ttft_s.p50,
        ttft_p99_s=serving.ttft_s.p99,
        tpot_p50_s=serving.tpot_s.p50,
        tpot_p99_s=serving.tpot_s.p99,
        output_tokens_per_s=serving.throughput.output_tokens_per_s,
        requests=serving.requests.count,
        overloaded=serving.outcome == "overload",
    )


def with_fronts(measured: Sequence[MeasuredServing]) -> list[MeasuredServing]:
    """Marks the points that no other point of any variant beats, by accelerator and by dollar."""
    points = [point for found in measured for point in found.variant.serving.pareto]
    by_gpu = front([(point.per_user, point.per_gpu) for point in points])
    by_usd = front([(point.per_user, point.per_usd) for point in points])
    marked = iter(
        point.model_copy(update={"front": gpu, "front_usd": usd})
        for point, gpu, usd in zip(points, by_gpu, by_usd, strict=True)
    )
    return [_with_points(found, marked) for found in measured]


def _with_points(found: MeasuredServing, marked: Iterator[FrontPoint]) -> MeasuredServing:
    serving = found.variant.serving
    points = tuple(itertools.islice(marked, len(serving.pareto)))
    return replace(
        found, variant=found.variant.model_copy(update={"serving": serving.model_copy(update={"pareto": points})})
    )


FORMAT = "railyard/explain-serving-1"


@dataclass(frozen=True)
class ServedExplanation:
    """One variant of a serving run, explained.

    Attributes:
        variant: As in the result, with one more replica of each pool tried.
    """

    name: str
    source: Path
    variants: tuple[str, ...]
    variant: ServedVariant

    def to_json(self) -> dict[str, object]:
        """Format `railyard/explain-serving-1`."""
        serving = self.variant.serving.model_dump(mode="json")
        wanted = ("ttft_s", "tpot_s", "ttft_parts", "slo", "queues", "trials", "pools")
        return {
            "format": FORMAT,
            "name": self.name,
            "run": str(self.source),
            "variants": list(self.variants),
            "variant": self.variant.name,
            **{key: serving[key] for key in wanted if key in serving},
        }


def explain(
    file: Path, result: Result, variant: str | None, *, with_remedies: bool = True, progress: Progress | None = None
) -> ServedExplanation:
    """Explains a variant of a serving run.

    Args:
        file: Of the result.
        result: As it was read.
        variant: Name of the variant; None takes the first.
        with_remedies: Whether one more replica of each pool is tried where the run itself has not.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: There is no such variant, or the scenario next to the result is another one.
    """
    number, served = result.numbered(variant), result.of(ServedVariant)
    names, found = tuple(one.name for one in served), served[number]
    if with_remedies and isinstance(found, ServingVariant) and not found.serving.trials:
        found = found.model_copy(update={"serving": _tried(found.serving, prepared_of(file, result, number), progress)})
    return ServedExplanation(result.name, file, names, found)


def _tried(serving: ModelServing, job: ServingJob, progress: Progress | None) -> ModelServing:
    trials = []
    changes = list(_changes(job, serving))
    for number, change in enumerate(changes):
        if progress is not None:
            progress(f"other replicas of {change.pool.role}", number / len(changes))
        trials.append(trial(job, change, objective_of(job.section.slo), as_served))
    return serving.model_copy(update={"trials": tuple(trials)})
