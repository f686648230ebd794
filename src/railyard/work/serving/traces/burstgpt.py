"""BurstGPT (HPMLL/BurstGPT): seconds since the start, model, two lengths, log. No answer: a request that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import MOST_TOKENS, PS_PER_S
from railyard.work.serving.traces.formats import FORMATS, Rows, TraceFormat
from railyard.work.serving.traces.lines import decimal, integers

if TYPE_CHECKING:
    from railyard.work.serving.traces.lines import Batch, Faults


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: Faults) -> Rows:
    kinds = [f"{model}, {log}" if log else model for model, log in _classes(cells)]
    prompts, answers = "Request tokens", "Response tokens"
    return Rows(
        line=np.array(batch.numbers, np.int64),
        time=decimal(batch, cells["Timestamp"], "Timestamp", faults),
        input_tokens=integers(batch, cells[prompts], prompts, faults, low=1, high=MOST_TOKENS),
        output_tokens=integers(batch, cells[answers], answers, faults, high=MOST_TOKENS),
        kind=kinds,
    )


def _classes(cells: dict[str, list[Any]]) -> list[tuple[str, str]]:
    count = len(cells["Timestamp"])
    return list(zip(cells.get("Model", ["request"] * count), cells.get("Log Type", [""] * count), strict=True))


FORMATS.add(
    "burstgpt",
    TraceFormat(
        title="BurstGPT",
        style="csv",
        needed=("Timestamp", "Request tokens", "Response tokens"),
        optional=("Model", "Total tokens", "Log Type", "Session ID", "Elapsed time"),
        ps_per_tick=PS_PER_S,
        absolute=False,
        rows=_rows,
        source="HPMLL/BurstGPT; Wang et al., arXiv 2401.17644",
    ),
)
