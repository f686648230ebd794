"""Predictions for measured serving rows, all at once: the steady state that each row's load leads to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.model.machine import Machine, RecordColumns
from railyard.work.serving.closed_loop import closed_loop
from railyard.work.serving.layout import Deployments
from railyard.work.serving.memory import sequences
from railyard.work.serving.software import ServingSoftwareColumns, profile
from railyard_validation.serving.loads import ServingLoad, decode_loop, open_loop, paced_loop, split_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.model.machine import F
    from railyard.work.serving.closed_loop import SteadyState
    from railyard.work.serving.layout import ServingLayout
    from railyard_validation.serving.cases import Case

_SCALE_OUT_BPS = 400e9
# Sequences that engines run at once unless told otherwise.
_MOST = {"vllm": 1024.0, "sglang": 2048.0, "tensorrt-llm": 2048.0, "deepseek": 4096.0}


def take(columns: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of columns by number, at every depth; what is absent stays so."""
    if columns is None:
        return None
    if isinstance(columns, np.ndarray):
        return columns[rows]
    if isinstance(columns, RecordColumns):
        return columns.take(rows)
    if isinstance(columns, Mapping):
        return {name: take(value, rows) for name, value in columns.items()}
    return type(columns)(*(take(getattr(columns, field.name), rows) for field in fields(columns)))


@dataclass(frozen=True)
class Table:
    """Rows of cases as columns.

    Attributes:
        cases: In order.
        behind, ahead: Replicas that decode (or do both), and those that compute prompts (else the same).
        users, rate, prompt, output, most: Load of a whole system, and sequences of a replica.
        workers, workers_ahead: Replicas.
        drafts, drafting: Tokens drafted in each iteration, and how sure that is.
        count: Requests of an open loop's run.
        middle: 1 where the row's time of a token is the middle of all gaps.
        kind: Numbers of rows by kind.
    """

    cases: tuple[Case, ...]
    behind: Deployments
    ahead: Deployments
    users: F
    rate: F
    prompt: F
    output: F
    most: F
    workers: F
    workers_ahead: F
    drafts: F
    drafting: F
    count: F
    middle: F
    kind: dict[str, NDArray[np.int64]]


def table(cases: Sequence[Case]) -> Table:
    """Cases as columns."""
    prompt = np.array([case.prompt for case in cases])
    output = np.array([case.output for case in cases])
    behind = Deployments.of(*(_replica(case, case.layout) for case in cases))
    ahead = Deployments.of(*(_replica(case, case.prefill_layout or case.layout) for case in cases))
    limit = np.array([_limit(case) * case.decode.dp for case in cases])
    names = ("closed", "split", "open", "batch", "decode", "paced", "offline", "other")
    return Table(
        tuple(cases),
        behind,
        ahead,
        np.array([case.users for case in cases]),
        np.array([case.rate_per_s for case in cases]),
        prompt,
        output,
        sequences(behind, prompt + output / 2.0, limit),
        np.array([float(case.decode.workers) for case in cases]),
        np.array(
            [
                float(case.prefill.workers) if case.prefill and not case.vague else float(not case.vague)
                for case in cases
            ]
        ),
        np.array([float(case.drafts) for case in cases]),
        np.array([case.drafting for case in cases]),
        np.array([case.count for case in cases]),
        np.array([float(case.middle) for case in cases]),
        {name: np.flatnonzero([case.kind == name for case in cases]) for name in names},
    )


def _replica(case: Case, layout: ServingLayout) -> tuple[Model, ServingLayout, Machine]:
    return case.model, layout, Machine.of_device(case.device, _SCALE_OUT_BPS, case.domain)


def _limit(case: Case) -> float:
    """Sequences that an engine runs at once on one attention copy: what the load names, else the engine's default.

    vLLM takes 256 on an A100 and on small devices, 1024 on others (its defaults by memory and name).
    """
    said = re.search(r"max_num_seqs (\d+)", case.row.get("load"))
    if said:
        return float(said.group(1))
    if case.engine == "vllm" and (case.device.memory_bytes < 70e9 or case.device.architecture == "ampere"):
        return 256.0
    return 256.0 if case.kind == "open" and case.engine == "sglang" else _MOST[case.engine]


def deployment_software(cases: Sequence[Case]) -> ServingSoftwareColumns:
    """The shipped constants of every case."""
    return ServingSoftwareColumns([profile(case.engine, case.device) for case in cases])


def part(whole: Table, index: NDArray[np.int64]) -> Table:
    """Rows of a table, by number."""
    cases = tuple(whole.cases[number] for number in index)
    named = {
        field.name: getattr(whole, field.name)[index]
        for field in fields(Table)
        if isinstance(getattr(whole, field.name), np.ndarray)
    }
    kinds = {name: np.flatnonzero([case.kind == name for case in cases]) for name in whole.kind}
    return Table(cases, take(whole.behind, index), take(whole.ahead, index), kind=kinds, **named)


def steady(whole: Table, software: ServingSoftwareColumns) -> dict[str, tuple[NDArray[np.int64], SteadyState]]:
    """The steady states by kind of load, with the numbers of their rows."""
    found: dict[str, tuple[NDArray[np.int64], SteadyState]] = {}
    for kind, index in whole.kind.items():
        if index.size:
            found[kind] = index, _one_kind(kind, part(whole, index), take(software, index))
    return found


def _one_kind(kind: str, rows: Table, software: ServingSoftwareColumns) -> SteadyState:
    users = rows.users / (1.0 if kind == "split" else rows.workers)
    if kind in ("offline", "other"):
        users = np.where(users > 0, users, rows.most)
    rate = rows.rate / (1.0 if kind == "paced" else rows.workers)
    means = (users, rows.prompt, rows.output, rows.most, rows.drafts, rows.drafting, rows.middle)
    traffic = ServingLoad(*means, rate_per_s=rate, count=rows.count)
    if kind == "split":
        return split_loop(rows.behind, rows.ahead, software, traffic, (rows.workers, rows.workers_ahead))
    law = {"open": open_loop, "decode": decode_loop, "paced": paced_loop}.get(kind, closed_loop)
    return law(rows.behind, software, traffic)


def tpot_s(whole: Table, software: ServingSoftwareColumns) -> F:
    """Seconds a token of every row."""
    seconds = np.zeros(len(whole.cases))
    for index, state in steady(whole, software).values():
        seconds[index] = state.tpot_s
    return seconds


def ttft_s(whole: Table, software: ServingSoftwareColumns) -> F:
    """Seconds to the first token of every row."""
    seconds = np.zeros(len(whole.cases))
    for index, state in steady(whole, software).values():
        seconds[index] = state.ttft_s
    return seconds
