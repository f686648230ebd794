"""From a journey through stages to one variant of the result, in the same form as a run without stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.stages import PS, SERVING
from railyard.measure.cost.deployment import Use, deployment_cost
from railyard.measure.cost.ranges import Source, of_entry
from railyard.measure.result.serving import CacheFigures, PipelineServing, PoolRow, ReplicaRow
from railyard.measure.result.variants.work import PipelineVariant
from railyard.measure.serving.journeys import counted, quantiles
from railyard.measure.serving.objective import Objective, goodput
from railyard.work.pipeline.by_stage import parts, stage_rows
from railyard.work.pipeline.model_stage import Answer
from railyard.work.pipeline.shown import shown
from railyard.work.serving.figures import drained, latencies_of, refused, requests_of, slo_of, throughput_of
from railyard.work.serving.measuring import SHORTEST_S, MeasuredServing, sold_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from railyard.graph import Record
    from railyard.measure.cost.deployment import DeploymentCost
    from railyard.measure.serving.served import Served
    from railyard.work.pipeline.built import Built
    from railyard.work.pipeline.prepare import PipelineJob

LEFT_OUT = (
    "each stage has hardware of its own, and nothing flows back: a model that is called twice stands there twice",
    "data from one stage to the next share no links; keys and values within a stage do",
    "tools outside cost nothing here",
    "tokens are those that the user asked and got, not those between stages",
)


def objective_of(job: PipelineJob) -> Objective:
    """The scenario's objective."""
    slo = job.section.slo
    return Objective(slo.ttft, slo.tpot, slo.e2e, slo.attainment)


def measure(job: PipelineJob, journey: Record) -> MeasuredServing:
    """Everything about one variant.

    Raises:
        InputError: The bill holds an unknown kind.
    """
    seen = shown(job.section, journey)
    found, objective = seen.served, objective_of(job)
    good = goodput(found, objective)
    span = max(good.span_s, SHORTEST_S)
    uses = uses_of(job, journey, span)
    cost = deployment_cost(
        uses=[use for used in uses.values() for use in used],
        parts=list(parts(job)),
        goodput=sold_of(found, objective, good),
        assumptions=job.assumptions,
    )
    replicas = tuple(_replicas(job, journey, span))
    variant = PipelineVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        bound=job.network.is_bound,
        serving=PipelineServing(
            outcome=journey.meta["outcome"],
            requests=requests_of(journey.requests, found),
            **latencies_of(found, _gaps(journey)),
            slo=slo_of(objective, good),
            throughput=throughput_of(found, good, cost, _accelerators(job)),
            kv=_cache(journey, replicas),
            replicas=replicas,
            pools=tuple(row for name, used in uses.items() for row in _pools(job, name, used)),
            links=(),
            stages=stage_rows(job, journey, seen, uses, span),
            cpmt=cost.section(),
            power=cost.power.deployment_section(),
            capex=cost.capex.section(),
            capacity=None,
            pareto=(),
        ),
        warnings=tuple(_warnings(job, journey, found)),
        digest=journey.digest(),
    )
    return MeasuredServing(variant, found, cost, tuple(_sources(job, cost)), tuple(_defaults(job)), LEFT_OUT)


def uses_of(job: PipelineJob, journey: Record, span_s: float) -> dict[str, list[Use]]:
    """How each stage's devices spend the run; those of a stage that nobody took stand idle."""
    return {name: _uses_of(job.stages[name], visits, span_s) for name, visits in journey.parts.items()}


def _uses_of(stage: Built, visits: Record, span_s: float) -> list[Use]:
    if len(visits):
        return stage.uses(visits, span_s)
    return [Use(one.cluster.accelerator, one.count, one.cluster.accelerator.idle_power_w) for one in stage.hardware]


def _accelerators(job: PipelineJob) -> int:
    return sum(one.count for stage in job.stages.values() for one in stage.hardware)


def _models(journey: Record) -> list[Record]:
    """Visits of all models that somebody took."""
    return [visits for visits in journey.parts.values() if visits.has("first_token_ps")]


def _gaps(journey: Record) -> dict[str, float | None]:
    """Gaps between tokens, of all models together."""
    known = [visits.parts[SERVING].table("gaps") for visits in _models(journey)]
    if not known:
        return quantiles(np.full(1, np.nan))
    return counted(np.sum([one["count"] for one in known], axis=0), np.asarray(known[0]["lower_ps"] / PS, np.float64))


def _cache(journey: Record, replicas: Sequence[ReplicaRow]) -> CacheFigures:
    """Of the prompts of all models together."""
    known = [(visits.parts[SERVING], visits.ended) for visits in _models(journey)]
    prompts = sum(int(run.requests.input_tokens[done].sum()) for run, done in known)
    found = sum(int(run.column("cached_tokens")[done].sum()) for run, done in known)
    loaded = sum(int(run.column("loaded_tokens")[done].sum()) for run, done in known)
    peaks = [row.kv_peak_share for row in replicas]
    return CacheFigures(
        hit_rate=found / prompts if prompts else 0.0,
        loaded_rate=loaded / prompts if prompts else 0.0,
        peak_share=max(peaks, default=0.0),
        preemptions=sum(int(run.table("replicas")["preemptions"].sum()) for run, _ in known),
    )


def _replicas(job: PipelineJob, journey: Record, span_s: float) -> Iterator[ReplicaRow]:
    for name, visits in journey.parts.items():
        for row in job.stages[name].replicas(visits, span_s) if len(visits) else ():
            yield row.model_copy(update={"pool": _pool_name(name, row.pool)})


def _pool_name(stage: str, role: str) -> str:
    return stage if role == "both" else f"{stage} {role}"


def _pools(job: PipelineJob, name: str, uses: list[Use]) -> Iterator[PoolRow]:
    for one, use in zip(job.stages[name].hardware, uses, strict=True):
        yield PoolRow(
            role=_pool_name(name, "both" if one.role == job.stages[name].kind else one.role),
            replicas=one.replicas,
            accelerator=one.cluster.accelerator.name,
            accelerators=one.count,
            prompt=use.prompt,
            decode=use.decode,
            collectives=use.collectives,
            hidden=use.hidden,
        )


def _warnings(job: PipelineJob, journey: Record, found: Served) -> Iterator[str]:
    for name, visits in journey.parts.items():
        if visits.meta["overloaded"]:
            yield f"overload: the queue of stage `{name}` grew without bound, and the run was ended there"
        elif len(visits) == 0:
            yield f"no request took stage `{name}`"
        for note in _notes(job.stages[name], journey, visits):
            yield f"stage `{name}`: {note}"
    yield from refused(found, "what a stage can ever hold")
    if found.done.all():
        yield from drained(found)


def _notes(stage: Built, journey: Record, visits: Record) -> Iterable[str]:
    return (
        stage.notes(journey.requests.take(visits.who.astype(np.int64), visits.start_ps), visits) if len(visits) else ()
    )


def _sources(job: PipelineJob, cost: DeploymentCost) -> Iterator[Source]:
    for stage in job.stages.values():
        for one in stage.hardware:
            for entry in (one.cluster.accelerator, one.cluster.server, one.cluster.nic):
                yield from of_entry(entry, *entry.provenance)
    yield from cost.sources
    fabric = job.network.fabric
    for field, origin in fabric.sources.items():
        yield Source(fabric.name, field, origin.value_text, origin.source, origin.year, origin.confidence)


def _defaults(job: PipelineJob) -> Iterator[str]:
    for name, built in job.stages.items():
        stage = built.stage
        if isinstance(stage, Answer) and stage.job.section.software is None:
            yield f"software of {name}: {stage.job.software[0].name}"
