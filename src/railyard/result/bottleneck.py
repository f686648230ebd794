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


class ChangeRow(Figures):
    """Another fabric, queue pairs, placement or layout, the step simulated with it."""

    name: str = Field(description="in the user's words")
    family: str = Field(description="`fabric`, `queue pairs`, `placement` or `layout`")
    step_seconds: float = Field(description="step time then, s")
    gain: float = Field(description="share of the step saved; negative when it got longer")
    bound: bool = Field(description="whether it only says what others cannot exceed: nobody sells it")


class BottleneckFigures(Figures):
    """What would help most."""

    name: str = Field(
        description="the best resource, the largest wait where it is more than any resource saves, or `none`"
    )
    headline: str = Field(description="one sentence")
    ranking: tuple[TrialRow, ...] = Field(description="the most helpful first")
    network_gain: float | None = Field(description="share saved with all of the network unlimited; null if not tried")
    changes: tuple[ChangeRow, ...] | None = Field(
        description="the most helpful first, where the network costs something; null where none was tried"
    )
