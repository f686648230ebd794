"""The scenario's `packet` section: how the packet engine runs a step."""

from typing import Literal

from pydantic import Field

from railyard.scenario.quantity import Count, Flag, Natural, Positive, Size, Text, Time
from railyard.scenario.section import Section


class BesideSection(Section):
    """Bursts of other traffic on the back-end."""

    pattern: Literal["incast", "permutation", "all-to-all"] = Field(description="Who sends to whom.")
    ports: Positive = Field(ge=2, description="NIC ports that take part; of an incast those that send.")
    targets: Positive = Field(default=1, description="Ports to which an incast goes, one after another.")
    size: Size = Field(gt=0, description="Of every flow.")
    every: Time = Field(gt=0, description="From one burst to the next.")
    traffic_class: Natural = Field(default=0, le=7, description="Class; collectives are 0, storage is 1.")


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
    budget_hops: Count = Field(
        default=300_000_000,
        gt=0,
        description="Packets times links that a step may take; more is run as a slice.",
    )
    budget_sends: Count = Field(default=2_000_000, gt=0, description="Sends into which a step may be cut.")
    scale_up: Literal["model", "packets"] = Field(
        default="model", description="Whether transfers inside a scale-up domain take modelled time or are packets."
    )
    beside: tuple[BesideSection, ...] = Field(
        default=(), description="Other traffic while the step runs, for all engines."
    )
    samples: Natural = Field(default=120, le=10_000, description="How often queues are sampled, about; 0 for never.")
    online: Flag = Field(
        default=False, description="Constants of DCQCN follow marks and pauses while the step runs; RoCE alone."
    )
