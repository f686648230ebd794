"""Figures of the result that services and pipelines have alike: requests, latencies, objective, throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.measure.serving.percentiles import parts_of, quantiles
from railyard.measure.serving.served import DROPPED, PARTS, UNFINISHED

if TYPE_CHECKING:
    from railyard.economics.deployment import DeploymentCost
    from railyard.graph.request_table import RequestTable
    from railyard.measure.serving.objective import Goodput, Objective
    from railyard.measure.serving.served import Served


def requests_of(asked: RequestTable, found: Served) -> dict[str, Any]:
    """The result's `requests`."""
    return {
        "count": len(asked),
        "rate_per_s": asked.rate_per_s,
        "input_tokens_mean": float(asked.input_tokens.mean()),
        "output_tokens_mean": float(asked.output_tokens.mean()),
        "done": int(found.done.sum()),
        "dropped": int((found.status == DROPPED).sum()),
        "unfinished": int((found.status == UNFINISHED).sum()),
        "source": asked.source,
    }


def latencies_of(found: Served, gaps: dict[str, float | None]) -> dict[str, Any]:
    """Percentiles of every latency, and what they are made of.

    Args:
        found: The requests as they were served.
        gaps: Between two tokens.
    """
    ttft = parts_of(found.ttft_s, {f"{part}_s": getattr(found, f"{part}_s") for part in PARTS})
    tpot = parts_of(found.tpot_s, {"network": found.decode_network_s, "rest": found.tpot_s - found.decode_network_s})
    return {
        "ttft_s": quantiles(found.ttft_s),
        "tpot_s": quantiles(found.tpot_s),
        "itl_s": gaps,
        "e2e_s": quantiles(found.e2e_s),
        "queue_s": quantiles(found.queue_s),
        "ttft_parts": ttft,
        "network_share": {
            "ttft": {name: _share(row["network_s"] + row["transfer_s"], row) for name, row in ttft.items()},
            "tpot": {name: _share(row["network"], row) for name, row in tpot.items()},
        },
    }


def _share(part: float, row: dict[str, float]) -> float:
    total = sum(row.values())
    return part / total if total > 0 else 0.0


def slo_of(objective: Objective, good: Goodput) -> dict[str, Any]:
    """The result's `slo`: the limits, and what met them."""
    return {
        "ttft_s": objective.ttft_s,
        "tpot_s": objective.tpot_s,
        "e2e_s": objective.e2e_s,
        "target": objective.attainment,
        "attainment": good.attainment,
        "goodput_rps": good.requests_per_s,
        "goodput_input_tokens_per_s": good.input_tokens_per_s,
        "goodput_output_tokens_per_s": good.output_tokens_per_s,
    }


def throughput_of(found: Served, good: Goodput, cost: DeploymentCost, accelerators: int) -> dict[str, Any]:
    """The result's `throughput`; `per_gpu` and `per_mw` are output tokens a second, of facility power.

    Args:
        found: The requests as they were served.
        good: What came of them.
        cost: Of the deployment.
        accelerators: That serve.
    """
    tpot = quantiles(found.tpot_s)["p50"]
    return {
        "span_s": good.span_s,
        "input_tokens_per_s": good.all_input_tokens_per_s,
        "output_tokens_per_s": good.all_output_tokens_per_s,
        "accelerators": accelerators,
        "per_gpu": good.all_output_tokens_per_s / accelerators,
        "per_user": None if not tpot else 1 / tpot,
        "per_mw": good.all_output_tokens_per_s / cost.power.total_w.typical * 1e6,
    }
