"""Power, capital and the cost of a million tokens."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import (
    SAME,
    Band,
    Count,
    Figures,
    NamedBand,
    Number,
    Share,
    require_equal,
    require_sum,
)


class ErrorRow(Figures):
    """The band of one predicted figure: eight of ten measurements that no constant was fitted to lay inside."""

    figure: str = Field(description="step_s, cpmt, ttft_s, tpot_s, tokens_per_s_per_gpu, power_w")
    family: str = Field(description="of the validation's rows that it was read off")
    low: float = Field(description="low end of the band, in the figure's unit")
    typical: float = Field(description="the figure as predicted")
    high: float = Field(description="high end of the band, in the figure's unit")
    between: float = Field(
        description="differences up to this share, of two that share software and model, are within error"
    )
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
    draw_band: float = Field(default=0.0, description="of means over draws, as a logarithm; 0 for one draw")
    band: float = Field(description="all together, as a share: differences up to it are within error")
    shared: Literal["computation", "software and model", "nothing"] = Field(
        description="what both take from the same constants, so that its error cancels"
    )
    tied: bool = Field(description="whether both finished and the difference is inside the band")


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
    """The best variant, if that can be said."""

    by: Literal["cpmt", "step_s", "goodput_rps"] = Field(description="the figure that is compared")
    leading: str | None = Field(
        description="the best of the variants that finished and can be bought; null where there is none, and where "
        "variants do different work"
    )
    bound: str | None = Field(
        description="the best of the variants on a network that nobody sells, an upper bound; null where there is none"
    )
    above_bound: float | None = Field(
        description="what the bound gets out of an accelerator (tokens; else steps, or requests within the SLO)"
        " over what the "
        "leading variant gets, less one; null without either"
    )
    best: str | None = Field(description="the leading variant; null where another is equal within error")
    ties: tuple[str, ...] = Field(description="variants that are equal to the leading one within error")
    ranking: tuple[str, ...] = Field(
        description="variants that can be bought: those that finished, the best first, then the others, those that "
        "lose least to faults first; empty where variants do different work"
    )
    same: tuple[tuple[str, ...], ...] = Field(
        default=(), description="groups of variants of the ranking whose figures and prices are the same"
    )
    unlike: tuple[str, ...] = Field(description="keys of the workload in which variants differ: none of them wins")
    unexercised: tuple[Unexercised, ...] = Field(description="what is varied and not shown by this comparison")
    differences: tuple[Difference, ...] = Field(description="a row for every variant of the ranking but its first")


class PowerComponent(Figures):
    """Power of one kind of part."""

    name: str = Field(description="accelerator, host, nic, switch, optics, storage or cooling")
    low_w: float = Field(description="low end, W")
    typical_w: float = Field(description="typical, W")
    high_w: float = Field(description="high end, W")

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, typical and high."""
        return self.low_w, self.typical_w, self.high_w


class PowerFigures(Figures):
    """Power of the cluster while it runs."""

    components: tuple[PowerComponent, ...] = Field(min_length=1, description="they add up to `total_w`")
    total_w: Band = Field(description="with cooling, W")
    it_w: Band = Field(description="without cooling, W")
    provisioned_w: Band = Field(description="nameplate IT power, W")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.components), self.total_w)
        return self


class DeploymentPower(PowerFigures):
    """Metered and provisioned power of a deployment."""

    data_movement_share: Share = Field(description="of NICs, switches and optics in the IT power, 0 to 1")


class StepPower(PowerFigures):
    """Power of a cluster while it trains."""

    energy_per_step_j: float = Field(description="typical, with cooling, J")
    data_movement_share: Share = Field(description="of NICs, switches and optics in the IT power, 0 to 1")


class CapexComponent(Figures):
    """Purchase price of one kind of part."""

    name: str = Field(description="accelerators, servers, network, storage parts, installation")
    low_usd: float = Field(description="low end, USD")
    typical_usd: float = Field(description="typical, USD")
    high_usd: float = Field(description="high end, USD")
    count: Number = Field(description="how many of them")

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, typical and high."""
        return self.low_usd, self.typical_usd, self.high_usd


class CapexFigures(Figures):
    """Cost to buy and install the cluster."""

    components: tuple[CapexComponent, ...] = Field(min_length=1, description="they add up to `total_usd`")
    total_usd: Band = Field(description="all of it, USD")
    per_gpu_usd: Band = Field(description="all of it over the accelerators, USD")
    fitting_nics_usd: float | None = Field(
        default=None,
        description=(
            "what NICs that place packets as the back-end fabric needs would cost more, typical, USD; not in"
            " `total_usd`; absent where the NICs do, or the catalogue has none of their maker that does"
        ),
    )

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.components), self.total_usd)
        for total, each in zip(self.total_usd.ends, self.per_gpu_usd.ends, strict=True):
            what = "the price of one accelerator is not the same share of the total at each end"
            require_equal(what, self.total_usd.high * each, self.per_gpu_usd.high * total)
        return self


class SwingRow(Figures):
    """One assumption moved from its low to its high value, all others typical."""

    parameter: str = Field(description="in words")
    low_value: str = Field(description="with its unit")
    high_value: str = Field(description="with its unit")
    cpmt_low: float = Field(description="USD per million tokens with the parameter at its low value")
    cpmt_high: float = Field(description="USD per million tokens with the parameter at its high value")

    @property
    def width(self) -> float:
        """Its effect, USD per million tokens."""
        return abs(self.cpmt_high - self.cpmt_low)


class RentalFigures(Figures):
    """Cost of the same accelerators when rented."""

    usd_per_gpu_h: Band = Field(description="price of one accelerator, USD/h")
    cpmt: Band = Field(description="USD per million goodput tokens")


class TrainingCost(Band):
    """Cost per million goodput tokens, USD: low, typical, high, and what it is made of."""

    breakdown: tuple[NamedBand, ...] = Field(
        min_length=1, description="capital, energy, space, operations; USD per million tokens"
    )
    usd_per_gpu_h: Band = Field(description="what one accelerator costs an hour, USD/h")
    sensitivity: tuple[SwingRow, ...] = Field(description="the assumption that matters most first")
    rental: RentalFigures = Field(description="on demand")
    contract: RentalFigures | None = Field(description="for three years; null where no price is known")
    joules_per_token: Band = Field(description="metered with cooling, J per goodput token")
    tokens_per_s_per_mw: float = Field(description="goodput tokens a second and megawatt, typical")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.breakdown), self)
        return self


class HourlyCost(Figures):
    """Cost of work that makes no tokens."""

    usd_per_h: Band = Field(description="of the cluster, USD/h")
    usd_per_run: Band = Field(description="of this run, USD")
    breakdown: tuple[NamedBand, ...] = Field(min_length=1, description="capital, energy, space, operations; USD/h")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.breakdown), self.usd_per_h)
        return self


class ServingCostFigures(Figures):
    """Cost of a million tokens within the objective, USD."""

    total: Band = Field(description="over input and output tokens, USD per million")
    input: Band = Field(description="all dollars over the input tokens, USD per million")
    output: Band = Field(description="all dollars over the output tokens, USD per million")
    split_input: Band = Field(description="input tokens, charged for their share of accelerator time, USD per million")
    split_output: Band = Field(description="output tokens, charged for the rest, USD per million")
    rented_total: Band | None = Field(description="over all tokens, accelerators rented on demand, USD per million")
    breakdown: tuple[NamedBand, ...] = Field(
        min_length=1, description="capital, energy, space, operations; USD per million tokens"
    )
    usd_per_h: Band = Field(description="of the deployment, USD/h")
    prompt_share: Share = Field(description="of accelerator time that prompts take, by price, 0 to 1")
    cached_share: Share = Field(description="of the input tokens found in caches, 0 to 1")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.breakdown), self.total)
        return self
