"""One model answered from several places."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.edge import EdgeFigures
from railyard.measure.result.variants.variant import BaseVariant


class EdgeVariant(BaseVariant):
    """One model answered from several places."""

    kind: ClassVar[str] = "edge"
    edge: EdgeFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")
