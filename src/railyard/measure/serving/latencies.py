"""Parts of the times of requests through stages, stage by stage, on the path that decided.

The path is followed backwards: from the stage whose end was the request's, to the one whose end let it come there. What
it spent at a stage is the travel to it, which counts as transfer, and the parts of its visit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.stage import CAUSES, PS, SPENT
from railyard.kit.quantities import nearest_rank, percentile, percentile_bin

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        ttft_s: From arrival to the first token that the user sees; the sum of the four parts.
        tpot_s: Mean time per output token; NaN for answers of one token.
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
        """Time from the first arrival to the last token of a request, or the last arrival if that is later."""
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


LEVELS: Mapping[str, float] = {"p50": 0.50, "p90": 0.90, "p99": 0.99, "p999": 0.999}
_AROUND = 0.005


def quantiles(values: NDArray[np.float64]) -> dict[str, float | None]:
    """p50, p90, p99, p99.9 and the mean of what is not NaN; None where there is nothing."""
    known = np.sort(values[~np.isnan(values)])
    if len(known) == 0:
        return {**dict.fromkeys(LEVELS, None), "mean": None}
    return {
        **{name: percentile(known, level) for name, level in LEVELS.items()},
        "mean": float(known.mean()),
    }


def counted(count: NDArray[np.int64], lower_s: NDArray[np.float64]) -> dict[str, float | None]:
    """The same of a histogram, whose bins begin at `lower_s`; a value counts as the middle of its bin.

    Args:
        count: int64[bins].
        lower_s: float64[bins], ascending.
    """
    total = int(count.sum())
    if total == 0:
        return {**dict.fromkeys(LEVELS, None), "mean": None}
    upper = np.append(lower_s[1:], lower_s[-1])
    middle = np.where(lower_s > 0, (lower_s + upper) / 2, 0.0)
    found = {name: float(middle[percentile_bin(count, level)]) for name, level in LEVELS.items()}
    return {**found, "mean": float((middle * count).sum() / total)}


def parts_by_percentile(
    total: NDArray[np.float64], parts: Mapping[str, NDArray[np.float64]]
) -> dict[str, dict[str, float]]:
    """Parts of each percentile, and of the mean, of `total`.

    Args:
        total: float64[n], NaN where there is no value.
        parts: By name, float64[n]; they add up to `total`.

    Returns:
        By percentile: seconds by part. The parts of a percentile add up to it. Empty when there is no value.
    """
    known = np.flatnonzero(~np.isnan(total))
    if len(known) == 0:
        return {}
    order = known[np.argsort(total[known], kind="stable")]
    found = {}
    for name, level in LEVELS.items():
        rank = nearest_rank(level, len(order))
        near = min(int(_AROUND * len(order)), len(order) - 1 - rank, rank)
        found[name] = _scaled(total[order[rank]], order[rank - near : rank + near + 1], parts)
    found["mean"] = _scaled(total[order].mean(), order, parts)
    return found


def _scaled(value: float, rows: NDArray[np.int64], parts: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    mean = {name: float(part[rows].mean()) for name, part in parts.items()}
    total = sum(mean.values())
    return {name: float(value) * part / total if total > 0 else 0.0 for name, part in mean.items()}


_TRANSFER = CAUSES.index("transfer")


def spent_at(visits: Record) -> NDArray[np.float64]:
    """f64[m, 4], seconds of every visit of one stage by cause, without the travel to it."""
    visits.require("parts of the time at a stage", *SPENT)
    return np.column_stack([visits.column(name) for name in SPENT])


def spent(journeys: Record) -> NDArray[np.float64]:
    """f64[n, stages, 4], seconds of every request from arrival to end by stage and cause; zero without an end.

    Raises:
        InputError: The record is not one of journeys.
    """
    return _followed(journeys, journeys.who)


def spent_until(journeys: Record, name: str) -> NDArray[np.float64]:
    """f64[m, stages, 4], the same from arrival until a request came to a stage, the travel to it included."""
    visits = journeys.parts[name]
    last = np.full(len(journeys), -1, np.int32)
    last[visits.who] = visits.column("predecessor")
    found = _followed(journeys, last)[visits.who]
    found[:, list(journeys.parts).index(name), _TRANSFER] += visits.column("travel_ps") / PS
    return found


def _followed(journeys: Record, last: NDArray[np.int32]) -> NDArray[np.float64]:
    """Back from the last stage of each request; a stage comes after all those that it waits for."""
    found, stage = np.zeros((len(journeys), len(journeys.parts), len(CAUSES))), last.copy()
    for number, visits in reversed(list(enumerate(journeys.parts.values()))):
        visits.require("the path of requests", "predecessor", "travel_ps")
        here = stage[visits.who] == number
        rows = visits.who[here]
        found[rows, number, _TRANSFER] += visits.column("travel_ps")[here] / PS
        found[rows, number] += spent_at(visits)[here]
        stage[rows] = visits.column("predecessor")[here]
    return found
