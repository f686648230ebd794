"""A scenario: a cluster, what runs on it, and what is asked of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.errors import InputError
from railyard.kit.schema.bounds import Bounds, limits
from railyard.work.scenario.cluster import ClusterSection
from railyard.work.scenario.conditions import CollectivesSection, CompareSection, JitterSection, RecoverySection
from railyard.work.scenario.economics import EconomicsSection
from railyard.work.scenario.plan_section import BringUpSection, PlanSection
from railyard.work.scenario.quantity import (
    SOME_PS,
    SOME_SIZE,
    Count,
    Flag,
    Natural,
    Positive,
    Ratio,
    Size,
    Text,
    Time,
    Whole,
)
from railyard.work.scenario.section import FaultSection, Section
from railyard.work.scenario.workload import JobSection, TrainingSection, WorkloadSection

if TYPE_CHECKING:
    from railyard.work.edge.section import EdgeSection
    from railyard.work.federated.section import FederatedSection
    from railyard.work.local.section import LocalSection
    from railyard.work.operate.section import OperateSection
    from railyard.work.pipeline.section import PipelineSection
    from railyard.work.serving.section import ServingSection
    from railyard.work.trace.section import TraceSection


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


class BesideSection(Section):
    """Bursts of other traffic on the back-end."""

    pattern: Literal["incast", "permutation", "all-to-all"] = Field(description="Traffic pattern.")
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


class TuneSection(Section):
    """The search for settings."""

    space: dict[Text, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Dotted keys and values to try; those of the collective library and the fabric when left out.",
        examples=[{"qps": [2, 4], "collectives.selector": ["best"]}],
    )
    seeds: Positive = Field(default=2, description="Draws of the hashes that settings are tried on.")
    unseen_seeds: Annotated[Whole, limits(2, 1000)] = Field(
        default=4, description="Further draws that the outcome is judged on, at each load."
    )
    unseen_loads: tuple[Annotated[Ratio, Bounds(below=1.0, low=0.0)], ...] = Field(
        default=(0.0, 0.2), description="Traffic of others on the back-end that it is judged under, none in the search."
    )
    unseen_jobs: Annotated[Whole, limits(0, 1000)] = Field(
        default=4,
        description="Other jobs that it is judged on, each with a neighbour: drawn for the same cluster, of another"
        " size, parallelism and traffic beside.",
    )
    steps: Positive | None = Field(
        default=None, description="Steps that the search may run; left out: two a value and draw of the search."
    )
    twins: Annotated[Whole, limits(1, 1000)] = Field(
        default=4, description="With `--online`: runs of every draw and load, which are compared by their means."
    )


FORMAT = "railyard/1"


class Scenario(Section):
    """A cluster, a job on it, and what is asked of the two."""

    format: Literal["railyard/1"] = Field(default="railyard/1", description="Version of this file format.")
    name: Text = Field(description="Name of the run; the file's name when left out.")
    catalog: Text | None = Field(
        default=None,
        description="A file of your own catalogue entries, relative to the scenario file.",
        examples=["my-parts.yaml"],
    )
    cluster: ClusterSection = Field(  # type: ignore[assignment]  # absent only where `_machine` lets it be
        default_factory=lambda: None,
        description="The machine; left out where the workload brings its own (clients, sites).",
    )
    workload: WorkloadSection = Field(description="What runs on it.")
    collectives: CollectivesSection = Field(
        default_factory=CollectivesSection, description="What is fixed about collectives."
    )
    engine: Text = Field(
        default="flow",
        description="How time is found: `flow` shares links, `packet` sends packets, `analytic` uses closed forms,"
        " `lab` does it for real in network namespaces.",
    )
    packet: PacketSection = Field(default_factory=PacketSection, description="How the engine `packet` runs a step.")
    lab: LabSection = Field(default_factory=LabSection, description="How the engine `lab` runs a step.")
    seed: Natural = Field(
        default=0, description="Seed of everything random; the same seed gives the same run, bit by bit."
    )
    repeat: Annotated[Whole, limits(1, 1000)] = Field(
        default=1,
        description="Seeds that are run, each a new draw of jitter and ECMP hashes; figures are of the median.",
    )
    jitter: JitterSection = Field(default_factory=JitterSection, description="Random differences in compute time.")
    faults: tuple[FaultSection, ...] = Field(default=(), description="What goes wrong, and when.")
    recovery: RecoverySection = Field(  # type: ignore[valid-type]
        default_factory=RecoverySection, description="What a job does after a death that ends it."
    )
    economics: EconomicsSection = Field(
        default_factory=EconomicsSection, description="Prices and rates that differ from the catalogue."
    )
    compare: CompareSection = Field(default_factory=CompareSection, description="Variants to run side by side.")
    plan: PlanSection | None = Field(
        default=None, description="What `railyard plan serving` may choose for the stages of a pipeline."
    )

    tune: TuneSection | None = Field(default=None, description="Which settings `railyard tune` may change.")
    check: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="What must hold, for `railyard check`.",
        examples=[["gpu_utilization > 0.9", "survives any one spine"]],
    )
    bring_up: BringUpSection | None = Field(
        default=None, description="How the cluster is built, for `railyard bring-up`."
    )

    @model_validator(mode="after")
    def _machine(self) -> Scenario:
        given = self.cluster is not None
        if self.workload.brings_machines and given:
            words = "clients and sites are the machine here: `cluster` has to be left out"
            raise PydanticCustomError("cluster", words, {"key": "cluster"})
        if not self.workload.brings_machines and not given:
            raise PydanticCustomError("cluster", "the key `cluster` is missing", {"key": "cluster"})
        return self

    @property
    def federated(self) -> FederatedSection:
        """Learning on clients.

        Raises:
            InputError: The scenario has none.
        """
        if self.workload.federated is None:
            raise InputError("this needs clients that learn; the scenario has no `federated`", key="workload")
        return self.workload.federated

    @property
    def local(self) -> LocalSection:
        """Training on sites.

        Raises:
            InputError: The scenario has none.
        """
        if self.workload.local is None:
            raise InputError("this needs sites that train; the scenario has no `local`", key="workload")
        return self.workload.local

    @property
    def edge(self) -> EdgeSection:
        """Answers near the user.

        Raises:
            InputError: The scenario has none.
        """
        if self.workload.edge is None:
            raise InputError("this needs a model at the edge; the scenario has no `edge`", key="workload")
        return self.workload.edge

    @property
    def training(self) -> TrainingSection:
        """The training job.

        Raises:
            InputError: The scenario serves requests.
        """
        if self.workload.training is None:
            raise InputError("this needs a training job; the scenario serves requests", key="workload")
        return self.workload.training

    @property
    def serving(self) -> ServingSection:
        """The serving workload.

        Raises:
            InputError: The scenario trains.
        """
        if self.workload.serving is None:
            raise InputError("this needs one model that serves; the scenario has no `serving`", key="workload")
        return self.workload.serving

    @property
    def trace(self) -> TraceSection:
        """The trace that is run again.

        Raises:
            InputError: The scenario has none.
        """
        if self.workload.trace is None:
            raise InputError("this needs a trace; the scenario has no `trace`", key="workload")
        return self.workload.trace

    @property
    def jobs(self) -> tuple[JobSection, ...]:
        """The jobs that share the cluster.

        Raises:
            InputError: The scenario has one job.
        """
        if self.workload.jobs is None:
            raise InputError("this needs several jobs; the scenario has no `jobs`", key="workload")
        return self.workload.jobs

    @property
    def pipeline(self) -> PipelineSection:
        """The stages that requests go through.

        Raises:
            InputError: The scenario has none.
        """
        if self.workload.pipeline is None:
            raise InputError("this needs stages; the scenario has no `pipeline`", key="workload")
        return self.workload.pipeline

    @property
    def operate(self) -> OperateSection:
        """The jobs that come and go.

        Raises:
            InputError: The scenario has none.
        """
        if self.workload.operate is None:
            raise InputError("this needs jobs that come and go; the scenario has no `operate`", key="workload")
        return self.workload.operate
