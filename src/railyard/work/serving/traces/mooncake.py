"""Mooncake's traces (kvcache-ai/Mooncake, FAST 2025): milliseconds, two lengths, chained hashes of 512-token blocks."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import MOST_TOKENS, PS_PER_S
from railyard.work.serving.traces.formats import FORMATS, Rows, TraceFormat
from railyard.work.serving.traces.lines import decimal, integers

if TYPE_CHECKING:
    from railyard.work.serving.traces.lines import Batch, Faults

BLOCK_TOKENS = 512


def _rows(batch: Batch, cells: dict[str, list[Any]], faults: Faults) -> Rows:
    prompts = integers(batch, cells["input_length"], "input_length", faults, low=1, high=MOST_TOKENS)
    hashes = [_hashes(line, cell, faults) for line, cell in zip(batch.numbers, cells["hash_ids"], strict=True)]
    blocks = np.fromiter(map(len, hashes), np.int64, len(hashes))
    return Rows(
        line=np.array(batch.numbers, np.int64),
        time=decimal(batch, cells["timestamp"], "timestamp", faults),
        input_tokens=prompts,
        output_tokens=integers(batch, cells["output_length"], "output_length", faults, high=MOST_TOKENS),
        block_counts=blocks,
        block_hash=np.fromiter(chain.from_iterable(hashes), np.uint64, int(blocks.sum())),
        block_tokens=BLOCK_TOKENS,
    )


def _hashes(line: int, cell: Any, faults: Faults) -> list[int]:
    if type(cell) is list and set(map(type, cell)) <= {int} and (not cell or 0 <= min(cell) <= max(cell) < 2**64):
        return cell
    if cell is not None:
        faults.add(line, "hash_ids: expected a list of integers from 0 to 2^64", found=cell)
    else:
        faults.add(line, "a hole: `hash_ids` is missing")
    return []


FORMATS.add(
    "mooncake",
    TraceFormat(
        title="Mooncake",
        style="jsonl",
        needed=("timestamp", "input_length", "output_length", "hash_ids"),
        optional=(),
        ps_per_tick=PS_PER_S // 1000,
        absolute=False,
        rows=_rows,
        source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
    ),
)
