"""What runs on the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from railyard.cluster.placement import policies
from railyard.cluster.spec import Placement
from railyard.kit.schema.bounds import limits
from railyard.work.edge.section import EdgeSection
from railyard.work.federated.section import FederatedSection
from railyard.work.local.section import LocalSection
from railyard.work.operate.section import OperateSection
from railyard.work.pipeline.section import PipelineSection
from railyard.work.scenario.conditions import CommunicationSection
from railyard.work.scenario.quantity import Count, Flag, Natural, Span, Text, Whole
from railyard.work.scenario.section import Section, section_of
from railyard.work.serving.section import ServingSection
from railyard.work.trace.section import TraceSection
from railyard.work.training.offload import Offload
from railyard.work.training.spec import Checkpoint, DataLoading, Layout, Lora, Precision, SoftwareProfile

_WORDS = " ".join(f"`{name}`: {policy.summary[0].lower()}{policy.summary[1:]}" for name, policy in policies.items())


class PlacementSection(Section):
    """Which of the free accelerators a job gets, in the order of its ranks."""

    policy: Literal[tuple(policies.names())] = Field(default="packed", description=_WORDS)  # type: ignore[valid-type]
    seed: Natural = Field(default=0, description="Of what the policy draws.")

    def record(self) -> Placement:
        """The record that the cluster room takes."""
        return Placement(self.policy, self.seed)


_LayoutKeys = section_of(Layout, "LayoutKeys", skip=frozenset({"global_batch"}), optional=True)


class ParallelismSection(_LayoutKeys):  # type: ignore[misc, valid-type]
    """How a step is spread over the accelerators; `dp` is what remains of them when it is left out."""

    auto: Flag = Field(default=False, description="Find the best layout that fits, with the sizes that are given here.")


SoftwareOverrides = section_of(
    SoftwareProfile,
    "SoftwareOverrides",
    skip=frozenset({"name", "architecture", "date", "source", "own_runs"}),
    optional=True,
)


class SoftwareSection(SoftwareOverrides):  # type: ignore[misc, valid-type]
    """The training software: a dated profile by name, and constants that replace its own."""

    profile: Text | None = Field(
        default=None, description="Name of a profile; the newest for the accelerator when left out."
    )
    constants: Text | None = Field(
        default=None,
        description="File that `railyard calibrate runs` wrote of your own steps, relative to the scenario.",
    )


def _profile(value: object) -> object:
    return {"profile": value} if isinstance(value, str) else value


def _file(value: object) -> object:
    return {"file": value} if isinstance(value, str) else value


def _state(value: object) -> object:
    return {"state": value} if isinstance(value, str) else value


def _how(value: object) -> str:
    return "auto" if isinstance(value, str) else "keys"


if TYPE_CHECKING:
    DataSection = Section
    CheckpointSection = Section
    OffloadSection = Section
    LoraSection = Section
else:
    DataSection = section_of(DataLoading, "DataSection")
    CheckpointSection = section_of(Checkpoint, "CheckpointSection")
    OffloadSection = section_of(Offload, "OffloadSection")
    LoraSection = section_of(Lora, "LoraSection")


class TrainingSection(Section):
    """One training job."""

    model: Text = Field(
        description="A model of the catalogue, or the path of a Hugging Face config.json, relative to the scenario;"
        " `FILE as llama` reads one by the names of a known family.",
        examples=["llama-3-70b", "./config.json"],
    )
    tokens: Count = Field(
        default=0, description="Token budget of the job; 0 leaves the job completion time out.", examples=["15 T"]
    )
    global_batch: Annotated[Whole, limits(1, 1 << 24)] = Field(
        description="Sequences in one optimizer step, over all ranks.", examples=[512]
    )
    sequence: Annotated[Whole, limits(1, 1 << 30)] = Field(description="Tokens in a sequence.", examples=[8192])
    precision: Precision = Field(default="bf16", description="Datatype of the matrix products.")
    routing_skew: Annotated[float, limits(0.0, 4.0)] = Field(
        default=0.0,
        allow_inf_nan=False,
        description="Zipf exponent by which a router favours some experts; 0 balances them, 1.15 is a router that"
        " no loss and no bias balances.",
    )
    parallelism: Annotated[
        Annotated[Literal["auto"], Tag("auto")] | Annotated[ParallelismSection, Tag("keys")],
        Discriminator(_how),
    ] = Field(
        default="auto",
        description="`auto` finds the best layout that fits, or the layout key by key.",
        examples=["auto"],
    )
    software: Annotated[SoftwareSection, BeforeValidator(_profile)] = Field(
        default_factory=SoftwareSection, description="The training software: name of a profile, or its constants."
    )
    communication: CommunicationSection | None = Field(
        default=None, description="What the job does about limits of the network."
    )
    data: DataSection | None = Field(default=None, description="Reading of samples from storage.")
    checkpoint: CheckpointSection | None = Field(default=None, description="Writing of checkpoints to storage.")
    offload: Annotated[OffloadSection, BeforeValidator(_state)] | None = Field(
        default=None, description="State kept in the cluster's `memory_pool`: `optimizer`, or its section."
    )
    lora: LoraSection | None = Field(
        default=None, description="Low-rank adapters trained next to the frozen model; left out, the model is trained."
    )


def _policy(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


class JobSection(Section):
    """One of several jobs; one of `training`, `serving` and `trace` says what it is."""

    name: Text = Field(description="How it is called in tables; each job has a name of its own.")
    accelerators: Annotated[Whole, limits(1, 1 << 20)] = Field(
        description="Accelerators that it has for itself, one rank each.", examples=[32]
    )
    placement: Annotated[PlacementSection, BeforeValidator(_policy)] = Field(
        default_factory=PlacementSection,
        description="Which accelerators; jobs choose in the order in which they stand.",
    )
    tenant: Text | None = Field(
        default=None, description="Whose of `cluster.tenancy`: it is placed on that tenant's ports; else on nobody's."
    )
    start: Span = Field(default=0.0, description="Start time: the phase of its steps relative to others.")
    training: TrainingSection | None = Field(default=None, description="A training job, step after step.")
    serving: ServingSection | None = Field(default=None, description="A model that answers requests.")
    trace: Annotated[TraceSection, BeforeValidator(_file)] | None = Field(
        default=None, description="A trace, schedule or matrix that is run again and again: a file, or its section."
    )

    @property
    def kind(self) -> Literal["training", "serving", "trace"]:
        """Which key says what it is."""
        if self.training is not None:
            return "training"
        return "serving" if self.serving is not None else "trace"

    @model_validator(mode="after")
    def _one(self) -> JobSection:
        if sum(part is not None for part in (self.training, self.serving, self.trace)) != 1:
            raise PydanticCustomError("job", "one of `training`, `serving` and `trace` says what a job is")
        return self


class WorkloadSection(Section):
    """What runs; one of the keys is used."""

    training: TrainingSection | None = Field(default=None, description="A training job.")
    serving: ServingSection | None = Field(default=None, description="A model that answers requests.")
    pipeline: PipelineSection | None = Field(
        default=None, description="Stages on different hardware that requests go through."
    )
    trace: Annotated[TraceSection, BeforeValidator(_file)] | None = Field(
        default=None, description="A trace, schedule or matrix that is run again: a file, or its section."
    )
    jobs: tuple[JobSection, ...] | None = Field(default=None, description="Jobs that share the cluster.")
    operate: OperateSection | None = Field(
        default=None, description="Jobs that come and go for months: for `railyard operate`."
    )
    federated: FederatedSection | None = Field(default=None, description="Learning on clients that keep their data.")
    local: LocalSection | None = Field(
        default=None, description="Training on sites or volunteers that step by themselves and meet now and then."
    )
    edge: EdgeSection | None = Field(
        default=None, description="A model that answers in a cloud, at sites at the edge, or on the device."
    )

    @property
    def brings_machines(self) -> bool:
        """Whether it says itself what it runs on, so that the scenario has no `cluster`."""
        return self.federated is not None or self.local is not None or self.edge is not None

    @model_validator(mode="after")
    def _one(self) -> WorkloadSection:
        keys = tuple(type(self).model_fields)
        if sum(getattr(self, key) is not None for key in keys) != 1:
            words = f"one of {', '.join(f'`{key}`' for key in keys)} says what runs"
            raise PydanticCustomError("workload", words)
        if self.jobs == ():
            raise PydanticCustomError("workload", "there is no job in `jobs`")
        names = [job.name for job in self.jobs or ()]
        twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
        if twice is not None:
            raise PydanticCustomError("workload", "two jobs are called `{name}`", {"name": twice})
        return self
