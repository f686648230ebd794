"""Requests as they were served, in seconds, with the parts of each one's time to first token.

    TTFT = queue + transfer + collectives + compute

`queue` is the wait for a replica that admits the request. `transfer` is keys and values on their way: those loaded from
tiers below a replica's memory before its prompt is computed, and those that move to the replica that decodes, for the
user sees the first token when that one has them. `collectives` are those that nothing hides in the iterations of
the prompt; `compute` is the rest of these iterations, with what other requests in the same batches take, and the entry:
tokenizer and first schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record

_S = 1e-12
DONE, DROPPED, UNFINISHED = 0, 1, 2
_NEEDED = (
    "status",
    "decode_replica",
    "transfer_end_ps",
    "first_token_ps",
    "prefill_start_ps",
    "admitted_ps",
    "collectives_prefill_ps",
    "collectives_ps",
    "cached_tokens",
)
PARTS = ("queue", "transfer", "collectives", "compute")


@dataclass(frozen=True, eq=False)
class Served:
    """One entry a request, in the order of arrival; NaN where a request did not get so far.

    Attributes:
        arrival_s, done_s: From the start of the run.
        input_tokens, output_tokens: Of the request.
        cached_tokens: Of its prompt, not computed anew.
        ttft_s: From arrival to the first token that the user sees; the sum of the four parts.
        queue_s, transfer_s, collectives_s, compute_s: Its parts.
        tpot_s: Mean time of each further token; NaN for answers of one token.
        decode_collectives_s: Collectives that nothing hides, per further token.
        e2e_s: From arrival to the last token.
        status: 0 done, 1 dropped (no replica can ever hold it), 2 not finished when the run ended.
    """

    arrival_s: NDArray[np.float64]
    done_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    ttft_s: NDArray[np.float64]
    queue_s: NDArray[np.float64]
    transfer_s: NDArray[np.float64]
    collectives_s: NDArray[np.float64]
    compute_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    decode_collectives_s: NDArray[np.float64]
    e2e_s: NDArray[np.float64]
    status: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def done(self) -> NDArray[np.bool_]:
        """Requests that got all of their answer."""
        return np.asarray(self.status == DONE)

    @property
    def span_s(self) -> float:
        """From the first arrival to the last token of a request, or the last arrival if that is later."""
        if len(self) == 0:
            return 0.0
        last = np.nanmax(self.done_s) if self.done.any() else self.arrival_s[-1]
        return float(max(last, self.arrival_s[-1]) - self.arrival_s[0])


def served(
    arrival_ps: NDArray[np.int64],
    input_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    run: Record,
    *,
    entry_ps: int = 0,
    handover_ps: int = 0,
) -> Served:
    """Requests as they were served.

    Args:
        arrival_ps: int64[n], ascending.
        input_tokens: int32[n].
        output_tokens: int32[n].
        run: What the engine found, one entry a request.
        entry_ps: From the arrival of a request until an engine has it; part of `compute`.
        handover_ps: What engines need for a request that goes on to another pool, in the latency of its way; part of
            `compute`, not of `transfer`.

    Raises:
        InputError: The record lacks phases of requests.
    """
    run.require("latencies of requests", *_NEEDED)
    done = np.asarray(run.column("status")) == DONE
    moved = (np.asarray(run.column("decode_replica")) >= 0) & (np.asarray(run.column("transfer_end_ps")) >= 0)
    first = np.asarray(run.column("first_token_ps"))
    seen: NDArray[np.int64] = np.where(moved, np.maximum(first, run.column("transfer_end_ps")), first)
    start = np.asarray(run.column("prefill_start_ps"), np.int64)
    queue = _seconds(np.asarray(run.column("admitted_ps")) - arrival_ps - entry_ps, done)
    behind = np.maximum(seen - first - handover_ps, 0)
    moving = _seconds((start - np.asarray(run.column("admitted_ps"))) + behind, done)
    collectives = _seconds(np.asarray(run.column("collectives_prefill_ps")), done)
    ttft = _seconds(seen - arrival_ps, done)
    steps = np.where(output_tokens > 1, output_tokens - 1.0, np.nan)
    return Served(
        arrival_s=np.asarray(arrival_ps * _S, np.float64),
        done_s=_seconds(np.asarray(run.end_ps), done),
        input_tokens=np.asarray(input_tokens, np.int64),
        output_tokens=np.asarray(output_tokens, np.int64),
        cached_tokens=np.asarray(run.column("cached_tokens"), np.int64),
        ttft_s=ttft,
        queue_s=queue,
        transfer_s=moving,
        collectives_s=collectives,
        compute_s=ttft - queue - moving - collectives,
        tpot_s=_seconds(np.maximum(np.asarray(run.end_ps) - seen, 0), done) / steps,
        decode_collectives_s=_seconds(run.column("collectives_ps") - run.column("collectives_prefill_ps"), done)
        / steps,
        e2e_s=_seconds(np.maximum(run.end_ps, seen) - arrival_ps, done),
        status=np.asarray(run.column("status"), np.uint8),
    )


def _seconds(time_ps: NDArray[np.integer[Any]], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    seconds: NDArray[np.float64] = np.where(valid, time_ps * _S, np.nan)
    return seconds
