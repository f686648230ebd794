"""The scenario's `lab` section: how the engine `lab` runs a step for real."""

from typing import Annotated, Literal

from pydantic import Field

from railyard.kit.schema.bounds import limits
from railyard.work.scenario.section import Section


class LabSection(Section):
    """How `--engine lab` runs a step on this machine."""

    dilation: Annotated[float, limits(1, 1e9)] = Field(
        default=1.0,
        description="How many times slower than the cluster all of it runs: links and computations; times are given as"
        " if it did not.",
        examples=[2000],
    )
    routing: Literal["static", "frr"] = Field(
        default="static", description="Routes written once, or BGP unnumbered by the daemons of FRR."
    )
