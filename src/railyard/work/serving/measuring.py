"""One variant of the result from the engine's record; its figures come from `measure` and `economics`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.notes import circuits_stay, notes_of
from railyard.graph import parquet, perfetto
from railyard.measure.cost.assumptions import Source
from railyard.measure.cost.evaluate import Use, deployment_cost
from railyard.measure.cost.serving import PaidGoodput as Sold
from railyard.measure.model_error import Judged, measured_deployments, serving_key
from railyard.measure.result.network import ReplicaFaultFigures
from railyard.measure.result.serving import (
    LinkRow,
    ModelPoolRow,
    ModelReplicaRow,
    ModelServing,
    PoolCacheFigures,
    PoolQueueRow,
    ReuseRow,
)
from railyard.measure.result.variants import ServedVariant, ServingVariant
from railyard.measure.serving.latencies import UNFINISHED, Served, counted, served
from railyard.measure.serving.objective import Objective, PoolRoom, goodput, queues, serving_errors, serving_tax
from railyard.work.serving.afd import sides_of
from railyard.work.serving.figures import (
    begun_anew,
    bounded,
    died,
    drained,
    idle_of,
    latencies_of,
    parts_of_bill,
    refused,
    requests_of,
    slo_of,
    thrashed,
    throughput_of,
    too_long,
    uses_of,
)
from railyard.work.serving.reuse import reuse
from railyard.work.study.kind import MeasuredVariant
from railyard.work.study.provenance import estimates, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.cost.evaluate import DeploymentCost
    from railyard.measure.serving.latencies import Served
    from railyard.measure.serving.objective import Goodput
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.serving.section import ObjectiveSection


def write_variant(folder: Path, job: ServingJob, run: Record, found: Served) -> None:
    """Writes `requests.parquet`, with the figures of each request, and `trace.json`."""
    arrived = replace(run, start_ps=np.asarray(job.requests.arrival_ps, np.int64))
    figures = {name: getattr(found, name) for name in found.__dataclass_fields__}
    parquet.write_record(arrived, folder / "requests.parquet", figures={**figures, "replica": run.who})
    pool = job.deployment.pool_of_replica
    perfetto.write(arrived, folder / "trace.json", who_name=lambda one: f"{job.pools[pool[one]].role} {one}")


_HOT_LINKS = 8
SHORTEST_S = 1e-9
"""Span of a run in which nothing was answered."""
LEFT_OUT = (
    "collectives of a replica take closed-form times; they share NICs with KV"
    " transfers, but not links between switches",
    "a pool with servers of its own has its own accelerators, scale-up and NICs; the network between is the cluster's,"
    " unless it has one of its own; a gateway between networks has links and a latency, and no price",
    "requests and tokens travel between users and replicas in no time",
    "writes to host memory, or to a store outside the cluster, cost nothing",
    "compute time of a percentile includes other requests in the same batches",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredServing(MeasuredVariant[ServedVariant]):
    """One variant of the result, with the requests as they were served and what they cost."""

    requests: Served
    cost: DeploymentCost


def objective_of(slo: ObjectiveSection) -> Objective:
    """The scenario's objective."""
    return Objective(slo.ttft, slo.tpot, slo.e2e, slo.attainment)


def judged_as(job: ServingJob) -> Judged:
    """Published deployments that are similar to a job: it is as far from them as the farthest of its pools."""
    known = measured_deployments()
    keys = [
        serving_key(job.model.name, pool.cluster.accelerator.architecture, software.name, pool.layout.precision)
        for pool, software in zip(job.pools, job.software, strict=True)
    ]
    return {
        "experts": bool(job.model.experts),
        "split": len(job.pools) > 1,
        "published": all(key in known for key in keys),
    }


def latencies(job: ServingJob, requests: RequestTable, run: Record) -> Served:
    """The requests of a run as they were served."""
    asked = requests.arrival_ps, requests.input_tokens, requests.output_tokens
    return served(*asked, run, entry_ps=job.entry_ps, handover_ps=job.handover_ps)


def as_served(job: ServingJob) -> Served:
    """What a job makes of the requests that it was prepared with."""
    run = job.run(job.requests)
    sent = job.as_sent(run)
    return latencies(sent, sent.requests, run)


def sold_of(found: Served, objective: Objective, good: Goodput) -> Sold:
    """What money bought: tokens of requests that met the objective, in the steady window."""
    counted, cached = objective.met(found)[good.ended], found.cached_tokens[good.ended]
    asked, answered = found.input_tokens[good.ended], found.output_tokens[good.ended]
    return Sold.of(counted, asked, answered, max(good.window.seconds, SHORTEST_S), cached)


def measure(job: ServingJob, run: Record, unlimited: tuple[Served, Served]) -> MeasuredServing:
    """Everything about one variant.

    Args:
        job: Behind it, with its requests as they were sent.
        run: What the engine found.
        unlimited: The requests on a scale-out network without limit, and on networks without limit.

    Raises:
        InputError: The bill holds an unknown kind.
    """
    found, objective = latencies(job, job.requests, run), objective_of(job.section.slo)
    good, gaps = goodput(found, objective), run.table("gaps")
    uses = uses_of(job, run, good.span_s)
    cost = deployment_cost(
        uses=uses, parts=parts_of_bill(job), goodput=sold_of(found, objective, good), assumptions=job.assumptions
    )
    gap_lower_s = np.asarray(gaps["lower_ps"] * 1e-12, np.float64)
    serving = ModelServing(
        outcome=run.meta["outcome"],
        requests=requests_of(job.requests, found),
        **latencies_of(found, counted(gaps["count"], gap_lower_s)),
        slo=slo_of(objective, good),
        throughput=throughput_of(found, good, cost, sum(pool.accelerators for pool in job.pools)),
        kv=_cache(job, run, found),
        replicas=replicas_of(job, run, good.span_s),
        pools=tuple(_pool(job, run, number, use) for number, use in enumerate(uses[: len(job.pools)])),
        links=_links(job, run, good.span_s),
        queues=_queues(job, run),
        trials=(),
        cpmt=cost.section(),
        power=cost.power.deployment_section(),
        capex=cost.capex.section(job.cluster.fitting_nics_usd),
        capacity=None,
        pareto=(),
        **_died(job, run),
    )
    variant = ServingVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        bound=job.cluster.is_bound,
        tax=serving_tax(found, *unlimited, objective),
        model_error=serving_errors(serving, **judged_as(job)),
        serving=serving,
        warnings=tuple(_warnings(job, run, found)),
        digest=_digest(run),
    )
    sources, defaults = tuple(_sources(job, cost)), tuple(_defaults(job))
    return MeasuredServing(variant, sources, LEFT_OUT, defaults, requests=found, cost=cost)


def _queues(job: ServingJob, run: Record) -> tuple[PoolQueueRow, ...]:
    rooms = tuple(
        PoolRoom(
            pool.role,
            float(pool.section.max_sequences * pool.replicas),
            float(made.kv_blocks * made.block_tokens * pool.replicas),
        )
        for pool, made in zip(job.pools, job.deployment.pools, strict=True)
    )
    entered = job.requests.arrival_ps + job.entry_ps
    return queues(run, rooms, entered, job.requests)


def _died(job: ServingJob, run: Record) -> dict[str, Any]:
    """What a result says of deaths: nothing where there are none."""
    if not job.deaths:
        return {}
    rows = tuple(
        ReplicaFaultFigures(
            what=one.what,
            at_s=one.begin_s,
            replicas=one.replicas,
            away_s=one.end_s - one.begin_s if one.replicas else 0.0,
        )
        for one in job.deaths
    )
    return {"faults": rows, "begun_anew": begun_anew(run)}


def _cache(job: ServingJob, run: Record, found: Served) -> PoolCacheFigures:
    blocks = np.concatenate(
        [np.full(pool.replicas, made.kv_blocks) for pool, made in zip(job.pools, job.deployment.pools, strict=True)]
    )
    done = found.done
    prompts = int(found.input_tokens[done].sum())
    return PoolCacheFigures(
        hit_rate=float(run.column("cached_tokens")[done].sum()) / prompts if prompts else 0.0,
        loaded_rate=float(run.column("loaded_tokens")[done].sum()) / prompts if prompts else 0.0,
        moved_rate=float(run.column("moved_tokens")[done].sum()) / prompts if prompts else 0.0,
        peak_share=float((run.table("replicas")["kv_peak_blocks"] / blocks).max()),
        preemptions=int(run.table("replicas")["preemptions"].sum()),
        reuse=tuple(_reuse(job)),
    )


def _reuse(job: ServingJob) -> Iterator[ReuseRow]:
    """The rate from which a known prefix as long as the mean prompt is loaded faster than it is computed."""
    tokens = max(round(float(job.requests.input_tokens.mean())), 1)
    for pool, cost in zip(job.pools, job.costs, strict=True):
        if pool.role != "decode" and pool.ffn is None:
            rate = reuse(job.model, pool.cluster.accelerator, pool.layout, cost, tokens)
            yield ReuseRow(
                pool=pool.role, prefix_tokens=tokens, peak_bps=rate.peak_bps, predicted_bps=rate.predicted_bps
            )


def replicas_of(job: ServingJob, run: Record, span_s: float) -> tuple[ModelReplicaRow, ...]:
    """The result's `replicas`, of a run that counts as so long."""
    totals = run.table("replicas")
    blocks = [job.deployment.pools[pool].kv_blocks for pool in totals["pool"]]
    return tuple(
        ModelReplicaRow(
            pool=job.pools[totals["pool"][number]].role,
            busy=float(totals["busy_ps"][number] * 1e-12 / span_s) if span_s > 0 else 0.0,
            loads=int(totals["loads"][number]),
            load_s=float(totals["load_ps"][number]) * 1e-12,
            slowed=float(totals["slowed_ps"][number] * 1e-12 / span_s) if span_s > 0 else 0.0,
            iterations=int(totals["iterations"][number]),
            input_tokens=int(totals["input_tokens"][number]),
            output_tokens=int(totals["output_tokens"][number]),
            cached_tokens=int(totals["cached_tokens"][number]),
            kv_peak_share=float(totals["kv_peak_blocks"][number] / blocks[number]),
        )
        for number in range(len(totals["pool"]))
    )


def _pool(job: ServingJob, run: Record, number: int, use: Use) -> ModelPoolRow:
    pool, totals = job.pools[number], run.table("replicas")
    rows = totals["pool"] == number
    iterations = max(float(totals["iterations"][rows].sum()), 1.0)
    tokens, cached = (float(totals[name][rows].sum()) / iterations for name in ("tokens", "kv_tokens"))
    return ModelPoolRow(
        role=pool.role,
        replicas=pool.replicas,
        accelerator=pool.cluster.accelerator.name,
        accelerators=pool.accelerators,
        prompt=use.prompt,
        decode=use.decode,
        collectives=use.collectives,
        hidden=use.hidden,
        apart=sides_of(pool, job.costs[number], tokens, cached),
    )


def _links(job: ServingJob, run: Record, span_s: float) -> tuple[LinkRow, ...]:
    """The links that KV transfers load most."""
    carried, links = run.table("links")["bytes"], job.deployment.links
    if len(carried) == 0 or span_s <= 0 or links is None:
        return ()
    load = 8 * carried / links.rate_bps / span_s
    most = [int(link) for link in np.argsort(-load, kind="stable")[:_HOT_LINKS] if load[link] > 0]
    return tuple(
        LinkRow(name=name, tier=tier, rate_bps=float(links.rate_bps[link]), utilization=float(load[link]))
        for link in most
        for name, tier in (job.networks.name(link),)
    )


def _warnings(job: ServingJob, run: Record, found: Served) -> Iterator[str]:
    """What happened to requests first: of many warnings only the first are printed."""
    if run.meta["overloaded"]:
        late, end_s = int((found.status == UNFINISHED).sum()), run.meta["end_ps"] * 1e-12
        yield (
            f"overload: the queue grew without bound and the run was ended after {end_s:.0f} s of"
            f" simulated time; {late} of {len(found)} requests were not answered"
        )
    elif run.meta["outcome"] == "stuck":
        yield "requests were left that no replica will ever serve: replicas are out and do not return"
    yield from refused(found, "the cache of any replica")
    yield from died(job.deaths, run)
    yield from thrashed(job.requests, run)
    idle = sum(idle_of(job, number) for number in range(len(job.networks.clusters)))
    if idle:
        there = idle + sum(pool.accelerators for pool in job.pools)
        yield (
            f"{idle} of {there} accelerators belong to no pool: dollars and watts count them, tokens a second of a GPU"
            " do not"
        )
    yield from (remark for cluster in job.networks.clusters for remark in cluster.remarks)
    for cluster in job.networks.clusters:
        yield from notes_of(cluster)
        yield from circuits_stay(cluster)
    yield from estimates(job.model)
    yield from bounded(job.model, job.pools, job.deployment.pools)
    yield from too_long(job.requests, job.model)
    if not run.meta["overloaded"] and found.done.any():
        yield from drained(found)


def _digest(run: Record) -> str:
    text = hashlib.sha256()
    for column in (run.column("first_token_ps"), run.end_ps, run.who, run.column("decode_replica")):
        text.update(np.ascontiguousarray(column).tobytes())
    return text.hexdigest()[:16]


def _sources(job: ServingJob, cost: DeploymentCost) -> Iterator[Source]:
    sides = [side for pool in job.pools for side in (pool, pool.ffn) if side is not None]
    yield from sources_of((side.cluster for side in sides), cost.sources, job.cluster.fabric)
    for software in job.software:
        yield Source("software", "profile", software.name, software.source, 0, "measured")


def _defaults(job: ServingJob) -> Iterator[str]:
    serving = job.section
    if serving.software is None:
        yield f"software: {job.software[0].name}"
    for pool in job.pools:
        if pool.section.replicas is None:
            yield f"replicas of {pool.role}: {pool.replicas}"
    if serving.cache.prefix and job.requests.block_tokens == 0:
        yield "no prefix is shared: the requests carry no prefix data"
    slo = serving.slo
    if slo.ttft is None and slo.tpot is None and slo.e2e is None:
        yield "no objective: every answered request counts as goodput"
    idle = sum(idle_of(job, number) for number in range(len(job.networks.clusters)))
    if idle:
        yield f"{idle} accelerators of the cluster belong to no pool: bought, powered and idle"
