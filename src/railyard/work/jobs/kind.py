"""Several jobs on one cluster: what each costs the others, on any engine of the registry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.names import link_name
from railyard.cluster.notes import notes_of
from railyard.graph import parquet
from railyard.graph.record import fingerprint
from railyard.measure.cost.assumptions import band_of
from railyard.measure.cost.capital import CostPart, parts_of_rows
from railyard.measure.cost.cost import JobFacts
from railyard.measure.cost.evaluate import deployment_cost, evaluate
from railyard.measure.decompose import NETWORK_CAUSES, decompose
from railyard.measure.job import Checkpointing
from railyard.measure.result.serving import Percentiles
from railyard.measure.result.variants import (
    CostRow,
    JobRow,
    JobsVariant,
    PlacementFigures,
    RoundsFigures,
    ServingFigure,
    SharedLink,
    SharedNetwork,
    SharedTier,
    SteppedFigure,
)
from railyard.measure.serving.objective import goodput
from railyard.measure.utilization import tax_of
from railyard.work.jobs.prepare import prepare
from railyard.work.jobs.simulate import ENOUGH, Answering, FreeNetworkRun, JobSetRuns, JobSetSteps
from railyard.work.serving.figures import uses_of
from railyard.work.serving.measuring import SHORTEST_S, latencies, objective_of, sold_of
from railyard.work.study.kind import MeasuredVariant, StudyKind, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.graph import Record
    from railyard.measure.decompose import Decomposition
    from railyard.measure.result.section import Band
    from railyard.measure.result.step import TaxFigures
    from railyard.work.jobs.prepare import JobTenant, SharedCluster
    from railyard.work.jobs.simulate import Figure, JobSetOutcome
    from railyard.work.study.tasks import Control


_HOT_LINKS = 8
LEFT_OUT = (
    "serving jobs share only their KV transfers with other jobs; collectives across servers,"
    " weight loading and cache moves stay off the shared fabric",
    "a serving job's slowdown in the sampled part is applied to its whole run",
)


@dataclass(frozen=True)
class Compared:
    """Every job alone, all together, and all but one.

    Attributes:
        without: Runs of all but one job, by the number of the missing one.
        free: By number of a training job: one of its steps on unlimited networks.
    """

    shared: SharedCluster
    alone: dict[int, JobSetOutcome]
    together: JobSetOutcome
    without: dict[int, JobSetOutcome]
    free: dict[int, FreeNetworkRun]


class Trained(TypedDict, total=False):
    """Figures that only training jobs have."""

    exposed_s: float
    usd_per_h: Band
    usd_per_mtoken: Band


def measure(compared: Compared) -> MeasuredVariant[JobsVariant]:
    """All figures of one variant."""
    shared, together = compared.shared, compared.together
    rows = [_job(compared, tenant) for tenant in shared.tenants]
    record = together.record
    variant = JobsVariant(
        name=shared.variant.name,
        settings=dict(shared.variant.settings),
        engine=shared.engine.name,
        jobs=tuple(rows),
        network=None if record is None else _network(shared, record),
        rounds=RoundsFigures(count=together.rounds, moved=together.moved, agree=together.moved < ENOUGH),
        warnings=(
            *_warnings(compared),
            *notes_of(shared.machine),
            *([] if record is None else record.meta.get("warnings", [])),
        ),
        digest=_digest(together),
    )
    left_out = () if record is None else tuple(str(words) for words in record.meta.get("left_out", ()))
    serves = any(tenant.serving is not None for tenant in shared.tenants)
    notes = tuple(f"{tenant.name}: {words}" for tenant in shared.tenants for words in tenant.notes)
    return MeasuredVariant(
        variant, left_out=(*left_out, *(LEFT_OUT if serves else ()), *notes), defaults=tuple(_defaults(shared))
    )


def _defaults(shared: SharedCluster) -> Iterator[str]:
    for tenant in shared.tenants:
        if tenant.training is not None:
            yield f"{tenant.name}: {tenant.training.training.layout}; software {tenant.training.training.software.name}"


def _warnings(compared: Compared) -> Iterator[str]:
    if compared.together.rounds > 1 and compared.together.moved >= ENOUGH:
        yield (
            f"serving and fabric did not converge after {compared.together.rounds} rounds: the last one changed"
            f" a figure by"
            f" {compared.together.moved:.1%}"
        )


def _job(compared: Compared, tenant: JobTenant) -> JobRow:
    number = tenant.number
    alone, together = compared.alone[number].figures[number], compared.together.figures[number]
    section = tenant.section
    return JobRow(
        name=tenant.name,
        kind=section.kind,
        accelerators=section.accelerators,
        placement=PlacementFigures(policy=section.placement.policy, seed=section.placement.seed),
        leafs=_leafs(compared.shared, tenant),
        start_s=section.start,
        alone=_figure(compared, tenant, alone),
        together=_figure(compared, tenant, together),
        slowdown=_ratio(together, alone),
        costs=tuple(_cost(compared, number, other) for other in compared.without if other != number),
    )


def _leafs(shared: SharedCluster, tenant: JobTenant) -> int:
    network, links = shared.machine.back_end, shared.machine.links
    ports = np.unique(network.port_of_rank[tenant.placement, 0])
    return len({int(links.target[network.port_links(int(port))[0][0]]) for port in ports})


def _ratio(figure: Figure, base: Figure) -> float:
    return figure.measure_s / base.measure_s if base.measure_s > 0 else 1.0


def _cost(compared: Compared, number: int, other: int) -> CostRow:
    """How much longer one job takes because of another: all together against all without the other."""
    every, without = compared.together.figures[number], compared.without[other].figures[number]
    transfers: dict[str, float] = {}
    if isinstance(every, Answering) and isinstance(without, Answering):
        transfers["transfer_share"] = every.slowdown / without.slowdown - 1.0
    return CostRow(
        job=compared.shared.tenants[other].name,
        seconds=every.measure_s - without.measure_s,
        share=_ratio(every, without) - 1.0,
        **transfers,
    )


def _figure(compared: Compared, tenant: JobTenant, figure: Figure) -> SteppedFigure | ServingFigure:
    shared = compared.shared
    if isinstance(figure, JobSetSteps):
        split = decompose(figure.record)
        tax = _tax(figure, split, compared.free[tenant.number], slows=figure.record.graph.loss is not None)
        trained = _trained(shared, tenant, figure, split)
        return SteppedFigure(step_s=figure.step_s, steps=figure.steps, tax=tax, **trained)
    usd_per_h, usd_per_mtoken = _served_money(shared, tenant, figure)
    return ServingFigure(
        ttft_s=Percentiles(**figure.ttft_s),
        tpot_s=Percentiles(**figure.tpot_s),
        transfers=figure.transfers,
        transfer_s=figure.transfer_s,
        transfer_slowdown=figure.slowdown,
        usd_per_h=usd_per_h,
        usd_per_mtoken=usd_per_mtoken,
    )


def _tax(figure: JobSetSteps, split: Decomposition, free: FreeNetworkRun, *, slows: bool) -> TaxFigures:
    """Share of a mean step that networks, and the other jobs on them, cost."""
    step = {cause: seconds / split.step_s * figure.step_s for cause, seconds in split.by_cause().items()}
    return tax_of(step, free.without_scale_out, free.without_networks, free.engine, slows=slows)


def _trained(shared: SharedCluster, tenant: JobTenant, figure: JobSetSteps, split: Decomposition) -> Trained:
    """Exposed communication and its cost; a job pays for its share of the machine."""
    if tenant.training is None:
        return {}
    training, prepared = tenant.training.training, tenant.training
    cost = evaluate(
        decomposition=split,
        accelerator=shared.machine.accelerator,
        parts=_parts(shared, tenant),
        job=JobFacts(
            tokens=float(training.tokens or training.step_tokens),
            tokens_per_step=float(training.step_tokens),
            step_s=figure.step_s,
            accelerators=tenant.section.accelerators,
            checkpointing=Checkpointing(),
        ),
        assumptions=prepared.assumptions,
    )
    exposed = split.seconds(*NETWORK_CAUSES) / split.step_s if split.step_ps else 0.0
    return {
        "exposed_s": exposed * figure.step_s,
        "usd_per_h": band_of(cost.cpmt.usd_per_gpu_h.scaled(tenant.section.accelerators)),
        "usd_per_mtoken": band_of(cost.cpmt.total),
    }


def _served_money(shared: SharedCluster, tenant: JobTenant, figure: Answering) -> tuple[Band, Band | None]:
    """Dollars per hour and per million tokens; a job pays for its share of the machine."""
    job = tenant.answers.as_sent(figure.run)
    served = latencies(job, job.requests, figure.run)
    objective = objective_of(job.section.slo)
    good = goodput(served, objective)
    cost = deployment_cost(
        uses=uses_of(job, figure.run, max(good.span_s, SHORTEST_S)),
        parts=_parts(shared, tenant),
        goodput=sold_of(served, objective, good),
        assumptions=job.assumptions,
    )
    each, accelerators = cost.owned.tokens["total"], tenant.section.accelerators
    return band_of(cost.owned.usd_per_gpu_h.scaled(accelerators)), None if each is None else band_of(each)


def _parts(shared: SharedCluster, tenant: JobTenant) -> list[CostPart]:
    share = tenant.section.accelerators / shared.machine.ranks
    return [replace(part, count=part.count * share) for part in parts_of_rows(bill_of(shared.machine))]


def _network(shared: SharedCluster, record: Record) -> SharedNetwork:
    """Link load by tier, averaged over the run of all jobs, and the busiest links."""
    links = shared.machine.links
    span_s = max(record.makespan_ps * 1e-12, 1e-12)
    carried = links.to_physical(record.table("links")["bytes"])
    load = carried * 8 / (links.line_bps[: links.physical] * span_s)
    tier_of = links.tier[: links.physical]
    used = [index for index in range(len(links.tiers)) if (tier_of == index).any()]
    tiers = tuple(
        SharedTier(
            name=links.tiers[index],
            links=int(np.count_nonzero(tier_of == index)),
            mean_utilization=float(load[tier_of == index].mean()),
            max_utilization=float(load[tier_of == index].max()),
            bytes=float(carried[tier_of == index].sum()),
        )
        for index in used
    )
    between = np.flatnonzero(tier_of != links.tiers.index("scale-up"))
    hot = between[np.argsort(-load[between], kind="stable")][:_HOT_LINKS]
    return SharedNetwork(
        span_s=span_s,
        tiers=tiers,
        hot_links=tuple(
            SharedLink(name=link_name(shared.machine, int(link)), utilization=float(load[link])) for link in hot
        ),
    )


def _digest(outcome: JobSetOutcome) -> str:
    runs = [figure.run for figure in outcome.figures.values() if isinstance(figure, Answering)]
    digest = "" if outcome.record is None else outcome.record.digest()
    return fingerprint(np.frombuffer(digest.encode(), np.uint8), *(run.end_ps for run in runs))


def _run(shared: SharedCluster, control: Control) -> Compared:
    every = [tenant.number for tenant in shared.tenants]
    bench = JobSetRuns(shared, control.stop, control.counted(2 * len(every) + 1))
    bench.plan()
    together = bench.of(every)
    alone = {number: bench.of([number]) for number in every}
    without = {number: bench.of([one for one in every if one != number]) for number in every if len(every) > 1}
    free = {tenant.number: bench.unlimited(tenant.number) for tenant in shared.tenants if tenant.step is not None}
    return Compared(shared, alone, together, without, free)


def _write(folder: Path, compared: Compared, _found: MeasuredVariant[JobsVariant]) -> None:
    """What happened on the fabric while all jobs ran, as Parquet."""
    if compared.together.record is not None:
        parquet.write_record(compared.together.record, folder / "timeline.parquet")


JOBS = kinds.add(
    "jobs",
    StudyKind(
        name="jobs",
        prepare=prepare,
        engine=lambda shared: shared.engine.name,
        run=_run,
        measure=measure,
        write=_write,
        parallel=True,
        faulty=True,
    ),
)
