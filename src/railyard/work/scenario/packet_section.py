"""The scenario's `packet` section: how the packet engine runs a step."""

from typing import Annotated, Literal

from pydantic import Field

from railyard.kit.schema.bounds import Bounds, limits
from railyard.work.scenario.quantity import SOME_PS, SOME_SIZE, Count, Flag, Positive, Size, Text, Time, Whole
from railyard.work.scenario.section import Section


class BesideSection(Section):
    """Bursts of other traffic on the back-end."""

    pattern: Literal["incast", "permutation", "all-to-all"] = Field(description="Who sends to whom.")
    ports: Annotated[Whole, limits(2, 2**31 - 1)] = Field(
        description="NIC ports that take part; of an incast those that send."
    )
    targets: Positive = Field(default=1, description="Ports to which an incast goes, one after another.")
    size: Annotated[Size, SOME_SIZE] = Field(description="Of every flow.")
    every: Annotated[Time, SOME_PS] = Field(description="From one burst to the next.")
    traffic_class: Annotated[Whole, limits(0, 7)] = Field(
        default=0, description="Class; collectives are 0, storage is 1."
    )


class PacketSection(Section):
    """How `--engine packet` runs a step."""

    fabric: Text | None = Field(
        default=None, description="Parts and constants by name, as `railyard packet --fabric`; the cluster's fabric."
    )
    set: dict[Text, Text] = Field(
        default_factory=dict,
        description="Single settings, as `railyard packet --set`.",
        examples=[{"mtu_bytes": "9000"}],
    )
    budget_hops: Annotated[Count, Bounds(above=0)] = Field(
        default=300_000_000,
        description="Packets times links that a step may take; more is run as a slice.",
    )
    budget_sends: Annotated[Count, Bounds(above=0)] = Field(
        default=2_000_000, description="Sends into which a step may be cut."
    )
    scale_up: Literal["model", "packets"] = Field(
        default="model", description="Whether transfers inside a scale-up domain take modelled time or are packets."
    )
    beside: tuple[BesideSection, ...] = Field(
        default=(), description="Other traffic while the step runs, for all engines."
    )
    samples: Annotated[Whole, limits(0, 10_000)] = Field(
        default=120, description="How often queues are sampled, about; 0 for never."
    )
    online: Flag = Field(
        default=False, description="Constants of DCQCN follow marks and pauses while the step runs; RoCE alone."
    )
