"""LLMServingSim's requests (casys-kaist/LLMServingSim): nanoseconds, two lengths, the tokens themselves where kept.

From the tokens of a prompt come its block hashes: of each whole block of 16 tokens (vLLM's block), over all tokens up
to its end, so that equal prefixes have equal hashes. Two different prefixes share a hash with a chance of 2^-64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import LAST_PS, MOST_TOKENS
from railyard.work.serving.arrivals import prefix_hashes
from railyard.work.serving.traces.formats import FORMATS, Rows, TraceFormat
from railyard.work.serving.traces.lines import integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.serving.traces.lines import Batch, Faults

BLOCK_TOKENS = 16


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: Faults) -> Rows:
    prompts = integers(batch, cells["input_toks"], "input_toks", faults, low=1, high=MOST_TOKENS)
    hashes = [
        _hashes(line, tokens, int(length), faults)
        for line, tokens, length in zip(batch.numbers, cells["input_tok_ids"], prompts, strict=True)
    ]
    return Rows(
        line=np.array(batch.numbers, np.int64),
        time=integers(batch, cells["arrival_time_ns"], "arrival_time_ns", faults, high=LAST_PS // 1000),
        input_tokens=prompts,
        output_tokens=integers(batch, cells["output_toks"], "output_toks", faults, high=MOST_TOKENS),
        block_counts=np.fromiter(map(len, hashes), np.int64, len(hashes)),
        block_hash=np.concatenate([*hashes, np.zeros(0, np.uint64)]),
        block_tokens=BLOCK_TOKENS if any(map(len, hashes)) else 0,
    )


def _hashes(line: int, tokens: Any, length: int, faults: Faults) -> NDArray[np.uint64]:
    if tokens is None:
        return np.zeros(0, np.uint64)
    are_integers = type(tokens) is list and set(map(type, tokens)) <= {int}
    if not are_integers or (tokens and not 0 <= min(tokens) <= max(tokens) < 2**32):
        faults.add(line, "input_tok_ids: expected a list of token numbers", found=tokens)
    elif len(tokens) != length:
        faults.add(line, "input_tok_ids is not as long as input_toks says", found=len(tokens), allowed=str(length))
    else:
        return prefix_hashes(np.array(tokens, np.uint64), BLOCK_TOKENS)
    return np.zeros(0, np.uint64)


FORMATS.add(
    "llmservingsim",
    TraceFormat(
        title="LLMServingSim",
        style="jsonl",
        needed=("input_toks", "output_toks", "arrival_time_ns"),
        optional=("input_tok_ids", "output_tok_ids"),
        ps_per_tick=1000,
        absolute=False,
        rows=_rows,
        source="casys-kaist/LLMServingSim",
    ),
)
