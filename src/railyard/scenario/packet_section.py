"""The scenario's `packet` section: how the packet engine runs a step."""

from typing import Literal

from pydantic import Field

from railyard.scenario.quantity import Count, Natural, Text
from railyard.scenario.section import Section


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
    budget_sends: Count = Field(default=1_000_000, gt=0, description="Sends into which a step may be cut.")
    scale_up: Literal["model", "packets"] = Field(
        default="model", description="Whether transfers inside a scale-up domain take modelled time or are packets."
    )
    samples: Natural = Field(default=120, le=10_000, description="How often queues are sampled, about; 0 for never.")
