"""Objectives of a service, how many requests meet them, and the tokens that count.

Goodput counts requests that end with all of their answer and meet every objective, over the steady window of the run
(`railyard.measure.window`). Requests that were dropped, or never finished, have missed. The attainment is of all
requests, whenever they end: those of an overload that are late count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.window import steady_window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.measure.serving.served import Served
    from railyard.measure.window import Window


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
