"""Computes one variant of the result from a journey through stages, in the same form as a run without stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.catalog import Range
from railyard.cluster.bill import bill_of
from railyard.engine.stage import CAUSES, FIRST, PS, SERVING
from railyard.graph import parquet, perfetto
from railyard.measure.cost.assumptions import band_of
from railyard.measure.cost.capital import CostPart, component_of
from railyard.measure.cost.evaluate import Use, deployment_cost
from railyard.measure.cost.serving import PaidGoodput
from railyard.measure.result.serving import (
    LEVELS,
    CacheFigures,
    LatencyParts,
    Level,
    Percentiles,
    PipelineServing,
    PoolRow,
    ReplicaRow,
    StageHardware,
    StageRow,
)
from railyard.measure.result.variants import PipelineVariant
from railyard.measure.serving.latencies import (
    Served,
    counted,
    parts_by_percentile,
    quantiles,
    spent,
    spent_at,
    spent_until,
)
from railyard.measure.serving.objective import goodput
from railyard.work.pipeline.model_stage import Answer, nics_of
from railyard.work.pipeline.section import waits_for
from railyard.work.serving.figures import drained, latencies_of, refused, requests_of, slo_of, throughput_of
from railyard.work.serving.measuring import SHORTEST_S, MeasuredServing, objective_of, sold_of
from railyard.work.study.provenance import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.work.pipeline.batched import Built, BuiltHardware
    from railyard.work.pipeline.model_stage import PipelineJob
    from railyard.work.pipeline.section import PipelineSection, StageSection


@dataclass(frozen=True, eq=False)
class Shown:
    """What the user sees.

    Attributes:
        served: As for a run without stages; the four parts of the first token are sums over the stages.
        first: f64[n, stages, 4], parts of the time to the first token by stage and cause; NaN if there is none.
        end_to_end: f64[n, stages, 4], parts of the time to the end.
    """

    served: Served
    first: NDArray[np.float64]
    end_to_end: NDArray[np.float64]


def streaming(stages: Mapping[str, StageSection]) -> tuple[str, ...]:
    """Models whose tokens are streamed to the user: only host stages come after them."""
    found = []
    for name, stage in stages.items():
        behind = _behind(stages, name)
        if stage.kind == "model" and all(stages[other].kind == "host" for other in behind):
            found.append(name)
    return tuple(found)


def _behind(stages: Mapping[str, StageSection], name: str) -> set[str]:
    """All stages that come after one."""
    found: set[str] = set()
    for other in stages:
        waited = waits_for(dict(stages), other)
        if name in waited or found & set(waited):
            found.add(other)
    return found


def shown(section: PipelineSection, journey: Record) -> Shown:
    """What the user sees of a journey."""
    done, total = journey.ended, spent(journey)
    columns = _Columns.at_end(journey, total)
    speaking = streaming(section.stages)
    took = _took(journey, speaking)
    for name in speaking:
        answer = getattr(section.stages[name], "output", None)
        columns.stream(journey, name, took, answer)
    columns.first[~done], columns.tpot[~done] = np.nan, np.nan
    return Shown(_served(journey, columns), columns.first, np.where(done[:, None, None], total, np.nan))


@dataclass(eq=False)
class _Columns:
    """Columns by request; initially as if whole responses appeared at the end."""

    first_ps: NDArray[np.int64]
    first: NDArray[np.float64]
    tpot: NDArray[np.float64]
    decode_collectives: NDArray[np.float64]
    cached: NDArray[np.int64]

    @classmethod
    def at_end(cls, journey: Record, total: NDArray[np.float64]) -> _Columns:
        count = len(journey)
        return cls(
            journey.end_ps.copy(),
            total.copy(),
            np.full(count, np.nan),
            np.zeros(count),
            np.zeros(count, np.int64),
        )

    def stream(self, journey: Record, name: str, took: NDArray[np.int64], answer: int | None) -> None:
        """Streams the answers of a model token by token, for requests that no other streaming model answers."""
        visits = journey.parts[name]
        if len(visits) == 0:
            return
        alone = took[visits.who] == 1
        rows, first_ps = visits.who[alone], visits.column("first_token_ps")[alone]
        self.first_ps[rows] = first_ps
        self.first[rows] = spent_until(journey, name)[alone]
        self.first[rows, list(journey.parts).index(name)] += np.column_stack(
            [visits.column(one)[alone] for one in FIRST]
        )
        steps = (journey.requests.output_tokens[rows] if answer is None else np.full(len(rows), answer)) - 1.0
        later = (visits.end_ps[alone] - first_ps) / PS
        self.tpot[rows] = np.where(steps > 0, later / np.maximum(steps, 1.0), np.nan)
        self.decode_collectives[rows] = visits.column("decode_collectives_s")[alone]
        self.cached[rows] = visits.column("cached_tokens")[alone]


def _took(journey: Record, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Number of those stages that each request used."""
    took = np.zeros(len(journey), np.int64)
    for name in names:
        took[journey.parts[name].who] += 1
    return took


def _served(journey: Record, found: _Columns) -> Served:
    requests, done = journey.requests, journey.ended
    causes = {cause: found.first[:, :, place].sum(axis=1) for place, cause in enumerate(CAUSES)}
    return Served(
        arrival_s=np.asarray(requests.arrival_ps / PS, np.float64),
        done_s=np.where(done, journey.end_ps / PS, np.nan),
        input_tokens=np.asarray(requests.input_tokens, np.int64),
        output_tokens=np.asarray(requests.output_tokens, np.int64),
        cached_tokens=found.cached,
        ttft_s=np.where(done, (found.first_ps - requests.arrival_ps) / PS, np.nan),
        queue_s=causes["queue"],
        transfer_s=causes["transfer"],
        collectives_s=causes["collectives"],
        compute_s=causes["compute"],
        tpot_s=found.tpot,
        decode_collectives_s=np.where(np.isnan(found.tpot), np.nan, found.decode_collectives),
        e2e_s=np.where(done, (journey.end_ps - requests.arrival_ps) / PS, np.nan),
        status=journey.column("status"),
    )


_DEVICES = frozenset({"accelerator", "server", "nic"})


def parts(job: PipelineJob) -> Iterator[CostPart]:
    """The bill: the hardware of the stages, and their ports' share of the network."""
    for stage in job.stages.values():
        for one in stage.hardware:
            yield from bill_parts(job, one)


def bill_parts(job: PipelineJob, hardware: BuiltHardware) -> Iterator[CostPart]:
    """The same for some devices of the job."""
    share = hardware.count / hardware.cluster.ranks
    for row in bill_of(hardware.cluster):
        if row.kind in _DEVICES:
            yield CostPart(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)
    bill = bill_of(job.network)
    share = nics_of(hardware) / bill.count("nic")
    for row in bill:
        if row.kind not in _DEVICES:
            yield CostPart(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)


def usd_per_h(job: PipelineJob, name: str, uses: list[Use], span_s: float) -> Range:
    """Hourly cost of one stage: its part of the bill alone."""
    if not uses:
        return Range(0.0, 0.0, 0.0)
    alone = replace(job, stages={name: job.stages[name]})
    sold = PaidGoodput(input_tokens=1.0, output_tokens=1.0, seconds=span_s, attainment=1.0)
    return deployment_cost(uses=uses, parts=list(parts(alone)), goodput=sold, assumptions=job.assumptions).usd_per_h


def write_variant(folder: Path, journey: Record, found: Served) -> None:
    """Writes `requests.parquet`, with figures of each request, a file of visits per stage, and `trace.json`."""
    figures = {name: getattr(found, name) for name in found.__dataclass_fields__}
    for name, visits in journey.parts.items():
        figures[f"{name}_begin_s"] = _by_request(visits, visits.start_ps, len(journey))
        figures[f"{name}_end_s"] = _by_request(visits, visits.end_ps, len(journey))
    parquet.write_record(journey, folder / "requests.parquet", figures=figures)
    perfetto.write(journey, folder / "trace.json")


def _by_request(visits: Record, time_ps: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Seconds by request; NaN for those that did not get there."""
    found = np.full(count, np.nan)
    found[visits.who] = np.where(time_ps >= 0, time_ps * 1e-12, np.nan)
    return found


def stage_rows(
    job: PipelineJob, journey: Record, seen: Shown, uses: Mapping[str, list[Use]], span_s: float
) -> tuple[StageRow, ...]:
    """One row per stage."""
    names = list(job.stages)
    first = _by_stage(seen.served.ttft_s, seen.first, names)
    total = _by_stage(seen.served.e2e_s, seen.end_to_end, names)
    rows = []
    for name, visits in journey.parts.items():
        stage, here = job.stages[name], spent_at(visits)[visits.ended]
        mean = {cause: float(here[:, place].mean()) if len(here) else 0.0 for place, cause in enumerate(CAUSES)}
        drafted = stage.draft(visits) if len(visits) else None
        rare: dict[str, Any] = {} if drafted is None else {"draft": drafted}
        rows.append(
            StageRow(
                name=name,
                kind=stage.kind,
                taken=len(visits) / len(journey),
                hardware=tuple(_hardware(one) for one in stage.hardware),
                busy=_busy(uses[name]),
                seconds=Percentiles(**quantiles(here.sum(axis=1))),
                queue_s=mean["queue"],
                compute_s=mean["compute"],
                collectives_s=mean["collectives"],
                transfer_s=mean["transfer"],
                ttft_parts={level: row[name] for level, row in first.items()},
                e2e_parts={level: row[name] for level, row in total.items()},
                usd_per_h=band_of(usd_per_h(job, name, uses[name], span_s)),
                **rare,
            )
        )
    return tuple(rows)


def _hardware(one: BuiltHardware) -> StageHardware:
    return StageHardware(
        role=one.role,
        server=one.cluster.server.name,
        accelerator=one.cluster.accelerator.name,
        accelerators=one.count,
        replicas=one.replicas,
    )


def _busy(uses: list[Use]) -> float | None:
    count = sum(use.count for use in uses)
    return sum(use.count * (use.prompt + use.decode + use.collectives) for use in uses) / count if count else None


def _by_stage(
    total: NDArray[np.float64], spent: NDArray[np.float64], names: list[str]
) -> dict[Level, dict[str, LatencyParts]]:
    """Parts of every percentile by stage and cause; they sum to it."""
    columns = {
        (name, cause): spent[:, number, place]
        for number, name in enumerate(names)
        for place, cause in enumerate(CAUSES)
    }
    flat = parts_by_percentile(total, {f"{name}\n{cause}": column for (name, cause), column in columns.items()})
    return {
        level: {
            name: LatencyParts(**{f"{cause}_s": flat[level][f"{name}\n{cause}"] for cause in CAUSES}) for name in names
        }
        for level in LEVELS
        if flat
    }


LEFT_OUT = (
    "each stage has its own hardware, and data only flows forward: a model that is called twice is two stages",
    "data between stages share no links; KV transfers within a stage do",
    "external tools cost nothing here",
    "only the user's tokens count, not those between stages",
)


def measure(job: PipelineJob, journey: Record) -> MeasuredServing:
    """All figures of one variant.

    Raises:
        InputError: The bill has an unknown kind.
    """
    seen = shown(job.section, journey)
    found, objective = seen.served, objective_of(job.section.slo)
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
    hardware = [one for stage in job.stages.values() for one in stage.hardware]
    variant = PipelineVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        bound=job.network.is_bound,
        serving=PipelineServing(
            outcome=journey.meta["outcome"],
            requests=requests_of(journey.requests, found),
            **latencies_of(found, _gaps(journey)),
            slo=slo_of(objective, good),
            throughput=throughput_of(found, good, cost, sum(one.count for one in hardware)),
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
    sources = tuple(sources_of((one.cluster for one in hardware), cost.sources, job.network.fabric))
    return MeasuredServing(variant, sources, LEFT_OUT, tuple(_defaults(job)), requests=found, cost=cost)


def uses_of(job: PipelineJob, journey: Record, span_s: float) -> dict[str, list[Use]]:
    """Time shares of each stage's devices; those of an unused stage are idle."""
    return {name: _uses_of(job.stages[name], visits, span_s) for name, visits in journey.parts.items()}


def _uses_of(stage: Built, visits: Record, span_s: float) -> list[Use]:
    if len(visits):
        return stage.uses(visits, span_s)
    return [Use(one.cluster.accelerator, one.count, one.cluster.accelerator.idle_power_w) for one in stage.hardware]


def _models(journey: Record) -> list[Record]:
    """Visits to all models that some request used."""
    return [visits for visits in journey.parts.values() if visits.has("first_token_ps")]


def _gaps(journey: Record) -> dict[str, float | None]:
    """Gaps between tokens, over all models."""
    known = [visits.parts[SERVING].table("gaps") for visits in _models(journey)]
    if not known:
        return quantiles(np.full(1, np.nan))
    return counted(np.sum([one["count"] for one in known], axis=0), np.asarray(known[0]["lower_ps"] / PS, np.float64))


def _cache(journey: Record, replicas: Sequence[ReplicaRow]) -> CacheFigures:
    """Prefix cache figures of all models together."""
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


def _defaults(job: PipelineJob) -> Iterator[str]:
    for name, built in job.stages.items():
        stage = built.stage
        if isinstance(stage, Answer) and stage.job.section.software is None:
            yield f"software of {name}: {stage.job.software[0].name}"
