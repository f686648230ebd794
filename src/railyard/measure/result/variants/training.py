"""A training step."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.model_error import ErrorRow
from railyard.measure.result.money import TrainingCost
from railyard.measure.result.training import CommunicationFigures, LayoutFigures, LayoutRow
from railyard.measure.result.variants.variant import StepVariant


class TrainingVariant(StepVariant):
    """A training step, what it costs and what would help."""

    kind: ClassVar[str] = "training"
    model_error: tuple[ErrorRow, ...] = Field(description="bands of the predicted figures, from left-out measurements")
    layout: LayoutFigures = Field(description="how the step is spread over the accelerators")
    layouts: tuple[LayoutRow, ...] | None = Field(
        default=None, description="the layout that `auto` chose and its runners-up; absent where one is written out"
    )
    cpmt: TrainingCost = Field(description="cost per million goodput tokens")
    communication: CommunicationFigures | None = Field(
        default=None, description="price of compressing or postponing communication; absent where the job does neither"
    )
