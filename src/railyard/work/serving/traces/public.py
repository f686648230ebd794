"""Public formats of request traces; each record registers itself.

LLMServingSim (casys-kaist/LLMServingSim): nanoseconds, two lengths, the tokens themselves where kept.

From the tokens of a prompt come its block hashes: of each whole block of 16 tokens (vLLM's block), over all tokens up
to its end, so that equal prefixes have equal hashes. Two different prefixes share a hash with a chance of 2^-64.

Azure LLM inference traces (Azure/AzurePublicDataset, 2023 and 2024): a date and time, two lengths.

BurstGPT (HPMLL/BurstGPT): seconds since the start, model, two lengths, log. No answer: a request that failed.

Mooncake's traces (kvcache-ai/Mooncake, FAST 2025): milliseconds, two lengths, chained hashes of 512-token blocks.

Vidur's processed traces (microsoft/vidur, `data/processed_traces`): seconds and two lengths.

Records of real vLLM runs (casys-kaist/LLMServingSim): when each request arrived, by the wall clock; lengths.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.request_table import LAST_PS, PS_PER_S
from railyard.work.serving.arrivals import prefix_hashes
from railyard.work.serving.traces.formats import FORMATS, TraceFormat, integers, timed_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.serving.traces.formats import Batch, LineFaults, TraceRows


_WHEN = re.compile(
    r"(?:19[7-9]\d|20\d\d|21\d\d|22[0-5]\d)-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[ T]"
    r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|\+00:00)?\Z",
    re.ASCII,
)


def _azure_rows(batch: Batch, cells: dict[str, list[Any]], faults: LineFaults) -> TraceRows:
    stamps = []
    for line, text in zip(batch.numbers, cells["TIMESTAMP"], strict=True):
        if _WHEN.match(text):
            stamps.append(text.removesuffix("Z").removesuffix("+00:00"))
            continue
        stamps.append("1970-01-01")
        if text:
            faults.add(line, "TIMESTAMP must be a date and a time in UTC", found=text, allowed="2023-11-16 18:17:03.97")
        else:
            faults.add(line, "a hole: TIMESTAMP is empty")
    time = _nanoseconds(batch, stamps, faults)
    return timed_lengths(batch, cells, faults, names=("TIMESTAMP", "ContextTokens", "GeneratedTokens"), time=time)


def _nanoseconds(batch: Batch, stamps: list[str], faults: LineFaults) -> np.ndarray[Any, np.dtype[np.int64]]:
    try:
        return np.array(stamps, "datetime64[ns]").astype(np.int64)
    except ValueError:
        for line, text in zip(batch.numbers, stamps, strict=True):
            if not _exists(text):
                faults.add(line, "TIMESTAMP is a day that does not exist", found=text)
    return np.zeros(len(stamps), np.int64)


def _exists(text: str) -> bool:
    try:
        np.datetime64(text, "ns")
    except ValueError:
        return False
    return True


FORMATS.add(
    "azure",
    TraceFormat(
        title="Azure LLM inference",
        style="csv",
        needed=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        optional=(),
        ps_per_tick=1000,
        absolute=True,
        rows=_azure_rows,
        source="Azure/AzurePublicDataset; Patel et al., Splitwise, ISCA 2024",
    ),
)


def _burstgpt_rows(batch: Batch, cells: dict[str, list[Any]], faults: LineFaults) -> TraceRows:
    count = len(cells["Timestamp"])
    models, logs = cells.get("Model", ["request"] * count), cells.get("Log Type", [""] * count)
    kinds = [f"{model}, {log}" if log else model for model, log in zip(models, logs, strict=True)]
    rows = timed_lengths(batch, cells, faults, names=("Timestamp", "Request tokens", "Response tokens"))
    return replace(rows, kind=kinds)


FORMATS.add(
    "burstgpt",
    TraceFormat(
        title="BurstGPT",
        style="csv",
        needed=("Timestamp", "Request tokens", "Response tokens"),
        optional=("Model", "Total tokens", "Log Type", "Session ID", "Elapsed time"),
        ps_per_tick=PS_PER_S,
        absolute=False,
        rows=_burstgpt_rows,
        source="HPMLL/BurstGPT; Wang et al., arXiv 2401.17644",
    ),
)


LLMSERVINGSIM_BLOCK_TOKENS = 16


def _llmservingsim_rows(batch: Batch, cells: dict[str, list[Any]], faults: LineFaults) -> TraceRows:
    time = integers(batch, cells["arrival_time_ns"], "arrival_time_ns", faults, high=LAST_PS // 1000)
    rows = timed_lengths(batch, cells, faults, names=("arrival_time_ns", "input_toks", "output_toks"), time=time)
    hashes = [
        _llmservingsim_hashes(line, tokens, int(length), faults)
        for line, tokens, length in zip(batch.numbers, cells["input_tok_ids"], rows.input_tokens, strict=True)
    ]
    return replace(
        rows,
        block_counts=np.fromiter(map(len, hashes), np.int64, len(hashes)),
        block_hash=np.concatenate([*hashes, np.zeros(0, np.uint64)]),
        block_tokens=LLMSERVINGSIM_BLOCK_TOKENS if any(map(len, hashes)) else 0,
    )


def _llmservingsim_hashes(line: int, tokens: Any, length: int, faults: LineFaults) -> NDArray[np.uint64]:
    if tokens is None:
        return np.zeros(0, np.uint64)
    are_integers = type(tokens) is list and set(map(type, tokens)) <= {int}
    if not are_integers or (tokens and not 0 <= min(tokens) <= max(tokens) < 2**32):
        faults.add(line, "input_tok_ids: expected a list of token numbers", found=tokens)
    elif len(tokens) != length:
        faults.add(line, "input_tok_ids is not as long as input_toks says", found=len(tokens), allowed=str(length))
    else:
        return prefix_hashes(np.array(tokens, np.uint64), LLMSERVINGSIM_BLOCK_TOKENS)
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
        rows=_llmservingsim_rows,
        source="casys-kaist/LLMServingSim",
    ),
)


MOONCAKE_BLOCK_TOKENS = 512


def _mooncake_rows(batch: Batch, cells: dict[str, list[Any]], faults: LineFaults) -> TraceRows:
    hashes = [_mooncake_hashes(line, cell, faults) for line, cell in zip(batch.numbers, cells["hash_ids"], strict=True)]
    blocks = np.fromiter(map(len, hashes), np.int64, len(hashes))
    return replace(
        timed_lengths(batch, cells, faults, names=("timestamp", "input_length", "output_length")),
        block_counts=blocks,
        block_hash=np.fromiter(chain.from_iterable(hashes), np.uint64, int(blocks.sum())),
        block_tokens=MOONCAKE_BLOCK_TOKENS,
    )


def _mooncake_hashes(line: int, cell: Any, faults: LineFaults) -> list[int]:
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
        rows=_mooncake_rows,
        source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
    ),
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
        rows=partial(timed_lengths, names=("arrived_at", "num_prefill_tokens", "num_decode_tokens")),
        source="microsoft/vidur; Agrawal et al., MLSys 2024",
    ),
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
        rows=partial(timed_lengths, names=("arrival_time", "input_toks", "output_toks")),
        source="casys-kaist/LLMServingSim, bench results",
    ),
)
