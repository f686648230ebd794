"""From a journey through stages to one variant of the result, in the same form as a run without stages."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.economics.deployment import Use, deployment_cost
from railyard.economics.serving import Goodput as Sold
from railyard.economics.sources import Source, of_entry
from railyard.measure.serving.objective import Objective, goodput
from railyard.measure.serving.percentiles import counted, quantiles
from railyard.study.pipeline.bill import parts
from railyard.study.pipeline.by_stage import stages_json
from railyard.study.pipeline.model_stage import Answer
from railyard.study.pipeline.shown import shown
from railyard.study.serving.figures import latencies_of, requests_of, slo_of, throughput_of
from railyard.study.serving.measuring import SHORTEST_S, Measured
from railyard.study.serving.notes import drained, refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from railyard.economics.deployment import DeploymentCost
    from railyard.engine.stages import Journey, Tokens, Visit
    from railyard.graph.request_table import RequestTable
    from railyard.measure.serving.served import Served
    from railyard.study.pipeline.prepare import PipelineJob

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


def measure(job: PipelineJob, journey: Journey[RequestTable]) -> Measured:
    """Everything about one variant.

    Raises:
        InputError: The bill holds an unknown kind.
    """
    seen = shown(job.section, journey)
    found, objective = seen.served, objective_of(job)
    good = goodput(found, objective)
    span = max(good.span_s, SHORTEST_S)
    uses = uses_of(job, journey, span)
    met = objective.met(found)
    cost = deployment_cost(
        uses=[use for used in uses.values() for use in used],
        parts=list(parts(job)),
        goodput=Sold.of(met, found.input_tokens, found.output_tokens, span, found.cached_tokens),
        assumptions=job.assumptions,
    )
    replicas = list(_replicas(job, journey, span))
    serving = {
        "outcome": outcome(journey),
        "requests": requests_of(journey.requests, found),
        **latencies_of(found, _gaps(journey)),
        "slo": slo_of(objective, good),
        "throughput": throughput_of(found, good, cost, _accelerators(job)),
        "kv": _cache(journey, replicas),
        "replicas": replicas,
        "pools": [row for name, used in uses.items() for row in _pools(job, name, used)],
        "links": [],
        "stages": stages_json(job, journey, seen, uses, span),
        "cpmt": cost.cpmt_json(),
        "power": cost.power_json(),
        "capex": cost.capex.to_json(),
    }
    variant = {
        "name": job.variant.name,
        "settings": dict(job.variant.settings),
        "serving": serving,
        "warnings": list(_warnings(job, journey, found)),
        "digest": _digest(journey),
    }
    return Measured(variant, found, cost, tuple(_sources(job, cost)), tuple(_defaults(job)), LEFT_OUT)


def outcome(journey: Journey[RequestTable]) -> str:
    """`overload` when the queue of any stage grew without bound."""
    over = any(visit.passed is not None and visit.passed.overloaded for visit in journey.visits)
    return "overload" if over else "finished"


def uses_of(job: PipelineJob, journey: Journey[RequestTable], span_s: float) -> dict[str, list[Use]]:
    """How each stage's devices spend the run; those of a stage that nobody took stand idle."""
    return {visit.name: _uses_of(job, visit, span_s) for visit in journey.visits}


def _uses_of(job: PipelineJob, visit: Visit, span_s: float) -> list[Use]:
    if visit.passed is not None:
        return job.stages[visit.name].uses(visit.passed, span_s)
    return [
        Use(one.cluster.accelerator, one.count, one.cluster.accelerator.idle_power_w)
        for one in job.stages[visit.name].hardware
    ]


def _accelerators(job: PipelineJob) -> int:
    return sum(one.count for stage in job.stages.values() for one in stage.hardware)


def _tokens(journey: Journey[RequestTable]) -> list[Tokens]:
    """Answers of all models that somebody took."""
    passed = (visit.passed for visit in journey.visits)
    return [one.tokens for one in passed if one is not None and one.tokens is not None]


def _gaps(journey: Journey[RequestTable]) -> dict[str, float | None]:
    """Gaps between tokens, of all models together."""
    known = _tokens(journey)
    if not known:
        return quantiles(np.full(1, np.nan))
    return counted(np.sum([one.gap_count for one in known], axis=0), known[0].gap_lower_s)


def _cache(journey: Journey[RequestTable], replicas: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the prompts of all models together."""
    caches = [one.cache for one in _tokens(journey)]
    prompts = sum(one.prompt_tokens for one in caches)
    peaks = [row["kv_peak_share"] for row in replicas]
    return {
        "hit_rate": sum(one.found_tokens for one in caches) / prompts if prompts else 0.0,
        "loaded_rate": sum(one.loaded_tokens for one in caches) / prompts if prompts else 0.0,
        "peak_share": max(peaks, default=0.0),
        "preemptions": sum(one.preemptions for one in caches),
    }


def _replicas(job: PipelineJob, journey: Journey[RequestTable], span_s: float) -> Iterator[dict[str, Any]]:
    for visit in journey.visits:
        for row in job.stages[visit.name].replicas(visit.passed, span_s) if visit.passed is not None else ():
            role = row.get("pool")
            yield {**row, "pool": visit.name if role in {None, "both"} else f"{visit.name} {role}"}


def _pools(job: PipelineJob, name: str, uses: list[Use]) -> Iterator[dict[str, Any]]:
    for one, use in zip(job.stages[name].hardware, uses, strict=True):
        yield {
            "role": name if one.role in {"both", job.stages[name].kind} else f"{name} {one.role}",
            "replicas": one.replicas,
            "accelerator": one.cluster.accelerator.name,
            "accelerators": one.count,
            "prompt": use.prompt,
            "decode": use.decode,
            "network": use.network,
        }


def _warnings(job: PipelineJob, journey: Journey[RequestTable], found: Served) -> Iterator[str]:
    for visit in journey.visits:
        if visit.passed is not None and visit.passed.overloaded:
            yield f"overload: the queue of stage `{visit.name}` grew without bound, and the run was ended there"
        elif visit.passed is None:
            yield f"no request took stage `{visit.name}`"
        for note in _notes(job, journey, visit):
            yield f"stage `{visit.name}`: {note}"
    yield from refused(found, "what a stage can ever hold")
    if found.done.all():
        yield from drained(found)


def _notes(job: PipelineJob, journey: Journey[RequestTable], visit: Visit) -> Iterable[str]:
    if visit.passed is None:
        return ()
    came = journey.requests.take(visit.rows, visit.begin.at_ps[visit.rows])
    return job.stages[visit.name].notes(came, visit.passed)


def _digest(journey: Journey[RequestTable]) -> str:
    text = hashlib.sha256()
    for visit in journey.visits:
        text.update(np.ascontiguousarray(visit.rows).tobytes())
        if visit.passed is not None:
            text.update(np.ascontiguousarray(visit.passed.end_ps).tobytes())
    return text.hexdigest()[:16]


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
