"""What a measured serving row publishes, and what the model says of it: one pair of functions a metric."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from railyard.validate.serving_model import deployment_software, steady, table
from railyard.workload.serving.columns import take
from railyard.workload.serving.iteration import cache_bytes, math_rate
from railyard.workload.serving.memory import weight_bytes
from railyard.workload.serving.power import WALL, accelerator_w
from railyard.workload.serving.steady import batched_prompt_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.validate.serving_cases import Case
    from railyard.validate.serving_model import Table
    from railyard.validate.serving_table import Row
    from railyard.workload.serving.software import SoftwareColumns
    from railyard.workload.serving.steady import Steady

    F = NDArray[np.float64]

METRICS = {
    "tpot": "seconds a token",
    "ttft": "seconds to the first token",
    "throughput": "tokens/s of one accelerator",
    "power": "W",
    "cost": "USD per million tokens",
}


def measured(row: Row, metric: str) -> tuple[str, float] | None:
    """What a row publishes of a metric, with the name of it and of its unit; None if it does not."""
    real = row.real
    if metric in ("tpot", "ttft"):
        value = real.get(f"{metric}_ms", 0.0) / 1e3
        return (f"{metric}_s", value) if value else None
    if metric == "throughput":
        if real.get("out_tok_s_per_gpu"):
            return "output tokens/s per accelerator", real["out_tok_s_per_gpu"]
        if real.get("in_tok_s_per_gpu"):
            return "input tokens/s per accelerator", real["in_tok_s_per_gpu"]
        return None
    name = "power_w" if metric == "power" else "usd_per_mtok"
    return (name, real[name]) if real.get(name) else None


def predict(cases: Sequence[Case], metric: str) -> list[float | str]:
    """The model's value for each case, or why there is none.

    Args:
        cases: That publish the metric.
        metric: A key of `METRICS`.
    """
    if not cases:
        return []
    whole = table(cases)
    software = deployment_software(whole.cases)
    if metric == "throughput":
        return _throughput(whole, software)
    found: list[float | str] = [""] * len(cases)
    for index, state in steady(whole, software).values():
        values = _of_state(metric, whole, index, state)
        for number, value in zip(index.tolist(), values, strict=True):
            found[number] = value
    return found


def _of_state(metric: str, whole: Table, index: NDArray[np.int64], state: Steady) -> list[float | str]:
    if metric == "tpot":
        return list(state.tpot_s.tolist())
    if metric == "ttft":
        return list(state.ttft_s.tolist())
    cases = [whole.cases[number] for number in index]
    tokens = state.rate_per_s * whole.output[index]
    if metric == "cost":
        return [_cost(case, rate) for case, rate in zip(cases, tokens.tolist(), strict=True)]
    return [power * _counted(case) for case, power in zip(cases, _power(whole, index, state).tolist(), strict=True)]


def _counted(case: Case) -> float:
    """Accelerators that a row's power is of: all, but one where a meter's mean over cards is published."""
    return 1.0 if "cost-meter" in case.row.get("source") else case.row.real.get("n_accel") or 1.0


def _power(whole: Table, index: NDArray[np.int64], state: Steady) -> F:
    """Mean power of one accelerator in the steady state; wall power where the row is a server's."""
    rows = take(whole.behind, index)
    shape, place, device = rows.shape, rows.place, rows.device
    second = np.maximum(state.tpot_s, 1e-9)
    steps = np.maximum(whole.output[index] - 1.0, 1.0)
    open_ = whole.rate[index] > 0
    busy = np.where(open_, -np.expm1(-state.rate_per_s * steps * second), 1.0)
    read = weight_bytes(rows) + cache_bytes(rows) * shape.layers * state.batch / place.dp * (
        whole.prompt[index] + whole.output[index] / 2.0
    )
    memory = np.minimum(read / second / device.memory_bytes_s, 1.0)
    active = shape.total_parameters * (
        1.0 - shape.expert_share * (1.0 - shape.topk / np.maximum(shape.experts, 1.0)) * (shape.experts > 0)
    )
    per_token = 2.0 * active * (1.0 + whole.prompt[index] / whole.output[index])
    math = per_token * state.batch / second / (place.tp * place.dp * place.pp) / math_rate(rows, place.dense_math)
    drawn = accelerator_w(device.tdp_w, memory, np.minimum(math, 1.0), busy)
    wall = np.array(["MLPerf" in whole.cases[number].row.get("source") for number in index])
    return np.where(wall, drawn * WALL, drawn)


def _cost(case: Case, tokens_s: float) -> float | str:
    """USD for a million tokens of the kind that the row counts, at the row's price of an accelerator hour."""
    price = re.search(r"\$([\d.]+)(?:/h|/GPU-h)", case.row.get("accelerator") + " " + case.row.get("notes"))
    if not price:
        return "the row gives no price of an accelerator hour"
    if case.kind == "other":
        return "the row gives no load from which a rate of tokens follows"
    count = case.row.real.get("n_accel") or 1.0
    return float(price.group(1)) * count / 3600.0 / max(tokens_s, 1e-9) * 1e6


def _cached(row: Row) -> float:
    """Share of the input tokens that a row counts although a cache had them."""
    said = re.search(r"INCLUDING ([\d.]+)\s?% .*cache hits", row.get("notes"))
    return float(said.group(1)) / 100.0 if said else 0.0


def _throughput(whole: Table, software: SoftwareColumns) -> list[float | str]:
    """Tokens/s of one accelerator: of prompts where the row counts these, else of answers."""
    prompts = batched_prompt_s(whole.ahead, software, whole.prompt)
    found: list[float | str] = [""] * len(whole.cases)
    for index, state in steady(whole, software).values():
        for number, rate in zip(index.tolist(), state.rate_per_s.tolist(), strict=True):
            case = whole.cases[number]
            if not case.row.real.get("out_tok_s_per_gpu"):
                pool = case.prefill or case.decode
                found[number] = float(whole.prompt[number] / prompts[number] / pool.ranks) / (1.0 - _cached(case.row))
                continue
            replicas = 1 if case.kind == "split" else case.decode.workers
            ahead = case.prefill.ranks * case.prefill.workers if case.prefill else 0
            ranks = case.decode.ranks * case.decode.workers + ahead
            found[number] = rate * replicas * float(whole.output[number]) / ranks
    return found
