"""Objectives of a service, how many requests meet them, and the tokens that count.

Goodput counts requests that end with all of their answer and meet every objective, over the steady window of the run
(`railyard.measure.utilization`). Requests that were dropped, or never finished, have missed. The attainment is of all
requests, whenever they end: those of an overload that are late count.

Requests wait before a pool that computes prompts from the moment an engine has them until a replica admits them. Before
a pool that decodes they wait with their keys and values moved, or ready to be, while the pool holds as many sequences
and cached tokens as fit: what is there beyond that, the mean length of those that are there taken for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np

from railyard.measure.model_error import SERVING, power_error, serving_error
from railyard.measure.result.serving import LEVELS, CapacityFigures, PoolQueueRow
from railyard.measure.result.step import ServingTax, ServingTaxShares
from railyard.measure.serving.latencies import quantiles
from railyard.measure.utilization import steady_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.model_error import Judged, ModelError, Question
    from railyard.measure.result.money import ErrorRow
    from railyard.measure.result.serving import Level, LoadPoint, ServingFigures
    from railyard.measure.serving.latencies import Served
    from railyard.measure.utilization import Window


MOST_DOUBLINGS = 12


def capacity(
    evaluate: Callable[[float], LoadPoint],
    start: float,
    attainment: float,
    *,
    tolerance: float = 0.05,
    slowest: float = 0.0,
) -> CapacityFigures:
    """Doubles or halves the load until the objective turns, then halves the span between.

    Args:
        evaluate: Simulates a load in requests a second.
        start: The first load to try, more than 0.
        attainment: Share of the requests that must meet the objective.
        tolerance: Of the rate found.
        slowest: Loads below it are not tried.
    """
    points = {start: evaluate(start)}

    def good(rate: float) -> bool:
        if rate not in points:
            points[rate] = evaluate(rate)
        return points[rate].attainment >= attainment and not points[rate].overloaded

    low, high = (start, None) if good(start) else (None, start)
    rate = start
    for _ in range(MOST_DOUBLINGS):
        if low is not None and high is not None:
            break
        rate = 2 * rate if high is None else rate / 2
        if rate < slowest:
            break
        if good(rate):
            low = rate
        else:
            high = rate
    while low is not None and high is not None and high - low > tolerance * high:
        middle = (low + high) / 2
        if good(middle):
            low = middle
        else:
            high = middle
    ordered = tuple(points[rate] for rate in sorted(points))
    return CapacityFigures(rate_per_s=low or 0.0, bounded=high is not None, points=ordered)


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Points that no other one beats in both figures, where more is better in each; equal points stay."""
    return [not any(other[0] >= one[0] and other[1] >= one[1] and other != one for other in points) for one in points]


def serving_errors(serving: ServingFigures, **judged: Unpack[Judged]) -> tuple[ErrorRow, ...]:
    """Medians of first and further tokens, tokens of an accelerator, dollars of a token, power.

    A token's cost errs as throughput does: cautious where requests come slower than the service could answer them.
    """
    bands = {question: serving_error(question, **judged) for question in SERVING}
    return tuple(_rows(serving, bands))


def _rows(serving: ServingFigures, bands: Mapping[Question, ModelError]) -> Iterator[ErrorRow]:
    if serving.ttft_s.p50 is not None:
        yield bands["ttft"].row("ttft_s", serving.ttft_s.p50)
    if serving.tpot_s.p50 is not None:
        yield bands["tpot"].row("tpot_s", serving.tpot_s.p50)
    rates = bands["throughput"]
    yield rates.row("tokens_per_s_per_gpu", serving.throughput.per_gpu)
    if serving.cpmt is not None:
        total = serving.cpmt.total
        yield rates.row("cpmt", total.typical, inverse=True, prices=total)
    yield power_error().row("power_w", serving.power.total_w.typical)


@dataclass(frozen=True)
class Objective:
    """Limits of one request's latencies, seconds; None is no limit.

    Attributes:
        attainment: Share of the requests that should meet all of them.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    attainment: float = 0.9

    def met(self, requests: Served) -> NDArray[np.bool_]:
        """Requests that were served in time."""
        good = requests.done.copy()
        for limit, value in (
            (self.ttft_s, requests.ttft_s),
            (self.tpot_s, requests.tpot_s),
            (self.e2e_s, requests.e2e_s),
        ):
            if limit is not None:
                good &= np.isnan(value) | (value <= limit)
        return good


@dataclass(frozen=True)
class Goodput:
    """Requests within the objective.

    Attributes:
        attainment: Share of all requests that met the objective.
        requests_per_s: Those that ended in the window, over it.
        all_input_tokens_per_s, all_output_tokens_per_s: Of every request that ended in the window.
        ended: bool[requests], those that ended in it.
        span_s: From the first arrival to the last token.
    """

    attainment: float
    requests_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float
    all_input_tokens_per_s: float
    all_output_tokens_per_s: float
    window: Window
    ended: NDArray[np.bool_]
    span_s: float


def goodput(requests: Served, objective: Objective, window: Window | None = None) -> Goodput:
    """Requests and tokens that count.

    Args:
        requests: As they were served.
        objective: Their limits.
        window: Of another run, to be compared with; the steady one when None.
    """
    window = steady_window(requests.arrival_s, requests.done_s) if window is None else window
    met, ended = objective.met(requests), window.ended(requests.done_s)

    def rate(tokens: NDArray[np.int64], rows: NDArray[np.bool_]) -> float:
        return float(tokens[rows & ended].sum()) / window.seconds if window.seconds > 0 else 0.0

    return Goodput(
        attainment=float(met.mean()) if len(requests) else 0.0,
        requests_per_s=rate(np.ones(len(requests), np.int64), met),
        input_tokens_per_s=rate(requests.input_tokens, met),
        output_tokens_per_s=rate(requests.output_tokens, met),
        all_input_tokens_per_s=rate(requests.input_tokens, requests.done),
        all_output_tokens_per_s=rate(requests.output_tokens, requests.done),
        window=window,
        ended=ended,
        span_s=requests.span_s,
    )


def serving_tax(
    as_it_is: Served, without_scale_out: Served, without_networks: Served, objective: Objective
) -> ServingTax:
    """The tax of a service."""
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
    """Role of a pool, and its capacity at a time.

    Attributes:
        sequences: That all of its replicas run at once.
    """

    role: str
    sequences: float
    tokens: float


def queues(
    run: Record, pools: tuple[PoolRoom, ...], entered_ps: NDArray[np.int64], asked: RequestTable
) -> tuple[PoolQueueRow, ...]:
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
) -> PoolQueueRow:
    waits, over_time = found
    fullest = int(np.argmax(over_time))
    span = float(edges[1] - edges[0]) * _S
    median, late = (float(np.quantile(waits, level)) * _S if waits.size else None for level in (0.5, 0.99))
    return PoolQueueRow(
        pool=pool.role,
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
