"""Section of the scenario for a training job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Discriminator, Field, Tag

from railyard.kit.schema.quantity import limits
from railyard.work.scenario.conditions import CommunicationSection
from railyard.work.scenario.quantity import Count, Flag, Text, Whole
from railyard.work.scenario.section import ModelName, Section, WorkKey, files_of_model, section_of, tagged, works
from railyard.work.training.offload import Offload
from railyard.work.training.spec import Checkpoint, DataLoading, Layout, Lora, Precision, SoftwareProfile

if TYPE_CHECKING:
    from pathlib import Path

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

    model: ModelName
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
    routing_own: Annotated[float, limits(0.0, 1.0)] = Field(
        default=0.0,
        allow_inf_nan=False,
        description="Share of that preference which is each rank's own; 0: all ranks favour the same experts, 1: loads"
        " of experts nearly even out, and what goes from rank to rank does not.",
    )
    parallelism: Annotated[
        Annotated[Literal["auto"], Tag("auto")] | Annotated[ParallelismSection, Tag("keys")],
        Discriminator(_how),
    ] = Field(
        default="auto",
        description="`auto` finds the best layout that fits, or the layout key by key.",
        examples=["auto"],
    )
    software: Annotated[SoftwareSection, tagged("profile")] = Field(
        default_factory=SoftwareSection, description="The training software: name of a profile, or its constants."
    )
    communication: CommunicationSection | None = Field(
        default=None, description="What the job does about limits of the network."
    )
    data: DataSection | None = Field(default=None, description="Reading of samples from storage.")
    checkpoint: CheckpointSection | None = Field(default=None, description="Writing of checkpoints to storage.")
    offload: Annotated[OffloadSection, tagged("state")] | None = Field(
        default=None, description="State kept in the cluster's `memory_pool`: `optimizer`, or its section."
    )
    lora: LoraSection | None = Field(
        default=None, description="Low-rank adapters trained next to the frozen model; left out, the model is trained."
    )

    def files_in(self, folder: Path) -> dict[str, Path]:
        """The files of its model and of its own constants."""
        constants = self.software.constants
        own = {} if constants is None else {constants: folder / constants}
        return files_of_model(folder, self.model) | own


works.add("training", WorkKey(TrainingSection, "A training job.", order=0))
