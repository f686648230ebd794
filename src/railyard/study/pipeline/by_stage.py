"""The result's `stages`: who took each, what they waited and took there, its part of every percentile, its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.economics.ranges import to_json
from railyard.engine.stages import CAUSES
from railyard.measure.serving.journeys import spent_at
from railyard.measure.serving.percentiles import parts_of, quantiles
from railyard.study.pipeline.bill import usd_per_h

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from railyard.economics.deployment import Use
    from railyard.graph import Record
    from railyard.study.pipeline.built import Hardware
    from railyard.study.pipeline.prepare import PipelineJob
    from railyard.study.pipeline.shown import Shown


def stages_json(
    job: PipelineJob, journey: Record, seen: Shown, uses: Mapping[str, list[Use]], span_s: float
) -> list[dict[str, Any]]:
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
    total = _by_stage(seen.served.e2e_s, seen.whole, names)
    rows = []
    for name, visits in journey.parts.items():
        stage, here = job.stages[name], spent_at(visits)[visits.ended]
        rows.append(
            {
                "name": name,
                "kind": stage.kind,
                "taken": len(visits) / len(journey),
                "hardware": [_hardware(one) for one in stage.hardware],
                "busy": _busy(uses[name]),
                "seconds": quantiles(here.sum(axis=1)),
                **{
                    f"{cause}_s": float(here[:, place].mean()) if len(here) else 0.0
                    for place, cause in enumerate(CAUSES)
                },
                "ttft_parts": {level: row[name] for level, row in first.items()},
                "e2e_parts": {level: row[name] for level, row in total.items()},
                "usd_per_h": to_json(usd_per_h(job, name, uses[name], span_s)),
                **(stage.figures(visits) if len(visits) else {}),
            }
        )
    return rows


def _hardware(one: Hardware) -> dict[str, Any]:
    return {
        "role": one.role,
        "server": one.cluster.server.name,
        "accelerator": one.cluster.accelerator.name,
        "accelerators": one.count,
        "replicas": one.replicas,
    }


def _busy(uses: list[Use]) -> float | None:
    count = sum(use.count for use in uses)
    return sum(use.count * (use.prompt + use.decode + use.network) for use in uses) / count if count else None


def _by_stage(
    total: NDArray[np.float64], spent: NDArray[np.float64], names: list[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Parts of every percentile by stage and cause; they add up to it."""
    columns = {
        (name, cause): spent[:, number, place]
        for number, name in enumerate(names)
        for place, cause in enumerate(CAUSES)
    }
    flat = parts_of(total, {f"{name}\n{cause}": column for (name, cause), column in columns.items()})
    return {
        level: {name: {f"{cause}_s": row[f"{name}\n{cause}"] for cause in CAUSES} for name in names}
        for level, row in flat.items()
    }
