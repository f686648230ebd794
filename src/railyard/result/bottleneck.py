"""The bottleneck, found by making each resource better by itself."""

from __future__ import annotations

from pydantic import Field

from railyard.result.section import Figures


class TrialRow(Figures):
    """One resource made better, the step simulated again."""

    resource: str = Field(description="in the user's words")
    factor: float = Field(description="how much better")
    step_seconds: float = Field(description="step time then, s")
    gain: float = Field(description="share of the step saved; negative when it got longer")
    bound_step_seconds: float | None = Field(description="step time without its limit, s; null where not tried")
    bound_gain: float | None = Field(description="share saved then; null where not tried")


class BottleneckFigures(Figures):
    """What would help most."""

    name: str = Field(description="the best resource, or `none`")
    headline: str = Field(description="one sentence")
    ranking: tuple[TrialRow, ...] = Field(description="the most helpful first")
    network_gain: float | None = Field(description="share saved with all of the network unlimited; null if not tried")
