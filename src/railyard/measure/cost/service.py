"""What the tokens of a service cost whose units of prefill and of decode follow the load of the day.

    accelerators(t) = accelerators of a unit x ceil(load(t) / tokens per second of a unit)
    load(t)         = mean load x (1 + (peak - 1) cos 2 pi t)

Dollars are rent by the hour for the accelerators that run on average; tokens are all that were asked and answered. That
is how DeepSeek counts its production (open-infra-index, day 6, 2025): 608 G input tokens a day, 56.3 % of them cached,
168 G output tokens, $2 an accelerator hour, 278 nodes of eight at the peak and 226.75 in the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.measure.cost.serving import PaidGoodput, ServingCost, rented

if TYPE_CHECKING:
    from railyard.catalog import Range

DAY_S = 86400.0
_STEPS = 288  # five minutes each


@dataclass(frozen=True)
class Unit:
    """What is started and stopped as one.

    Attributes:
        accelerators: Of the unit.
        tokens_per_s: That all of them serve together: input tokens, cached ones included, or output tokens.
    """

    accelerators: int
    tokens_per_s: float

    def __post_init__(self) -> None:
        """Refuses a unit that serves nothing."""
        if self.accelerators < 1 or not (math.isfinite(self.tokens_per_s) and self.tokens_per_s > 0):
            raise InputError("a unit has accelerators and serves tokens", key="unit", found=self)


@dataclass(frozen=True)
class Day:
    """What a day asks of a service.

    Attributes:
        input_tokens: Of all prompts.
        output_tokens: Of all answers.
        cached_share: Share of the input tokens that a cache had.
        peak: The day's highest load over its mean.
    """

    input_tokens: float
    output_tokens: float
    cached_share: float = 0.0
    peak: float = 1.0

    def __post_init__(self) -> None:
        """Refuses a day without tokens, and a peak below the mean or so high that the night would be below zero."""
        if not (self.input_tokens > 0 and self.output_tokens > 0):
            raise InputError("a day has input and output tokens", key="day", found=self)
        if not 1 <= self.peak <= 2:
            raise InputError("the peak is 1 to 2 times the mean", key="peak", found=self.peak)


def mean_accelerators(day: Day, tokens: float, unit: Unit) -> float:
    """Accelerators that run in the mean of a day.

    Args:
        day: Its curve.
        tokens: Of the kind that the unit serves, a day.
        unit: As many as the load of each moment needs.
    """
    mean = tokens / DAY_S / unit.tokens_per_s
    load = (mean * (1 + (day.peak - 1) * math.cos(2 * math.pi * step / _STEPS)) for step in range(_STEPS))
    return unit.accelerators * sum(math.ceil(each - 1e-9) for each in load) / _STEPS


def service_cost(day: Day, prefill: Unit, decode: Unit, usd_per_gpu_h: Range) -> ServingCost:
    """Prices of a service's tokens.

    Args:
        day: What is asked.
        prefill: A unit that computes prompts.
        decode: A unit that computes answers.
        usd_per_gpu_h: Rent of one accelerator.
    """
    running = mean_accelerators(day, day.input_tokens, prefill) + mean_accelerators(day, day.output_tokens, decode)
    served = PaidGoodput(day.input_tokens, day.output_tokens, DAY_S, cached_share=day.cached_share)
    return rented(usd_per_gpu_h, served, running)
