"""The scenario's `workload.edge`: a model served in a cloud, at edge sites, or on the device."""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from railyard.cluster.edge.transport import transports
from railyard.kit.schema.quantity import Bounds, limits, more_than
from railyard.work.scenario.clients import ClientsSection
from railyard.work.scenario.quantity import SOME_TIME, Flag, Length, Number, Positive, Ratio, Size, Span, Text, Whole
from railyard.work.scenario.section import Section, WorkKey, works
from railyard.work.serving.section import Lengths, Precision


class PlaceSection(Section):
    """Servers at one or several sites."""

    name: Text = Field(description="As in tables.", examples=["cloud"])
    sites: Positive = Field(default=1, description="Sites of this kind; clients go to one each.")
    server: Text = Field(description="The server at each site, from the catalogue.", examples=["hgx-h100"])
    replicas: Positive = Field(default=1, description="Copies of the model at each site.")
    tp: Positive = Field(default=1, description="Accelerators of a copy.")
    distance: Length | None = Field(
        default=None,
        description="Fibre from a client's region to its site, before any backbone; that of `regions` when left out.",
    )
    cached: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.0, description="Share of a prompt whose keys and values a site already has."
    )


class AskedSection(Section):
    """The clients' requests."""

    rate: Annotated[Number, Bounds(above=0)] = Field(description="Requests a second, of all clients.", examples=[40])
    input: Lengths = Field(description="Prompts in tokens: a length, or `{mean, p99}`.", examples=[500])
    output: Lengths = Field(description="Answers in tokens.", examples=[150])
    upload: Size = Field(
        default=4000, description="Additional bytes of a request: an image, a sound.", examples=["200 kB"]
    )
    count: Annotated[Whole, limits(1, 200_000)] = Field(default=4000, description="Requests that are simulated.")


class BoundSection(Section):
    """Latency bound."""

    ttft: Annotated[Span, SOME_TIME] | None = Field(default=None, description="Until the first token is seen.")
    e2e: Annotated[Span, SOME_TIME] | None = Field(default=None, description="Until the last one is.")
    share: Annotated[Ratio, more_than(0.0, 1.0)] = Field(default=0.99, description="Of the requests, at least.")

    @model_validator(mode="after")
    def _any(self) -> "BoundSection":
        if self.ttft is None and self.e2e is None:
            raise PydanticCustomError("edge", "`ttft`, `e2e` or both set the bound")
        return self


class EdgeSection(Section):
    """One model, and the places that may serve it."""

    model: Text = Field(description="A model of the catalogue.", examples=["llama-3-8b"])
    precision: Precision = Field(default="bf16", description="Of weights and products at the places.")
    requests: AskedSection = Field(description="What is asked.")
    clients: ClientsSection = Field(description="Who asks, and over which links.")
    places: Annotated[tuple[PlaceSection, ...], Field(min_length=1)] = Field(description="Where it may be answered.")
    on_device: Flag = Field(default=True, description="Whether the clients' devices are tried too.")
    device_bits: Annotated[Whole, limits(1, 16)] = Field(default=4, description="Of a weight on a device.")
    bound: BoundSection = Field(description="Latency limits.")
    transport: Literal[tuple(transports.names())] = Field(  # type: ignore[valid-type]
        default="quic-cubic", description="Transport protocol; its connection is open already."
    )
    failover: Flag = Field(default=True, description="Also runs each place of several sites with one of them down.")

    @model_validator(mode="after")
    def _names(self) -> "EdgeSection":
        names = [place.name for place in self.places]
        twice = next((name for number, name in enumerate(names) if name in names[:number] or name == "device"), None)
        if twice is not None:
            raise PydanticCustomError("edge", "two places are called `{name}`", {"name": twice})
        return self


works.add(
    "edge",
    WorkKey(
        EdgeSection,
        "A model that answers in a cloud, at sites at the edge, or on the device.",
        order=80,
        brings_machines=True,
    ),
)
