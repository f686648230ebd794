"""Work that was recorded or written elsewhere, run again."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from railyard.measure.result.money import HourlyCost
from railyard.measure.result.section import Count, Figures
from railyard.measure.result.variants.variant import StepVariant


class TraceFigures(Figures):
    """The file that was run."""

    file: str = Field(description="as the scenario names it")
    format: str = Field(description="chakra, goal, ...")
    ranks: Count = Field(description="of the trace")
    computations: Count = Field(description="tasks")
    transfers: Count = Field(description="tasks")
    collectives: Count = Field(description="tasks")
    lacks: tuple[str, ...] = Field(description="what a complete trace would have said")


class TraceVariant(StepVariant):
    """A trace: it says nothing of tokens, so cost is by the hour and by the run."""

    kind: ClassVar[str] = "trace"
    trace: TraceFigures = Field(description="what was run")
    jct: None = Field(description="a trace has no token budget")
    cost: HourlyCost = Field(description="by the hour and by the run")
    cpmt: None = Field(description="a trace makes no tokens")
