"""Stages that requests go through."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.serving import PipelineServing
from railyard.measure.result.variants.serving import ServedVariant


class PipelineVariant(ServedVariant):
    """Stages that requests go through."""

    kind: ClassVar[str] = "pipeline"
    serving: PipelineServing = Field(description="what became of the requests")
