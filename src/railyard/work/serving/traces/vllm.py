"""Records of real vLLM runs (casys-kaist/LLMServingSim): when each request arrived, by the wall clock; lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import MOST_TOKENS, PS_PER_S
from railyard.work.serving.traces.formats import FORMATS, Rows, TraceFormat
from railyard.work.serving.traces.lines import decimal, integers

if TYPE_CHECKING:
    from railyard.work.serving.traces.lines import Batch, Faults


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: Faults) -> Rows:
    return Rows(
        line=np.array(batch.numbers, np.int64),
        time=decimal(batch, cells["arrival_time"], "arrival_time", faults),
        input_tokens=integers(batch, cells["input_toks"], "input_toks", faults, low=1, high=MOST_TOKENS),
        output_tokens=integers(batch, cells["output_toks"], "output_toks", faults, high=MOST_TOKENS),
    )


FORMATS.add(
    "vllm",
    TraceFormat(
        title="vLLM run",
        style="jsonl",
        needed=("input_toks", "output_toks", "arrival_time"),
        optional=("request_id", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts"),
        ps_per_tick=PS_PER_S,
        absolute=True,
        rows=_rows,
        source="casys-kaist/LLMServingSim, bench results",
    ),
)
