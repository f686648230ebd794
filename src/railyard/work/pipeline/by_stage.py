"""The result's `stages`: who took each, what they waited and took there, its part of every percentile, its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from railyard.engine.stages import CAUSES
from railyard.measure.cost.ranges import band_of
from railyard.measure.result.serving import (
    LEVELS,
    DraftFigures,
    LatencyParts,
    Level,
    Percentiles,
    StageHardware,
    StageRow,
)
from railyard.measure.serving.journeys import spent_at
from railyard.measure.serving.percentiles import parts_of, quantiles
from railyard.work.pipeline.bill import usd_per_h

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.measure.cost.deployment import Use
    from railyard.work.pipeline.built import BuiltHardware
    from railyard.work.pipeline.prepare import PipelineJob
    from railyard.work.pipeline.shown import Shown


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
