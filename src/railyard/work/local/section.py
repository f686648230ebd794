"""The scenario's `workload.local`: training on sites or volunteers that step by themselves and meet now and then."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from railyard.cluster.edge.transport import transports
from railyard.kit.schema.quantity import Bounds, limits, more_than
from railyard.work.local.method import methods
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
    Whole,
)
from railyard.work.scenario.section import Section, WorkKey, kinds_of, works

if TYPE_CHECKING:
    MethodSection = Section
else:
    _SITES = frozenset({"workers"})
    MethodSection = kinds_of(methods, "method", {"": _SITES, "volunteers": _SITES | {"overlap"}})


_CONNECTIONS = limits(1, 65_535, usual=(1, 1024), source="ports of an IP address; transfer tools open up to some 100")


class SizeSection(Section):
    """A language model by its size."""

    parameters: Count = Field(description="All of them.", examples=["10.2 B"])
    flop_per_token: Annotated[Number, Bounds(above=0)] | None = Field(
        default=None, description="Forward and backward; 6 a parameter when left out."
    )


class SiteSection(Section):
    """One site, or several alike."""

    name: Text = Field(description="As in tables.", examples=["us-east"])
    count: Positive = Field(default=1, description="Sites (or volunteers) of this kind.")
    accelerators: Positive = Field(description="Of each.", examples=[8])
    server: Text = Field(description="The server, from the catalogue.", examples=["hgx-h100"])
    step: Annotated[Span, SOME_TIME] | None = Field(default=None, description="An inner step, where it was measured.")
    mfu: Annotated[Ratio, more_than(0.0, 1.0)] | None = Field(
        default=None, description="Model FLOPs over peak, where it is known; else the step is simulated on the site."
    )
    place: tuple[Annotated[Number, limits(-90, 90)], Annotated[Number, limits(-180, 180)]] | None = Field(
        default=None, description="Latitude and longitude in degrees.", examples=[[39.0, -77.5]]
    )
    up: Annotated[Rate, SOME_RATE] = Field(default=10e9, description="Of the site's line to the others, one way.")
    down: Annotated[Rate, SOME_RATE] | None = Field(default=None, description="To the site; as `up` when left out.")
    link: Text | None = Field(
        default=None, description="An access link of the catalogue in place of `up` and `down`: its medians."
    )
    present: Annotated[Span, SOME_TIME] | None = Field(
        default=None, description="Mean time until it goes, for `volunteers`; always there when left out."
    )
    away: Span = Field(default=0.0, description="Mean time until it is back.")


class BetweenSection(Section):
    """What is between sites."""

    distance: Length = Field(
        default=0.0, description="Length of the fibre between any two, where sites have no `place`."
    )
    stretch: Annotated[Ratio, limits(1.0, 10.0)] = Field(
        default=1.5, description="Length of fibre over the great circle between places."
    )
    latency: Span = Field(default=1e-3, description="Round trip that is not distance: routers, hosts.")
    loss: Annotated[Ratio, Bounds(below=0.2, low=0.0)] = Field(default=1e-5, description="Packets lost at random.")
    connections: Annotated[Whole, _CONNECTIONS] = Field(
        default=8, description="Parallel connections between two sites."
    )
    rate: Annotated[Rate, SOME_RATE] | None = Field(
        default=None, description="That any two can have at most, such as what was measured between them."
    )
    punched: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.7, description="Pairs of sites behind NAT that reach each other without a relay (arXiv 2510.27500)."
    )
    relay: Annotated[Rate, SOME_RATE] = Field(
        default=1e8, description="What a relay gives any other such pair; twice the round trip."
    )
    transport: Literal[tuple(transports.names())] = Field(  # type: ignore[valid-type]
        default="cubic", description="Transport protocol and its congestion control."
    )


def _how(value: object) -> str:
    return "name" if isinstance(value, str) else "size"


class LocalSection(Section):
    """Training on sites that step by themselves."""

    model: Annotated[Annotated[Text, Tag("name")] | Annotated[SizeSection, Tag("size")], Discriminator(_how)] = Field(
        description="A model of the catalogue, or `{parameters}`."
    )
    sequence: Positive = Field(description="Tokens in a sequence.", examples=[8192])
    batch: Positive = Field(description="Sequences in an inner step of one site.", examples=[128])
    tokens: Count = Field(default=0, description="Token budget; 0 leaves the time of the job out.")
    method: MethodSection = Field(
        default={"kind": "diloco"}, validate_default=True, description="How sites train together."
    )
    sites: Annotated[tuple[SiteSection, ...], Field(min_length=1)] = Field(description="Where it is trained.")
    between: BetweenSection = Field(default_factory=BetweenSection, description="What is between sites.")

    @model_validator(mode="after")
    def _possible(self) -> "LocalSection":
        names = [site.name for site in self.sites]
        twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
        if twice is not None:
            raise PydanticCustomError("local", "two sites are called `{name}`", {"name": twice})
        if sum(site.count for site in self.sites) < 2:
            raise PydanticCustomError("local", "two or more sites are needed")
        placed = [site.place is not None for site in self.sites]
        if any(placed) and not all(placed):
            without = names[placed.index(False)]
            raise PydanticCustomError("local", "site `{name}` has no `place`, others have", {"name": without})
        if isinstance(self.model, SizeSection):
            blind = next((site.name for site in self.sites if site.step is None and site.mfu is None), None)
            if blind is not None:
                words = "site `{name}` needs `step` or `mfu`: only models of the catalogue can be simulated"
                raise PydanticCustomError("local", words, {"name": blind})
        return self


works.add(
    "local",
    WorkKey(
        LocalSection,
        "Training on sites or volunteers that step alone and synchronize now and then.",
        order=70,
        brings_machines=True,
    ),
)
