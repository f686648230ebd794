"""Training on sites that meet now and then."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Band, Count, Figures, Share
from railyard.measure.result.wide import CauseRow, CostFigures, require_causes


class SiteRow(Figures):
    """One site, or several alike."""

    name: str = Field(description="as in the scenario")
    count: Count = Field(description="of this kind")
    accelerators: Count = Field(description="of each")
    step_s: float = Field(description="an inner step alone, s")
    from_: str = Field(alias="from", description="`measured`, `MFU` or `simulated`")
    waits: Share = Field(description="of its time, for others and for the lines")
    tokens_per_s: float = Field(description="of all of this kind")
    usd_per_h: Band = Field(description="rent of all of this kind, USD/h")


class EdgeRow(Figures):
    """One exchange between two sites."""

    source: str = Field(description="site")
    target: str = Field(description="site")
    rtt_s: float = Field(description="round trip, s")
    goodput_bps: float = Field(description="of all connections, one way, bit/s")
    relayed: Share = Field(description="probability that this pair meets through a relay")
    relayed_bps: float = Field(description="goodput through it, one way, bit/s")


class LocalFigures(Figures):
    """Sites that train together."""

    method: str = Field(description="how they meet")
    sites: tuple[SiteRow, ...] = Field(min_length=1, description="where it is trained")
    step_s: float = Field(description="mean inner step with its share of the meetings, s")
    causes: tuple[CauseRow, ...] = Field(min_length=1, description="of that step; they add up to it")
    compute_utilization: Share = Field(description="share of the time that no site waits: inner steps over all")
    mfu: float | None = Field(description="model FLOPs over peak, meetings counted; null where the peak is unknown")
    inner_steps: Count = Field(description="between two meetings over the same parameters")
    exchange_s: float = Field(description="all parameters once between the sites, s")
    sent_bytes: float = Field(description="by a site for one meeting over all parameters")
    mean_bps: float = Field(description="that a site sends, over all time")
    ring: tuple[EdgeRow, ...] = Field(description="exchanges that a meeting is made of; the slowest decides")
    relay_bps: float = Field(description="through all relays together, mean, one way, bit/s")
    break_even_bps: float | None = Field(
        description="rate between sites at which synchronous training would be as fast; null where this is synchronous"
    )
    tokens_per_s: float = Field(description="of all sites")
    tokens_s: float | None = Field(description="of the token budget, s; null without one")
    cpmt: CostFigures = Field(description="USD per million tokens: rent, egress")
    joules_per_token: Band = Field(description="accelerators and hosts with cooling, J")
    published: tuple[str, ...] = Field(description="what papers report of the loss; nothing is computed of it")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_causes(self.causes, self.step_s)
        return self
