"""The bottleneck, found by making each resource better by itself."""

from __future__ import annotations

from pydantic import Field

from railyard.measure.result.section import Figures, Values


class TrialRow(Figures):
    """One resource made better, the step simulated again."""

    resource: str = Field(description="in the user's words")
    factor: float = Field(description="how much better")
    step_seconds: float = Field(description="step time then, s")
    gain: float = Field(description="share of the step saved; negative when it got longer")
    bound_step_seconds: float | None = Field(description="step time without its limit, s; null where not tried")
    bound_gain: float | None = Field(description="share saved then; null where not tried")


class ChangeRow(Figures):
    """A remedy: something that the user can change, the step simulated with it."""

    name: str = Field(description="in the user's words")
    family: str = Field(description="repair, layout, fabric, queue pairs, oversubscription, placement, precision, ...")
    settings: Values = Field(description="keys of the scenario to set, and their values")
    assumes: str = Field(description="what it takes for granted; empty for nothing")
    step_seconds: float = Field(description="mean step then, s")
    gain: float = Field(description="share of the mean step saved; negative when it got longer")
    cpmt_usd: float | None = Field(description="typical cost then, USD per million tokens; null for a bound")
    cpmt_gain: float | None = Field(description="share of that cost saved; negative when it costs more")
    capex_change_usd: float | None = Field(description="what has to be bought more, typical, USD; negative: less")
    bound: bool = Field(description="whether it only says what others cannot exceed: nobody sells it")


class BottleneckFigures(Figures):
    """What would help most."""

    name: str = Field(
        description="the best resource, the largest loss where it is more than any resource saves, or `none`"
    )
    headline: str = Field(description="the largest loss, and the remedies that help most")
    sensitivity: str = Field(description="how the step moves with hardware that one cannot buy, in words")
    ranking: tuple[TrialRow, ...] = Field(description="sensitivity by resource, the most helpful first")
    changes: tuple[ChangeRow, ...] | None = Field(
        description="remedies, repairs first, then the one that saves most of a token's cost; null where none was tried"
    )
    engine: str = Field(
        description="that trials ran on; `closed form` where a step is too large to simulate a dozen times; empty: none"
    )
