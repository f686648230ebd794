"""Federated learning: rounds, their causes, who is heard, what the server carries."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Count, Figures, Share
from railyard.measure.result.wide import CauseRow, CostFigures, SpreadRow, require_causes


class GroupRow(Figures):
    """Clients of one device, link or region."""

    of: str = Field(description="`device`, `link` or `region`")
    name: str = Field(description="of the catalogue, or of the scenario")
    population: Share = Field(description="of all clients")
    there: Share = Field(description="of those there when a round began")
    selected: Share = Field(description="of those selected")
    heard: Share = Field(description="of the updates that count")
    bias: float | None = Field(description="heard over population: 1 is fair; null where there are none")


class ParticipationFigures(Figures):
    """Who takes part."""

    selected: float = Field(description="clients a round, mean")
    used: float = Field(description="updates a round that count, mean")
    left: float = Field(description="clients a round that went before their update was there, mean")
    late: float = Field(description="updates a round that came too late, mean")
    there: float = Field(description="clients that are there when a round begins, expected mean")
    failed_rounds: Count = Field(description="thrown away for lack of updates")
    excluded: Share = Field(description="of the clients whose device lacks memory for the model")
    staleness: SpreadRow | None = Field(
        description="of updates, in steps of the server; null where a round is waited for"
    )
    groups: tuple[GroupRow, ...] = Field(description="by device, link and region")


class TrafficFigures(Figures):
    """Bytes of a round."""

    down_bytes: float = Field(description="from the server, mean")
    up_bytes: float = Field(description="to the server, mean")
    client_down_bytes: float = Field(description="to one participant")
    client_up_bytes: float = Field(description="from one participant")
    secrecy_bytes: float = Field(
        description="of these, of secure aggregation besides the update, a participant, both ways"
    )
    wasted_share: Share = Field(description="of all bytes that no update came of")


class SharedRow(Figures):
    """Links of one tier that clients share."""

    name: str = Field(description="concentrators, edge sites, backbones, or the server's line")
    added_s: float = Field(description="what sharing them adds to a participant, mean, s")


class ServerFigures(Figures):
    """What the server carries."""

    line_share: float = Field(description="mean rate of updates over its line while a round runs")
    queue_s: float = Field(description="what sharing links adds to a participant, mean, s")
    shared: tuple[SharedRow, ...] = Field(
        description="the same by tier, from the clients to the server; empty where only the server's line is shared"
    )
    compute_s: float = Field(description="sums, masks and noise a round, mean, s")
    updates_per_h: float = Field(description="updates that count, an hour")


class AccuracyFigures(Figures):
    """Time to a published accuracy."""

    row: str = Field(description="published row")
    target: str = Field(description="what was reached")
    rounds: Count = Field(description="as published")
    seconds: float = Field(description="that these rounds take here, s")
    source: str = Field(description="of the rounds")


class RoundRow(Figures):
    """One round."""

    at_s: float = Field(description="when it began, s")
    took_s: float = Field(description="s")
    used: Count = Field(description="updates that count")
    left: Count = Field(description="clients that went")
    ok: bool = Field(description="whether the server could step")


class FederatedFigures(Figures):
    """Rounds on clients."""

    algorithm: str = Field(description="of federated learning")
    rounds: Count = Field(description="that were run")
    unit: str = Field(description="`round`, or `server step` where nobody is waited for")
    round_s: SpreadRow = Field(description="of a round, s")
    total_s: float = Field(description="all rounds with pauses, s")
    causes: tuple[CauseRow, ...] = Field(min_length=1, description="of a mean round; they add up to it")
    participation: ParticipationFigures = Field(description="who takes part")
    traffic: TrafficFigures = Field(description="bytes of a round")
    server: ServerFigures = Field(description="what the server carries")
    joules: CostFigures = Field(description="of a round, J")
    usd: CostFigures = Field(description="of a round, USD; devices and links are the clients' own")
    accuracy: AccuracyFigures | None = Field(description="null where no published row was asked for")
    series: tuple[RoundRow, ...] = Field(description="up to 2,000 rounds, evenly chosen")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_causes(self.causes, self.round_s.mean)
        return self
