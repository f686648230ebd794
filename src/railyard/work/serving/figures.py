"""Figures of the result that services and pipelines have alike: requests, latencies, objective, throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from railyard.measure.result.serving import (
    LEVELS,
    CommunicationShare,
    LatencyParts,
    Level,
    ObjectiveFigures,
    Percentiles,
    RequestsFigures,
    ThroughputFigures,
)
from railyard.measure.serving.percentiles import parts_of, quantiles
from railyard.measure.serving.served import DROPPED, PARTS, UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from railyard.graph.request_table import RequestTable
    from railyard.measure.cost.deployment import DeploymentCost
    from railyard.measure.serving.objective import Goodput, Objective
    from railyard.measure.serving.served import Served


class Latencies(TypedDict):
    """The result's percentiles of every latency, and what they are made of."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles
    e2e_s: Percentiles
    queue_s: Percentiles
    ttft_parts: dict[Level, LatencyParts]
    communication_share: CommunicationShare


def requests_of(asked: RequestTable, found: Served) -> RequestsFigures:
    """The result's `requests`."""
    return RequestsFigures(
        count=len(asked),
        rate_per_s=asked.rate_per_s,
        input_tokens_mean=float(asked.input_tokens.mean()),
        output_tokens_mean=float(asked.output_tokens.mean()),
        done=int(found.done.sum()),
        dropped=int((found.status == DROPPED).sum()),
        unfinished=int((found.status == UNFINISHED).sum()),
        source=asked.source,
    )


def percentiles(values: NDArray[np.float64]) -> Percentiles:
    """Of what is not NaN, as a result holds them."""
    return Percentiles(**quantiles(values))


def latencies_of(found: Served, gaps: Mapping[str, float | None]) -> Latencies:
    """Percentiles of every latency, and what they are made of.

    Args:
        found: The requests as they were served.
        gaps: Between two tokens.
    """
    parts = parts_of(found.ttft_s, {f"{part}_s": getattr(found, f"{part}_s") for part in PARTS})
    ttft = {level: LatencyParts(**parts[level]) for level in LEVELS if parts}
    tpot = parts_of(
        found.tpot_s, {"collectives": found.decode_collectives_s, "rest": found.tpot_s - found.decode_collectives_s}
    )
    return Latencies(
        ttft_s=percentiles(found.ttft_s),
        tpot_s=percentiles(found.tpot_s),
        itl_s=Percentiles(**gaps),
        e2e_s=percentiles(found.e2e_s),
        queue_s=percentiles(found.queue_s),
        ttft_parts=ttft,
        communication_share=CommunicationShare(
            ttft={level: _share(row["collectives_s"] + row["transfer_s"], row) for level, row in _levels(parts)},
            tpot={level: _share(row["collectives"], row) for level, row in _levels(tpot)},
        ),
    )


def _levels(parts: Mapping[str, dict[str, float]]) -> list[tuple[Level, dict[str, float]]]:
    return [(level, parts[level]) for level in LEVELS if parts]


def _share(part: float, row: dict[str, float]) -> float:
    total = sum(row.values())
    return part / total if total > 0 else 0.0


def slo_of(objective: Objective, good: Goodput) -> ObjectiveFigures:
    """The result's `slo`: the limits, and what met them."""
    return ObjectiveFigures(
        ttft_s=objective.ttft_s,
        tpot_s=objective.tpot_s,
        e2e_s=objective.e2e_s,
        target=objective.attainment,
        attainment=good.attainment,
        goodput_rps=good.requests_per_s,
        goodput_input_tokens_per_s=good.input_tokens_per_s,
        goodput_output_tokens_per_s=good.output_tokens_per_s,
    )


def throughput_of(found: Served, good: Goodput, cost: DeploymentCost, accelerators: int) -> ThroughputFigures:
    """The result's `throughput`; `per_gpu` and `per_mw` are output tokens a second, of facility power.

    Args:
        found: The requests as they were served.
        good: What came of them.
        cost: Of the deployment.
        accelerators: That serve.
    """
    tpot = quantiles(found.tpot_s)["p50"]
    return ThroughputFigures(
        span_s=good.span_s,
        input_tokens_per_s=good.all_input_tokens_per_s,
        output_tokens_per_s=good.all_output_tokens_per_s,
        accelerators=accelerators,
        per_gpu=good.all_output_tokens_per_s / accelerators,
        per_user=None if not tpot else 1 / tpot,
        per_mw=good.all_output_tokens_per_s / cost.power.total_w.typical * 1e6,
    )
