"""Tries variations of one scenario's pipeline: the study room's interface for planners."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.stage import CAUSES, takers
from railyard.kit.schema import yaml
from railyard.measure.cost.evaluate import Use, deployment_cost
from railyard.measure.cost.serving import PaidGoodput as Sold
from railyard.measure.serving.latencies import quantiles
from railyard.measure.serving.objective import Objective
from railyard.work.pipeline.measuring import bill_parts, measure, parts, shown, streaming, uses_of
from railyard.work.pipeline.model_stage import job_of, takers_of
from railyard.work.scenario.load import Variant, dump, without_compare
from railyard.work.serving.measuring import objective_of
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.graph import Record, RequestTable
    from railyard.measure.result.variants import ServedVariant
    from railyard.measure.serving.latencies import Served
    from railyard.work.pipeline.batched import BuiltHardware
    from railyard.work.pipeline.model_stage import PipelineJob
    from railyard.work.pipeline.section import PipelineSection
    from railyard.work.scenario.load import Draft

_QUEUE = CAUSES.index("queue")
_BLAMED = 0.02
"""A stage in which late requests wait less than this share of their time is not blamed."""


@dataclass(frozen=True)
class PipelineTrial:
    """A simulated deployment.

    Attributes:
        attainment: Share of the requests in time.
        score: Typical dollars per million tokens within the SLO, over the time in which requests arrived.
        usd_per_h: Typical dollars per hour of the deployment.
        ttft_s, tpot_s, e2e_s: Quantiles.
        blamed: Stages in which late requests waited, and models.
    """

    attainment: float
    score: float
    usd_per_h: float
    ttft_s: Mapping[str, float | None]
    tpot_s: Mapping[str, float | None]
    e2e_s: Mapping[str, float | None]
    blamed: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Bench:
    """Pipelines of one scenario."""

    draft: Draft
    memo: Memo = field(default_factory=Memo)

    def job(self, changes: Mapping[str, Any]) -> PipelineJob:
        """The pipeline with changed values by dotted key.

        Raises:
            InputError: It cannot be built.
        """
        return job_of(Variant("plan", {}, self._changed(changes)), self.memo)

    def job_alone(self, name: str, changes: Mapping[str, Any]) -> PipelineJob:
        """A pipeline of one stage only, with changed values by dotted key.

        Raises:
            InputError: It cannot be built.
        """
        changed = self._changed(changes)
        return job_of(Variant("alone", {}, changed), self.memo, _only(changed.scenario.pipeline, name))

    def _changed(self, changes: Mapping[str, Any]) -> Draft:
        return without_compare(self.draft).with_values(changes, "plan")

    def yaml(self, changes: Mapping[str, Any]) -> str:
        """The scenario with changed values by dotted key, as a runnable file."""
        return yaml.to_text(dump(self._changed(changes).scenario))


def _only(section: PipelineSection, name: str) -> PipelineSection:
    stage = section.stages[name]
    when = stage.when.model_copy(update={"unless": None})
    alone = stage.model_copy(update={"after": None, "quorum": None, "when": when})
    return section.model_copy(update={"stages": {name: alone}})


def takers_alone(job: PipelineJob, name: str) -> RequestTable:
    """The requests that use a stage, whatever other stages they use."""
    when = replace(takers_of(job.section.stages[name].when), unless=None)
    taken = takers(when, job.variant.draft.scenario.seed, name, job.requests.input_tokens, None)
    return job.requests.take(np.flatnonzero(taken))


def served_by(job: PipelineJob, requests: RequestTable) -> Served:
    """Requests as the pipeline serves them."""
    return shown(job.section, job.run(requests)).served


def objective_alone(job: PipelineJob, stages: PipelineSection, name: str) -> Objective:
    """The part of the objective that applies to a stage alone."""
    speaking, objective, names = streaming(stages.stages), objective_of(job.section.slo), list(stages.stages)
    behind = any(names.index(name) > names.index(model) for model in speaking)
    return Objective(
        None if behind else objective.ttft_s,
        objective.tpot_s if name in speaking else None,
        objective.e2e_s,
        objective.attainment,
    )


def idle_usd_per_h(job: PipelineJob, hardware: BuiltHardware) -> float:
    """Typical dollars per hour of one replica with its devices idle."""
    device = hardware.cluster.accelerator
    cost = deployment_cost(
        uses=[Use(device, hardware.count, device.idle_power_w)],
        parts=list(bill_parts(job, hardware)),
        goodput=Sold(input_tokens=1.0, output_tokens=1.0, seconds=1.0, attainment=1.0),
        assumptions=job.assumptions,
    )
    return cost.usd_per_h.typical / hardware.replicas


def variant_of(job: PipelineJob) -> ServedVariant:
    """All figures of the pipeline, as the result has them."""
    return measure(job, job.run(job.requests)).variant


def tried(job: PipelineJob) -> PipelineTrial:
    """Simulates the pipeline; the figures by which deployments are compared."""
    journey = job.run(job.requests)
    seen = shown(job.section, journey)
    met = objective_of(job.section.slo).met(seen.served)
    total, usd_per_h = _cost(job, journey, seen.served, met)
    return PipelineTrial(
        attainment=float(met.mean()),
        score=total,
        usd_per_h=usd_per_h,
        ttft_s=quantiles(seen.served.ttft_s),
        tpot_s=quantiles(seen.served.tpot_s),
        e2e_s=quantiles(seen.served.e2e_s),
        blamed=_blamed(job, seen.end_to_end, ~met),
    )


def _cost(job: PipelineJob, journey: Record, found: Served, met: NDArray[np.bool_]) -> tuple[float, float]:
    """Dollars per million tokens within the SLO, infinite where there are none, and per hour; both typical."""
    duration_s = journey.requests.duration_s
    span_s, during_s = max(found.span_s, duration_s, 1e-9), max(duration_s, 1e-9)
    cost = deployment_cost(
        uses=[use for used in uses_of(job, journey, span_s).values() for use in used],
        parts=list(parts(job)),
        goodput=Sold.of(met, found.input_tokens, found.output_tokens, during_s, found.cached_tokens),
        assumptions=job.assumptions,
    )
    total = cost.owned.tokens["total"]
    return float("inf") if total is None else total.typical, cost.usd_per_h.typical


def _blamed(job: PipelineJob, spent: NDArray[np.float64], late: NDArray[np.bool_]) -> tuple[str, ...]:
    """Models, and stages in which late requests waited; all of them if no request finished."""
    rows = spent[late & ~np.isnan(spent[:, 0, 0])]
    names = list(job.stages)
    if len(rows) == 0:
        return tuple(names)
    queue = rows[:, :, _QUEUE].mean(axis=0) / max(float(rows.sum(axis=(1, 2)).mean()), 1e-12)
    return tuple(
        name for number, name in enumerate(names) if queue[number] >= _BLAMED or job.stages[name].kind == "model"
    )
