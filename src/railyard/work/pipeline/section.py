"""The scenario's `workload.pipeline`: stages that a request goes through, each on hardware of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.errors import InputError
from railyard.work.scenario.quantity import Count, Flag, Natural, Positive, Rate, Size, Span, Text
from railyard.work.scenario.section import Section, WorkKey, works
from railyard.work.serving.section import (
    CapacitySection,
    ObjectiveSection,
    PoolsSection,
    Precision,
    RequestsSection,
    RouterSection,
    ServingSection,
    Share,
)

Name = Annotated[Text, Field(pattern=r"^[a-z][a-z0-9_-]*$")]


class WhenSection(Section):
    """Which requests take the stage; the others pass it by. Drawn by a hash of seed, stage and request."""

    share: Share = Field(default=1.0, description="Share of the requests.", examples=["30 %"])
    long: Positive | None = Field(default=None, description="Prompts of more tokens than this have their own share.")
    share_long: Share = Field(default=1.0, description="Share of those.")
    unless: Text | None = Field(default=None, description="Only those that did not take this stage.")


class StageBase(Section):
    """What every stage says."""

    after: tuple[Text, ...] | None = Field(
        default=None,
        description="Stages that it waits for; none: it begins with the request; the stage written before it when left"
        " out.",
    )
    quorum: Positive | None = Field(
        default=None, description="It begins when so many of them are through; all when left out."
    )
    when: WhenSection = Field(default_factory=WhenSection, description="Which requests take it.")


class EncodeStage(StageBase):
    """Texts through an encoder, or the prompts of a language model: `embed` queries, `rerank` passages."""

    kind: Literal["embed", "rerank"] = Field(description="What comes out: vectors, or a score a text.")
    model: Text = Field(description="A model of the catalogue.", examples=["bge-m3"])
    server: Text = Field(description="Server of the catalogue.", examples=["cpu-xeon-8592"])
    replicas: Positive = Field(default=1, description="Copies of the model.")
    tp: Positive = Field(default=1, description="Tensor parallel ranks of a copy.")
    precision: Precision = Field(default="bf16", description="Of the weights.")
    tokens: Positive | None = Field(default=None, description="Of each text; the request's prompt when left out.")
    items: Positive = Field(default=1, description="Texts of a request, such as the passages that are scored.")
    causal: Flag = Field(default=False, description="Attention looks back only: a language model that embeds.")
    max_batched_tokens: Positive = Field(default=16384, description="Tokens in one batch.")
    max_sequences: Positive = Field(default=256, description="Texts in one batch.")
    software: Text | None = Field(default=None, description="Serving engine, whose constants hold.")
    overhead: Span = Field(default=2e-3, description="Tokenizer and call of a request.")


class RetrieveStage(StageBase):
    """Search for the nearest vectors."""

    kind: Literal["retrieve"]
    server: Text = Field(description="Server of the catalogue.", examples=["cpu-epyc-9755"])
    replicas: Positive = Field(default=1, description="Copies of the index.")
    shards: Positive = Field(default=1, description="Devices over which a copy is spread; each searches its part.")
    index: Literal["flat", "ivf", "hnsw"] = Field(
        default="ivf", description="All vectors are scanned; or some lists of them; or a graph is walked."
    )
    vectors: Count = Field(description="In the index.", examples=["100 M"])
    dimensions: Positive = Field(default=1024, description="Of a vector.")
    vector_size: Size | None = Field(
        default=None, description="Stored for each: 4 bytes a dimension, or a short code.", examples=["96 B"]
    )
    probed: Share = Field(default=0.01, description="Share of the lists that a query scans (`ivf`).")
    visited: Positive = Field(default=2000, description="Vectors that a query is compared with (`hnsw`).")
    top: Positive = Field(default=10, description="Passages that are found.")
    passage: Size = Field(default=2000, description="Size of a passage, which travels on.")
    batch: Positive = Field(default=64, description="Queries in one scan.")
    overhead: Span = Field(default=5e-4, description="Call, merge of lists, look-up of passages.")


class ToolStage(StageBase):
    """Something outside that takes its time: a tool, a search on the web, a database."""

    kind: Literal["tool"]
    delay: Span = Field(description="Mean time of a call.", examples=["300 ms"])
    p99: Span | None = Field(default=None, description="99th percentile, log-normal; all alike when left out.")
    at_most: Positive | None = Field(default=None, description="Calls at once; the others wait. No limit if left out.")
    size: Size = Field(default=4000, description="Size of what comes back.")


class HostStage(StageBase):
    """Work of processor cores, such as sampling or detokenizing a whole answer, templates, checks."""

    kind: Literal["host"]
    server: Text = Field(description="Server whose processors do it.", examples=["cpu-epyc-9755"])
    cores: Positive = Field(default=1, description="Cores, each with one request at a time.")
    per_request: Span = Field(default=0.0, description="Time of a request, ...")
    per_input_token: Span = Field(default=0.0, description="... more for each token of its prompt, ...")
    per_output_token: Span = Field(default=0.0, description="... and for each of its answer.")


class DraftSection(Section):
    """Speculative decoding whose guesses come from other accelerators."""

    model: Text = Field(description="The model that guesses.", examples=["llama-3.2-1b"])
    server: Text = Field(description="Server that it runs on.")
    replicas: Positive = Field(default=1, description="Copies; each serves as many replicas that check.")
    tp: Positive = Field(default=1, description="Tensor parallel ranks of a copy.")
    precision: Precision = Field(default="bf16", description="Of its weights.")
    tokens: Positive = Field(description="Guessed ahead.", examples=[4])
    acceptance: Share = Field(description="Chance that a guess is right.", examples=["70 %"])
    distributions: Flag = Field(
        default=False,
        description="Probabilities of the whole vocabulary travel with each guess, as exact sampling needs.",
    )
    latency: Span | None = Field(
        default=None, description="One way between the two pools; that of the network when left out."
    )


class SamplingSection(Section):
    """Sampling on the processors of the host: the scores of the vocabulary go there, and a token comes back."""

    per_token: Span = Field(default=5e-4, description="Of one core, for a token: softmax and top-p of the vocabulary.")
    cores: Positive = Field(default=16, description="Cores of a replica that sample.")


_LEFT_TO_PIPELINE = frozenset({"requests", "slo", "capacity"})

if TYPE_CHECKING:

    class ModelStage(StageBase):
        """A language model, with the keys of `workload.serving`."""

        kind: Literal["model"]
        server: str | None
        model: str
        pools: PoolsSection
        router: RouterSection
        draft: DraftSection | None
        sampling: SamplingSection | None
        input: int | None
        add_input: int
        output: int | None

else:
    _served: dict[str, Any] = {
        name: (info.annotation, info)
        for name, info in ServingSection.model_fields.items()
        if name not in _LEFT_TO_PIPELINE
    }
    ModelStage = create_model(
        "ModelStage",
        __base__=StageBase,
        __doc__="A language model, with the keys of `workload.serving`.",
        kind=(Literal["model"], ...),
        server=(
            Text | None,
            Field(default=None, description="Server of the catalogue; the cluster's when left out."),
        ),
        **_served,
        draft=(DraftSection | None, Field(default=None, description="Guesses from other accelerators.")),
        sampling=(SamplingSection | None, Field(default=None, description="Sampling on the host's processors.")),
        input=(Positive | None, Field(default=None, description="Tokens of its prompt; the request's when left out.")),
        add_input=(Natural, Field(default=0, description="Tokens in front of it: passages, earlier answers.")),
        output=(Positive | None, Field(default=None, description="Of its answer; the request's when left out.")),
    )

StageSection = Annotated[ModelStage | EncodeStage | RetrieveStage | ToolStage | HostStage, Field(discriminator="kind")]


class BetweenSection(Section):
    """Transfer from one stage to the next."""

    latency: Span = Field(default=1e-4, description="One way of a call between two services.")
    rate: Rate | None = Field(default=None, description="Of their connection; the slower one's NIC when left out.")


class PipelineSection(Section):
    """Requests that go through stages on pools of different hardware."""

    requests: RequestsSection = Field(description="What is asked, and when.")
    stages: Annotated[dict[Name, StageSection], Field(min_length=1)] = Field(
        description="Stages by name, in an order in which each comes after those it waits for."
    )
    between: BetweenSection = Field(default_factory=BetweenSection, description="From one stage to the next.")
    slo: ObjectiveSection = Field(default_factory=ObjectiveSection, description="What counts as SLO attainment.")
    capacity: CapacitySection | None = Field(
        default=None, description="Search for the largest load within the objective; takes about ten runs."
    )

    @model_validator(mode="after")
    def _known(self) -> "PipelineSection":
        seen: list[str] = []
        for name, stage in self.stages.items():
            for other in (*(stage.after or ()), *((stage.when.unless,) if stage.when.unless else ())):
                if other not in seen:
                    raise PydanticCustomError(
                        "stages",
                        "stage `{name}` names `{other}`, which is not a stage before it",
                        {"name": name, "other": other},
                    )
            waits = len(waits_for(self.stages, name))
            if stage.quorum is not None and stage.quorum > max(waits, 1):
                raise PydanticCustomError(
                    "stages",
                    "stage `{name}` waits for {waits} stages, which cannot be a quorum of {quorum}",
                    {"name": name, "waits": waits, "quorum": stage.quorum},
                )
            seen.append(name)
        return self

    def check_users(self, users: int) -> None:
        """Refuses closed loops; the key is relative to `requests`."""
        raise InputError("a pipeline is asked at a rate", key="synthetic.users", found=users)

    def files_in(self, folder: Path) -> dict[str, Path]:
        """Files of its requests, and of models and profiles that stages name."""
        named = [getattr(stage, "model", "") for stage in self.stages.values()]
        paths = {name: folder / name for name in named if name.endswith(".json") or "/" in name}
        profiles = [getattr(stage, "profiles", None) for stage in self.stages.values()]
        paths |= {name: folder / name for name in profiles if name is not None}
        found = {name: path / "config.json" if path.is_dir() else path for name, path in paths.items() if path.exists()}
        trace = self.requests.trace
        return found if trace is None else {trace: folder / trace, **found}


def waits_for(stages: Mapping[str, StageSection], name: str) -> tuple[str, ...]:
    """The stages that one waits for: as it says, or the one before it."""
    after = stages[name].after
    if after is not None:
        return tuple(after)
    names = list(stages)
    place = names.index(name)
    return (names[place - 1],) if place else ()


works.add("pipeline", WorkKey(PipelineSection, "Stages on different hardware that requests go through.", order=20))
