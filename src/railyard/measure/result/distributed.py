"""Common figures of work outside one hall: time, energy, money, bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from railyard.measure.result.section import Band, Count, Figures, NamedBand, Share, require_equal, require_sum

if TYPE_CHECKING:
    from collections.abc import Sequence


class CauseRow(Figures):
    """One cause of a time."""

    name: str = Field(description="in words")
    seconds: float = Field(description="mean, s; less than zero where it shortens the time")
    share: float = Field(description="of the time")


class SpreadRow(Figures):
    """Spread of a figure."""

    mean: float = Field(description="mean")
    p50: float = Field(description="median, nearest rank")
    p90: float = Field(description="90th percentile, nearest rank")
    p99: float = Field(description="99th percentile, nearest rank")


class CostFigures(Figures):
    """Dollars or joules, and their parts."""

    parts: tuple[NamedBand, ...] = Field(min_length=1, description="they add up to `total`")
    total: Band = Field(description="of all parts")

    @model_validator(mode="after")
    def _sum(self) -> Self:
        require_sum((row.ends for row in self.parts), self.total)
        return self


def require_causes(causes: Sequence[CauseRow], seconds: float) -> None:
    """Causes add up to the time.

    Raises:
        ValueError: They do not.
    """
    require_equal("the causes do not add up to the time", math.fsum(row.seconds for row in causes), seconds)


class PlaceRow(Figures):
    """Figures of a place that would answer all requests."""

    name: str = Field(description="place, `device`, or `PLACE, one site down`")
    possible: bool = Field(description="whether the model fits and the load is carried")
    why_not: str | None = Field(description="null where it is possible")
    ttft_s: SpreadRow | None = Field(description="until the first token is seen, s; null where impossible")
    e2e_s: SpreadRow | None = Field(description="until the last one is, s")
    in_time: Share | None = Field(description="of the requests")
    within: bool = Field(description="whether the bound holds")
    causes: tuple[CauseRow, ...] = Field(description="of the mean time until the last token")
    up_bytes: float = Field(description="of a request that leave the device")
    down_bytes: float = Field(description="of an answer")
    accelerators: Count = Field(description="at all sites together; 0 for devices")
    joules: Band | None = Field(description="of a request: servers and the client's radio, or the device")
    usd: Band | None = Field(description="of a request: rent and egress; devices are the clients' own")
    leaves: str = Field(description="what of the prompt leaves the device, and where to")


class OffloadRow(Figures):
    """Best place for the requests of clients with one device and one access link."""

    device: str = Field(description="of the catalogue")
    link: str = Field(description="of the catalogue")
    requests: Share = Field(description="of all")
    place: str = Field(description="cheapest one that meets the bound for them; else the one that meets it for most")
    in_time: Share = Field(description="of their requests, there")


class OffloadFigures(Figures):
    """Each kind of client asks where it had best."""

    in_time: Share = Field(description="of all requests")
    usd: Band = Field(description="of a request, USD, mean")
    joules: Band = Field(description="of a request, J, mean")
    rows: tuple[OffloadRow, ...] = Field(description="by device and link, most requests first")


class EdgeFigures(Figures):
    """Places compared under a bound."""

    bound: str = Field(description="in words")
    choice: str | None = Field(description="cheapest place within the bound; null where none is")
    reason: str = Field(description="in words")
    places: tuple[PlaceRow, ...] = Field(min_length=1, description="each as if it answered all")
    offload_share: Share | None = Field(
        description="of the requests that miss the bound on the device and hold it at the choice; null without devices"
    )
    offload: OffloadFigures | None = Field(
        description="each kind of client where it had best ask, places loaded as if each answered all; null: none"
    )


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
    """Participation of clients."""

    selected: float = Field(description="clients a round, mean")
    used: float = Field(description="updates a round that count, mean")
    left: float = Field(description="clients a round that went before their update was there, mean")
    late: float = Field(description="updates a round that came too late, mean")
    there: float = Field(description="clients that are there when a round begins, expected mean")
    failed_rounds: Count = Field(description="discarded for lack of updates")
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
        description="of these, secure aggregation's in addition to the update, per participant, both ways"
    )
    wasted_share: Share = Field(description="of all bytes that no update came of")


class SharedRow(Figures):
    """Links of one tier that clients share."""

    name: str = Field(description="concentrators, edge sites, backbones, or the server's line")
    added_s: float = Field(description="what sharing them adds to a participant, mean, s")


class ServerFigures(Figures):
    """Load of the server."""

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
