"""Objectives of a service, how many requests meet them, and the tokens that count.

Goodput counts requests that end with all of their answer and meet every objective, over the steady window of the run
(`railyard.measure.utilization`). Requests that were dropped, or never finished, have missed. The attainment is of all
requests, whenever they end: those of an overload that are late count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np

from railyard.measure.model_error import SERVING, power_error, serving_error
from railyard.measure.utilization import steady_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.measure.model_error import Judged, ModelError, Question
    from railyard.measure.result.money import ErrorRow
    from railyard.measure.result.serving import LoadPoint, ServingFigures
    from railyard.measure.serving.journeys import Served
    from railyard.measure.utilization import Window


MOST_DOUBLINGS = 12


@dataclass(frozen=True)
class Capacity:
    """What was found.

    Attributes:
        rate_per_s: The largest load tried that met the objective; 0 when none did.
        points: Every load tried, ascending.
        bounded: Whether a load that misses the objective was found above it.
    """

    rate_per_s: float
    points: tuple[LoadPoint, ...]
    bounded: bool


def capacity(
    evaluate: Callable[[float], LoadPoint],
    start: float,
    attainment: float,
    *,
    tolerance: float = 0.05,
    slowest: float = 0.0,
) -> Capacity:
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
    return Capacity(low or 0.0, ordered, bounded=high is not None)


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which points no other one beats in both figures, where more is better in each; equal points stay."""
    return [not any(other[0] >= one[0] and other[1] >= one[1] and other != one for other in points) for one in points]


def serving_errors(serving: ServingFigures, **judged: Unpack[Judged]) -> tuple[ErrorRow, ...]:
    """Medians of first and further tokens, tokens of an accelerator, dollars of a token, power.

    A token's cost errs as throughput does: cautious where requests come slower than the service could answer them.

    Args:
        serving: As predicted.
        judged: Which published deployments it is near to.
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
        ttft_s: Time to the first token.
        tpot_s: Mean time of each further token.
        e2e_s: Time to the last token.
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
    """What came of the requests.

    Attributes:
        attainment: Share of all requests that met the objective.
        requests_per_s: Those that ended in the window, over it.
        input_tokens_per_s, output_tokens_per_s: Of those.
        all_input_tokens_per_s, all_output_tokens_per_s: Of every request that ended in the window.
        window: Whose rates these are.
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
