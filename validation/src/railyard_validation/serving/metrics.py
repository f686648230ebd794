"""What a measured serving row publishes, and what the model says of it: one pair of functions a metric."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.iteration import cache_bytes
from railyard.work.serving.memory import WALL, accelerator_w, weight_bytes
from railyard_validation.serving.loads import batched_prompt_s
from railyard_validation.serving.model import deployment_software, table
from railyard_validation.serving.states import planned_states, run_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.serving.software import ServingSoftwareColumns
    from railyard_validation.serving.cases import Case
    from railyard_validation.serving.model import Table
    from railyard_validation.serving.states import States
    from railyard_validation.serving.table import Row

    F = NDArray[np.float64]

METRICS = {
    "tpot": "seconds a token",
    "ttft": "seconds to the first token",
    "throughput": "tokens/s of one accelerator",
    "power": "W",
    "cost": "USD per million tokens",
}


# USD of an accelerator hour where a row does not say it: what vllm-cost-meter's own costs and rates of tokens give on
# all of its rows of that device (Azure NC A100 v4).
_PRICES = {(True, "A100_80GB_PCIe"): 3.67}


def measured(row: Row, metric: str) -> tuple[str, float] | None:
    """What a row publishes of a metric, with the name of it and of its unit; None if it does not."""
    real = row.real
    if metric == "tpot" and "tok/s/user" in row.get("load"):
        # The pace is what the unit is filled up to, not what came of it.
        return None
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


@dataclass(frozen=True)
class Prediction:
    """What the model says of a row.

    Attributes:
        value: By the serving engine, request by request, where the row has a load; by the closed form else.
        closed_form: By the closed form that fitting uses.
    """

    value: float
    closed_form: float


def predict(cases: Sequence[Case], metric: str) -> list[Prediction | str]:
    """The model's values for each case, or why there are none.

    Args:
        cases: That publish the metric.
        metric: A key of `METRICS`.
    """
    if not cases:
        return []
    whole = table(cases)
    software = deployment_software(whole.cases)
    planned = planned_states(whole, software)
    both = [by_cases(metric, whole, software, state) for state in (run_states(whole, software, planned), planned)]
    found: list[Prediction | str] = []
    for value, closed_form in zip(*both, strict=True):
        if isinstance(value, str) or isinstance(closed_form, str):
            found.append(value if isinstance(value, str) else str(closed_form))
        else:
            found.append(Prediction(value, closed_form))
    return found


def by_cases(metric: str, whole: Table, software: ServingSoftwareColumns, state: States) -> Sequence[float | str]:
    """The model's value of a metric for each row of a table, or why there is none.

    Args:
        metric: A key of `METRICS`.
        whole: Rows.
        software: Rows as long.
        state: What the deployments do under their loads.
    """
    if metric == "tpot":
        return list(state.tpot_s.tolist())
    if metric == "ttft":
        return list(state.ttft_s.tolist())
    if metric == "throughput":
        return _throughput(whole, software, state)
    if metric == "cost":
        tokens = (state.rate_per_s * whole.output).tolist()
        return [_cost(case, rate) for case, rate in zip(whole.cases, tokens, strict=True)]
    drawn = _power(whole, state).tolist()
    return [power * _counted(case) for case, power in zip(whole.cases, drawn, strict=True)]


def _meter(row: Row) -> bool:
    return "cost-meter" in row.get("source")


def _counted(case: Case) -> float:
    """Accelerators that a row's power is of: all, but one where a meter's mean over cards is published."""
    return 1.0 if _meter(case.row) else case.row.real.get("n_accel") or 1.0


def _power(whole: Table, state: States) -> F:
    """Mean power of one accelerator; wall power where the row is a server's."""
    rows = whole.behind
    model, layout, device = rows.model, rows.layout, rows.device
    second = np.maximum(state.tpot_s, 1e-9)
    read = weight_bytes(rows) + cache_bytes(rows) * model.layers * state.batch / layout.dp * (
        whole.prompt + whole.output / 2.0
    )
    memory = np.minimum(read / second / device.hbm_bytes_s, 1.0)
    per_token = 2.0 * model.active_parameters * (1.0 + whole.prompt / whole.output)
    each = per_token * state.batch / second / (layout.ranks * layout.pp)
    math = each / device.best_flops_s(layout.dense_math)
    drawn = accelerator_w(device.tdp_w, memory, np.minimum(math, 1.0), state.busy)
    wall = np.array(["MLPerf" in case.row.get("source") for case in whole.cases])
    return np.where(wall, drawn * WALL, drawn)


def _cost(case: Case, tokens_s: float) -> float | str:
    """USD for a million tokens of the kind that the row counts, at the row's price of an accelerator hour."""
    named = case.row.get("accelerator")
    said = re.search(r"\$([\d.]+)(?:/h|/GPU-h)", named + " " + case.row.get("notes"))
    price = float(said.group(1)) if said else _PRICES.get((_meter(case.row), named), 0.0)
    if not price:
        return "the row gives no price of an accelerator hour"
    if case.kind == "other":
        return "the row gives no load from which a rate of tokens follows"
    count = case.row.real.get("n_accel") or 1.0
    return price * count / 3600.0 / max(tokens_s, 1e-9) * 1e6


def _cached(row: Row) -> float:
    """Share of the input tokens that a row counts although a cache had them."""
    said = re.search(r"INCLUDING ([\d.]+)\s?% .*cache hits", row.get("notes"))
    return float(said.group(1)) / 100.0 if said else 0.0


def _throughput(whole: Table, software: ServingSoftwareColumns, state: States) -> list[float | str]:
    """Tokens/s of one accelerator: of prompts where the row counts these, else of answers."""
    cached = np.array([_cached(case.row) for case in whole.cases])
    prompts = batched_prompt_s(whole.ahead, software, whole.prompt, cached)
    found: list[float | str] = []
    for number, case in enumerate(whole.cases):
        if not case.row.real.get("out_tok_s_per_gpu"):
            pool = case.prefill or case.decode
            found.append(float(whole.prompt[number] / prompts[number] / pool.ranks))
            continue
        ahead = case.prefill.ranks * case.prefill.workers if case.prefill else 0
        ranks = case.decode.ranks * case.decode.workers + ahead
        found.append(float(state.rate_per_s[number] * whole.output[number]) / ranks)
    return found
