"""Rounds of learning on clients."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.federated import FederatedFigures
from railyard.measure.result.variants.variant import BaseVariant


class FederatedVariant(BaseVariant):
    """Rounds of learning on clients."""

    kind: ClassVar[str] = "federated"
    federated: FederatedFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")
