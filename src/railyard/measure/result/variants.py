"""Variants of a result: a class for each kind of work, under the name of the kind."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from railyard.kit.registry import Registry
from railyard.measure.result.distributed import EdgeFigures, FederatedFigures, LocalFigures
from railyard.measure.result.money import CapexFigures, ErrorRow, HourlyCost, PowerFigures, StepPower, TrainingCost
from railyard.measure.result.network import (
    CollectiveRow,
    FaultCost,
    FaultFigures,
    NetworkFigures,
    PacketFigures,
    TopologyFigures,
)
from railyard.measure.result.operate import OperateFigures
from railyard.measure.result.section import EIGHT_OF_TEN, Band, Count, Figures, Values, require_equal
from railyard.measure.result.serving import ModelServing, Percentiles, PipelineServing, ServingFigures
from railyard.measure.result.step import (
    BottleneckFigures,
    CommunicationFigures,
    JobTimeFigures,
    LayoutFigures,
    LayoutRow,
    LockstepFigures,
    MemoryFigures,
    ServingTax,
    StepFigures,
    StorageFigures,
    TaxFigures,
    TimelineFigures,
    TimeShare,
    UtilizationFigures,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Bill:
    """The priced parts of a variant, from which other prices of its tokens follow.

    Attributes:
        capex, power: What it costs to buy, and draws.
        usd_per_h: Of the whole cluster: low, typical, high.
        usd_per_mtoken: Of a million tokens.
    """

    capex: CapexFigures
    power: PowerFigures
    usd_per_h: tuple[float, float, float]
    usd_per_mtoken: Band


variants: Registry[type[BaseVariant]] = Registry("kind of work")


class BaseVariant(Figures):
    """One variant of a study."""

    kind: ClassVar[str]

    name: str = Field(description="how it is called in tables")
    settings: Values = Field(description="its distinguishing settings")
    model_error: tuple[ErrorRow, ...] | None = Field(
        default=None,
        description="bands of the predicted figures, from left-out measurements; absent where none was validated",
    )

    if TYPE_CHECKING:

        @property
        def warnings(self) -> tuple[str, ...]:
            """Known before the figures are believed."""

        @property
        def digest(self) -> str:
            """Fingerprint of the run."""

    @property
    def bill(self) -> Bill | None:
        """None where it makes no priced tokens."""
        return None


class ComparedVariant(BaseVariant):
    """A variant that can be ranked; only variants that are ranked by the same figure are compared."""

    by: ClassVar[Literal["step_s", "goodput_rps"]]
    """Figure that ranks variants without prices."""

    bound: bool = Field(description="whether nobody sells its network (`ideal`): a bound of what products reach")

    @property
    @abstractmethod
    def reach(self) -> float:
        """Output of its accelerators, more is better: tokens/s of one, steps/s, requests/s in time."""

    @property
    @abstractmethod
    def rank_value(self) -> float:
        """The figure `by`, inverted where more is better: the lowest is best."""

    @property
    @abstractmethod
    def price(self) -> Band | None:
        """USD per million tokens."""

    @property
    @abstractmethod
    def felt(self) -> tuple[float, ...]:
        """Durations that the work notices: of steps, or of answers."""

    @property
    def may_win(self) -> bool:
        """Whether its answers are good enough to be ranked."""
        return True

    @property
    def lost_s(self) -> float:
        """Seconds that faults took which ended its job; 0 where it finished."""
        return 0.0

    @property
    def samples(self) -> tuple[float, ...]:
        """The ranked figure of each seed, s."""
        return ()

    @property
    def fabric(self) -> NetworkFigures | None:
        """Loads of its links; None where they are not known."""
        return None

    @property
    def taxed(self) -> tuple[TaxFigures, Sequence[CollectiveRow]] | None:
        """Its network tax and collectives; None where its time is not cut into computation and network."""
        return None


class StepVariant(ComparedVariant):
    """Ranks that compute and communicate: a training step, or a trace."""

    by = "step_s"
    outcome: Literal["finished", "died", "stalled"] = Field(
        description="died: a fault ended the job, which starts again after the repair; stalled: a fault stopped its "
        "traffic, though nothing is dead, until the job was aborted",
    )
    step: StepFigures = Field(description="how long it takes")
    utilization: UtilizationFigures = Field(description="how busy accelerators are")
    tax: TaxFigures = Field(description="tokens lost to the scale-out network, and next to it to scale-up")
    time: tuple[TimeShare, ...] = Field(min_length=1, description="where the step goes; shares add up to 1")
    lockstep: LockstepFigures = Field(description="what lateness costs")
    jct: JobTimeFigures | None = Field(description="null where the scenario names no token budget")
    power: StepPower = Field(description="what the cluster draws")
    capex: CapexFigures = Field(description="what the cluster costs to buy")
    cpmt: TrainingCost | None = Field(description="cost per million goodput tokens; null where the work makes none")
    bottleneck: BottleneckFigures = Field(description="what would help most")
    network: NetworkFigures = Field(description="what scale-up and scale-out links carried")
    memory: MemoryFigures = Field(description="of a rank, by pipeline stage")
    timeline: TimelineFigures = Field(description="of a few ranks")
    topology: TopologyFigures = Field(description="of the back-end network")
    storage: StorageFigures = Field(description="what storage does to the step")
    collectives: tuple[CollectiveRow, ...] = Field(description="the most time-consuming first")
    packet: PacketFigures | None = Field(default=None, description="absent where another engine ran")
    faults: tuple[FaultFigures, ...] | None = Field(
        default=None, description="each fault and what it cost; absent without faults, and for traces"
    )
    fault_cost: FaultCost | None = Field(
        default=None, description="what all faults cost together; absent without faults"
    )
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the timeline")

    @model_validator(mode="after")
    def _sums(self) -> Self:
        require_equal("time: the shares do not add up to the step", math.fsum(row.share for row in self.time), 1.0)
        if len(self.step.samples) == 1:
            seconds = math.fsum(row.seconds for row in self.time)
            require_equal("time: the seconds do not add up to the step", seconds, self.step.seconds)
        labels = len(self.timeline.labels)
        outside = sorted({task[2] for track in self.timeline.tracks for task in track.tasks if task[2] >= labels})
        if outside:
            raise ValueError(f"timeline: a track names label {outside[0]}; allowed 0 to {labels - 1}")
        return self

    @property
    def reach(self) -> float:
        """Tokens/s of an accelerator; steps/s where it makes no tokens."""
        return self.utilization.tokens_per_s_per_gpu or 1.0 / self.step.seconds

    @property
    def rank_value(self) -> float:
        """Seconds of a step."""
        return self.step.seconds

    @property
    def price(self) -> Band | None:
        """USD per million tokens."""
        return self.cpmt

    @property
    def paid(self) -> tuple[Band | None, str]:
        """USD, and what for: a million tokens, or an hour of work that makes none."""
        return self.cpmt, "a million tokens"

    @property
    def felt(self) -> tuple[float, ...]:
        """The step, and that of each seed, s."""
        return (self.step.seconds, *self.step.samples)

    @property
    def lost_s(self) -> float:
        """Seconds that faults took which ended its job; 0 where it finished."""
        return 0.0 if self.outcome == "finished" else math.fsum(fault.lost_s for fault in self.faults or ())

    @property
    def samples(self) -> tuple[float, ...]:
        """The step of each seed, s."""
        return self.step.samples

    @property
    def fabric(self) -> NetworkFigures:
        """Loads of its links."""
        return self.network

    @property
    def taxed(self) -> tuple[TaxFigures, Sequence[CollectiveRow]]:
        """Its network tax and collectives."""
        return self.tax, self.collectives


@variants.register("edge")
class EdgeVariant(BaseVariant):
    """One model answered from several places."""

    kind: ClassVar[str] = "edge"
    edge: EdgeFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


@variants.register("federated")
class FederatedVariant(BaseVariant):
    """Rounds of learning on clients."""

    kind: ClassVar[str] = "federated"
    federated: FederatedFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


@variants.register("local")
class LocalVariant(BaseVariant):
    """Training on sites that meet now and then."""

    kind: ClassVar[str] = "local"
    local: LocalFigures = Field(description="what was found")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")


@variants.register("operate")
class OperateVariant(BaseVariant):
    """A cluster in time, under one set of rules."""

    kind: ClassVar[str] = "operate"
    operate: OperateFigures = Field(description="what it did")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of every allocation")
    stopped: str | None = Field(
        default=None,
        description="where Ctrl-C or SIGTERM ended it: figures are of what was played by then; absent where it ended",
    )


class ServedVariant(ComparedVariant):
    """Requests that were answered, by one model or through stages."""

    by = "goodput_rps"
    serving: ServingFigures = Field(description="what became of the requests")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run")

    @property
    def reach(self) -> float:
        """Requests/s in time."""
        return max(self.serving.slo.goodput_rps, 1e-12)

    @property
    def rank_value(self) -> float:
        """Seconds between two answers in time."""
        return 1.0 / self.reach

    @property
    def price(self) -> Band | None:
        """USD per million tokens."""
        return None if self.serving.cpmt is None else self.serving.cpmt.total

    @property
    def felt(self) -> tuple[float, ...]:
        """Goodput, and times to the first and each further token."""
        found = self.serving
        times = (found.ttft_s.p50, found.ttft_s.p99, found.tpot_s.p50, found.tpot_s.p99)
        return (found.slo.goodput_rps, *(time or 0.0 for time in times))

    @property
    def may_win(self) -> bool:
        """Whether as large a share of requests is in time as was asked for, within what so few requests can tell.

        The share p of n requests has the standard error sqrt(p (1 - p) / n); eight of ten runs lie within 1.28 of them.
        """
        slo, count = self.serving.slo, max(self.serving.requests.count, 1)
        return slo.attainment + EIGHT_OF_TEN * math.sqrt(slo.target * (1.0 - slo.target) / count) >= slo.target


@variants.register("serving")
class ServingVariant(ServedVariant):
    """One model that answers requests."""

    kind: ClassVar[str] = "serving"
    model_error: tuple[ErrorRow, ...] = Field(description="bands of the predicted figures, from left-out measurements")
    tax: ServingTax = Field(description="what the scale-out network takes, and next to it scale-up")
    serving: ModelServing = Field(description="what became of the requests")

    @property
    def bill(self) -> Bill | None:
        """None where no token was in time."""
        found, cost = self.serving, self.serving.cpmt
        return None if cost is None else Bill(found.capex, found.power, cost.usd_per_h.ends, cost.total)


@variants.register("pipeline")
class PipelineVariant(ServedVariant):
    """Stages that requests go through."""

    kind: ClassVar[str] = "pipeline"
    serving: PipelineServing = Field(description="what became of the requests")


class TraceFigures(Figures):
    """The file that was run."""

    file: str = Field(description="as the scenario names it")
    format: str = Field(description="chakra, goal, ...")
    ranks: Count = Field(description="of the trace")
    computations: Count = Field(description="tasks")
    transfers: Count = Field(description="tasks")
    collectives: Count = Field(description="tasks")
    lacks: tuple[str, ...] = Field(description="what a complete trace would have said")


@variants.register("trace")
class TraceVariant(StepVariant):
    """A trace: it says nothing of tokens, so cost is by the hour and by the run."""

    kind: ClassVar[str] = "trace"
    trace: TraceFigures = Field(description="what was run")
    jct: None = Field(description="a trace has no token budget")
    cost: HourlyCost = Field(description="by the hour and by the run")
    cpmt: None = Field(description="a trace makes no tokens")

    @property
    def paid(self) -> tuple[Band | None, str]:
        """USD of an hour."""
        return self.cost.usd_per_h, "an hour"


@variants.register("traffic")
class TrafficVariant(BaseVariant):
    """Given flows, without a model of training."""

    kind: ClassVar[str] = "traffic"
    packet: PacketFigures = Field(description="what became of the flows")


@variants.register("training")
class TrainingVariant(StepVariant):
    """A training step, what it costs and what would help."""

    kind: ClassVar[str] = "training"
    model_error: tuple[ErrorRow, ...] = Field(description="bands of the predicted figures, from left-out measurements")
    layout: LayoutFigures = Field(description="how the step is spread over the accelerators")
    layouts: tuple[LayoutRow, ...] | None = Field(
        default=None, description="the layout that `auto` chose and its runners-up; absent where one is written out"
    )
    cpmt: TrainingCost = Field(description="cost per million goodput tokens")
    communication: CommunicationFigures | None = Field(
        default=None, description="price of compressing or postponing communication; absent where the job does neither"
    )

    @property
    def bill(self) -> Bill:
        """Bill of the whole cluster."""
        from railyard.measure.cost.capital import ACCELERATORS

        count = next(row.count for row in self.capex.components if row.name == ACCELERATORS)
        low, typical, high = (end * count for end in self.cpmt.usd_per_gpu_h.ends)
        return Bill(self.capex, self.power, (low, typical, high), self.cpmt)


class PlacementFigures(Figures):
    """Placement of a job."""

    policy: str = Field(description="packed, scattered, ...")
    seed: Count = Field(description="of a policy that draws")


class SteppedFigure(Figures):
    """A training job, alone or with others."""

    step_s: float = Field(description="mean of the steps counted, s")
    steps: Count = Field(description="those that lie in the time in which all jobs run")
    tax: TaxFigures = Field(description="tokens lost to the scale-out network, other jobs on it included")
    exposed_s: float | None = Field(default=None, description="communication that a step waits for, s")
    usd_per_h: Band | None = Field(default=None, description="the job's share of the machine; absent for a trace")
    usd_per_mtoken: Band | None = Field(default=None, description="per million tokens; absent for a trace")


class ServingFigure(Figures):
    """A serving job, alone or with others."""

    ttft_s: Percentiles = Field(description="time to first token")
    tpot_s: Percentiles = Field(description="time per output token")
    transfers: Count = Field(description="that were put on the fabric")
    transfer_s: float = Field(description="their mean time there, s")
    transfer_slowdown: float = Field(description="how many times as long they take as with no other job")
    usd_per_h: Band = Field(description="the job's share of the machine")
    usd_per_mtoken: Band | None = Field(description="per million tokens within the SLO; null where none was")


class CostRow(Figures):
    """Cost of another job to this one: all jobs together against all without that one."""

    job: str = Field(description="the other")
    seconds: float = Field(description="of the step or the median time to first token, s")
    share: float = Field(description="of what it takes without the other")
    transfer_share: float | None = Field(default=None, description="the same of transfers of a serving job")


class JobRow(Figures):
    """One of the jobs."""

    name: str = Field(description="as the scenario calls it")
    kind: Literal["training", "serving", "trace"] = Field(description="what it is")
    accelerators: Count = Field(description="that it has for itself")
    placement: PlacementFigures = Field(description="how it got them")
    leafs: Count = Field(description="switches that they are joined to")
    start_s: float = Field(description="when it starts, s")
    alone: SteppedFigure | ServingFigure = Field(description="with the machine to itself")
    together: SteppedFigure | ServingFigure = Field(description="with all others")
    slowdown: float = Field(description="of the step, or the median time to first token")
    costs: tuple[CostRow, ...] = Field(description="a row for each other job")


class SharedTier(Figures):
    """Links of one kind."""

    name: str = Field(description="of the tier")
    links: Count = Field(description="one way each")
    mean_utilization: float = Field(description="over links and time")
    max_utilization: float = Field(description="of the busiest link over time")
    bytes: float = Field(description="on all its wires")


class SharedLink(Figures):
    """One of the busiest links."""

    name: str = Field(description="from where to where")
    utilization: float = Field(description="over time")


class SharedNetwork(Figures):
    """Load of all jobs on the network."""

    span_s: float = Field(description="how long they ran, s")
    tiers: tuple[SharedTier, ...] = Field(description="from the accelerators upwards")
    hot_links: tuple[SharedLink, ...] = Field(description="the busiest first")


class RoundsFigures(Figures):
    """Convergence of serving and fabric."""

    count: Count = Field(description="turns that they took")
    moved: float = Field(description="share by which the last of them moved any figure")
    agree: bool = Field(description="whether that is less than 1 %")


@variants.register("jobs")
class JobsVariant(BaseVariant):
    """Several jobs on one cluster."""

    kind: ClassVar[str] = "jobs"
    engine: str = Field(description="of the fabric")
    jobs: tuple[JobRow, ...] = Field(min_length=1, description="in the order of the scenario")
    network: SharedNetwork | None = Field(description="null where nothing was sent")
    rounds: RoundsFigures = Field(description="of serving and fabric")
    warnings: tuple[str, ...] = Field(description="what to know before the figures are believed")
    digest: str = Field(description="fingerprint of the run of all jobs")
