"""Designs of a service: clusters and layouts of pools together, in closed form and on the engine `serving`."""

from __future__ import annotations

import hashlib
import math
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.build import PlannedHardware
from railyard.ask.plan.objectives import figures_of
from railyard.ask.plan.outcome import DesignOutcome
from railyard.ask.plan.price import ServicePrice, kept_of
from railyard.ask.plan.uncertainty import PlanKind, TimeError, modelled, plan_kinds
from railyard.kit.errors import InputError
from railyard.measure.cost.cost import hourly_inputs
from railyard.measure.cost.evaluate import Use, deployment_cost
from railyard.measure.cost.serving import PaidGoodput
from railyard.measure.model_error import serving_error
from railyard.measure.serving.latencies import quantiles
from railyard.measure.serving.objective import goodput
from railyard.work.scenario.load import Variant
from railyard.work.serving.expected import (
    expected_of,
    idle_uses,
    powered,
    refuse_without_closed_form,
    uses_in_closed_form,
)
from railyard.work.serving.figures import drawn_w, parts_of_bill, uses_of
from railyard.work.serving.measuring import SHORTEST_S, judged_as, latencies, objective_of, sold_of
from railyard.work.serving.prepare import job_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.ask.plan.build import DesignBench
    from railyard.ask.plan.price import DesignPrice
    from railyard.engine.serving.closed_form import PoolTotals
    from railyard.measure.serving.latencies import Served
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.prepare import ServingJob

    _Design = tuple[ServingJob, PlannedHardware]


_SHOWN = ("p50", "p90", "p99")


@dataclass(frozen=True)
class _RequestFigures:
    """What came of the requests of a service, without money.

    Attributes:
        mean_s: From arrival to end.
        span_s: Length of the run, s.
        sold: The fields of `ServicePrice` that say what came of requests.
        pools: Closed-form figures of each pool.
    """

    mean_s: float
    span_s: float
    sold: Mapping[str, Any]
    pools: tuple[PoolTotals, ...] = ()


def sweep(bench: DesignBench, points: Sequence[tuple[int, int]], exclude: frozenset[str]) -> Iterator[DesignOutcome]:
    """Points in closed form, those that cannot be with their error."""
    for point, demand in points:
        try:
            yield _closed(bench, point, demand, exclude)
        except InputError as error:
            yield DesignOutcome(point, demand, "analytic", error=error.reason)


def _run(
    bench: DesignBench, place: tuple[int, int], engine: str, _layout: Mapping[str, Any], _budget_hops: float
) -> DesignOutcome:
    job = _job(bench, *place)
    run = job.run(job.requests)
    came = _figures(job, latencies(job, job.requests, run))
    return _judged(bench, (*place, engine), (job, _hardware(job)), came, uses_of(job, run, came.span_s))


def _look(
    bench: DesignBench, place: tuple[int, int], outcome: DesignOutcome
) -> tuple[PlannedHardware, str, DesignPrice, tuple[TimeError, ...]]:
    job = _job(bench, *place)
    hardware = _hardware(job)
    return hardware, words(job.pools), _again(bench, place, (job, hardware), outcome), _missed(job)


def replica(bench: DesignBench, point: int, demand: int) -> tuple[int, int]:
    """Accelerators of one replica of each pool together, and the most replicas of a pool."""
    pools = _job(bench, point, demand).pools
    return sum(pool.accelerators // pool.replicas for pool in pools), max(pool.replicas for pool in pools)


def words(pools: Sequence[PlacedPool]) -> str:
    """Pools in words: `8 x tp 4`, `prefill 6 x tp 4 and decode 5 x attention tp 4 with FFNs ep 8`."""
    found = []
    for pool in pools:
        role = "" if pool.role == "both" else f"{pool.role} "
        layout = str(pool.layout) if pool.ffn is None else f"attention {pool.layout} with FFNs {pool.ffn.layout}"
        found.append(f"{role}{pool.replicas} x {layout}")
    return " and ".join(found)


def _job(bench: DesignBench, point: int, demand: int) -> ServingJob:
    space = bench.space
    variant = Variant(space.name(point), space.settings(point), space.draft(point, demand))
    return job_of(variant, bench.memo())


def _hardware(job: ServingJob) -> PlannedHardware:
    found = PlannedHardware.of(job.cluster, parts=parts_of_bill(job))
    machines = [machine for pool in job.pools for machine, _ in pool.separate]
    makers = {entry.vendor for one in machines for entry in (one.accelerator, one.nic)}
    return replace(found, names=found.names | makers)


def _closed(bench: DesignBench, point: int, demand: int, exclude: frozenset[str]) -> DesignOutcome:
    job = _job(bench, point, demand)
    refuse_without_closed_form(job)
    came = bench.once(("requests", _digest(job)), lambda: _expected(job))
    hardware, uses = _hardware(job), uses_in_closed_form(job, came.pools, came.span_s)
    outcome = _judged(bench, (point, demand, "analytic"), (job, hardware), came, uses)
    return hardware.marked(outcome, exclude)


def _digest(job: ServingJob) -> bytes:
    """Digest of what the closed form of requests depends on: equal for designs of the same answer, whatever they cost.

    Links are a part of it where keys and values go over them; fabrics and topologies often differ in nothing else.
    """
    made = job.deployment
    links = made.links if len(made.pools) > 1 else None
    deployed = (made.pools, made.router, made.decode_router, made.transfers, links)
    return hashlib.blake2b(pickle.dumps((job.requests, job.entry_ps, objective_of(job.section.slo), deployed))).digest()


def _expected(job: ServingJob) -> _RequestFigures:
    """The figures of a job in closed form."""
    found, pools = expected_of(job)
    return replace(_figures(job, found), pools=pools)


def _figures(job: ServingJob, found: Served) -> _RequestFigures:
    """What came of requests by when each was served.

    Raises:
        InputError: None of them is in time.
    """
    objective = objective_of(job.section.slo)
    good = goodput(found, objective)
    sold = sold_of(found, objective, good)
    if not sold.tokens_per_h("total"):
        raise InputError("no request meets the SLO")
    each = {"ttft": found.ttft_s, "tpot": found.tpot_s, "e2e": found.e2e_s}
    seen = {(name, share): value for name, times in each.items() for share, value in quantiles(times).items()}
    came = {
        "tokens_per_s": sold.tokens_per_h("total") / 3600,
        "attainment": good.attainment,
        "goodput_per_s": good.requests_per_s,
        "latencies": {key: value for key, value in seen.items() if key[1] in _SHOWN},
        "kept": kept_of(found, objective, good),
    }
    return _RequestFigures(float(np.mean(found.e2e_s[found.done])), max(good.span_s, SHORTEST_S), came)


def _judged(
    bench: DesignBench, place: tuple[int, int, str], design: _Design, came: _RequestFigures, uses: Sequence[Use]
) -> DesignOutcome:
    service = _service(bench, place[:2], design, uses, **came.sold)
    return DesignOutcome(
        *place,
        step_s=came.mean_s,
        layouts=({},),
        steps_s=(came.mean_s,),
        tried=1,
        figures=figures_of(service, "serving"),
        kept=service.kept,
        drawn_w=tuple(use.drawn_w.typical for use in uses[: len(powered(design[0]))]),
    )


def _service(
    bench: DesignBench, pair: tuple[int, int], design: _Design, uses: Sequence[Use], **came: Any
) -> ServicePrice:
    """The price of a service; `came` are the fields of `ServicePrice` that say what came of its requests."""
    (job, hardware), assumptions = design, bench.assumptions(*pair)
    sold = PaidGoodput(came["tokens_per_s"], 0.0, 1.0, came["attainment"])
    cost = deployment_cost(uses=uses, parts=hardware.parts, goodput=sold, assumptions=assumptions)
    return ServicePrice(
        capex=cost.capex,
        power=cost.power,
        inputs=hourly_inputs(cost.capex, cost.power, assumptions),
        rack_w=job.cluster.catalog.price("rack-power").range.typical,
        delivery_s=bench.delivery_s(hardware),
        site=assumptions.site,
        grid=assumptions.grid,
        **came,
    )


def _again(bench: DesignBench, pair: tuple[int, int], design: _Design, outcome: DesignOutcome) -> ServicePrice:
    """The money of a design whose requests are known already: nothing is simulated again."""
    job, uses = design[0], []
    for side, watts in zip(powered(job), outcome.drawn_w, strict=True):
        device, count = side.cluster.accelerator, int(side.ranks.size)
        uses.append(Use(device, count, drawn_w(device, watts * count, count, 1.0)))
    names = {"tokens_per_s": "tokens_per_s", "attainment": "attainment", "goodput_per_s": "goodput"}
    came = {field: outcome.figures[name] for field, name in names.items()}
    return _service(bench, pair, design, [*uses, *idle_uses(job)], **came, latencies={}, kept=outcome.kept)


def _missed(job: ServingJob) -> tuple[TimeError, ...]:
    """What the model may miss of a service: its iterations, and how layouts differ in that."""
    error = serving_error("tpot", **judged_as(job))
    bias = (math.log1p(error.low) + math.log1p(error.high)) / 2
    devices = " and ".join(dict.fromkeys(side.cluster.accelerator.name for side in powered(job)))
    layout = math.log1p(error.between) / math.sqrt(2)
    return (
        TimeError(modelled(f"iterations of {job.model.name} on {devices}", bias, error.scatter)),
        TimeError(modelled(f"layout {words(job.pools)} of {job.model.name}", 0.0, layout)),
    )


plan_kinds.add("serving", PlanKind(sweep, _run, _look))
