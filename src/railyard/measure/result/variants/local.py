"""Training on sites that meet now and then."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.local import LocalFigures
from railyard.measure.result.variants.variant import BaseVariant


class LocalVariant(BaseVariant):
    """Training on sites that meet now and then."""

    kind: ClassVar[str] = "local"
    local: LocalFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")
