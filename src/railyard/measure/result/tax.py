"""What networks cost: tokens lost to the scale-out network, and next to it to scale-up networks."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Figures, Share, require_equal
from railyard.measure.result.serving import ShareByLevel

ExposedCause = Literal["bandwidth", "latency", "contention", "straggler", "outage"]
EXPOSED: tuple[ExposedCause, ...] = ("bandwidth", "latency", "contention", "straggler")
"""What a working network costs; `outage` is there only where faults of a network stop a job."""


class ServingTaxShares(Figures):
    """What one kind of network takes of a service: its figures as they are against those without that network."""

    goodput_lost: Share = Field(description="share of the goodput that a network of that kind without limit would give")
    ttft: ShareByLevel = Field(description="share of each percentile of the time to the first token")
    tpot: ShareByLevel = Field(description="share of each percentile of the time of each further token")


class ServingTax(ServingTaxShares):
    """What the scale-out network takes of a service; `scale_up` is never added to it."""

    scale_up: ServingTaxShares = Field(description="the same of scale-up networks")


class TaxShares(Figures):
    """Tokens lost to one kind of network; shares of the step, which add up to it."""

    tokens_lost: Share = Field(description="share of tokens that a network of that kind without limit would add back")
    exposed: dict[ExposedCause, Share] = Field(description="of it, waits for communication by cause")
    slowed_kernels: Share = Field(description="of it, computation slowed by concurrent communication")

    @model_validator(mode="after")
    def _parts(self) -> Self:
        parts = math.fsum((*self.exposed.values(), self.slowed_kernels))
        require_equal("tax: exposed communication and slowed kernels are not the tokens lost", parts, self.tokens_lost)
        return self

    @property
    def of_collectives(self) -> float:
        """Tokens lost to communication that goes on, which a model of collectives predicts: all but outages."""
        return self.tokens_lost - self.exposed.get("outage", 0.0)


class TaxFigures(TaxShares):
    """Tokens lost to the scale-out network, `1 - T1 / T`; `scale_up`, `(T1 - T0) / T`, is never added to it."""

    scale_up: TaxShares = Field(description="the same of scale-up networks")
    rest: dict[str, Share] = Field(description="share of the step by cause that no network changes, T0 / T")
    step_without_scale_out_s: float = Field(description="T1, mean step on a scale-out network without limit, s")
    step_without_networks_s: float = Field(description="T0, mean step on networks without limit, s")
    engine: str = Field(description="that found T1 and T0; the run's own where that is fluid, else `flow`")

    @model_validator(mode="after")
    def _step(self) -> Self:
        parts = math.fsum((self.tokens_lost, self.scale_up.tokens_lost, *self.rest.values()))
        require_equal("tax: the two taxes and the rest are not the step", parts, 1.0)
        return self
