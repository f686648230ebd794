"""How far a prediction may be from what is measured, and what follows of it for a comparison."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import SAME, Band, Count, Figures


class ErrorRow(Figures):
    """The band of one predicted figure: eight of ten measurements that no constant was fitted to lay inside."""

    figure: str = Field(description="step_s, cpmt, ttft_s, tpot_s, tokens_per_s_per_gpu, power_w")
    family: str = Field(description="of the validation's rows that it was read off")
    low: float = Field(description="low end of the band, in the figure's unit")
    typical: float = Field(description="the figure as predicted")
    high: float = Field(description="high end of the band, in the figure's unit")
    between: float = Field(description="differences up to this share, of two that share software and model, are ties")
    rows: Count = Field(description="measurements that it rests on")
    sources: Count = Field(description="whose measurements they are")
    held_out: str = Field(
        description="what the constants had not seen: time, source, operator, model; nothing: in sample"
    )
    prices: Band | None = Field(description="the same figure by prices alone; null where it has no price")

    @property
    def widest(self) -> float:
        """The farther end of the band, as a share of the figure."""
        return max(self.high - self.typical, self.typical - self.low) / self.typical if self.typical else 0.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        slack = SAME * max(abs(self.high), 1e-12)
        if not self.low - slack <= self.typical <= self.high + slack:
            raise ValueError(f"{self.figure}: low, typical and high are not in order")
        return self


class Difference(Figures):
    """A variant against the first of the ranking."""

    variant: str = Field(description="its name")
    difference: float = Field(description="its figure over that of the first, less one")
    model_band: float = Field(description="part of the model's error that does not cancel, as a logarithm")
    price_band: float = Field(description="of what prices are known, as a logarithm; 0 for times")
    band: float = Field(description="both together, as a share: a difference up to it is a tie")
    shared: Literal["computation", "software and model", "nothing"] = Field(
        description="what both take from the same constants, so that its error cancels"
    )
    tied: bool = Field(description="whether both finished and the difference is inside both bands together")


class Unexercised(Figures):
    """A key that a comparison varies without showing what it does."""

    key: str = Field(description="as the comparison writes it")
    crossing: bool = Field(
        description="whether it matters on links between switches, which no variant crosses; else it moves no figure"
    )
    from_servers: Count | None = Field(
        description="fewest servers from which some variant would cross them; null where that is not known"
    )
    to_servers: Count | None = Field(description="the same from which all would")


class Verdict(Figures):
    """Which variant is best, if that can be said."""

    by: Literal["cpmt", "step_s", "goodput_rps"] = Field(description="the figure that is compared")
    leading: str | None = Field(
        description="the best of the variants that finished and can be bought; null where there is none, and where "
        "variants do different work"
    )
    bound: str | None = Field(
        description="the best of the variants on a network that nobody sells, an upper bound; null where there is none"
    )
    above_bound: float | None = Field(
        description="what the bound gets out of an accelerator (tokens; else steps or requests in time) over what the "
        "leading variant gets, less one; null without either"
    )
    best: str | None = Field(description="the leading variant where no other is tied with it; null where one is")
    ties: tuple[str, ...] = Field(description="variants that cannot be told from the leading one")
    ranking: tuple[str, ...] = Field(
        description="variants that can be bought: those that finished, the best first, then the others, those that "
        "lose least to faults first; empty where variants do different work"
    )
    unlike: tuple[str, ...] = Field(description="keys of the workload in which variants differ: none of them wins")
    unexercised: tuple[Unexercised, ...] = Field(description="what is varied and not shown by this comparison")
    differences: tuple[Difference, ...] = Field(description="a row for every variant of the ranking but its first")
