"""Stages that requests go through."""

from __future__ import annotations

from pydantic import Field

from railyard.result.serving import PipelineServing
from railyard.result.variants.serving import ServedVariant


class PipelineVariant(ServedVariant):
    """Stages that requests go through."""

    serving: PipelineServing = Field(description="what became of the requests")
