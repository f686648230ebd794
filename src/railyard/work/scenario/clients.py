"""Clients of a scenario: how many, on what, over which links, where, and when."""

from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.schema.quantity import Bounds, limits
from railyard.work.scenario.quantity import (
    SOME_RATE,
    SOME_TIME,
    Count,
    Length,
    Number,
    Positive,
    Rate,
    Ratio,
    Span,
    Text,
)
from railyard.work.scenario.section import Section

Share = Annotated[Ratio, limits(0.0, 1.0)]
Weights = Annotated[dict[Text, Annotated[Ratio, Bounds(above=0.0)]], Field(min_length=1)]


class SharedLinkSection(Section):
    """A link that several clients share."""

    up: Annotated[Rate, SOME_RATE] = Field(description="Towards the server.", examples=["1 Gb/s"])
    down: Annotated[Rate, SOME_RATE] | None = Field(
        default=None, description="Towards the clients; as `up` when left out."
    )
    busy: Annotated[Ratio, Bounds(below=1.0, low=0.0)] = Field(
        default=0.0, description="Share that traffic of others takes."
    )


class ConcentratorSection(SharedLinkSection):
    """Where access links of one kind meet: a splitter's port, a segment of cable, a cell."""

    clients: Positive = Field(description="Of the population behind each.", examples=[64])


class EdgeSitesSection(SharedLinkSection):
    """Sites through which the clients of a region reach the backbone."""

    each_region: Positive = Field(description="Sites in every region.", examples=[20])


class NetworkSection(Section):
    """Links between access and the server's line that are shared max-min fairly, a tree."""

    concentrators: dict[Text, ConcentratorSection] = Field(
        default_factory=dict, description="By access link: its concentrators."
    )
    sites: EdgeSitesSection | None = Field(default=None, description="Edge sites, and the uplink of each.")


class RegionSection(Section):
    """Clients in one part of the world."""

    name: Text = Field(description="As in tables.", examples=["europe"])
    share: Annotated[Ratio, Bounds(above=0.0)] = Field(
        description="Of all clients; shares are taken relative to their sum."
    )
    time_zone: Annotated[Number, limits(-12, 14)] = Field(default=0.0, description="Hours ahead of UTC.")
    distance: Length = Field(
        default=0.0, description="Length of the fibre from there to the server, one way.", examples=["9000 km"]
    )
    loss: Annotated[Ratio, Bounds(below=0.2, low=0.0)] = Field(
        default=0.0, description="Packet loss on that path, in addition to access."
    )
    backbone: SharedLinkSection | None = Field(
        default=None, description="The link that all of the region share; never short when left out."
    )


class AvailableSection(Section):
    """When clients are idle, charging, and on a link that may be used; by the hours of their own day."""

    by_hour: Annotated[tuple[Share, ...], Field(min_length=24, max_length=24)] | None = Field(
        default=None, description="Share of the clients that is there at each of the 24 hours of its day."
    )
    most: Share = Field(
        default=0.2, description="Share at the peak of the day, if `by_hour` is left out.", examples=["20 %"]
    )
    least: Share = Field(
        default=0.05, description="Share at its low: a quarter of the peak, as in Bonawitz et al. 2019."
    )
    peak: Annotated[Number, Bounds(low=0, below=24)] = Field(default=2.0, description="Hour of the peak.")
    session: Annotated[Span, SOME_TIME] | None = Field(
        default=None, description="Mean time until a client goes for a reason of its own; never when left out."
    )

    @model_validator(mode="after")
    def _possible(self) -> "AvailableSection":
        if self.by_hour is not None and max(self.by_hour) <= 0:
            raise PydanticCustomError("available", "no client is ever present: each of the 24 shares is zero")
        if self.by_hour is None and self.least > self.most:
            raise PydanticCustomError("available", "`least` is more than `most`")
        if self.by_hour is None and self.most <= 0:
            raise PydanticCustomError("available", "no client is ever present: `most` is zero")
        return self


class SamplesSection(Section):
    """Training samples of a client: log-normal, drawn once for each."""

    mean: Annotated[Number, Bounds(above=0)] = Field(default=500.0, description="Over all clients.")
    spread: Annotated[Number, limits(0, 4)] = Field(
        default=1.0, description="Standard deviation of the logarithm; 0: all the same."
    )


class ClientsSection(Section):
    """A population of clients."""

    count: Annotated[Count, limits(1, 10**12)] = Field(description="How many.", examples=["1 M"])
    devices: Weights = Field(
        description="Devices of the catalogue, and how often, relative to the others.",
        examples=[{"phone-high": 0.3, "phone-mid": 0.7}],
    )
    links: Weights = Field(
        description="Access links of the catalogue, and how often.", examples=[{"wifi-cable": 0.8, "lte": 0.2}]
    )
    regions: Annotated[tuple[RegionSection, ...], Field(min_length=1)] = Field(
        default=(RegionSection(name="all", share=1.0),), description="Where they are."
    )
    available: AvailableSection = Field(default_factory=AvailableSection, description="When they are there.")
    network: NetworkSection = Field(
        default_factory=NetworkSection, description="What they share between their access links and the server."
    )
    samples: SamplesSection = Field(default_factory=SamplesSection, description="What they have to learn from.")

    @model_validator(mode="after")
    def _names(self) -> "ClientsSection":
        names = [region.name for region in self.regions]
        twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
        if twice is not None:
            raise PydanticCustomError("clients", "two regions are called `{name}`", {"name": twice})
        return self
