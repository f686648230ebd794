"""The scenario's `workload.federated`: learning on clients that keep their data."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from railyard.cluster.edge.transport import transports
from railyard.kit.schema.quantity import Bounds, limits, more_than
from railyard.work.federated.algorithm import algorithms, selections
from railyard.work.federated.updates import compressions, secrecies
from railyard.work.scenario.clients import ClientsSection
from railyard.work.scenario.quantity import (
    SOME_FLOPS,
    SOME_RATE,
    SOME_TIME,
    Count,
    Flops,
    MoneyRate,
    Number,
    Positive,
    Power,
    Rate,
    Ratio,
    Span,
    Text,
    Whole,
)
from railyard.work.scenario.section import Section, WorkKey, kinds_of, works

_Share = Annotated[Ratio, limits(0.0, 1.0)]


if TYPE_CHECKING:
    AlgorithmSection = Section
    CompressionSection = Section
    SecrecySection = Section
    SelectionSection = Section
else:
    AlgorithmSection = kinds_of(algorithms, "algorithm")
    CompressionSection = kinds_of(compressions, "update")
    SecrecySection = kinds_of(secrecies, "secrecy")
    SelectionSection = kinds_of(selections, "selection")


class LearnedSection(Section):
    """A model by its size."""

    parameters: Count = Field(description="That are trained and sent.", examples=["11.2 M"])
    flop_per_sample: Annotated[Number, Bounds(above=0)] = Field(
        description="Operations of one sample, forward and backward.", examples=["5.4e9"]
    )


def _how(value: object) -> str:
    return "name" if isinstance(value, str) else "size"


class PrivacySection(Section):
    """Differential privacy: clipping and noise, as computation and bytes; the loss is not computed."""

    place: Literal["server", "client"] = Field(default="server", description="Who adds the noise.")
    noise: Annotated[Number, Bounds(above=0)] = Field(
        default=1.0, description="Standard deviation over the clipping norm."
    )
    extra_bits: Annotated[Whole, limits(0, 32)] = Field(
        default=0, description="Of a number as sent, for the range of noise in a masked integer."
    )


class RoundSection(Section):
    """Who takes part in a round, and when it ends."""

    participants: Positive = Field(description="Updates that the server waits for.", examples=[1000])
    over_selection: Annotated[Ratio, limits(0.0, 10.0)] = Field(
        default=0.0, description="Clients selected beyond these, as a share of them.", examples=["30 %"]
    )
    least: Annotated[Ratio, more_than(0.0, 1.0)] = Field(
        default=0.5, description="Share of the participants without which a round is discarded."
    )
    deadline: Annotated[Span, SOME_TIME] | None = Field(
        default=None, description="After which nobody is waited for; none when left out."
    )
    epochs: Annotated[Number, Bounds(above=0)] = Field(default=1.0, description="Passes over a client's samples.")
    most_samples: Positive | None = Field(default=None, description="Samples of a client at most in an epoch.")
    batch: Positive = Field(default=20, description="Samples between two crossings of a cut, for `split`.")
    delay: Span = Field(
        default=0.0, description="Until a client hears that it is selected: uniform between 0 and this (polling)."
    )
    pause: Span = Field(default=0.0, description="From the end of a round to the next selection.")
    concurrency: Positive | None = Field(
        default=None, description="Clients at work at any time, for algorithms that wait for nobody; else unused."
    )
    selection: SelectionSection = Field(
        default={"kind": "random"}, validate_default=True, description="Who is selected among those who are there."
    )


class AggregatorSection(Section):
    """The server that sums updates."""

    line: Annotated[Rate, SOME_RATE] = Field(default=10e9, description="Of its link, each way.")
    flops: Annotated[Flops, SOME_FLOPS] = Field(default=1e11, description="That summing and unmasking reach.")
    price: MoneyRate = Field(default=3.0, description="Rent of an hour.")
    power: Power = Field(default=400.0, description="Drawn while it runs.")


class FederatedSection(Section):
    """Federated learning."""

    model: Annotated[Annotated[Text, Tag("name")] | Annotated[LearnedSection, Tag("size")], Discriminator(_how)] = (
        Field(description="A model of the catalogue (with `sequence`), or `{parameters, flop_per_sample}`.")
    )
    sequence: Positive | None = Field(default=None, description="Tokens of a sample, for a model of the catalogue.")
    bits: Annotated[Whole, limits(1, 32)] = Field(default=32, description="Of a parameter as sent.")
    algorithm: AlgorithmSection = Field(
        default={"kind": "fedavg"}, validate_default=True, description="How it is learned."
    )
    compression: CompressionSection | None = Field(default=None, description="Of updates on their way up.")
    secrecy: SecrecySection | None = Field(default=None, description="Secure aggregation.")
    privacy: PrivacySection | None = Field(default=None, description="Clipping and noise.")
    clients: ClientsSection = Field(description="Who learns.")
    round: RoundSection = Field(description="Who takes part, and when a round ends.")
    rounds: Annotated[Whole, limits(1, 100_000)] = Field(default=100, description="Rounds, or steps of the server.")
    start: Annotated[Number, Bounds(low=0, below=24)] = Field(
        default=0.0, description="Hour of UTC of the first round."
    )
    transport: Literal[tuple(transports.names())] = Field(  # type: ignore[valid-type]
        default="cubic", description="Transport protocol and its congestion control."
    )
    server: AggregatorSection = Field(default_factory=AggregatorSection, description="Where updates are summed.")
    reach: Text | None = Field(
        default=None,
        description="A published row of rounds to an accuracy (`railyard` lists them), for a time to accuracy.",
    )

    @model_validator(mode="after")
    def _possible(self) -> "FederatedSection":
        if isinstance(self.model, str) and self.sequence is None:
            raise PydanticCustomError("federated", "a model of the catalogue needs `sequence`, the tokens of a sample")
        algorithm = algorithms.get(self.algorithm.kind)  # type: ignore[attr-defined]
        waits_for_none = algorithm.kind in {"fedasync", "fedbuff"}
        if waits_for_none and self.round.concurrency is None:
            words = "`{kind}` waits for nobody: `round.concurrency` says how many clients are at work"
            raise PydanticCustomError("federated", words, {"kind": algorithm.kind})
        if self.secrecy is not None and self.compression is not None:
            compression = compressions.get(self.compression.kind)  # type: ignore[attr-defined]
            if not compression.sums:
                words = "updates of `{kind}` cannot be summed while they are masked"
                raise PydanticCustomError("federated", words, {"kind": compression.kind})
        if self.secrecy is not None and (waits_for_none or algorithm.kind == "split"):
            words = "secure aggregation needs a round that is waited for; `{kind}` has none"
            raise PydanticCustomError("federated", words, {"kind": algorithm.kind})
        return self


works.add(
    "federated", WorkKey(FederatedSection, "Learning on clients that keep their data.", order=60, brings_machines=True)
)
