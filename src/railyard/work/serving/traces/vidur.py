"""Vidur's processed traces (microsoft/vidur, `data/processed_traces`): seconds and two lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import MOST_TOKENS, PS_PER_S
from railyard.work.serving.traces.formats import FORMATS, Rows, TraceFormat
from railyard.work.serving.traces.lines import decimal, integers

if TYPE_CHECKING:
    from railyard.work.serving.traces.lines import Batch, Faults


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: Faults) -> Rows:
    prompts, answers = "num_prefill_tokens", "num_decode_tokens"
    return Rows(
        line=np.array(batch.numbers, np.int64),
        time=decimal(batch, cells["arrived_at"], "arrived_at", faults),
        input_tokens=integers(batch, cells[prompts], prompts, faults, low=1, high=MOST_TOKENS),
        output_tokens=integers(batch, cells[answers], answers, faults, high=MOST_TOKENS),
    )


FORMATS.add(
    "vidur",
    TraceFormat(
        title="Vidur",
        style="csv",
        needed=("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        optional=("num_total_tokens", "pd_ratio"),
        ps_per_tick=PS_PER_S,
        absolute=False,
        rows=_rows,
        source="microsoft/vidur; Agrawal et al., MLSys 2024",
    ),
)
