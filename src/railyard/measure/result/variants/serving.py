"""One model that answers requests."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.model_error import ErrorRow
from railyard.measure.result.serving import ModelServing, ServingFigures
from railyard.measure.result.tax import ServingTax
from railyard.measure.result.variants.variant import ComparedVariant


class ServedVariant(ComparedVariant):
    """Requests that were answered, by one model or through stages."""

    serving: ServingFigures = Field(description="what became of the requests")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


class ServingVariant(ServedVariant):
    """One model that answers requests."""

    kind: ClassVar[str] = "serving"
    model_error: tuple[ErrorRow, ...] = Field(description="bands of the predicted figures, from left-out measurements")
    tax: ServingTax = Field(description="what the scale-out network takes, and next to it scale-up")
    serving: ModelServing = Field(description="what became of the requests")
