"""Dollars per million tokens of inference, from requests that met the SLO rather than from peak capacity.

    goodput = tokens of requests that met the SLO / seconds of the steady window, idle ones included
    CPMT    = USD/h / (goodput tokens/s x 3600) x 10^6      of input, of output, and of all tokens

Each of the three divides *all* the dollars: they are three views of one bill and do not add up. Input tokens found in a
prefix cache were asked for and answered, so they count; `cached_share` says how many there were. Dollars an hour are
those of training (`cost.py`): capital, metered energy, provisioned space, operations; or the rent of an accelerator, in
which all four are. Metered and provisioned power stay two quantities. Everything is low, typical and high.

The definitions of the three views: InferenceX (SemiAnalysis); that utilization and SLO belong into the denominator:
vllm-cost-meter, arXiv 2606.11690. DeepSeek's production (open-infra-index, day 6, 2025): $87,072 a day for 608 G input
and 168 G output tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import at, by_end, total
from railyard.measure.cost.cost import Parts, cpmt, hourly_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from railyard.catalog import Range


TOKENS = ("input", "output", "total")


@dataclass(frozen=True)
class PaidGoodput:
    """Tokens served within the SLO.

    Attributes:
        seconds: Length of the steady window in which they ended.
        cached_share: Share of those input tokens found in a prefix cache.
    """

    input_tokens: float
    output_tokens: float
    seconds: float
    attainment: float = 1.0
    cached_share: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InputError("goodput needs a span of time", key="seconds", found=self.seconds)
        for name in ("input_tokens", "output_tokens"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError("tokens are 0 or more", key=name, found=getattr(self, name))
        for name in ("attainment", "cached_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError("a share lies between 0 and 1", key=name, found=getattr(self, name))

    @staticmethod
    def of(
        met: ArrayLike, input_tokens: ArrayLike, output_tokens: ArrayLike, seconds: float, cached: ArrayLike = 0
    ) -> PaidGoodput:
        """Summarizes columns of requests.

        Args:
            met: Whether each request met the SLO.
            input_tokens: Input tokens of each.
            output_tokens: Output tokens of each.
            seconds: Length of the window in which they ended.
            cached: Input tokens of each found in a prefix cache.
        """
        good = np.asarray(met, bool)
        asked = float(np.sum(input_tokens, where=good, dtype=float))
        cached_tokens = float(np.sum(np.broadcast_to(cached, good.shape), where=good, dtype=float))
        return PaidGoodput(
            input_tokens=asked,
            output_tokens=float(np.sum(output_tokens, where=good, dtype=float)),
            seconds=seconds,
            attainment=float(good.mean()) if good.size else 0.0,
            cached_share=cached_tokens / asked if asked else 0.0,
        )

    def tokens_per_h(self, kind: str) -> float:
        """Goodput of `input`, `output` or `total` tokens an hour."""
        counted = {
            "input": self.input_tokens,
            "output": self.output_tokens,
            "total": self.input_tokens + self.output_tokens,
        }
        return counted[kind] / self.seconds * 3600


@dataclass(frozen=True)
class ServingCost:
    """Price of tokens.

    Attributes:
        tokens: USD per million `input`, `output` and `total` tokens, each over the whole bill; None if no request met
            the SLO, because then no price is high enough.
        parts: USD per hour of the deployment by part: `BREAKDOWN`, or `rent`.
        joules_per_token: Metered IT energy over all goodput tokens; None if unknown or if nothing was served.
        provisioned_w: IT power for which space is paid; None if unknown.
    """

    tokens: Mapping[str, Range | None]
    parts: Parts
    usd_per_gpu_h: Range
    joules_per_token: Range | None
    provisioned_w: Range | None
    goodput: PaidGoodput


def owned(inputs: Mapping[str, Range], goodput: PaidGoodput, accelerators: int) -> ServingCost:
    """Price of tokens for an owner of the deployment.

    Args:
        inputs: Of `hourly_inputs`; `it_w` is metered, `provisioned_w` the nameplates.
        goodput: What was served within the SLO.
        accelerators: Of the deployment.
    """
    return _cost(hourly_parts(inputs), goodput, accelerators, inputs["it_w"], inputs["provisioned_w"])


def rented(
    usd_per_gpu_h: Range, goodput: PaidGoodput, accelerators: float, *, it_w: Range | None = None
) -> ServingCost:
    """Price of tokens with accelerators rented by the hour; energy and space are part of the rent.

    Args:
        usd_per_gpu_h: Rent of one accelerator.
        goodput: What was served within the SLO.
        accelerators: Mean number rented.
        it_w: Metered power, for the energy per token.

    Raises:
        InputError: The rent is negative, or there are no accelerators.
    """
    if not (accelerators > 0 and math.isfinite(accelerators)):
        raise InputError("a deployment has accelerators", key="accelerators", found=accelerators)
    if not 0 <= usd_per_gpu_h.low <= usd_per_gpu_h.typical <= usd_per_gpu_h.high:
        raise InputError("low, typical and high are not in order", key="usd_per_gpu_h", found=usd_per_gpu_h)
    return _cost((("rent", usd_per_gpu_h.scaled(accelerators)),), goodput, accelerators, it_w, None)


def _cost(
    parts: Parts,
    goodput: PaidGoodput,
    accelerators: float,
    metered_w: Range | None,
    provisioned_w: Range | None,
) -> ServingCost:
    hourly = total(band for _, band in parts)
    served = goodput.tokens_per_h("total")
    return ServingCost(
        tokens={kind: _per_million(hourly, goodput.tokens_per_h(kind)) for kind in TOKENS},
        parts=parts,
        usd_per_gpu_h=hourly.scaled(1 / accelerators),
        joules_per_token=None if metered_w is None or not served else metered_w.scaled(3600 / served),
        provisioned_w=provisioned_w,
        goodput=goodput,
    )


def _per_million(hourly: Range, tokens_per_h: float) -> Range | None:
    return by_end(lambda end: cpmt(at(hourly, end), tokens_per_h)) if tokens_per_h > 0 else None


DAY_S = 86400.0
_STEPS = 288  # five minutes each


@dataclass(frozen=True)
class Unit:
    """The unit that is started and stopped as a whole.

    Attributes:
        tokens_per_s: Throughput of the unit: input tokens, including cached ones, or output tokens.
    """

    accelerators: int
    tokens_per_s: float

    def __post_init__(self) -> None:
        """Rejects a unit that serves nothing."""
        if self.accelerators < 1 or not (math.isfinite(self.tokens_per_s) and self.tokens_per_s > 0):
            raise InputError("a unit has accelerators and serves tokens", key="unit", found=self)


@dataclass(frozen=True)
class Day:
    """Load of a service over a day.

    Attributes:
        cached_share: Share of the input tokens found in a cache.
        peak: Peak load of the day over its mean.
    """

    input_tokens: float
    output_tokens: float
    cached_share: float = 0.0
    peak: float = 1.0

    def __post_init__(self) -> None:
        """Rejects a day without tokens, and a peak below the mean or so high that the night would be negative."""
        if not (self.input_tokens > 0 and self.output_tokens > 0):
            raise InputError("a day has input and output tokens", key="day", found=self)
        if not 1 <= self.peak <= 2:
            raise InputError("the peak is 1 to 2 times the mean", key="peak", found=self.peak)


def mean_accelerators(day: Day, tokens: float, unit: Unit) -> float:
    """Mean number of running accelerators over a day."""
    mean = tokens / DAY_S / unit.tokens_per_s
    load = (mean * (1 + (day.peak - 1) * math.cos(2 * math.pi * step / _STEPS)) for step in range(_STEPS))
    return unit.accelerators * sum(math.ceil(each - 1e-9) for each in load) / _STEPS


def service_cost(day: Day, prefill: Unit, decode: Unit, usd_per_gpu_h: Range) -> ServingCost:
    """Prices of a service's tokens."""
    running = mean_accelerators(day, day.input_tokens, prefill) + mean_accelerators(day, day.output_tokens, decode)
    served = PaidGoodput(day.input_tokens, day.output_tokens, DAY_S, cached_share=day.cached_share)
    return rented(usd_per_gpu_h, served, running)
