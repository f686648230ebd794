"""The scenario's `bring_up`: who builds the cluster, from which deliveries, and what goes wrong meanwhile."""

from typing import Annotated, Literal

from pydantic import Field

from railyard.kit.schema.bounds import Bounds, limits, more_than
from railyard.work.scenario.quantity import Flag, Money, Number, Positive, Ratio, Span, Whole
from railyard.work.scenario.section import Section

OrderName = Literal["blocks", "network-first", "rows", "servers-first"]

Share = Annotated[Ratio, limits(0, 1)]


class DeliverySection(Section):
    """Racks that arrive together."""

    at: Span = Field(default=0.0, description="When, from the first day of work.", examples=["30 d"])
    share: Annotated[Ratio, more_than(0, 1)] = Field(
        default=1.0, description="Of all racks, in the order in which they are built; together 1."
    )


PartName = Literal["servers", "switches", "cables", "storage"]


class LeadSection(Section):
    """When a kind of part arrives: lognormal, by its median and its 90th percentile; quoted by its maker."""

    part: PartName = Field(
        description="Servers with accelerators and NICs, switches, cables with optics and fibre, storage and hosts that"
        " lend memory."
    )
    lead: Span = Field(description="Half of such orders are there so long after the first day of work.")
    lead_p90: Span | None = Field(
        default=None, description="Nine in ten are; without it the part arrives on that day.", examples=["90 d"]
    )


class BringUpSection(Section):
    """How a cluster is built; what is left out is an assumption that no public source gives, unless one is named."""

    crews: Positive = Field(default=4, description="Crews that work at a time.")
    shift: Span = Field(default=8 * 3600.0, description="For which a crew works a day.")
    pulls: Annotated[Number, Bounds(above=0)] = Field(
        default=60, description="Cables that a crew pulls, plugs and labels in a shift."
    )
    install: Span = Field(default=4 * 3600.0, description="Of a crew, to set up, mount and power one rack.")
    miscabling: Share = Field(
        default=0.005, description="Share of cables that are plugged wrong at first: between 0.1 and 1 %, estimated."
    )
    repair: Span = Field(default=1800.0, description="Of a crew, to find and mend one wrong cable.")
    audit: Flag = Field(
        default=True,
        description="Whether cables are audited when a rack is cabled (`railyard audit`); else burn-in shows the wrong"
        " ones, and is run again when they are mended.",
    )
    burn_in: Span = Field(default=72 * 3600.0, description="Of servers; sites report 72 to 168 h.")
    rejected: Share = Field(default=0.015, description="Share of servers that fail it: 1 to 2 %, as published.")
    checked: Literal["before", "after"] = Field(
        default="after",
        description="Whether servers are burnt in before delivery too, so that those that fail never arrive.",
    )
    replacement: Span = Field(default=14 * 86400.0, description="Until a server that failed on site is replaced.")
    deliveries: Annotated[tuple[DeliverySection, ...], Field(min_length=1)] = Field(
        default=(DeliverySection(),), description="Of racks, in time."
    )
    parts: tuple[LeadSection, ...] = Field(
        default=(),
        description="Kinds of parts that arrive by themselves, later than their racks' delivery; what is there is built"
        " first.",
    )
    first_job: Positive | None = Field(
        default=None, description="Accelerators of the first job; an eighth of all when left out."
    )
    crew_shift: Money = Field(default=2400.0, description="Cost of a crew for a shift.")
    orders: Annotated[tuple[OrderName, ...], Field(min_length=1)] = Field(
        default=("blocks", "network-first", "rows", "servers-first"),
        description="Orders of racks that are compared: the network above each block of servers, then that block"
        " (`blocks`); all of the network first; by place in the hall; the network last.",
    )
    draws: Annotated[Whole, limits(1, 10_000)] = Field(default=100, description="Draws of what goes wrong.")
