"""Conditions of a job: fixed choices of collectives, jitter, and the variants to compare."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from railyard.cluster.fault.recovery import Recovery
from railyard.kit.schema.quantity import TIME, limits
from railyard.work.scenario.quantity import Flag, Ratio, Text, Time, Whole
from railyard.work.scenario.section import Section, fields_given, section_of, tagged
from railyard.work.training.sync.spec import KINDS, Communication

_WORDS = {
    "compression": "Fewer bytes for a gradient.",
    "local_updates": "Replicas that step by themselves and meet every so many steps.",
    "asynchronous": "Gradients that are applied late.",
    "scheduling": "Order and pieces in which gradients are sent.",
    "sparse": "Rows of a table in place of all of it.",
    "dispatch": "Tokens on their way to experts in few bits.",
}


def _title(part: str, kind: str) -> str:
    words = f"{kind.replace('+', 'p')}-{part}".replace("_", "-").split("-")
    return "".join(word.capitalize() for word in words)


def one_of(part: str) -> Any:
    """A kind of a part: its name alone, or its name with keys."""
    sections = [section_of(record, _title(part, kind), tag=("kind", kind)) for kind, record in KINDS[part].items()]
    if len(sections) == 1:
        return Annotated[sections[0], tagged("kind")]
    return Annotated[functools.reduce(operator.or_, sections), Field(discriminator="kind"), tagged("kind")]


_FIELDS: dict[str, Any] = {part: (one_of(part) | None, Field(default=None, description=_WORDS[part])) for part in KINDS}

if TYPE_CHECKING:
    CommunicationSection = Section
else:
    CommunicationSection = create_model(
        "CommunicationSection",
        __base__=Section,
        __doc__="What the job does about limits of the network; published effects on convergence are in the result.",
        **_FIELDS,
    )


def communication_of(section: Any) -> Communication | None:
    """The record of a section; None where nothing is asked."""
    if section is None:
        return None
    made: dict[str, Any] = {}
    for part in KINDS:
        written = getattr(section, part)
        if written is not None:
            record = KINDS[part].get(written.kind)
            made[part] = record(**fields_given(written, record))
    return Communication(**made) if made else None


RecoverySection: type[Section] = section_of(Recovery, "RecoverySection")


_HOST_TIME = TIME.within(
    "0 s", "1 s", usual=("0 s", "1 ms"), source="launches of kernels and system calls, 1 to 100 us"
)


class CollectivesSection(Section):
    """Fixed choices of collectives; everything else is chosen as the collective library would."""

    algorithm: dict[Text, Text] = Field(
        default_factory=dict,
        description="Algorithm by kind (`all-reduce`), by group (`dp`) or by both (`dp all-reduce`). `synthesized`: a"
        " schedule that is searched for this cluster with the faults that hold from the start (`synthesized:4 MB`: for"
        " that size, else 64 MB); `msccl:FILE.xml`: the schedule of a file.",
        examples=[{"dp all-reduce": "ring"}],
    )
    protocol: dict[Text, Text] = Field(
        default_factory=dict, description="Protocol (`ll`, `ll128`, `simple`) by the same keys."
    )
    selector: Literal["library", "best"] = Field(
        default="library", description="The choice that the library would make, or the shortest predicted time."
    )
    pxn: Flag = Field(
        default=True, description="Transfers to another rail go through the peer that owns that rail's NIC."
    )
    connections: Annotated[Whole, limits(1, 1024, usual=(1, 128), source="NCCL: at most 64 channels")] | None = Field(
        default=None,
        description="Channels to a neighbour through each NIC; left out: as many as the library opens.",
    )
    version: Text | None = Field(
        default=None,
        description="Version of NCCL, in quotes; left out: the newest known. The library chooses among the algorithms"
        " of that version (PAT came with 2.23).",
        examples=["2.20"],
    )
    constants: Text | None = Field(
        default=None,
        description="File of the library's constants that `railyard calibrate runs` wrote, relative to the scenario.",
    )
    launch: Annotated[Time, _HOST_TIME] = Field(
        default=0, description="Added to every invocation of a collective by the host."
    )
    network_overhead: Annotated[Time, _HOST_TIME] = Field(
        default=0, description="Added to every step through a NIC by a virtualized or socket-based stack."
    )


class JitterSection(Section):
    """Random differences between steps and in compute time."""

    sigma: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.0, description="Relative spread of each task's time, drawn by the seed."
    )
    rank_sigma: Annotated[Ratio, limits(0.0, 1.0)] = Field(
        default=0.0,
        description="Relative spread between accelerators, the same for a whole run, drawn by the seed.",
    )
    law: Literal["quantiles", "drawn", "none"] = Field(
        default="quantiles",
        description="The law of jitter measured on published runs: `quantiles` gives p50, p95 and p99 of the steps in"
        " closed form around an undisturbed step, unless a spread is given above; `drawn` lets the engine draw noise"
        " and interruptions by the seed; `none` does without.",
    )


class VariantSection(Section):
    """One column of a comparison: a name, and the keys that differ from the scenario."""

    name: Text = Field(description="How it is called in tables and reports.")
    set: dict[Text, Any] = Field(default_factory=dict, description="Dotted keys and their values.")


class CompareSection(Section):
    """Several variants of one scenario, side by side. One of the three keys is used."""

    vary: dict[Text, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Dotted keys and the values of each; every possible combination is run.",
        examples=[{"fabric": ["roce", "infiniband"]}],
    )
    variants: tuple[VariantSection, ...] = Field(
        default=(), description="Variants, each a change of the scenario as written."
    )
    steps: tuple[VariantSection, ...] = Field(default=(), description="Variants, each a change of the one before it.")

    @model_validator(mode="after")
    def _one_way(self) -> CompareSection:
        if sum(map(bool, (self.vary, self.variants, self.steps))) > 1:
            raise PydanticCustomError("compare", "expected only one of `vary`, `variants` and `steps`")
        names = [variant.name for variant in (*self.variants, *self.steps)]
        if len(set(names)) < len(names):
            raise PydanticCustomError("compare", "two variants have the same name")
        return self
