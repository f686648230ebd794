"""Objectives of a service, how many requests meet them, and the tokens that count.

Goodput counts requests that end with all of their answer and meet every objective, over the whole span of the run, from
the first arrival to the last token. Requests that were dropped, or never finished, have missed.

Why the whole span, and not the time in which requests arrive: what is served within a span is what its hours, joules
and dollars have bought, so rates times the span are the requests, and accelerators are never busy for longer than it.
Over the arrivals alone a burst that is served for an hour would be goodput of its first second. A load that goes on has
no end: its rates are those of a run whose end weighs nothing, which is why trials of a capacity last for many answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.measure.serving.served import Served


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
        requests_per_s: Those, over the span.
        input_tokens_per_s, output_tokens_per_s: Of those.
        all_input_tokens_per_s, all_output_tokens_per_s: Of every request that ended.
        span_s: From the first arrival to the last token.
    """

    attainment: float
    requests_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float
    all_input_tokens_per_s: float
    all_output_tokens_per_s: float
    span_s: float


def goodput(requests: Served, objective: Objective) -> Goodput:
    """Requests and tokens that count."""
    span = requests.span_s
    met, done = objective.met(requests), requests.done

    def rate(tokens: NDArray[np.int64], rows: NDArray[np.bool_]) -> float:
        return float(tokens[rows].sum()) / span if span > 0 else 0.0

    return Goodput(
        attainment=float(met.mean()) if len(requests) else 0.0,
        requests_per_s=float(met.sum()) / span if span > 0 else 0.0,
        input_tokens_per_s=rate(requests.input_tokens, met),
        output_tokens_per_s=rate(requests.output_tokens, met),
        all_input_tokens_per_s=rate(requests.input_tokens, done),
        all_output_tokens_per_s=rate(requests.output_tokens, done),
        span_s=span,
    )
