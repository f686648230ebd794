"""The scenario's `plan`: designs of a cluster with constraints and objectives, or what stages may be."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from railyard.kit.schema.quantity import Bounds, limits, more_than
from railyard.work.scenario.quantity import (
    SOME_TIME,
    Flag,
    Money,
    Natural,
    Number,
    Positive,
    Power,
    Rate,
    Ratio,
    Span,
    Text,
    Whole,
)
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
    """Construction of a cluster; what is left out is an assumption that no public source gives, unless one is named."""

    crews: Positive = Field(default=4, description="Crews that work at a time.")
    shift: Span = Field(default=8 * 3600.0, description="For which a crew works a day.")
    pulls: Annotated[Number, Bounds(above=0)] = Field(
        default=60, description="Cables that a crew pulls, plugs and labels in a shift."
    )
    install: Span = Field(default=4 * 3600.0, description="Of a crew, to set up, mount and power one rack.")
    miscabling: Share = Field(
        default=0.005, description="Share of cables that are plugged wrong at first: between 0.1 and 1 %, estimated."
    )
    repair: Span = Field(default=1800.0, description="Time of a crew to find and fix one wrong cable.")
    audit: Flag = Field(
        default=True,
        description="Whether cables are audited when a rack is cabled (`railyard audit`); else burn-in shows the wrong"
        " ones, and is run again when they are fixed.",
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


Layout = Literal["together", "apart", "hybrid"]
RouterName = Literal["round-robin", "random", "least-loaded", "two-choices", "prefix", "session"]


class SideSection(Section):
    """Candidates of one side of a model with separate prefill and decode."""

    servers: tuple[Text, ...] = Field(default=(), description="Servers; those of the stage when left out.")
    tp: tuple[Positive, ...] = Field(default=(), description="Tensor parallel ranks; those of the stage.")


class ChoicesSection(Section):
    """Options of one stage. What is left out stays as it is written."""

    servers: tuple[Text, ...] = Field(default=(), description="Servers of the catalogue.")
    tp: tuple[Positive, ...] = Field(default=(), description="Tensor parallel ranks of a replica.")
    layouts: Annotated[tuple[Layout, ...], Field(min_length=1)] = Field(
        default=("together",),
        description="Of a model: prompts and answers on the same replicas (`together`), on their own (`apart`), or both"
        " kinds of replicas (`hybrid`).",
    )
    prefill: SideSection = Field(default_factory=SideSection, description="Prefill, if separate.")
    decode: SideSection = Field(default_factory=SideSection, description="Decode, if separate.")
    routers: tuple[RouterName, ...] = Field(default=(), description="Routers of a model.")
    speculative: tuple[dict[Text, Any] | None, ...] = Field(
        default=(),
        description="Of a model, how the pool that answers guesses tokens: its `speculative`, or null for no guesses.",
        examples=[[None, {"method": "mtp", "tokens": 1}]],
    )
    most: Positive = Field(default=32, description="Replicas of a pool at most.")


def _shape(value: object) -> str:
    return "range" if isinstance(value, dict | Section) else "list"


class RangeSection(Section):
    """Values from one to another, with the same unit; both ends are tried."""

    start: Any = Field(alias="from", description="The first.", examples=[1024])
    to: Any = Field(default=None, description="The last; without it the space has no end.", examples=[16384])
    step: Any = Field(default=None, description="From one to the next.", examples=[1024])
    factor: Number | None = Field(default=None, description="From one to the next, as a ratio.", examples=[2])

    @field_validator("start")
    @classmethod
    def _begins(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("range", "expected the first value, got nothing")
        return value

    @field_validator("start", "to", "step")
    @classmethod
    def _finite(cls, value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            raise PydanticCustomError("range", "expected a finite number, got {found}", {"found": str(value)})
        return value


Values = Annotated[
    Annotated[tuple[Any, ...], Tag("list")] | Annotated[RangeSection, Tag("range")], Discriminator(_shape)
]


class DemandSection(Section):
    """Demands on the cluster: not chosen, but given; every design has to meet all of them."""

    name: Text = Field(description="How it is called in tables.")
    set: dict[Text, Any] = Field(default_factory=dict, description="Dotted keys and their values.")
    weight: Annotated[Number, Bounds(above=0)] = Field(default=1.0, description="Its part of the tokens, or its odds.")


class ConstraintsSection(Section):
    """Constraints on a design, at typical prices and under every demand."""

    budget: Money | None = Field(default=None, description="Capital, with installation, at most.")
    power: Power | None = Field(default=None, description="Drawn by the site at work, with cooling, at most.")
    provisioned: Power | None = Field(default=None, description="Nameplate IT power at most.")
    racks: Positive | None = Field(
        default=None, description="Racks at most, each of the nameplate power that the catalogue's `rack-power` takes."
    )
    deadline: Span | None = Field(
        default=None, description="The job is done no later, deliveries included; needs `tokens`."
    )
    delivered: Span | None = Field(default=None, description="The last part is there no later; see `delivery`.")
    exclude: tuple[Text, ...] = Field(
        default=(), description="Makers or catalogue names that no part may have.", examples=[["Broadcom"]]
    )
    at_most: dict[Text, Number] = Field(default_factory=dict, description="Objectives and their largest value.")
    at_least: dict[Text, Number] = Field(default_factory=dict, description="Objectives and their smallest value.")


class EffortSection(Section):
    """Effort of a plan."""

    designs: Positive = Field(
        default=20_000,
        description="Spaces of at most so many points are looked at in full, in closed form; in larger ones an"
        " optimizer chooses what is looked at.",
    )
    samples: Positive = Field(default=2000, description="Points that the optimizer looks at, at most.")
    time: Annotated[Span, SOME_TIME] | None = Field(
        default=None, description="After which the best so far is the answer.", examples=["10 min"]
    )
    flow: Natural = Field(default=10, description="Points that the engine `flow` runs, at most.")
    serving: Natural = Field(
        default=40, description="Points that the engine `serving` runs, at most, where the scenario serves."
    )
    rivals: Natural = Field(
        default=4,
        description="Nearest rivals of the best design that run on the same engine, beyond `flow` if need be.",
    )
    verify: Span = Field(
        default=0.0,
        description="Time of one core in which the best design and these rivals run on packets, whole steps or a slice;"
        " 0: they run on `flow` alone, and the answer says how long packets would take.",
        examples=["30 min"],
    )
    layouts: Natural = Field(
        default=8,
        description="Layouts that `flow` runs on the most promising point first, under each demand, at most: what the"
        " closed form misses of them is taken from all points.",
    )
    draws: Annotated[Whole, limits(100, 100_000)] = Field(
        default=2000, description="Samples of prices and of the model's error."
    )


class StageSection(Section):
    """The cluster from a time on."""

    name: Text = Field(description="How it is called in tables.")
    at: Span = Field(default=0.0, description="From when on; the first begins at 0.", examples=["365 d"])
    set: dict[Text, Any] = Field(default_factory=dict, description="Dotted keys and their values.")


class GrowthSection(Section):
    """Growth of the cluster; `railyard plan growth` prices the paths that lead there."""

    stages: Annotated[tuple[StageSection, ...], Field(min_length=1)] = Field(description="In time.")
    horizon: Span = Field(default=3 * 365 * 86400.0, description="Until when costs and tokens count.")
    cable_time: Span = Field(
        default=600.0, description="To pull and lay one cable of a cluster in use; an assumption, no source was found."
    )
    crew: Positive = Field(default=8, description="People who do so at a time; an assumption.")


class WorthSection(Section):
    """Changes that `railyard plan worth` tries, and its assumptions."""

    hop: Span = Field(default=1e-6, description="By which the latency of every switch is raised.", examples=["1 us"])
    tail: Annotated[Ratio, more_than(0, 0.2)] = Field(
        default=0.01, description="By which the slowest of 1,000 computations is made slower than the usual one."
    )
    draws: Annotated[Whole, limits(1, 100)] = Field(
        default=3, description="Seeds of hashes and tails; each meets the scenario with and without the change."
    )
    repair: Span = Field(
        default=28 * 3600.0,
        description="Half of the repairs of a server take less: 28 h in a fleet's forecast from its recorded faults"
        " (docs/validation/forecast.md); give that of your own.",
    )
    repair_p90: Span = Field(default=72 * 3600.0, description="Nine in ten take less; an assumption.")
    out_share: Annotated[Ratio, more_than(0, 1)] = Field(
        default=0.3,
        description="Share of a job's interruptions after which a server has to be repaired; an assumption: hardware"
        " was behind 78 % of Llama 3's, most of which a restart cured.",
    )
    nines: Annotated[tuple[Annotated[Ratio, Bounds(above=0, below=1)], ...], Field(min_length=1)] = Field(
        default=(0.9, 0.99, 0.999, 0.9999), description="Shares of the time in which the whole job has its servers."
    )
    years: Annotated[Whole, limits(1, 10_000)] = Field(default=200, description="Years of outages that are drawn.")
    grids: tuple[Text, ...] = Field(default=(), description="Countries whose electricity is looked at; a dozen usual.")


class PlanSection(Section):
    """Options of `railyard plan`: designs of a cluster (`space`), or stages of a pipeline (`stages`)."""

    space: dict[Text, Values] = Field(
        default_factory=dict,
        description="Dotted keys, each with a list or a range of values; every combination is a design.",
        examples=[{"fabric": ["roce", "uec"], "accelerators": {"from": 1024, "to": 4096, "factor": 2}}],
    )
    demand: tuple[DemandSection, ...] = Field(default=(), description="What may be asked; the scenario when left out.")
    delivery: dict[Text, Span] = Field(
        default_factory=dict,
        description="How long makers or catalogue names take to deliver, from the order; the rest is there at once.",
        examples=[{"spectrum-4": "180 d", "Broadcom": "60 d"}],
    )
    constraints: ConstraintsSection = Field(
        default_factory=ConstraintsSection, description="What every design has to keep."
    )
    objectives: Annotated[tuple[Text, ...], Field(min_length=1)] = Field(
        default=("cpmt",), description="What is to be small (or large): the first ranks, all of them make the front."
    )
    effort: EffortSection = Field(default_factory=EffortSection, description="How much may be spent.")
    growth: GrowthSection | None = Field(default=None, description="How the cluster is to grow.")
    worth: WorthSection = Field(default_factory=WorthSection, description="What `railyard plan worth` moves.")
    stages: dict[Text, ChoicesSection] = Field(
        default_factory=dict, description="Of a pipeline, by stage; stages that are left out stay as they are."
    )
    simulations: Positive = Field(default=1000, description="Trials of `stages` at most.")
    link_rates: tuple[Rate, ...] = Field(
        default=(),
        description="Rates of the network between pools at which the best plans of `stages` are run again.",
    )
