"""The scenario's `workload.trace`: work that was recorded or written elsewhere."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from railyard.kit.schema.quantity import more_than
from railyard.work.scenario.quantity import Flops, Number, Positive, Text
from railyard.work.scenario.section import Section, WorkKey, tagged, works
from railyard.work.trace.formats import importers

Scale = Annotated[Number, more_than(0, 1e6)]


class TraceSection(Section):
    """A trace, schedule or matrix that is run again."""

    file: Text = Field(
        description="The file, or the folder of a trace, relative to the scenario.",
        examples=["traces/step.0.et", "incast.cm"],
    )
    format: Literal[tuple(importers.names())] | None = Field(  # type: ignore[valid-type]
        default=None, description="Format of the file; as its content tells when left out."
    )
    ranks: Positive | None = Field(
        default=None, description="Of a Chakra trace with the file of one rank: so many ranks do what it says."
    )
    ranks_per_server: Positive | None = Field(
        default=None, description="Ranks placed on each server; as many as it has accelerators when left out."
    )
    compute_scale: Scale = Field(default=1.0, description="Computations take this many times as long as they say.")
    flops: Flops | None = Field(
        default=None, description="Compute rate for computations of a Chakra trace that have operations and no time."
    )
    start_unit: Literal["us", "ps"] = Field(
        default="us", description="What `start` of a connection matrix counts: uet-htsim `us`, csg-htsim `ps`."
    )
    recv_done_trigger: Literal["fire", "ignore"] = Field(
        default="fire", description="What triggers of a connection matrix at the receiver do; htsim ignores them."
    )

    def files_in(self, folder: Path) -> dict[str, Path]:
        """The trace."""
        return {self.file: folder / self.file}


TraceKey = Annotated[TraceSection, tagged("file")]
works.add(
    "trace", WorkKey(TraceKey, "A trace, schedule or matrix that is run again: a file, or its section.", order=30)
)
