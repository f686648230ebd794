"""The result's `stages`: who took each, what they waited and took there, its part of every percentile, its cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.catalog import Range
from railyard.cluster.bill import bill_of
from railyard.engine.stages import CAUSES
from railyard.graph import parquet, perfetto
from railyard.measure.cost.capital import Part, component_of
from railyard.measure.cost.deployment import deployment_cost
from railyard.measure.cost.ranges import band_of
from railyard.measure.cost.serving import PaidGoodput
from railyard.measure.result.serving import (
    LEVELS,
    DraftFigures,
    LatencyParts,
    Level,
    Percentiles,
    StageHardware,
    StageRow,
)
from railyard.measure.serving.journeys import parts_of, quantiles, spent_at
from railyard.work.pipeline.prepare import nics_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.measure.cost.deployment import Use
    from railyard.measure.serving.served import Served
    from railyard.work.pipeline.built import BuiltHardware
    from railyard.work.pipeline.prepare import PipelineJob
    from railyard.work.pipeline.shown import Shown


_DEVICES = frozenset({"accelerator", "server", "nic"})


def parts(job: PipelineJob) -> Iterator[Part]:
    """The bill: what the stages stand on, and their ports' share of the network."""
    for stage in job.stages.values():
        for one in stage.hardware:
            yield from bill_parts(job, one)


def bill_parts(job: PipelineJob, hardware: BuiltHardware) -> Iterator[Part]:
    """The same of some devices of the job."""
    share = hardware.count / hardware.cluster.ranks
    for row in bill_of(hardware.cluster):
        if row.kind in _DEVICES:
            yield Part(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)
    bill = bill_of(job.network)
    share = nics_of(hardware) / bill.count("nic")
    for row in bill:
        if row.kind not in _DEVICES:
            yield Part(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)


def usd_per_h(job: PipelineJob, name: str, uses: list[Use], span_s: float) -> Range:
    """What one stage costs an hour: its part of the bill, by itself."""
    if not uses:
        return Range(0.0, 0.0, 0.0)
    alone = replace(job, stages={name: job.stages[name]})
    sold = PaidGoodput(input_tokens=1.0, output_tokens=1.0, seconds=span_s, attainment=1.0)
    return deployment_cost(uses=uses, parts=list(parts(alone)), goodput=sold, assumptions=job.assumptions).usd_per_h


def write_variant(folder: Path, journey: Record, found: Served) -> None:
    """Writes `requests.parquet`, with figures of each request, a file of visits for each stage, and `trace.json`."""
    figures = {name: getattr(found, name) for name in found.__dataclass_fields__}
    for name, visits in journey.parts.items():
        figures[f"{name}_begin_s"] = _by_request(visits, visits.start_ps, len(journey))
        figures[f"{name}_end_s"] = _by_request(visits, visits.end_ps, len(journey))
    parquet.write_record(journey, folder / "requests.parquet", figures=figures)
    perfetto.write(journey, folder / "trace.json")


def _by_request(visits: Record, time_ps: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Seconds, a row a request; NaN for those that did not come so far."""
    found = np.full(count, np.nan)
    found[visits.who] = np.where(time_ps >= 0, time_ps * 1e-12, np.nan)
    return found


def stage_rows(
    job: PipelineJob, journey: Record, seen: Shown, uses: Mapping[str, list[Use]], span_s: float
) -> tuple[StageRow, ...]:
    """A row a stage.

    Args:
        job: What ran.
        journey: What happened.
        seen: What the user saw of it.
        uses: How each stage's devices spent the run.
        span_s: How long it lasted.
    """
    names = list(job.stages)
    first = _by_stage(seen.served.ttft_s, seen.first, names)
    total = _by_stage(seen.served.e2e_s, seen.end_to_end, names)
    rows = []
    for name, visits in journey.parts.items():
        stage, here = job.stages[name], spent_at(visits)[visits.ended]
        mean = {cause: float(here[:, place].mean()) if len(here) else 0.0 for place, cause in enumerate(CAUSES)}
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
                **_drafted(stage.draft(visits) if len(visits) else None),
            )
        )
    return tuple(rows)


class Drafted(TypedDict, total=False):
    """The draft model of a stage, where it has one."""

    draft: DraftFigures


def _drafted(figures: DraftFigures | None) -> Drafted:
    return {} if figures is None else {"draft": figures}


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
    """Parts of every percentile by stage and cause; they add up to it."""
    columns = {
        (name, cause): spent[:, number, place]
        for number, name in enumerate(names)
        for place, cause in enumerate(CAUSES)
    }
    flat = parts_of(total, {f"{name}\n{cause}": column for (name, cause), column in columns.items()})
    return {
        level: {
            name: LatencyParts(**{f"{cause}_s": flat[level][f"{name}\n{cause}"] for cause in CAUSES}) for name in names
        }
        for level in LEVELS
        if flat
    }
