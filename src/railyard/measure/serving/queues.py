"""Where requests wait, pool by pool and over time: how many, how long, and when most of them.

Before a pool that computes prompts a request waits from the moment an engine has it until a replica admits it. Before
a pool that decodes it waits with its keys and values moved, or ready to be, while the pool holds as many sequences and
cached tokens as fit: what is there beyond that, the mean length of those that are there taken for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.result.serving import LEVELS
from railyard.measure.result.step import ServingTax, ServingTaxShares
from railyard.measure.serving.journeys import quantiles
from railyard.measure.serving.objective import goodput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.result.serving import Level
    from railyard.measure.serving.journeys import Served
    from railyard.measure.serving.objective import Objective


def serving_tax(
    as_it_is: Served, without_scale_out: Served, without_networks: Served, objective: Objective
) -> ServingTax:
    """The tax of a service.

    Args:
        as_it_is: Its requests.
        without_scale_out: The same where the scale-out network has no limit.
        without_networks: The same where no network has one.
        objective: That makes requests count as goodput.
    """
    runs = (as_it_is, without_scale_out, without_networks)
    window = goodput(as_it_is, objective).window
    rates = [goodput(run, objective, window).requests_per_s for run in runs]
    kept = [rates[0] / max(rate, rates[0]) if rates[0] > 0 else float(rate <= 0) for rate in rates]
    kept[2] = min(kept[1:])
    outside, inside = (
        tuple(_lost(*(getattr(run, name) for run in (runs[0], runs[first], runs[first + 1]))) for name in _LATENCIES)
        for first in (0, 1)
    )
    scale_up = ServingTaxShares(goodput_lost=kept[1] - kept[2], ttft=inside[0], tpot=inside[1])
    return ServingTax(goodput_lost=1.0 - kept[1], ttft=outside[0], tpot=outside[1], scale_up=scale_up)


_LATENCIES = ("ttft_s", "tpot_s")


def _lost(whole: NDArray[np.float64], longer: NDArray[np.float64], shorter: NDArray[np.float64]) -> dict[Level, float]:
    """Share of each percentile by which one run is longer than another; empty where nothing got so far."""
    of, more, less = (quantiles(values) for values in (whole, longer, shorter))
    found: dict[Level, float] = {}
    for level in LEVELS:
        total, high, low = of[level], more[level], less[level]
        if total is None or high is None or low is None:
            return {}
        found[level] = max(min(high, total) - low, 0.0) / total if total > 0 else 0.0
    return found


_S = 1e-12
BINS = 24
"""Spans of equal length of which the waiting are counted."""


@dataclass(frozen=True)
class PoolRoom:
    """What a pool does, and how much of it at once.

    Attributes:
        role: `both`, `prefill` or `decode`.
        sequences: That all of its replicas run at once.
        tokens: That their caches hold.
    """

    role: str
    sequences: float
    tokens: float


@dataclass(frozen=True)
class PoolQueue:
    """Requests that wait for a pool.

    Attributes:
        role: Of the pool.
        waiting_mean, waiting_peak: Requests, over the run; mean of the fullest span.
        peak_s: Middle of the fullest span, from the start of the run.
        wait_p50_s, wait_p99_s: Of a request; of a pool that decodes NaN, its waiting are counted, not followed.
        over_time: Mean of each span.
        span_s: Length of one.
    """

    role: str
    waiting_mean: float
    waiting_peak: float
    peak_s: float
    wait_p50_s: float
    wait_p99_s: float
    over_time: tuple[float, ...]
    span_s: float


def queues(
    run: Record, pools: tuple[PoolRoom, ...], entered_ps: NDArray[np.int64], asked: RequestTable
) -> tuple[PoolQueue, ...]:
    """The queue of every pool.

    Args:
        run: Requests, a row each.
        pools: In the order of the deployment.
        entered_ps: int64[n], when an engine had each request.
        asked: The requests.

    Raises:
        InputError: The record lacks phases of requests.
    """
    run.require("queues of pools", "admitted_ps", "first_token_ps", "transfer_end_ps", "decode_replica")
    edges = np.linspace(0.0, float(max(run.meta["end_ps"], 1)), BINS + 1)
    until = np.asarray(run.column("admitted_ps"), np.float64)
    until = np.where(until < 0, edges[-1], until)
    before = until - entered_ps, _present(np.asarray(entered_ps, np.float64), until, edges)
    return tuple(
        _figures(pool, (np.zeros(0), _beyond(run, pool, asked, edges)) if pool.role == "decode" else before, edges)
        for pool in pools
    )


def _figures(
    pool: PoolRoom, found: tuple[NDArray[np.float64], NDArray[np.float64]], edges: NDArray[np.float64]
) -> PoolQueue:
    waits, over_time = found
    fullest = int(np.argmax(over_time))
    span = float(edges[1] - edges[0]) * _S
    median, late = (float(np.quantile(waits, level)) * _S if waits.size else float("nan") for level in (0.5, 0.99))
    return PoolQueue(
        role=pool.role,
        waiting_mean=float(over_time.mean()),
        waiting_peak=float(over_time[fullest]),
        peak_s=(fullest + 0.5) * span,
        wait_p50_s=median,
        wait_p99_s=late,
        over_time=tuple(over_time.tolist()),
        span_s=span,
    )


def _present(begin: NDArray[np.float64], end: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean number of intervals that are open in each span between edges: of each interval, the part that lies in it."""

    def before(moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum over intervals of max(0, edge - moment), at every edge."""
        ordered = np.sort(np.asarray(moments, np.float64))
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        count = np.searchsorted(ordered, edges)
        past: NDArray[np.float64] = count * edges - sums[count]
        return past

    mean: NDArray[np.float64] = np.diff(before(begin) - before(end)) / np.diff(edges)
    return mean


def _beyond(run: Record, pool: PoolRoom, asked: RequestTable, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Requests in a pool that decodes beyond those that it has room for, mean of each span."""
    there = np.asarray(run.column("transfer_end_ps"), np.float64)
    first = np.asarray(run.column("first_token_ps"), np.float64)
    came = (np.asarray(run.column("decode_replica")) >= 0) & (first >= 0)
    begin = np.where(there >= 0, there, first)[came]
    end = np.asarray(run.end_ps, np.float64)[came]
    end = np.where(end < 0, edges[-1], end)
    present = _present(begin, end, edges)
    lengths = (asked.input_tokens + asked.output_tokens / 2.0)[came]
    length = max(float(lengths.mean()), 1.0) if came.any() else 1.0
    beyond: NDArray[np.float64] = np.maximum(present - min(pool.sequences, pool.tokens / length), 0.0)
    return beyond
