"""A service in closed form: what is expected of its requests, and its key figures without a simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving.closed_form import expected, unknown_of
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.measure.cost.evaluate import Use, deployment_cost
from railyard.measure.result.section import KeyFigure
from railyard.measure.serving.latencies import DONE, Served, quantiles
from railyard.measure.serving.objective import goodput
from railyard.work.serving.afd import ffn_share
from railyard.work.serving.figures import drawn_w, idle_of, parts_of_bill
from railyard.work.serving.measuring import SHORTEST_S, objective_of, sold_of
from railyard.work.serving.prepare import job_of
from railyard.work.study.memo import cost_figure
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.engine.serving.closed_form import ExpectedTimes, PoolTotals
    from railyard.work.scenario.load import Variant
    from railyard.work.serving.placing import Ffn, PlacedPool
    from railyard.work.serving.prepare import ServingJob


def key_figures(variant: Variant) -> list[KeyFigure]:
    """Latencies, SLO attainment and prices of a scenario in closed form.

    Raises:
        InputError: It cannot be run, or something of it has no closed form.
    """
    job = job_of(variant, Memo())
    found, totals = expected_of(job)
    objective = objective_of(job.section.slo)
    good = goodput(found, objective)
    sold = sold_of(found, objective, good)
    uses = uses_in_closed_form(job, totals, max(good.span_s, SHORTEST_S))
    cost = deployment_cost(uses=uses, parts=parts_of_bill(job), goodput=sold, assumptions=job.assumptions)
    priced = cost.section()
    watts, capital = cost.power.deployment_section().total_w, cost.capex.section().total_usd
    replicas = " and ".join(f"{pool.replicas} x {pool.layout}" for pool in job.pools)
    return [
        cost_figure("Cost of a million tokens within the SLO", None if priced is None else priced.total),
        KeyFigure("SLO attainment", numbers.percent(good.attainment), f"target {100 * objective.attainment:g} %"),
        _latency("TTFT", found.ttft_s),
        _latency("TPOT", found.tpot_s),
        KeyFigure("Goodput", f"{numbers.short(good.requests_per_s)} requests/s", replicas),
        KeyFigure("Power", numbers.power(watts.typical)),
        cost_figure("Capital", capital),
    ]


def _latency(name: str, seconds: np.ndarray) -> KeyFigure:
    found = quantiles(seconds)
    return KeyFigure(f"{name}, p50", numbers.seconds(found["p50"]), f"p99 {numbers.seconds(found['p99'])}")


def refuse_without_closed_form(job: ServingJob) -> None:
    """Refuses a job that has no closed form.

    Raises:
        InputError: With the part that has none.
    """
    unknown = "users of a closed loop" if job.section.requests.users else unknown_of(job.deployment)
    if unknown:
        raise InputError(f"there is no closed form of {unknown}", hint="run it: the simulation gives the answer")


def expected_of(job: ServingJob) -> tuple[Served, tuple[PoolTotals, ...]]:
    """The requests as the closed form expects them, and the work of each pool.

    Raises:
        InputError: Something of the job has no closed form.
    """
    refuse_without_closed_form(job)
    entered = replace(job.requests, arrival_ps=job.requests.arrival_ps + job.entry_ps)
    found = expected(entered, job.deployment)
    return _seen(job, found), found.pools


def _seen(job: ServingJob, found: ExpectedTimes) -> Served:
    requests, none = job.requests, np.zeros(len(job.requests))
    arrival_s, ttft = np.asarray(requests.arrival_ps * 1e-12, np.float64), found.ttft_s + job.entry_ps * 1e-12
    return Served(
        arrival_s=arrival_s,
        done_s=found.done_s,
        input_tokens=requests.input_tokens.astype(np.int64),
        output_tokens=requests.output_tokens.astype(np.int64),
        cached_tokens=np.zeros(len(requests), np.int64),
        ttft_s=ttft,
        **dict.fromkeys(("queue_s", "transfer_s", "collectives_s", "compute_s", "decode_collectives_s"), none),
        tpot_s=found.tpot_s,
        e2e_s=found.done_s - arrival_s,
        status=np.full(len(requests), DONE, np.uint8),
    )


def uses_in_closed_form(job: ServingJob, pools: Sequence[PoolTotals], span_s: float) -> list[Use]:
    """Time shares and power of accelerators over `span_s` seconds; the law of power is the engine's."""
    uses, ffns = [], []
    for pool, made, did in zip(job.pools, job.deployment.pools, pools, strict=True):
        cost = made.cost
        energy = cost.idle_w * span_s * pool.replicas + cost.busy_w * did.busy_s + cost.joule_per_token * did.tokens
        energy += cost.joule_per_kv_token * did.kv_tokens + cost.joule_per_pair * did.pairs
        device, total_s = pool.cluster.accelerator, span_s * pool.replicas
        count, other = int(pool.ranks.size), ffn_share(pool)
        shares = did.prompt_s / total_s, max(did.busy_s - did.prompt_s, 0.0) / total_s
        uses.append(Use(device, count, drawn_w(device, energy * (1 - other), count, span_s), *shares))
        if pool.ffn is not None:
            device, count = pool.ffn.cluster.accelerator, int(pool.ffn.ranks.size)
            ffns.append(Use(device, count, drawn_w(device, energy * other, count, span_s), *shares))
    return [*uses, *ffns, *idle_uses(job)]


def powered(job: ServingJob) -> list[PlacedPool | Ffn]:
    """What draws power: the pools, and behind them the FFNs that are on other accelerators."""
    return [*job.pools, *(pool.ffn for pool in job.pools if pool.ffn is not None)]


def idle_uses(job: ServingJob) -> list[Use]:
    """Accelerators of each cluster that no pool uses."""
    counts = [(cluster.accelerator, idle_of(job, number)) for number, cluster in enumerate(job.networks.clusters)]
    return [Use(device, count, device.idle_power_w) for device, count in counts if count]
