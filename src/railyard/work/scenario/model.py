"""A scenario: a cluster, what runs on it, and what is asked of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast

from pydantic import Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.errors import InputError
from railyard.kit.schema.quantity import Bounds, limits
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
from railyard.work.scenario.section import FaultSection, Section, works

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.edge.section import EdgeSection
    from railyard.work.federated.section import FederatedSection
    from railyard.work.jobs.section import JobSection
    from railyard.work.local.section import LocalSection
    from railyard.work.operate.section import OperateSection
    from railyard.work.pipeline.section import PipelineSection
    from railyard.work.serving.section import ServingSection
    from railyard.work.trace.section import TraceSection
    from railyard.work.training.section import TrainingSection


class LabSection(Section):
    """Settings of `--engine lab`, which runs a step on this machine."""

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
    """Settings of `--engine packet`."""

    fabric: Text | None = Field(
        default=None,
        description="A fabric's name, or a YAML file that mixes one, relative to the scenario, as `railyard packet"
        " --fabric`; the cluster's fabric when left out.",
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

    def files_in(self, folder: Path) -> dict[str, Path]:
        """The file that mixes its fabric."""
        if self.fabric is None:
            return {}
        from railyard.work.scenario.packet.mix import is_mix

        return {self.fabric: folder / self.fabric} if is_mix(self.fabric) else {}


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
        description="Other jobs that it is judged on, each with a neighbour: drawn for the same cluster, with another"
        " size, parallelism and background traffic.",
    )
    steps: Positive | None = Field(
        default=None, description="Steps that the search may run; left out: two a value and draw of the search."
    )
    twins: Annotated[Whole, limits(1, 1000)] = Field(
        default=4, description="With `--online`: runs of every draw and load, which are compared by their means."
    )


class _OneOfWorks(Section):
    """The work; one of the keys is used."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def kind(self) -> str:
        """The key that says what runs."""
        return next(key for key in type(self).model_fields if getattr(self, key) is not None)

    @property
    def sections(self) -> tuple[Section, ...]:
        """The section below that key; for jobs one section each."""
        found = getattr(self, self.kind)
        return found if isinstance(found, tuple) else (found,)

    @model_validator(mode="after")
    def _one(self) -> _OneOfWorks:
        keys = tuple(type(self).model_fields)
        if sum(getattr(self, key) is not None for key in keys) != 1:
            words = f"one of {', '.join(f'`{key}`' for key in keys)} says what runs"
            raise PydanticCustomError("workload", words)
        return self


if TYPE_CHECKING:
    WorkloadSection = _OneOfWorks
else:
    WorkloadSection = create_model(
        "WorkloadSection",
        __base__=_OneOfWorks,
        __doc__=_OneOfWorks.__doc__,
        __module__=__name__,
        **{
            name: (key.type | None, Field(default=None, description=key.about))
            for name, key in sorted(works.items(), key=lambda row: row[1].order)
        },
    )

FORMAT = "railyard/1"
S = TypeVar("S")


class _Work(Generic[S]):
    """The section below `workload` of one kind of work, whose name the attribute has; other work is refused."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._kind = name

    def __get__(self, scenario: Scenario, _owner: type) -> S:
        return cast("S", scenario.work(self._kind))


class _OfWork:
    """The section of the work that a scenario has, by its kind."""

    federated: ClassVar[_Work[FederatedSection]] = _Work()
    local: ClassVar[_Work[LocalSection]] = _Work()
    edge: ClassVar[_Work[EdgeSection]] = _Work()
    training: ClassVar[_Work[TrainingSection]] = _Work()
    serving: ClassVar[_Work[ServingSection]] = _Work()
    trace: ClassVar[_Work[TraceSection]] = _Work()
    jobs: ClassVar[_Work[tuple[JobSection, ...]]] = _Work()
    pipeline: ClassVar[_Work[PipelineSection]] = _Work()
    operate: ClassVar[_Work[OperateSection]] = _Work()


class Scenario(_OfWork, Section):
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
        given, brings = self.cluster is not None, works.get(self.workload.kind).brings_machines
        if brings and given:
            words = "clients and sites are the machine: leave `cluster` out"
            raise PydanticCustomError("cluster", words, {"key": "cluster"})
        if not brings and not given:
            raise PydanticCustomError("cluster", "the key `cluster` is missing", {"key": "cluster"})
        return self

    def work(self, kind: str) -> Any:
        """The section below `workload` under the name of a kind.

        Raises:
            InputError: The scenario has work of another kind.
        """
        found = getattr(self.workload, kind)
        if found is None:
            message = f"this needs work of the kind `{kind}`; the scenario has no `{kind}`"
            raise InputError(message, key="workload", found=self.workload.kind, allowed=kind)
        return found
